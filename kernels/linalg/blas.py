# SPDX-License-Identifier: Apache-2.0
"""BLAS and LAPACK routines of SciPy's library, called in place and without Python's global lock.

SciPy's own wrappers keep the lock, so that two host lanes would take turns, and copy some matrices. The addresses are
those that SciPy offers to Cython (`scipy.linalg.cython_blas`, `cython_lapack`). BLAS reads matrices by columns: here
all are in C order, and so are their own transposes to BLAS.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from syclsched.devices.native.exported_functions import exported_address, extension_module
from syclsched.model.operation import Implementation, Requirements, Signature

#: The routines that belong to LAPACK.
_LAPACK = ("potrf", "laset")


def implementation(routine: str, function: Callable[..., None], efficiency: float) -> Implementation:
    """Return the implementation by a host function that calls a routine."""

    def load(_: Signature) -> Callable[..., None]:
        _module(routine)  # load it now, not in the first task
        return function

    return Implementation("scipy", "host", load, requires=Requirements(packages=("scipy",)), efficiency=efficiency)


def multiply(c: Any, a: Any, b: Any, alpha: float, beta: float, trans_a: int, trans_b: int) -> None:
    """Compute ``C = alpha op(A) op(B) + beta C``."""
    (m, n), k = c.shape, a.shape[0 if trans_a else 1]
    if not c.size:
        return
    call, number = _routine("gemm", c.dtype.itemsize)
    # C's transpose is op(B)^T op(A)^T, and BLAS sees the transpose of each matrix.
    second, first = (b"T" if each else b"N" for each in (trans_b, trans_a))
    right, left = (_int(max(1, each.shape[1])) for each in (b, a))
    sizes = _int(n), _int(m), _int(k)
    call(second, first, *sizes, number(alpha), _data(b), right, _data(a), left, number(beta), _data(c), _int(n))


def subtract_product_with_transpose(c: Any, a: Any) -> None:
    """Compute the lower triangle of ``C -= A A^T``."""
    n, k = a.shape
    if not a.size:
        return
    call, number = _routine("syrk", c.dtype.itemsize)
    # The lower triangle of C is the upper one of its transpose.
    call(b"U", b"T", _int(n), _int(k), number(-1.0), _data(a), _int(k), number(1.0), _data(c), _int(n))


def solve_for_transpose(a: Any, triangle: Any) -> None:
    """Solve ``X L^T = A`` for a lower triangle L, and put X into ``a``."""
    rows, n = a.shape
    if not a.size:
        return
    call, number = _routine("trsm", a.dtype.itemsize)
    sizes = _int(n), _int(rows)
    call(b"L", b"U", b"T", b"N", *sizes, number(1.0), _data(triangle), _int(n), _data(a), _int(n))


def factorise(a: Any) -> int:
    """Replace a matrix by its Cholesky factor with zeros above the diagonal, and return LAPACK's ``info``."""
    n = len(a)
    if not n:
        return 0
    call, number = _routine("potrf", a.dtype.itemsize)
    info = ctypes.c_int()
    call(b"U", _int(n), _data(a), _int(n), ctypes.byref(info))
    if n > 1 and not info.value:
        fill, _ = _routine("laset", a.dtype.itemsize)
        zero, side = number(0.0), _int(n - 1)
        # Without the first column, the upper triangle begins on the diagonal.
        fill(b"L", side, side, zero, zero, ctypes.c_void_p(a.ctypes.data + a.dtype.itemsize), _int(n))
    return info.value


def _module(name: str) -> Any:
    return extension_module("scipy.linalg", "cython_lapack" if name in _LAPACK else "cython_blas")


@cache
def _routine(name: str, item_bytes: int) -> tuple[Any, Any]:
    """Return a routine for a precision, and the function that passes a number to it."""
    kind, letter = (ctypes.c_float, "s") if item_bytes == 4 else (ctypes.c_double, "d")
    address = exported_address(_module(name), f"{letter}{name}")
    return ctypes.CFUNCTYPE(None)(address), lambda value: ctypes.byref(kind(value))


def _int(value: int) -> Any:
    return ctypes.byref(ctypes.c_int(value))


def _data(matrix: Any) -> Any:
    """Return the address of a matrix's first element."""
    if not matrix.flags.c_contiguous:
        raise ValueError("BLAS needs matrices in C order, without gaps")
    return ctypes.c_void_p(matrix.ctypes.data)
