# SPDX-License-Identifier: Apache-2.0
"""Tiled sums of products by work-groups: tiles of both operands are staged in local memory.

A work-group computes a block of rows by columns of the result; each work-item keeps some of them in registers, strided
by the group's extent so that neighbouring work-items always have neighbouring columns. The group loads the operands of
some summation terms into local memory with coalesced accesses. (Volkov and Demmel, "Benchmarking GPUs to tune dense
linear algebra", 2008.) Every result is one sum in the order of its terms, whatever the tiling.

Columns are contiguous in the result. Matrix products and convolutions of either layout differ only in what rows,
columns and terms are, and where they are read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from syclsched.kernels.common import ITEM_BYTES, ceil_div
from syclsched.kernels.groups import ceil_power_of_two, head, lanes, most_items
from syclsched.kernels.nn.opencl_types import sum_dtype
from syclsched.model.operation import DeviceLimits, Launch, OpenCLSource

#: Most bytes of a column's sums and most columns per work-item; terms in local memory at once.
_MOST_COLUMN_BYTES: Final = 32
_MOST_COLUMNS: Final = 4
_DEPTH: Final = 16


@dataclass(frozen=True, slots=True)
class ProductExtents:
    """Rows, columns and terms of each product, and the number of products."""

    rows: int
    columns: int
    terms: int
    products: int


@dataclass(frozen=True, slots=True)
class GroupTiling:
    """Distribution of results over work-groups and work-items."""

    #: Work-items of a group by row and by column; powers of two.
    down: int
    across: int
    #: Rows and columns of a work-item; powers of two.
    tall: int
    wide: int
    depth: int  # terms in local memory at once

    @classmethod
    def of(cls, extents: ProductExtents, dtype: str, limits: DeviceLimits) -> GroupTiling:
        """Return a tiling for a device: blocks as large as registers and local memory allow, if there are enough."""
        item = ITEM_BYTES[dtype]
        most = most_items(limits, item)
        across = min(lanes(limits), most, ceil_power_of_two(extents.columns))
        down = min(most // across, across, ceil_power_of_two(extents.rows))
        while 2 * across * down <= most and across < extents.columns:
            across *= 2  # With few rows, use more columns.
        tall = min(_MOST_COLUMN_BYTES // item, max(1, ceil_power_of_two(extents.rows) // down))
        wide = min(_MOST_COLUMNS, max(1, ceil_power_of_two(extents.columns) // across))
        made = cls(down, across, tall, wide, _DEPTH)
        while made.groups(extents) < limits.compute_units and tall * wide > 1:
            tall, wide = (tall // 2, wide) if tall >= wide else (tall, wide // 2)
            made = replace(made, tall=tall, wide=wide)
        while made.local_elements * item > limits.local_memory_bytes and made.local_elements > 3:
            largest = max(("depth", "down", "across", "tall", "wide"), key=lambda name: getattr(made, name))
            made = replace(made, **{largest: getattr(made, largest) // 2})
        return made

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return self.down * self.across

    @property
    def rows(self) -> int:
        """Rows of a group."""
        return self.down * self.tall

    @property
    def columns(self) -> int:
        """Columns of a group."""
        return self.across * self.wide

    @property
    def local_elements(self) -> int:
        """Elements in local memory; rows are padded by one element to avoid bank conflicts."""
        return self.depth * (self.rows + 1 + self.columns + 1)

    def groups(self, extents: ProductExtents) -> int:
        """Return the number of work-groups."""
        return extents.products * ceil_div(extents.rows, self.rows) * ceil_div(extents.columns, self.columns)

    def launch(self, extents: ProductExtents) -> Launch:
        """Return the index space."""
        return Launch((self.groups(extents) * self.items,), (self.items,))


@dataclass(frozen=True, slots=True)
class Operand:
    """Access code of one operand."""

    read: str  # statements that set ``v`` (initially 0) to the element of ``row`` or ``column`` and ``term``
    by_term: bool  # neighbours in memory belong to neighbouring terms


def source(
    name: str,
    parameters: str,
    dtype: str,
    elements: int,
    extents: ProductExtents,
    tiling: GroupTiling,
    *,
    begin: str,
    left: Operand,
    right: Operand,
    finish: str,
) -> OpenCLSource:
    """Return the kernel of tiled products."""
    kind, rows, columns, depth = sum_dtype(dtype), tiling.rows, tiling.columns, tiling.depth
    down, across = (ceil_div(n, block) for n, block in ((extents.rows, rows), (extents.columns, columns)))
    places = [(r, c) for r in range(tiling.tall) for c in range(tiling.wide)]
    a = " ".join(f"a{r} = left[k * {rows + 1} + i + {r * tiling.down}]," for r in range(tiling.tall))
    b = ", ".join(f"b{c} = right[k * {columns + 1} + j + {c * tiling.across}]" for c in range(tiling.wide))
    step = " ".join(f"s{r}_{c} = fma(a{r}, b{c}, s{r}_{c});" for r, c in places)
    stores = "\n".join(
        f"  {{ const I row = row0 + i + {r * tiling.down}, column = column0 + j + {c * tiling.across}; A v = s{r}_{c}; "
        f"if (row < {extents.rows} && column < {extents.columns}) {{ {finish} }} }}"
        for r, c in places
    )
    text = f"""{head(dtype, kind, elements)}
__kernel __attribute__((reqd_work_group_size({tiling.items}, 1, 1))) void {name}({parameters}) {{
  __local A left[{depth * (rows + 1)}], right[{depth * (columns + 1)}];
  const int l = get_local_id(0), i = l / {tiling.across}, j = l % {tiling.across};
  const I group = get_group_id(0), product = group / {down * across};
  const I row0 = group / {across} % {down} * {rows}, column0 = group % {across} * {columns};
  {begin}
  A {", ".join(f"s{r}_{c} = 0" for r, c in places)};
  for (I term0 = 0; term0 < {extents.terms}; term0 += {depth}) {{
{_stage("left", "row", rows, extents.rows, left, tiling, extents)}
{_stage("right", "column", columns, extents.columns, right, tiling, extents)}
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < {depth}; ++k) {{
      const A {a} {b};
      {step}
    }}
    barrier(CLK_LOCAL_MEM_FENCE);
  }}
{stores}
}}
"""
    return OpenCLSource(text, name)


def _stage(
    side: str, index: str, wide: int, extent: int, operand: Operand, tiling: GroupTiling, extents: ProductExtents
) -> str:
    """Return code by which a group loads an operand's tile into local memory with coalesced reads."""
    e, k = (f"e / {tiling.depth}", f"e % {tiling.depth}") if operand.by_term else (f"e % {wide}", f"e / {wide}")
    return f"""    for (int e = l; e < {wide * tiling.depth}; e += {tiling.items}) {{
      const int n = {e}, k = {k};
      const I {index} = {index}0 + n, term = term0 + k;
      A v = 0;
      if ({index} < {extent} && term < {extents.terms}) {{ {operand.read} }}
      {side}[k * {wide + 1} + n] = v;
    }}"""
