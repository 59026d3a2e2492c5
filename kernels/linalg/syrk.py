# SPDX-License-Identifier: Apache-2.0
"""`syrk`: the update C -= A A^T of a diagonal tile; only C's lower triangle is read and written."""

from __future__ import annotations

from functools import partial
from typing import Any

from syclsched.kernels.common import ITEM_BYTES, OPENCL_C, PYTHON_KERNEL, REAL_DTYPES
from syclsched.kernels.linalg import blas, update
from syclsched.model.access import AccessMode
from syclsched.model.operation import (
    Implementation,
    Operation,
    Parameter,
    Signature,
    Work,
)


def _check(signature: Signature) -> str | None:
    c, a = signature.shapes["c"], signature.shapes["a"]
    if c != (a[0], a[0]):
        return f"C -= A A^T needs C (n, n) and A (n, k), not {c} and {a}"
    return None


def _work(signature: Signature) -> Work:
    n, k = signature.shapes["a"]
    dtype = signature.dtypes["c"]
    return Work(float(n * (n + 1) * k), float((n * (n + 1) + n * k) * ITEM_BYTES[dtype]), dtype, n * (n + 1) / 2)


def _load_numba(signature: Signature) -> Any:
    return update.numba_syrk(signature.dtypes["c"])


def _host(*, c: Any, a: Any) -> None:
    blas.subtract_product_with_transpose(c, a)


SYRK = Operation(
    name="syrk",
    parameters=(
        Parameter("c", AccessMode.UPDATE, ndim=2, dtypes=REAL_DTYPES),
        Parameter("a", AccessMode.READ, ndim=2, like="c"),
    ),
    implementations=(
        Implementation(
            "opencl-c",
            "opencl-c",
            partial(update.load_opencl, lower=True),
            update.launch_opencl,
            OPENCL_C,
            efficiency=0.45,
        ),
        Implementation("python", "python", _load_numba, update.launch_numba, PYTHON_KERNEL, efficiency=0.1),
        blas.implementation("syrk", _host, efficiency=0.4),
    ),
    work=_work,
    check=_check,
    recipe=("syrk", {}),
)
