# SPDX-License-Identifier: Apache-2.0
"""OpenCL C kernels of `gemm` for operands whose rows do not run along the summation index.

A work-item adds outer products: at each summation index one vector of a row of the right operand, times one number of
each of `ROWS` rows of the left one. Of C = A B and C = A^T B the right operand is B. C = A^T B^T is the transpose of
B A: there the right operand is A, and the block is stored transposed.
"""

from __future__ import annotations

from syclsched.kernels.common import C_TYPES, ITEM_BYTES, ceil_div, element_type
from syclsched.kernels.linalg.microkernel import SCALARS, VECTOR_BYTES, scaled_sum
from syclsched.model.operation import DeviceLimits, Launch, OpenCLSource, Signature

#: Rows of a block, one accumulator each: with an operand in long vectors, AVX2's 16 registers hold them.
ROWS = 6
#: Consecutive blocks per work-group.
_GROUP = 16


def _extents(signature: Signature, *, trans_a: bool, trans_b: bool) -> tuple[int, int, int, int]:
    """Return the rows and columns of the product, the summation length, and the elements of a vector."""
    (m, n), a = signature.shapes["c"], signature.shapes["a"]
    rows, columns = (n, m) if trans_a and trans_b else (m, n)
    widest = VECTOR_BYTES // ITEM_BYTES[signature.dtypes["c"]]
    width = min(widest, 1 << max(0, columns.bit_length() - 1))
    return rows, columns, a[0] if trans_a else a[1], width


def load_opencl(signature: Signature, *, trans_a: bool, trans_b: bool) -> OpenCLSource:
    """Return the kernel; not for ``trans_b`` alone."""
    rows, columns, depth, width = _extents(signature, trans_a=trans_a, trans_b=trans_b)
    stored_transposed = trans_a and trans_b
    n, dtype = signature.shapes["c"][1], signature.dtypes["c"]
    real = C_TYPES[dtype]
    vector = real if width == 1 else f"{real}{width}"
    load, store = ("*(p)", "*(p) = (x)") if width == 1 else (f"vload{width}(0, p)", f"vstore{width}(x, 0, p)")
    left, right = ("b", "a") if stored_transposed else ("a", "b")
    # An element of the left operand is at row * down + k * along.
    down, along = (1, rows) if trans_a and not trans_b else (depth, 1)
    starts = [f"const size_t l{i} = min(r0 + {i}, (size_t){max(0, rows - 1)}) * {down};" for i in range(ROWS)]
    terms = [f"x{i} = fma((TV)({left}[l{i} + k * {along}]), y, x{i});" for i in range(ROWS)]
    stores = []
    for i in range(ROWS):
        at, step = (f"c + s * {n} + r0 + {i}", n) if stored_transposed else (f"c + (r0 + {i}) * {n} + s", 1)
        stores.append(f"if (r0 + {i} < {rows}) store({at}, {step}, x{i}, s0 - s, alpha, beta);")
    newline = "\n  "
    whole = "" if stored_transposed else "if (!first) { STOREV(SUM(x, LOADV(to)), to); return; }"
    source = f"""{element_type(dtype)}
typedef {vector} TV;
#define LOADV(p) {load}
#define STOREV(x, p) {store}
{scaled_sum(signature.scalars["beta"] == 0)}
/* Store the elements from the given one on: those before belong to the block before. */
inline void store(__global T* to, size_t step, TV x, size_t first, T alpha, T beta) {{
  {whole}
  T each[{width}];
  STOREV(x, each);
  for (size_t q = first; q < {width}; ++q) to[q * step] = SUM(each[q], to[q * step]);
}}
__attribute__((vec_type_hint({vector})))
__kernel void product(__global T* c, __global const T* a, __global const T* b, {SCALARS}) {{
  const size_t block = get_global_id(0);
  const size_t r0 = block / {ceil_div(columns, width)} * {ROWS}, s0 = block % {ceil_div(columns, width)} * {width};
  if (r0 >= {rows}) return;
  const size_t s = min(s0, (size_t){columns - width});
  {newline.join(starts)}
  TV {", ".join(f"x{i} = 0" for i in range(ROWS))};
  for (size_t k = 0; k < {depth}; ++k) {{
    const TV y = LOADV({right} + k * {columns} + s);
    {(newline + "  ").join(terms)}
  }}
  {newline.join(stores)}
}}
"""
    return OpenCLSource(source, "product")


def launch_opencl(signature: Signature, limits: DeviceLimits, *, trans_a: bool, trans_b: bool) -> Launch:
    """Return the index space: one work-item per block."""
    rows, columns, _, width = _extents(signature, trans_a=trans_a, trans_b=trans_b)
    blocks = ceil_div(rows, ROWS) * ceil_div(columns, width)
    size = min(_GROUP, limits.max_work_group_size)
    return Launch((ceil_div(blocks, size) * size,), (size,))
