# SPDX-License-Identifier: Apache-2.0
"""`gemm`: the trailing update C -= A B^T of a tiled Cholesky factorisation."""

from __future__ import annotations

from functools import partial
from math import lcm
from typing import Any

from syclsched.kernels.common import ITEM_BYTES, ONEMKL, OPENCL_C, PYTHON_KERNEL, REAL_DTYPES
from syclsched.kernels.linalg import blas, update
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
    c, a, b = (signature.shapes[name] for name in "cab")
    if c != (a[0], b[0]) or a[1] != b[1]:
        return f"C -= A B^T needs C (m, n), A (m, k), B (n, k), not {c}, {a}, {b}"
    return None


def _work(signature: Signature) -> Work:
    (m, n), k = signature.shapes["c"], signature.shapes["a"][1]
    dtype = signature.dtypes["c"]
    return Work(2.0 * m * n * k, float((2 * m * n + m * k + n * k) * ITEM_BYTES[dtype]), dtype, float(m * n))


def _grain(signature: Signature) -> int:
    """Return the number of rows that is a multiple of both kernels' blocks."""
    return lcm(update.OPENCL_ROWS, update.NUMBA_ROWS)


def _load_numba(signature: Signature) -> Any:
    return update.numba_gemm(signature.dtypes["c"])


def _load_onemkl(signature: Signature) -> Any:
    from syclsched.kernels.linalg import onemkl

    return onemkl.gemm


def _host(*, c: Any, a: Any, b: Any) -> None:
    blas.subtract_product(c, a, b)


GEMM = Operation(
    name="gemm",
    parameters=(
        Parameter("c", AccessMode.UPDATE, ndim=2, dtypes=REAL_DTYPES),
        Parameter("a", AccessMode.READ, ndim=2, like="c"),
        Parameter("b", AccessMode.READ, ndim=2, like="c"),
    ),
    implementations=(
        Implementation(
            "opencl-c",
            "opencl-c",
            partial(update.load_opencl, lower=False),
            update.launch_opencl,
            OPENCL_C,
            efficiency=0.5,
        ),
        Implementation("onemkl", "library", _load_onemkl, requires=ONEMKL, efficiency=0.4),
        Implementation("python", "python", _load_numba, update.launch_numba, PYTHON_KERNEL, efficiency=0.12),
        blas.implementation("gemm", _host, efficiency=0.4),
    ),
    work=_work,
    check=_check,
    split=Split(rows=("c", "a"), grain=_grain, inexact=("onemkl", "scipy")),
)
