# SPDX-License-Identifier: Apache-2.0
"""Register-blocked inner product used by all OpenCL C linear algebra kernels here.

Every operation of a lower Cholesky factorisation on row-major tiles multiplies rows by rows (A B^T), and rows are
contiguous. So vectors run along the summation index, and a block of row pairs is kept in registers: R by 4 pairs load R
+ 4 vectors for 4 R fused multiply-adds. (Register blocking as in Goto and van de Geijn, "Anatomy of high-performance
matrix multiplication", 2008; packing is omitted, because both operands are already read contiguously.)
"""

from __future__ import annotations

from syclsched.kernels.common import C_TYPES, ITEM_BYTES, element_type

#: Bytes of a vector: one AVX-512 register; compilers split it where registers are shorter.
VECTOR_BYTES = 64
#: Columns of a block: one short vector of results.
COLUMNS = 4
#: The scalars of `gemm`, in OpenCL C; transposition is compiled in.
SCALARS = "const T alpha, const T beta, const long ta, const long tb"


def scaled_sum(overwrites: bool) -> str:
    """Return the macro ``SUM`` of a scaled product and the scaled old value, which is not read if overwritten."""
    old = "" if overwrites else " + beta * (old)"
    return f"#define SUM(x, old) (alpha * (x){old})"


def preamble(dtype: str) -> str:
    """Return types and reductions: ``T``, ``T4``, ``TV`` (a vector of ``V``), ``quarter`` and ``fold``."""
    real = C_TYPES[dtype]
    width = VECTOR_BYTES // ITEM_BYTES[dtype]
    half = "x.lo + x.hi" if width == 8 else "x.lo.lo + x.lo.hi + x.hi.lo + x.hi.hi"
    return f"""{element_type(dtype)}
typedef {real}2 T2;
typedef {real}4 T4;
typedef {real}{width} TV;
#define V {width}
#define LOADV(p) vload{width}(0, p)
/* Standard hint: do not take the vectors apart to spread work-items over lanes. */
#define WHOLE_VECTORS __attribute__((vec_type_hint({real}{width})))
/* Sum a long vector to a short one. */
inline T4 quarter(TV x) {{ return {half}; }}
/* Sum each of four short vectors; lane q of the result is the sum of the q-th. */
inline T4 fold(T4 p, T4 q, T4 r, T4 s) {{
  T4 x = (T4)(p.lo + p.hi, q.lo + q.hi);
  T4 y = (T4)(r.lo + r.hi, s.lo + s.hi);
  return (T4)(x.even + x.odd, y.even + y.odd);
}}
"""


def dot_block(rows: int, columns: int, extent: str) -> str:
    """Return code for the inner products of every row ``a<i>`` with every row ``b<j>`` over ``extent`` elements."""
    pairs = [(i, j) for i in range(rows) for j in range(columns)]

    def step(load: str, accumulator: str, kind: str) -> str:
        lines = [f"const {kind} y{j} = {load}(b{j} + k);" for j in range(columns)]
        for i in range(rows):
            updates = " ".join(f"{accumulator}{i}_{j} = fma(x, y{j}, {accumulator}{i}_{j});" for j in range(columns))
            lines.append(f"{{ const {kind} x = {load}(a{i} + k); {updates} }}")
        return "\n    ".join(lines)

    return f"""
  size_t k = 0;
  TV {", ".join(f"s{i}_{j} = 0" for i, j in pairs)};
  for (; k + V <= {extent}; k += V) {{
    {step("LOADV", "s", "TV")}
  }}
  T4 {", ".join(f"p{i}_{j} = quarter(s{i}_{j})" for i, j in pairs)};
  for (; k + 4 <= {extent}; k += 4) {{
    {step("LOAD4", "p", "T4")}
  }}
  for (; k < {extent}; ++k) {{
    {" ".join(f"p{i}_{j}.x = fma(a{i}[k], b{j}[k], p{i}_{j}.x);" for i, j in pairs)}
  }}""".replace("LOAD4(", "vload4(0, ")


def row_pointers(name: str, base: str, start: str, count: int, limit: int, stride: int) -> str:
    """Return declarations of pointers to ``count`` rows from ``start``; rows beyond the last one repeat it."""
    return "\n  ".join(
        f"__global T* {name}{i} = (__global T*){base} + min({start} + {i}, (size_t){limit - 1}) * {stride};"
        for i in range(count)
    )
