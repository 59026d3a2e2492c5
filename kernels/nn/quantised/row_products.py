# SPDX-License-Identifier: Apache-2.0
"""Products of rows of 8-bit numbers with packed weights in OpenCL C, exact in 32-bit integers.

A work-item takes some rows, of a matrix or of a convolution's windows, and makes them 16-bit numbers around their zero
point once; pads are 0 there. It multiplies them with panels of weights, `COLUMNS` wide, in blocks of rows that stay in
registers. Two neighbouring terms are one 32-bit number: x86 processors multiply and add such pairs by one instruction
(``pmaddwd``), whose 32-bit results cannot overflow, unlike the 16-bit ones of its sibling for bytes (``pmaddubsw``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final

from syclsched.kernels.common import C_TYPES, OPENCL_C, ceil_div
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.quantised.finishing import Finish
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Prepare,
    Requirements,
    Signature,
    Tailored,
)

#: Columns of a panel: two vectors of eight sums.
COLUMNS: Final = 16
#: Rows whose sums, with weights and one operand, are in the 16 vector registers of AVX2.
_BLOCK: Final = 6
#: Most rows of a work-item, and bytes of them: they stay in the first cache beside a panel.
_MOST_ROWS, _ROW_BYTES = 48, 16 << 10
#: Work-items per compute unit, if there are enough results.
_ITEMS: Final = 6


@dataclass(frozen=True, slots=True)
class RowProduct:
    """Extents of the product of rows with the weights of some groups of columns, and how the rows are read."""

    rows: int
    terms: int
    columns: int  # of a group
    groups: int
    gather: str  # OpenCL C that writes the terms of ``row`` and ``group`` to ``to``, with ``COPY(to, from, count)``
    neighbours: bool = True  # whether neighbouring columns are neighbours in the result
    place: str = ""  # offset of a row's first column in the result; by default all columns of a row before the next

    @property
    def padded_terms(self) -> int:
        """Terms of packed weights."""
        return ceil_div(self.terms, 2) * 2

    @property
    def panels(self) -> int:
        """Panels of a group."""
        return ceil_div(self.columns, COLUMNS)

    def tiling(self, limits: DeviceLimits) -> tuple[int, int, int]:
        """Return the rows of a block and of a work-item, and in how many parts panels are divided."""
        block = min(_BLOCK, self.rows)
        most = max(block, min(_MOST_ROWS, _ROW_BYTES // (2 * self.padded_terms)) // block * block)
        wanted = _ITEMS * limits.compute_units
        tiles = max(ceil_div(self.rows, most), min(ceil_div(self.rows, block), ceil_div(wanted, self.groups)))
        rows = ceil_div(ceil_div(self.rows, tiles), block) * block
        parts = min(self.panels, ceil_div(wanted, ceil_div(self.rows, rows) * self.groups))
        return block, rows, parts

    def launch(self, limits: DeviceLimits) -> Launch:
        """Return the index space; a work-group of one work-item keeps the compiler from splitting vectors."""
        _, rows, parts = self.tiling(limits)
        return Launch((ceil_div(self.rows, rows) * self.groups * parts,), (1,))


def packed(weights: Any) -> Any:
    """Return weights (groups, columns, terms) as panels (groups, panels, pairs of terms, columns, 2), padded by 0."""
    import numpy as np

    groups, columns, terms = weights.shape
    filled = np.pad(weights, ((0, 0), (0, -columns % COLUMNS), (0, terms % 2)))
    pairs = filled.reshape(groups, -1, COLUMNS, ceil_div(terms, 2), 2)
    return np.ascontiguousarray(pairs.transpose(0, 1, 3, 2, 4)).reshape(-1)


def implementations(
    name: str,
    product_of: Callable[[Signature], RowProduct],
    finish: Finish,
    prepare: Prepare,
    refuses: Callable[[Signature], str | None],
) -> tuple[Implementation, ...]:
    """Return the implementations: for processors with AVX2, and for all devices."""

    def made(label: str, requires: Requirements, *, pairs: bool, efficiency: float) -> Implementation:
        return Implementation(
            label,
            "opencl-c",
            partial(_load, name=name, product_of=product_of, finish=finish, pairs=pairs),
            partial(_launch, product_of=product_of),
            requires,
            efficiency=efficiency,
            prepare=prepare,
        )

    on_avx2 = partial(_refuses_without_avx2, refuses=refuses)
    return (
        made("opencl-c-avx2", replace(OPENCL_C, device_kinds=("cpu",), refuses=on_avx2), pairs=True, efficiency=1.2),
        made("opencl-c", replace(OPENCL_C, refuses=refuses), pairs=False, efficiency=0.1),
    )


def _load(
    signature: Signature, *, name: str, product_of: Callable[[Signature], RowProduct], finish: Finish, pairs: bool
) -> Any:
    return Tailored(lambda limits: _source(name, signature, limits, product_of(signature), finish, pairs=pairs))


def _launch(signature: Signature, limits: DeviceLimits, *, product_of: Callable[[Signature], RowProduct]) -> Launch:
    return product_of(signature).launch(limits)


def _refuses_without_avx2(signature: Signature, *, refuses: Callable[[Signature], str | None]) -> str | None:
    return refuses(signature) if _has_avx2() else "the processor's code may not use AVX2"


@cache
def _has_avx2() -> bool:
    """Return whether the CPU device's code may use AVX2."""
    from syclsched.oneapi.processor import TARGET_ARCH_VARIABLE
    from syclsched.processor_flags import read_flags

    return "avx2" in read_flags() and os.environ.get(TARGET_ARCH_VARIABLE, "") not in ("corei7", "corei7-avx")


#: A function of this name is the compiler's intrinsic. Without it compilers do not find the instruction.
_PAIRS: Final = '__attribute__((const)) int8 madd(short16 x, short16 y) __asm__("llvm.x86.avx2.pmadd.wd");'
_PLAIN: Final = """int8 madd(short16 x, short16 y) {
  return convert_int8(x.even) * convert_int8(y.even) + convert_int8(x.odd) * convert_int8(y.odd);
}"""


def _source(
    name: str, signature: Signature, limits: DeviceLimits, product: RowProduct, finish: Finish, *, pairs: bool
) -> OpenCLSource:
    block, rows, parts = product.tiling(limits)
    terms, panels, columns = product.padded_terms, product.panels, product.columns
    whole, all_columns = columns % 8 == 0, columns * product.groups
    loads = [f"const short16 w{h} = convert_short16(vload16(0, panel + k * {COLUMNS} + {16 * h}));" for h in (0, 1)]
    steps = [
        f"{{ const short16 v = as_short16((int8)as_int(vload2(0, own + {i * terms} + k))); "
        f"s{i}_0 += madd(v, w0); s{i}_1 += madd(v, w1); }}"
        for i in range(block)
    ]
    stores = [f"STORE(s{i}_{h}, t + {i}, {8 * h})" for i in range(block) for h in (0, 1)]
    sums = ", ".join(f"s{i}_{h} = 0" for i in range(block) for h in (0, 1))
    index = "int" if max(map(size, signature.shapes.values())) < 1 << 30 else "long"
    place = product.place or f"(I)row * {all_columns} + column"
    vectors = f"vstore8(finish8(sums, column, at{finish.arguments}), 0, y + at);" if product.neighbours else ""
    lanes = f"""int each[8]; vstore8(sums, 0, each);
    for (int lane = 0; lane < 8 && local_column + lane < {columns}; ++lane) {{
      const int column = first_column + lane; const I at = {place};
      y[at] = finish1(each[lane], column, at{finish.arguments});
    }}"""
    whole_vectors = f"const int column = first_column; const I at = {place}; {vectors}"
    if not product.neighbours:
        store = lanes
    elif whole:
        store = f"if (local_column < {columns}) {{ {whole_vectors} }}"
    else:
        store = f"if (local_column + 8 <= {columns}) {{ {whole_vectors} }} else {{ {lanes} }}"
    kinds = {each: C_TYPES[signature.dtypes[each]] for each in ("y", "x", "w", "z")}
    code = f"""typedef {index} I;
typedef {kinds["x"]} X;
{_PAIRS if pairs else _PLAIN}
void copy(short* to, __global const {kinds["x"]}* from, int count, short zero) {{
  int i = 0;
  for (; i + 16 <= count; i += 16) vstore16(convert_short16(vload16(0, from + i)) - zero, 0, to + i);
  for (; i < count; ++i) to[i] = (short)from[i] - zero;
}}
void blank(short* to, int count) {{ for (int i = 0; i < count; ++i) to[i] = 0; }}
#define COPY(to, from, count) copy(to, from, count, zero)
{finish.opencl(signature, 8) if product.neighbours else ""}{finish.opencl(signature, 1)}
#define STORE(value, number, half) if (number < count) {{ \\
    const int8 sums = value; const int row = first + number, local_column = p * {COLUMNS} + half; \\
    const int first_column = group * {columns} + local_column; {store.replace(chr(10), " ")} }}
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void {name}(
    __global {kinds["y"]}* restrict y, __global const {kinds["x"]}* restrict x,
    __global const {kinds["w"]}* restrict w, __global const {kinds["z"]}* restrict z
    {"".join(f", __global const float* restrict {each}" for each in finish.arguments.split(", ")[1:])}) {{
  short rows[{rows * terms}];
  const int item = get_global_id(0), part = item % {parts}, group = item / {parts} % {product.groups};
  const int first = item / {parts * product.groups} * {rows}, count = min({rows}, {product.rows} - first);
  const short zero = (short)z[0];
  for (int t = 0; t < {rows}; ++t) {{
    short* to = rows + t * {terms};
    if (t >= count) {{ blank(to, {terms}); continue; }}
    const int row = first + t;
    {product.gather}
    {f"rows[t * {terms} + {product.terms}] = 0;" if terms > product.terms else ""}
  }}
  for (int p = {panels} * part / {parts}; p < {panels} * (part + 1) / {parts}; ++p) {{
    __global const {kinds["w"]}* panel = w + ((I)group * {panels} + p) * {terms * COLUMNS};
    for (int t = 0; t < count; t += {block}) {{
      const short* own = rows + t * {terms};
      int8 {sums};
      for (int k = 0; k < {terms}; k += 2) {{
        {" ".join(loads)}
        {(chr(10) + "        ").join(steps)}
      }}
      {(chr(10) + "      ").join(stores)}
    }}
  }}
}}
"""
    return OpenCLSource(code, name)
