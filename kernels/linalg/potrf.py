# SPDX-License-Identifier: Apache-2.0
"""`potrf`: the Cholesky factor of a tile, in place: L below, zeros above; only the lower triangle is read."""

from __future__ import annotations

from functools import cache
from typing import Any

from syclsched.errors import ExecutionError
from syclsched.kernel_compiler import kernel_api as kapi
from syclsched.kernel_compiler.python_kernel import PythonKernel
from syclsched.kernels.common import ITEM_BYTES, OPENCL_C, PYTHON_KERNEL, REAL_DTYPES, VECTOR_ITEMS, ceil_div
from syclsched.kernels.linalg import blas
from syclsched.kernels.linalg.microkernel import COLUMNS, dot_block, preamble, row_pointers
from syclsched.kernels.linalg.trsm import ROWS, columns_of_block, store_block, substitute
from syclsched.model.access import AccessMode
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Operation,
    Parameter,
    Signature,
    Work,
)

#: Rows of L^T that the Python kernel computes between two barriers.
NUMBA_ROWS = 4


def _explain_pivot(status: int) -> str:
    """Return the message for a non-zero status: like LAPACK's info, the one-based index of the failed pivot."""
    return f"the matrix is not positive definite: pivot {status} of the tile is not positive"


def _factor_block(size: int) -> str:
    """Return code that factors the diagonal block in columns ``x<j>`` (lanes are rows), or reports its failed pivot."""
    lines = []
    for j in range(size):
        lines.append(f"if (!(x{j}.s{j} > 0)) {{ *status = (int)(j0 + {j + 1}); return; }}")
        lines.append(f"{{ const T d = sqrt(x{j}.s{j}); x{j} /= d; x{j}.s{j} = d; }}")
        lines += [f"x{q} -= x{j} * x{j}.s{q};" for q in range(j + 1, size)]
    lines += [f"x{j}.s{i} = 0;" for j in range(size) for i in range(j)]
    return "\n    ".join(lines)


def _opencl_source(dtype: str, n: int) -> OpenCLSource:
    """Return the left-looking kernel by blocks of four columns, with vectors along the summation index."""
    # One work-item: a tile is small, its columns are a sequential chain, and a free core serves other lanes' tiles.

    def block(columns: int, finish: str) -> str:
        return f"""
    {row_pointers("a", "a", "i0", ROWS, n, n)}
    {dot_block(ROWS, columns, "j0")}
    {columns_of_block(columns)}
    {finish}
    {store_block(columns, f"i0 + {{row}} < {n}")}"""

    whole = n // COLUMNS * COLUMNS
    rest = n - whole
    last = (
        f"""{{ const size_t j0 = {whole}, i0 = j0;
    {row_pointers("b", "a", "j0", rest, n, n)}
    {block(rest, _factor_block(rest))} }}"""
        if rest
        else ""
    )
    source = f"""{preamble(dtype)}
WHOLE_VECTORS
__kernel void potrf(__global T* a, __global int* status) {{
  if (get_global_id(0) != 0) return;
  *status = 0;
  for (size_t j0 = 0; j0 + {COLUMNS} <= {n}; j0 += {COLUMNS}) {{
    {row_pointers("b", "a", "j0", COLUMNS, n, n)}
    {{ const size_t i0 = j0; {block(COLUMNS, _factor_block(COLUMNS))} }}
    for (size_t i0 = j0 + {COLUMNS}; i0 < {n}; i0 += {ROWS}) {{ {block(COLUMNS, substitute(COLUMNS))} }}
  }}
  {last}
  for (size_t i = 0; i < {n}; ++i)
    for (size_t j = i + 1; j < {n}; ++j) a[i * {n} + j] = 0;
}}
"""
    return OpenCLSource(source, "potrf")


@cache
def _numba_kernel(dtype: str) -> Any:
    """Return the kernel: one work-group computes U = L^T in the upper triangle, by blocks of rows."""
    # Rows of U are contiguous, columns of L are not. Every work-item factors the small diagonal block itself, with the
    # same operations in the same order: all get the same numbers, and one barrier is saved.
    import math

    import numpy

    real = numpy.dtype(dtype).type
    size = NUMBA_ROWS * NUMBA_ROWS

    def potrf(item: Any, a: Any, status: Any) -> None:
        n = a.shape[0]
        me = item.get_local_id(0)
        width = item.get_local_range(0)
        group = item.get_group()
        for j in range(me, n, width):
            for i in range(j):
                a[i, j] = a[j, i]
        kapi.group_barrier(group)

        failed = 0
        sums = kapi.PrivateArray(NUMBA_ROWS, real)
        factor = kapi.PrivateArray(size, real)
        for k0 in range(0, n, NUMBA_ROWS):
            for j in range(k0 + me, n, width):  # these rows of A minus the rows of U already found
                for r in range(NUMBA_ROWS):
                    sums[r] = a[min(k0 + r, n - 1), j]
                for p in range(k0):
                    value = a[p, j]
                    for r in range(NUMBA_ROWS):
                        sums[r] -= a[p, min(k0 + r, n - 1)] * value
                for r in range(NUMBA_ROWS):
                    if k0 + r <= j:
                        a[k0 + r, j] = sums[r]
            kapi.group_barrier(group)

            for r in range(NUMBA_ROWS):  # U of the diagonal block, row by row
                for q in range(r, NUMBA_ROWS):
                    at = r * NUMBA_ROWS + q
                    factor[at] = 1
                    if k0 + q < n:
                        factor[at] = a[k0 + r, k0 + q]
                        for p in range(r):
                            factor[at] -= factor[p * NUMBA_ROWS + r] * factor[p * NUMBA_ROWS + q]
                        if q > r:
                            factor[at] /= factor[r * NUMBA_ROWS + r]
                        elif factor[at] > 0:
                            factor[at] = math.sqrt(factor[at])
                        else:  # continue with pivot 1: all work-items must reach the barriers
                            if failed == 0:
                                failed = k0 + r + 1
                            factor[at] = 1
            kapi.group_barrier(group)

            for j in range(k0 + me, n, width):  # this work-item's columns of U
                for r in range(NUMBA_ROWS):
                    if k0 + r < n and k0 + r <= j:
                        value = a[k0 + r, j]
                        for p in range(r):
                            value -= factor[p * NUMBA_ROWS + r] * a[k0 + p, j]
                        if j == k0 + r:
                            a[k0 + r, j] = factor[r * NUMBA_ROWS + r]
                        else:
                            a[k0 + r, j] = value / factor[r * NUMBA_ROWS + r]
            kapi.group_barrier(group)

        for j in range(me, n, width):
            for i in range(j):
                a[j, i] = a[i, j]
                a[i, j] = 0
        if me == 0:
            status[0] = failed

    return PythonKernel(potrf)


def _check(signature: Signature) -> str | None:
    a, status = signature.shapes["a"], signature.shapes["status"]
    if a[0] != a[1]:
        return f"a Cholesky factorisation needs a square matrix, not {a}"
    return None if status == (1,) else f"status has one element, not shape {status}"


def _work(signature: Signature) -> Work:
    n = signature.shapes["a"][0]
    dtype = signature.dtypes["a"]
    return Work(n**3 / 3 + n**2 / 2 + n / 6, float(2 * n * n * ITEM_BYTES[dtype]), dtype, 1.0)


def _load_opencl(signature: Signature) -> Any:
    return _opencl_source(signature.dtypes["a"], signature.shapes["a"][0])


def _launch_opencl(signature: Signature, limits: DeviceLimits) -> Launch:
    return Launch((1,), (1,))


def _load_numba(signature: Signature) -> Any:
    return _numba_kernel(signature.dtypes["a"])


def _launch_numba(signature: Signature, limits: DeviceLimits) -> Launch:
    size = min(limits.max_work_group_size, ceil_div(signature.shapes["a"][0], VECTOR_ITEMS) * VECTOR_ITEMS)
    return Launch((size,), (size,))


def _host(*, a: Any, status: Any) -> None:
    info = status[0] = blas.factorise(a)
    if info:
        raise ExecutionError(
            _explain_pivot(info),
            hint="Give a symmetric positive-definite matrix, or add a multiple of the identity",
        )


POTRF = Operation(
    name="potrf",
    parameters=(
        Parameter("a", AccessMode.UPDATE, ndim=2, dtypes=REAL_DTYPES),
        Parameter("status", AccessMode.WRITE, ndim=1, dtypes=("int32",)),
    ),
    implementations=(
        Implementation("opencl-c", "opencl-c", _load_opencl, _launch_opencl, OPENCL_C, efficiency=0.1),
        Implementation("python", "python", _load_numba, _launch_numba, PYTHON_KERNEL, efficiency=0.03),
        blas.implementation("potrf", _host, efficiency=0.1),
    ),
    work=_work,
    check=_check,
    status="status",
    explain_status=_explain_pivot,
    recipe=("potrf", {}),
)
