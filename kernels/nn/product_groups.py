# SPDX-License-Identifier: Apache-2.0
"""Sums of products by work-groups: blocks of both operands go through local memory.

A work-group makes a block of rows by columns of the result, each of its work-items some of them in registers: rows and
columns that lie as far apart as the group has work-items, so that neighbouring work-items always have neighbouring
columns. For some terms of the sums at once, the group lays what it needs of both operands into local memory, neighbours
by neighbours. (Volkov and Demmel, "Benchmarking GPUs to tune dense linear algebra", 2008.) Every result is one sum in
the order of its terms, whatever the blocks.

Columns are what lies together in the result; products of matrices and convolutions of either layout differ in what
rows, columns and terms are, and where they are read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from syclsched.kernels.common import ITEM_BYTES, ceil_div
from syclsched.kernels.groups import covering, head, lanes, most_items
from syclsched.kernels.nn.source import sums
from syclsched.model.operation import DeviceLimits, Launch, OpenCLSource

#: Bytes of the sums of a column, and how many columns, that a work-item has at most; terms in local memory at once.
_TALL_BYTES: Final = 32
_WIDE: Final = 4
_DEPTH: Final = 16


@dataclass(frozen=True, slots=True)
class Extents:
    """How many rows, columns and terms each of a number of products has."""

    rows: int
    columns: int
    terms: int
    products: int


@dataclass(frozen=True, slots=True)
class Tiling:
    """Who makes what."""

    #: Work-items of a group by row and by column; powers of two.
    down: int
    across: int
    #: Rows and columns of a work-item; powers of two.
    tall: int
    wide: int
    depth: int  # terms that are in local memory at once

    @classmethod
    def of(cls, extents: Extents, dtype: str, limits: DeviceLimits) -> Tiling:
        """Return a tiling for a device: blocks as large as registers and local memory allow, if there are enough."""
        item = ITEM_BYTES[dtype]
        most = most_items(limits, item)
        across = min(lanes(limits), most, covering(extents.columns))
        down = min(most // across, across, covering(extents.rows))
        while 2 * across * down <= most and across < extents.columns:
            across *= 2  # Of few rows, more columns.
        tall = min(_TALL_BYTES // item, max(1, covering(extents.rows) // down))
        wide = min(_WIDE, max(1, covering(extents.columns) // across))
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
        """Elements that are in local memory: rows are one apart more, so that they are in different banks."""
        return self.depth * (self.rows + 1 + self.columns + 1)

    def groups(self, extents: Extents) -> int:
        """Return how many work-groups there are."""
        return extents.products * ceil_div(extents.rows, self.rows) * ceil_div(extents.columns, self.columns)

    def launch(self, extents: Extents) -> Launch:
        """Return the index space."""
        return Launch((self.groups(extents) * self.items,), (self.items,))


@dataclass(frozen=True, slots=True)
class Operand:
    """Where numbers of one side are read."""

    read: str  # statements that set ``v``, which is 0, to the number of ``row`` or ``column`` and of ``term``
    by_term: bool  # whether neighbours in memory are of neighbouring terms


def source(
    name: str,
    parameters: str,
    dtype: str,
    elements: int,
    extents: Extents,
    tiling: Tiling,
    *,
    begin: str,
    left: Operand,
    right: Operand,
    finish: str,
) -> OpenCLSource:
    """Return the kernel of products."""
    kind, rows, columns, depth = sums(dtype), tiling.rows, tiling.columns, tiling.depth
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
{_laid("left", "row", rows, extents.rows, left, tiling, extents)}
{_laid("right", "column", columns, extents.columns, right, tiling, extents)}
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


def _laid(side: str, index: str, wide: int, extent: int, operand: Operand, tiling: Tiling, extents: Extents) -> str:
    """Return code by which a group lays some terms of a block into local memory, neighbours in memory by neighbours."""
    e, k = (f"e / {tiling.depth}", f"e % {tiling.depth}") if operand.by_term else (f"e % {wide}", f"e / {wide}")
    return f"""    for (int e = l; e < {wide * tiling.depth}; e += {tiling.items}) {{
      const int n = {e}, k = {k};
      const I {index} = {index}0 + n, term = term0 + k;
      A v = 0;
      if ({index} < {extent} && term < {extents.terms}) {{ {operand.read} }}
      {side}[k * {wide + 1} + n] = v;
    }}"""
