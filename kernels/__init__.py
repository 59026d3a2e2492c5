# SPDX-License-Identifier: Apache-2.0
"""Registry of the library's built-in operations. Importing it imports no SYCL package."""

from __future__ import annotations

from syclsched.errors import ArgumentError, did_you_mean
from syclsched.kernels.dense import DENSE, SOFTMAX
from syclsched.kernels.elementwise import ADD, AXPY, COPY, FILL, SCALE
from syclsched.kernels.linalg.gemm import GEMM
from syclsched.kernels.linalg.potrf import POTRF
from syclsched.kernels.linalg.syrk import SYRK
from syclsched.kernels.linalg.trsm import TRSM
from syclsched.kernels.stencil import HEAT_STEP
from syclsched.model.operation import Operation

__all__ = ["get", "names"]

_OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (POTRF, TRSM, SYRK, GEMM, DENSE, SOFTMAX, HEAT_STEP, AXPY, ADD, SCALE, FILL, COPY)
}


def names() -> tuple[str, ...]:
    """Return the names of all operations, sorted."""
    return tuple(sorted(_OPERATIONS))


def get(name: str) -> Operation:
    """Return the operation called ``name``.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    Operation
        The operation, with all its implementations.

    Raises
    ------
    ArgumentError
        If no operation has that name.
    """
    try:
        return _OPERATIONS[name]
    except KeyError:
        hint = f"{did_you_mean(name, names())}There are: {', '.join(names())}"
        raise ArgumentError(f"there is no operation {name!r}", hint=hint) from None
