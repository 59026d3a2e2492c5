# SPDX-License-Identifier: Apache-2.0
"""`gemm`: the matrix product C = alpha op(A) op(B) + beta C of BLAS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from math import lcm
from numbers import Real
from typing import Any

from syclsched.kernels.common import ITEM_BYTES, ONEMKL, OPENCL_C, PYTHON_KERNEL, REAL_DTYPES
from syclsched.kernels.linalg import blas, outer_products, update
from syclsched.model.access import AccessMode
from syclsched.model.operation import (
    Implementation,
    Operation,
    Parameter,
    Signature,
    Split,
    Work,
)


def _check(signature: Signature) -> str | None:
    scalars = signature.scalars
    for name in ("trans_a", "trans_b"):
        if scalars[name] not in (0, 1):
            return f"{name} is {scalars[name]!r}, not True or False"
    trans_a, trans_b = scalars["trans_a"], scalars["trans_b"]
    c, a, b = (signature.shapes[name] for name in "cab")
    m, k = a[::-1] if trans_a else a
    depth, n = b[::-1] if trans_b else b
    if c != (m, n) or k != depth:
        operands = f"A {'(k, m)' if trans_a else '(m, k)'}, B {'(n, k)' if trans_b else '(k, n)'}"
        product = f"A{'^T' if trans_a else ''} B{'^T' if trans_b else ''}"
        return f"C = {product} needs C (m, n), {operands}, not {c}, {a}, {b}"
    return None


def _work(signature: Signature, *, trans_a: bool, overwrites: bool) -> Work:
    (m, n), k = signature.shapes["c"], signature.shapes["a"][0 if trans_a else 1]
    dtype = signature.dtypes["c"]
    elements = (1 if overwrites else 2) * m * n + m * k + n * k
    return Work(2.0 * m * n * k, float(elements * ITEM_BYTES[dtype]), dtype, float(m * n))


def _grain(signature: Signature) -> int:
    """Return the number of rows that is a multiple of all kernels' blocks."""
    return lcm(update.OPENCL_ROWS, outer_products.ROWS, update.NUMBA_ROWS)


def _load_onemkl(signature: Signature) -> Any:
    from syclsched.kernels.linalg import onemkl

    return onemkl.gemm


def _onemkl_refuses(signature: Signature) -> str | None:
    alpha, beta = signature.scalars["alpha"], signature.scalars["beta"]
    if (alpha, beta) not in ((1, 0), (1, 1), (-1, 1)):
        return f"dpnp gives access to products with alpha=1 and beta=0 or 1, or -1 and 1, not {alpha} and {beta}"
    return None


@cache
def _gemm(trans_a: bool, trans_b: bool, overwrites: bool) -> Operation:
    """Return the operation for the parameters that determine its access modes and code."""
    if trans_b and not trans_a:
        load, launch = partial(update.load_opencl, lower=False), update.launch_opencl
    else:
        load = partial(outer_products.load_opencl, trans_a=trans_a, trans_b=trans_b)
        launch = partial(outer_products.launch_opencl, trans_a=trans_a, trans_b=trans_b)

    def load_numba(signature: Signature) -> Any:
        return update.numba_gemm(signature.dtypes["c"], trans_a, trans_b, overwrites)

    return Operation(
        name="gemm",
        parameters=(
            Parameter("c", AccessMode.WRITE if overwrites else AccessMode.UPDATE, ndim=2, dtypes=REAL_DTYPES),
            Parameter("a", AccessMode.READ, ndim=2, like="c"),
            Parameter("b", AccessMode.READ, ndim=2, like="c"),
            Parameter("alpha", like="c", default=1.0),
            Parameter("beta", like="c", default=0.0),
            Parameter("trans_a", default=0),
            Parameter("trans_b", default=0),
        ),
        implementations=(
            Implementation("opencl-c", "opencl-c", load, launch, OPENCL_C, efficiency=0.5, revision="2"),
            Implementation(
                "onemkl",
                "library",
                _load_onemkl,
                requires=replace(ONEMKL, refuses=_onemkl_refuses),
                efficiency=0.4,
                revision="2",
            ),
            Implementation(
                "python", "python", load_numba, update.launch_numba, PYTHON_KERNEL, efficiency=0.12, revision="2"
            ),
            blas.implementation("gemm", blas.multiply, efficiency=0.4),
        ),
        work=partial(_work, trans_a=trans_a, overwrites=overwrites),
        check=_check,
        # The columns of a transposed A belong to the rows of C.
        split=None if trans_a else Split(rows=("c", "a"), grain=_grain, inexact=("onemkl", "scipy")),
        recipe=("gemm", {}),
    )


def _variant(arguments: Mapping[str, Any]) -> Operation:
    """Return the operation for a task's arguments; those that are no numbers are refused where they are checked."""
    given = {name: arguments.get(name, 0) for name in ("trans_a", "trans_b", "beta")}
    numbers = {name: value if isinstance(value, Real) else 0 for name, value in given.items()}
    return _gemm(numbers["trans_a"] == 1, numbers["trans_b"] == 1, numbers["beta"] == 0)


GEMM = replace(_gemm(trans_a=False, trans_b=False, overwrites=True), variant=_variant)
