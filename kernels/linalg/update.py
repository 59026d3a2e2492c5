# SPDX-License-Identifier: Apache-2.0
"""Kernels of `syrk` and `gemm`: in OpenCL C of products of rows by rows (transposed B), in Python of all."""

from __future__ import annotations

from functools import cache
from typing import Any

from syclsched.kernel_compiler import kernel_api as kapi
from syclsched.kernel_compiler.python_kernel import PythonKernel
from syclsched.kernels.common import block_launch, ceil_div
from syclsched.kernels.linalg.microkernel import COLUMNS, SCALARS, dot_block, preamble, row_pointers, scaled_sum
from syclsched.model.operation import DeviceLimits, Launch, OpenCLSource, Signature

#: Rows of an OpenCL C block: 6 x 4 accumulators, 4 + 1 operands: 29 of AVX-512's 32 registers.
OPENCL_ROWS = 6
#: Consecutive blocks of a row panel per work-group: they share the panel's rows, and are few enough to balance.
OPENCL_GROUP = 16
#: Rows that a Python kernel's work-item accumulates; each strided load of B is reused for all of them.
NUMBA_ROWS = 16
#: Elements of its row of B that a Python kernel's work-item caches at once.
NUMBA_DEPTH = 8


def load_opencl(signature: Signature, *, lower: bool) -> OpenCLSource:
    """Return the OpenCL C kernel, of `syrk` if ``lower``."""
    (m, n), k = signature.shapes["c"], signature.shapes["a"][1]
    blocks = ceil_div(n, COLUMNS)
    skip = f"if (j0 > i0 + {OPENCL_ROWS - 1}) return;" if lower else ""
    factors = "-1, 1" if lower else "alpha, beta"
    overwrites = not lower and signature.scalars["beta"] == 0
    stores = []
    for i in range(OPENCL_ROWS):
        bound = f"min((size_t){n}, i0 + {i + 1})" if lower else f"(size_t){n}"
        products = f"fold(p{i}_0, p{i}_1, p{i}_2, p{i}_3)"
        stores.append(f"if (i0 + {i} < {m}) store(c + (i0 + {i}) * {n}, j0, {bound}, {products}, {factors});")
    newline = "\n  "
    arguments = "" if lower else f", __global const T* b, {SCALARS}"
    source = f"""{preamble(signature.dtypes["c"])}{scaled_sum(overwrites)}
inline void store(__global T* row, size_t j, size_t end, T4 x, T alpha, T beta) {{
  if (j + 4 <= end) {{ vstore4(SUM(x, vload4(0, row + j)), 0, row + j); return; }}
  if (j < end) row[j] = SUM(x.s0, row[j]);
  if (j + 1 < end) row[j + 1] = SUM(x.s1, row[j + 1]);
  if (j + 2 < end) row[j + 2] = SUM(x.s2, row[j + 2]);
}}
WHOLE_VECTORS
__kernel void update(__global T* c, __global const T* a{arguments}) {{
  const size_t block = get_global_id(0);
  const size_t i0 = block / {blocks} * {OPENCL_ROWS}, j0 = block % {blocks} * {COLUMNS};
  if (i0 >= {m}) return;
  {skip}
  {row_pointers("a", "a", "i0", OPENCL_ROWS, m, k)}
  {row_pointers("b", "a" if lower else "b", "j0", COLUMNS, n, k)}
  {dot_block(OPENCL_ROWS, COLUMNS, str(k))}
  {newline.join(stores)}
}}
"""
    return OpenCLSource(source, "update")


def launch_opencl(signature: Signature, limits: DeviceLimits) -> Launch:
    """Return the index space of the OpenCL C kernel: one work-item per block."""
    m, n = signature.shapes["c"]
    blocks = ceil_div(m, OPENCL_ROWS) * ceil_div(n, COLUMNS)
    size = min(OPENCL_GROUP, limits.max_work_group_size)
    return Launch((ceil_div(blocks, size) * size,), (size,))


def launch_numba(signature: Signature, limits: DeviceLimits) -> Launch:
    """Return the index space of the Python kernel: one work-item per column of a block of rows."""
    m, n = signature.shapes["c"]
    return block_launch(limits, ceil_div(m, NUMBA_ROWS), n)


@cache
def numba_gemm(dtype: str, trans_a: bool, trans_b: bool, overwrites: bool) -> Any:
    """Return the Python kernel of `gemm` for a dtype."""
    import numpy

    real = numpy.dtype(dtype).type

    def gemm(item: Any, c: Any, a: Any, b: Any, alpha: Any, beta: Any, ta: Any, tb: Any) -> None:
        m, n = c.shape[0], c.shape[1]
        depth = a.shape[0] if trans_a else a.shape[1]
        width = item.get_local_range(0)
        groups = (n + width - 1) // width
        group = item.get_group().get_group_id(0)
        i0 = group // groups * NUMBA_ROWS
        j = group % groups * width + item.get_local_id(0)
        jb = min(j, n - 1)
        sums = kapi.PrivateArray(NUMBA_ROWS, real)
        held = kapi.PrivateArray(NUMBA_DEPTH, real)
        for i in range(NUMBA_ROWS):
            sums[i] = 0
        whole = depth // NUMBA_DEPTH * NUMBA_DEPTH
        for k in range(0, whole, NUMBA_DEPTH):
            for p in range(NUMBA_DEPTH):
                held[p] = b[jb, k + p] if trans_b else b[k + p, jb]
            for i in range(NUMBA_ROWS):
                row = min(i0 + i, m - 1)
                total = sums[i]
                for p in range(NUMBA_DEPTH):
                    total += (a[k + p, row] if trans_a else a[row, k + p]) * held[p]
                sums[i] = total
        for k in range(whole, depth):
            value = b[jb, k] if trans_b else b[k, jb]
            for i in range(NUMBA_ROWS):
                row = min(i0 + i, m - 1)
                sums[i] += (a[k, row] if trans_a else a[row, k]) * value
        if j < n:
            for i in range(NUMBA_ROWS):
                if i0 + i < m:
                    if overwrites:
                        c[i0 + i, j] = alpha * sums[i]
                    else:
                        c[i0 + i, j] = alpha * sums[i] + beta * c[i0 + i, j]

    return PythonKernel(gemm)


@cache
def numba_syrk(dtype: str) -> Any:
    """Return the Python kernel of C -= A A^T, lower triangle, for a dtype."""
    import numpy

    real = numpy.dtype(dtype).type

    def syrk(item: Any, c: Any, a: Any) -> None:
        n, depth = c.shape[0], a.shape[1]
        width = item.get_local_range(0)
        groups = (n + width - 1) // width
        group = item.get_group().get_group_id(0)
        i0 = group // groups * NUMBA_ROWS
        first = group % groups * width
        if first < i0 + NUMBA_ROWS:  # part of the block is on or below the diagonal
            j = first + item.get_local_id(0)
            jb = min(j, n - 1)
            sums = kapi.PrivateArray(NUMBA_ROWS, real)
            held = kapi.PrivateArray(NUMBA_DEPTH, real)
            for i in range(NUMBA_ROWS):
                sums[i] = c[min(i0 + i, n - 1), jb]
            whole = depth // NUMBA_DEPTH * NUMBA_DEPTH
            for k in range(0, whole, NUMBA_DEPTH):
                for p in range(NUMBA_DEPTH):
                    held[p] = a[jb, k + p]
                for i in range(NUMBA_ROWS):
                    row = min(i0 + i, n - 1)
                    total = sums[i]
                    for p in range(NUMBA_DEPTH):
                        total -= a[row, k + p] * held[p]
                    sums[i] = total
            for k in range(whole, depth):
                value = a[jb, k]
                for i in range(NUMBA_ROWS):
                    sums[i] -= a[min(i0 + i, n - 1), k] * value
            for i in range(NUMBA_ROWS):
                if i0 + i < n and j <= i0 + i:
                    c[i0 + i, j] = sums[i]

    return PythonKernel(syrk)
