# SPDX-License-Identifier: Apache-2.0
"""Products of rows of 8-bit numbers with packed weights in OpenCL C, exact in 32-bit integers.

A work-item takes some rows, of a matrix or of a convolution's windows, and multiplies them with panels of weights,
`_COLUMNS` wide, in blocks of rows that stay in registers. x86 processors with AVX2 multiply and add neighbouring terms
by one instruction:

- ``pmaddwd`` multiplies pairs of 16-bit numbers; its 32-bit sums cannot overflow. Rows are made numbers around their
  zero point once, so that pads are 0.
- ``pmaddubsw`` multiplies pairs of bytes, twice as many, and saturates at 16 bits. It is exact for *narrow* weights,
  those from -64 to 64: 2 * 255 * 64 < 2^15. Rows stay bytes without sign, pads are the zero point, and the zero point
  times the sum of a column's weights, which is packed behind a panel, is subtracted at the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final

from syclsched.kernels.common import C_TYPES, OPENCL_C, ceil_div
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.quantised.finishing import Finish
from syclsched.kernels.tensor.writing.extent_arguments import ExtentArguments
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Requirements,
    Signature,
    Tailored,
)

#: Columns of a panel: two vectors of eight sums.
_COLUMNS: Final = 16
#: Most rows of a work-item, and bytes of them: they stay in the first cache beside a panel.
_MOST_ROWS, _ROW_BYTES = 48, 16 << 10
#: Work-items per compute unit, if there are enough results.
_ITEMS: Final = 6


@dataclass(frozen=True, slots=True)
class _Method:
    """A way to multiply terms."""

    unit: int  # terms multiplied at once
    rows: str  # OpenCL C type of a row's numbers
    block: int  # most rows whose sums, with weights and one operand, are in 16 vector registers
    functions: str = ""
    load: str = ""  # weights of a vector of columns
    multiply: str = ""  # sums of products of a row's ``unit`` numbers with these weights

    def padded(self, terms: int) -> int:
        """Return how many terms are packed."""
        return ceil_div(terms, self.unit) * self.unit

    def row_bytes(self, terms: int) -> int:
        """Return the bytes of a row's numbers."""
        return self.padded(terms) * (2 if self.rows == "short" else 1)


_PLAIN: Final = _Method(
    2,
    "short",
    6,
    """int8 multiply(short16 x, short16 y) {
  return convert_int8(x.even) * convert_int8(y.even) + convert_int8(x.odd) * convert_int8(y.odd);
}""",
    "const short16 {0} = convert_short16(vload16(0, {1}));",
    "multiply(as_short16((int8)as_int(vload2(0, {0}))), {1})",
)
# Functions of these names are the compiler's intrinsics. Without them compilers do not find the instructions.
_PAIRS: Final = replace(
    _PLAIN, functions='__attribute__((const)) int8 multiply(short16 x, short16 y) __asm__("llvm.x86.avx2.pmadd.wd");'
)
_BYTES: Final = _Method(
    4,
    "uchar",
    5,
    """typedef char char32 __attribute__((ext_vector_type(32), aligned(1)));
__attribute__((const)) int8 add_pairs(short16 x, short16 y) __asm__("llvm.x86.avx2.pmadd.wd");
__attribute__((const)) short16 multiply_pairs(char32 x, char32 y) __asm__("llvm.x86.avx2.pmadd.ub.sw");
int8 multiply(int x, char32 y) {
  return add_pairs(multiply_pairs(__builtin_astype((int8)x, char32), y), (short16)1);
}""",
    "const char32 {0} = *(__global const char32*)({1});",
    "multiply(as_int(vload4(0, {0})), {1})",
)


@dataclass(frozen=True, slots=True)
class RowProduct:
    """Extents of the product of rows with the weights of some groups of columns, and how the rows are read."""

    rows: int
    terms: int
    columns: int  # of a group
    groups: int
    #: Returns OpenCL C that writes the terms of ``row`` and ``group`` to ``to``, by ``COPY``, ``FILL`` and ``NUMBER``.
    gather: Callable[[ExtentArguments], str]
    #: Returns the offset of a result; by default all columns of a row are before the next row, and neighbours.
    place: Callable[[ExtentArguments], str] | None = None

    @property
    def panels(self) -> int:
        """Panels of a group."""
        return ceil_div(self.columns, _COLUMNS)

    def tiling(self, limits: DeviceLimits, method: _Method) -> tuple[int, int, int]:
        """Return the rows of a block and of a work-item, and in how many parts panels are divided."""
        block = min(method.block, self.rows)
        most = max(block, min(_MOST_ROWS, _ROW_BYTES // method.row_bytes(self.terms)) // block * block)
        wanted = _ITEMS * limits.compute_units
        tiles = max(ceil_div(self.rows, most), min(ceil_div(self.rows, block), ceil_div(wanted, self.groups)))
        rows = ceil_div(ceil_div(self.rows, tiles), block) * block
        parts = min(self.panels, ceil_div(wanted, ceil_div(self.rows, rows) * self.groups))
        return block, rows, parts

    def launch(self, limits: DeviceLimits, method: _Method) -> Launch:
        """Return the index space; a work-group of one work-item keeps the compiler from splitting vectors."""
        _, rows, parts = self.tiling(limits, method)
        return Launch((ceil_div(self.rows, rows) * self.groups * parts,), (1,))


def implementations(
    name: str,
    product_of: Callable[[Signature], RowProduct],
    finish: Finish,
    weights_of: Callable[[Any], Any],
    *,
    narrow: bool,
) -> tuple[Implementation, ...]:
    """Return the implementations: for processors with AVX2, and for all devices.

    ``weights_of`` returns the constant weights as (groups, columns, terms).
    """

    def made(label: str, requires: Requirements, method: _Method, efficiency: float) -> Implementation:
        return Implementation(
            label,
            "opencl-c",
            partial(_load, name=name, product_of=product_of, finish=finish, method=method),
            partial(_launch, product_of=product_of, method=method),
            requires,
            efficiency=efficiency,
            revision="2",
            prepare=partial(_prepare, weights_of=weights_of, method=method, finish=finish),
            form=partial(_form, name=name, product_of=product_of, method=method),
        )

    on_avx2 = replace(OPENCL_C, device_kinds=("cpu",), refuses=_refuses_without_avx2)
    return (
        made("opencl-c-avx2", on_avx2, _BYTES if narrow else _PAIRS, 1.5 if narrow else 1.2),
        made("opencl-c", replace(OPENCL_C, refuses=_refuses), _PLAIN, 0.1),
    )


def _prepare(
    signature: Signature,
    queue: Any,
    constants: Mapping[str, Any],
    *,
    weights_of: Callable[[Any], Any],
    method: _Method,
    finish: Finish,
) -> Mapping[str, Any]:
    """Pack weights as panels (groups, panels, units of terms, columns, terms of a unit), padded by 0."""
    import numpy as np

    weights = weights_of(constants["w"])
    groups, columns, terms = weights.shape
    filled = np.pad(weights, ((0, 0), (0, -columns % _COLUMNS), (0, -terms % method.unit)))
    units = filled.reshape(groups, -1, _COLUMNS, ceil_div(terms, method.unit), method.unit)
    panels = np.ascontiguousarray(units.transpose(0, 1, 3, 2, 4)).reshape(*units.shape[:2], -1)
    if method is _BYTES:
        sums = np.ascontiguousarray(units.sum((3, 4), np.int32)).view(np.int8)
        panels = np.concatenate([panels, sums], axis=-1)
    return {**finish.prepared(constants, groups * columns), "w": np.ascontiguousarray(panels).reshape(-1)}


def _form(
    signature: Signature, queue: Any, *, name: str, product_of: Callable[[Signature], RowProduct], method: _Method
) -> Hashable:
    """Return what identifies the layout of the constants that `_prepare` returns."""
    return name, product_of(signature).groups, method.unit, method is _BYTES


def _load(
    signature: Signature,
    *,
    name: str,
    product_of: Callable[[Signature], RowProduct],
    finish: Finish,
    method: _Method,
) -> Any:
    return Tailored(lambda limits: _source(name, signature, limits, product_of(signature), finish, method))


def _launch(
    signature: Signature, limits: DeviceLimits, *, product_of: Callable[[Signature], RowProduct], method: _Method
) -> Launch:
    return product_of(signature).launch(limits, method)


def _refuses(signature: Signature) -> str | None:
    if "w" not in signature.constants:
        return "the weights must be constant"
    return None if all(map(size, signature.shapes.values())) else "arrays must not be empty"


def _refuses_without_avx2(signature: Signature) -> str | None:
    return _refuses(signature) if _has_avx2() else "the processor's code may not use AVX2"


@cache
def _has_avx2() -> bool:
    """Return whether the CPU device's code may use AVX2."""
    from syclsched.oneapi.processor import TARGET_ARCH_VARIABLE
    from syclsched.processor_flags import read_flags

    return "avx2" in read_flags() and os.environ.get(TARGET_ARCH_VARIABLE, "") not in ("corei7", "corei7-avx")


def _source(
    name: str, signature: Signature, limits: DeviceLimits, product: RowProduct, finish: Finish, method: _Method
) -> OpenCLSource:
    block, item_rows, item_parts = product.tiling(limits, method)
    given = ExtentArguments()
    taken, terms = given("taken", product.terms), given("terms", method.padded(product.terms))
    rows, all_rows, parts = given("item_rows", item_rows), given("all_rows", product.rows), given("parts", item_parts)
    panels, columns, groups = (given(each, getattr(product, each)) for each in ("panels", "columns", "groups"))
    of_bytes = method is _BYTES
    vectors = range(_COLUMNS // 8)
    loads = [method.load.format(f"w{h}", f"panel + k * {_COLUMNS} + {8 * h * method.unit}") for h in vectors]
    steps = [
        f"s{i}_{h} += {method.multiply.format(f'own + {i} * {terms} + k', f'w{h}')};"
        for i in range(block)
        for h in vectors
    ]
    keep = [f"sums[{i * len(vectors) + h}] = s{i}_{h};" for i in range(block) for h in vectors]
    sums = ", ".join(f"s{i}_{h} = 0" for i in range(block) for h in vectors)
    index = "int" if max(map(size, signature.shapes.values())) < 1 << 30 else "long"
    kinds = {each: C_TYPES[dtype] for each, dtype in signature.dtypes.items()}
    read = [each.name for each in finish.parameters()][3:]
    for each, value in finish.numbers.items():
        given.real(each, value)
    arrays = "".join(f", __global const {kinds[each]}* restrict {each}" for each in read)
    zero = "0" if finish.symmetric else "z[0]"
    flip = 128 if of_bytes and signature.dtypes["x"] == "int8" else 0  # the bit that makes them bytes without a sign
    shift = f" - zero * vload8(0, (__global const int*)(panel + {terms} * {_COLUMNS}) + half)" if of_bytes else ""
    # The rows of a work-item have `_ROW_BYTES`, or more if one block of them has: kernels contain one of few sizes.
    capacity = 1 << (max(_ROW_BYTES, item_rows * method.row_bytes(product.terms)) - 1).bit_length()
    gather, stored = product.gather(given), _stored(product, finish, given)
    parameters = arrays + given.declared
    code = f"""typedef {index} I;
typedef {kinds["x"]} X;
typedef {kinds["w"]} W;
typedef {method.rows} R;
{method.functions}
{_copying(kinds["x"], flip, of_bytes=of_bytes)}
{"" if product.place else finish.opencl(signature, 8)}{finish.opencl(signature, 1)}
#define STORE(value, number, half) {{ \\
    const int8 made = value{shift}; \\
    const int row = first + number, within = p * {_COLUMNS} + half, column0 = group * {columns} + within; \\
    {stored} }}
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void {name}(
    __global {kinds["y"]}* restrict y, __global const X* restrict x, __global const W* restrict w{parameters}) {{
  R rows[{capacity} / sizeof(R)];
  const int item = get_global_id(0), part = item % {parts}, group = item / {parts} % {groups};
  const int first = item / ({parts} * {groups}) * {rows}, count = min({rows}, {all_rows} - first);
  const short zero = (short){zero} + {flip};
  for (int t = 0; t < {rows}; ++t) {{
    R* to = rows + t * {terms};
    if (t >= count) {{ FILL(to, {terms}); continue; }}
    const int row = first + t;
    {gather}
    FILL(rows + t * {terms} + {taken}, {terms} - {taken});
  }}
  for (int p = {panels} * part / {parts}; p < {panels} * (part + 1) / {parts}; ++p) {{
    __global const W* panel = w + ((I)group * {panels} + p) * ({terms} * {_COLUMNS} + {4 * _COLUMNS * of_bytes});
    for (int t = 0; t < count; t += {block}) {{
      const R* own = rows + t * {terms};
      int8 {sums};
      for (int k = 0; k < {terms}; k += {method.unit}) {{
        {" ".join(loads)}
        {(chr(10) + "        ").join(steps)}
      }}
      int8 sums[{block * len(vectors)}];
      {(chr(10) + "      ").join(keep)}
      // Not unrolled: this code is most of the kernel.
#pragma nounroll
      for (int n = 0; n < min({block}, count - t) * {len(vectors)}; ++n)
        STORE(sums[n], t + n / {len(vectors)}, n % {len(vectors)} * 8)
    }}
  }}
}}
"""
    return OpenCLSource(code, name, extents=given.values)


def _copying(kind: str, flip: int, *, of_bytes: bool) -> str:
    """Return functions that copy numbers to a row, or pad it: as bytes without a sign, or around the zero point."""
    number, pad = (f"(uchar)((v) + {flip})", "(uchar)zero") if of_bytes else ("(short)((v) - zero)", "0")
    many = f"as_uchar16(v) ^ (uchar){flip}" if of_bytes else "convert_short16(v) - zero"
    return f"""#define NUMBER(v) {number}
void copy(R* to, __global const X* from, int count, short zero) {{
  if (count < 16) {{
    for (int i = 0; i < count; ++i) to[i] = NUMBER(from[i]);
    return;
  }}
  // The last vector begins where it still fits, and copies some numbers again.
  for (int i = 0; i < count; i += 16) {{
    const int at = min(i, count - 16);
    const {kind}16 v = vload16(0, from + at);
    vstore16({many}, 0, to + at);
  }}
}}
void fill(R* to, int count, short zero) {{ for (int i = 0; i < count; ++i) to[i] = {pad}; }}
#define COPY(to, from, count) copy(to, from, count, zero)
#define FILL(to, count) fill(to, count, zero)"""


def _stored(product: RowProduct, finish: Finish, given: ExtentArguments) -> str:
    """Return code that stores a vector of sums, or those of its columns that there are."""
    columns = given("columns", product.columns)
    place = (
        product.place(given) if product.place else f"(I)row * {columns} * {given('groups', product.groups)} + column"
    )
    call = f"column, at{finish.arguments}"
    whole = f"{{ const int column = column0; const I at = {place}; vstore8(finish8(made, {call}), 0, y + at); }}"
    lanes = f"for (int lane = 0; lane < 8 && within + lane < {columns}; ++lane)"
    body = f"const int column = column0 + lane; const I at = {place}; y[at] = finish1(each[lane], {call});"
    each = f"{{ int each[8]; vstore8(made, 0, each); {lanes} {{ {body} }} }}"
    if product.place:
        return each
    if product.columns % 8 == 0:
        return f"if (within < {columns}) {whole}"
    return f"if (within + 8 <= {columns}) {whole} else {each}"
