# SPDX-License-Identifier: Apache-2.0
"""OpenCL C building blocks of reductions by work-groups: a team of work-items reduces each line of an array.

A line is the elements reduced to one number: a row, a column, or all elements of a group of channels. If a line is
contiguous in memory, neighbouring work-items belong to one team. Otherwise neighbouring work-items have neighbouring
lines, and teams are interleaved. Either way, neighbouring work-items access neighbouring elements.

Partial results are combined by a tree in local memory. Its order depends only on the length of a line and on the
device, so results do not depend on how lines are distributed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from syclsched.kernels.common import GROUPS_PER_UNIT, ITEM_BYTES, ceil_div
from syclsched.kernels.groups import ceil_power_of_two, lanes, most_items
from syclsched.kernels.tensor.reductions.reduction_kernels import Axes, split_axes
from syclsched.model.operation import DeviceLimits, Launch, Shape

#: Elements of a line per work-item before the team grows.
_ELEMENTS_PER_ITEM: Final = 4
#: Most elements of a line that a work-item keeps in registers; such lines are read from memory once.
_MOST_REGISTERS: Final = 8
#: Work-items of a group if lines are short.
_SHORT_LINE_ITEMS: Final = 64


@dataclass(frozen=True, slots=True)
class LineReduction:
    """Lines of an array with contiguous storage, and their assignment to work-items."""

    #: (extent, stride) of each axis across the lines, and of each axis along a line.
    kept: Axes
    reduced: Axes
    #: Work-items per line and lines per work-group; powers of two.
    team: int
    beside: int
    rest: int = 0  # extra elements of the last line

    @classmethod
    def of(cls, shape: Shape, axes: Sequence[int], limits: DeviceLimits, local_bytes: int) -> LineReduction:
        """Return the lines along some axes of an array."""
        plan = split_axes(shape, tuple(axes))
        kept = tuple(zip(plan.kept.shape, plan.kept.strides[0], strict=True))
        return cls.of_axes(kept, plan.reduced, limits, local_bytes)

    @classmethod
    def of_axes(cls, kept: Axes, reduced: Axes, limits: DeviceLimits, local_bytes: int, rest: int = 0) -> LineReduction:
        """Return lines over axes that are already merged as far as possible; see `of`."""
        most, wide = most_items(limits, local_bytes), lanes(limits)
        count, length = (math.prod(extent for extent, _ in axes) for axes in (kept, reduced))
        along = reduced[-1][1] == 1
        # The team must not depend on the number of lines, so that results do not depend on their distribution.
        team = min(ceil_power_of_two(length), wide, most) if along else 1
        most_of_team = most if along else max(1, most // wide)
        while team < most_of_team and team * _ELEMENTS_PER_ITEM < length:
            team *= 2
        if along:
            beside = min(max(1, _SHORT_LINE_ITEMS // team), ceil_power_of_two(count), most // team)
        else:
            beside = min(wide, ceil_power_of_two(count), most // team)
            while 2 * beside * team <= most and ceil_div(count, 2 * beside) >= GROUPS_PER_UNIT * limits.compute_units:
                beside *= 2
        return cls(kept, reduced, team, max(1, beside), rest)

    @property
    def count(self) -> int:
        """Number of lines."""
        return math.prod(extent for extent, _ in self.kept)

    @property
    def length(self) -> int:
        """Number of elements of a line."""
        return math.prod(extent for extent, _ in self.reduced)

    @property
    def along(self) -> bool:
        """Whether a line is contiguous in memory."""
        return self.reduced[-1][1] == 1

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return self.team * self.beside

    @property
    def launch(self) -> Launch:
        """The index space."""
        return Launch((max(1, ceil_div(self.count, self.beside)) * self.items,), (self.items,))

    @property
    def registers(self) -> int:
        """Number of line elements a work-item keeps in registers; 0 if there are too many."""
        each = ceil_div(self.length, self.team)
        return each if each <= _MOST_REGISTERS and not self.rest else 0

    @property
    def attributes(self) -> str:
        """Kernel attributes: the required work-group size."""
        return f"__attribute__((reqd_work_group_size({self.items}, 1, 1)))"

    def local(self, **names: str) -> str:
        """Return the declarations of local memory for shared variables, given their C types."""
        return "".join(f"  __local {kind} part_{name}[{self.items}];\n" for name, kind in names.items())

    @property
    def begin(self) -> str:
        """Declarations of ``l`` (local id), ``t`` (position in the team), and ``line`` with its ``start`` and ``end``.

        Work-items beyond the last line get empty lines, because all of them must reach the barriers.
        """
        team, beside = ("l % {0}", "l / {0}") if self.along else ("l / {1}", "l % {1}")
        pair = self.team, self.beside
        end = f"{self.length}" + (f" + (line == {self.count - 1} ? {self.rest} : 0)" if self.rest else "")
        return f"""  const int l = get_local_id(0), t = {team.format(*pair)};
  const I line = (I)get_group_id(0) * {self.beside} + {beside.format(*pair)};
  const I start = {self.first("line")}, end = line < {self.count} ? {end} : 0;
"""

    def first(self, line: str) -> str:
        """Return the expression of a line's first offset."""
        return _place(line, self.kept)

    def at(self, k: str) -> str:
        """Return the expression of an element's offset from the start of its line."""
        return _place(k, self.reduced)

    def loaded(self, array: str = "x") -> str:
        """Return code that loads a line's elements into registers, if they fit there."""
        code = "".join(
            f"  A v{n} = 0; {{ const I k = t + {n * self.team}; "
            f"if (k < end) v{n} = READ({array}, start + {self.at('k')}); }}\n"
            for n in range(self.registers)
        )
        return code

    def each(self, statements: str, array: str = "x") -> str:
        """Return code that executes statements for all of a work-item's elements of a line, in order."""
        here = f"const I at = start + {self.at('k')};"
        if self.registers:
            return "".join(
                f"  {{ const I k = t + {n * self.team}; if (k < end) {{ {here} const A v = v{n}; {statements} }} }}\n"
                for n in range(self.registers)
            )
        step = f"for (I k = t; k < end; k += {self.team})"
        return f"  {step} {{ {here} const A v = READ({array}, at); {statements} }}\n"

    def shared(self, join: str, **names: str) -> str:
        """Return code that reduces variables over a team; every work-item then has the result."""
        if self.team == 1:
            return ""
        step = 1 if self.along else self.beside
        keep = " ".join(f"part_{name}[l] = {name};" for name in names)
        others = " ".join(f"const {kind} other_{name} = part_{name}[l + w * {step}];" for name, kind in names.items())
        fetch = " ".join(f"{name} = part_{name}[l - t * {step}];" for name in names)
        return f"""  {keep}
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int w = {self.team // 2}; w > 0; w /= 2) {{
    if (t < w) {{ {others} {join} {keep} }}
    barrier(CLK_LOCAL_MEM_FENCE);
  }}
  {fetch}
  barrier(CLK_LOCAL_MEM_FENCE);
"""


def local_bytes(*dtypes: str) -> int:
    """Return the bytes of local memory that a work-item needs for variables of some dtypes."""
    return sum(ITEM_BYTES[dtype] for dtype in dtypes)


def _place(number: str, axes: Axes) -> str:
    """Return the expression of an element's offset, given its number in row-major order."""
    terms, inner = [], 1
    for place, (extent, stride) in reversed([*enumerate(axes)]):
        index = number if inner == 1 else f"{number} / {inner}"
        if place > 0:
            index = f"({index}) % {max(extent, 1)}"
        terms.append(index if stride == 1 else f"({index}) * {stride}")
        inner *= max(extent, 1)
    return " + ".join(reversed(terms)) or "0"
