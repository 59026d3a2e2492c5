# SPDX-License-Identifier: Apache-2.0
"""Lines of an array, each gone through by a team of work-items that put their partial results together.

A line is what becomes one number of a reduction: a row, a column, or all elements of a group of channels. Where
neighbours in a line are neighbours in memory, neighbouring work-items are of one team. Else neighbouring work-items
have neighbouring lines, and teams are interleaved. Either way what neighbours read at once lies together.

Partial results are put together in local memory, in pairs, half of them at each step: the order depends on the length
of a line and on the device alone, so that results do not change when lines are dealt out otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from syclsched.kernels.common import GROUPS_PER_UNIT, ITEM_BYTES, ceil_div
from syclsched.kernels.groups import covering, lanes, most_items
from syclsched.kernels.tensor.reduction_kernels import Axes, reduction_plan
from syclsched.model.operation import DeviceLimits, Launch, Shape

#: Elements of a line that a work-item has before there are more work-items.
_EACH: Final = 4
#: Elements of a line that a work-item keeps in registers: a line of so many for each is read once.
_KEPT: Final = 8
#: Work-items a group has where lines are short.
_SMALL: Final = 64


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a contiguous array, and who does them."""

    #: Extent and stride of each axis: of those that number the lines, and of those along a line.
    kept: Axes
    reduced: Axes
    #: Work-items that share a line, and lines that a group has; powers of two.
    team: int
    beside: int
    rest: int = 0  # how many elements more than the others the last line has

    @classmethod
    def of(cls, shape: Shape, axes: Sequence[int], limits: DeviceLimits, local_bytes: int) -> Lines:
        """Return the lines along some axes of an array."""
        plan = reduction_plan(shape, tuple(axes))
        kept = tuple(zip(plan.kept.shape, plan.kept.strides[0], strict=True))
        return cls.between(kept, plan.reduced, limits, local_bytes)

    @classmethod
    def between(cls, kept: Axes, reduced: Axes, limits: DeviceLimits, local_bytes: int, rest: int = 0) -> Lines:
        """Return lines of axes that are as few as possible; see `of`."""
        most, wide = most_items(limits, local_bytes), lanes(limits)
        count, length = (math.prod(extent for extent, _ in axes) for axes in (kept, reduced))
        along = reduced[-1][1] == 1
        # The team must not depend on how many lines there are: see above.
        team = min(covering(length), wide, most) if along else 1
        most_of_team = most if along else max(1, most // wide)
        while team < most_of_team and team * _EACH < length:
            team *= 2
        if along:
            beside = min(max(1, _SMALL // team), covering(count), most // team)
        else:
            beside = min(wide, covering(count), most // team)
            while 2 * beside * team <= most and ceil_div(count, 2 * beside) >= GROUPS_PER_UNIT * limits.compute_units:
                beside *= 2
        return cls(kept, reduced, team, max(1, beside), rest)

    @property
    def count(self) -> int:
        """How many lines there are."""
        return math.prod(extent for extent, _ in self.kept)

    @property
    def length(self) -> int:
        """How many elements each has."""
        return math.prod(extent for extent, _ in self.reduced)

    @property
    def along(self) -> bool:
        """Whether neighbours in a line are neighbours in memory."""
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
        """How many elements of a line a work-item keeps; 0 where there are too many."""
        each = ceil_div(self.length, self.team)
        return each if each <= _KEPT and not self.rest else 0

    @property
    def attributes(self) -> str:
        """What a kernel is told of its groups."""
        return f"__attribute__((reqd_work_group_size({self.items}, 1, 1)))"

    def local(self, **names: str) -> str:
        """Return the declaration of the local memory in which variables are shared, given the dtype of each."""
        return "".join(f"  __local {kind} part_{name}[{self.items}];\n" for name, kind in names.items())

    @property
    def begin(self) -> str:
        """Declares ``l``, the work-item; ``t``, its place in the team; ``line``, where it begins and, past it, ends.

        Work-items beyond the last line have lines without elements, as all have to meet at barriers.
        """
        team, beside = ("l % {0}", "l / {0}") if self.along else ("l / {1}", "l % {1}")
        pair = self.team, self.beside
        end = f"{self.length}" + (f" + (line == {self.count - 1} ? {self.rest} : 0)" if self.rest else "")
        return f"""  const int l = get_local_id(0), t = {team.format(*pair)};
  const I line = (I)get_group_id(0) * {self.beside} + {beside.format(*pair)};
  const I start = {self.first("line")}, end = line < {self.count} ? {end} : 0;
"""

    def first(self, line: str) -> str:
        """Return where a line begins, as an expression."""
        return _place(line, self.kept)

    def at(self, k: str) -> str:
        """Return how far from a line's beginning an element is, as an expression."""
        return _place(k, self.reduced)

    def loaded(self, array: str = "x") -> str:
        """Return code that reads a line's elements into registers, if they are kept."""
        code = "".join(
            f"  A v{n} = 0; {{ const I k = t + {n * self.team}; "
            f"if (k < end) v{n} = READ({array}, start + {self.at('k')}); }}\n"
            for n in range(self.registers)
        )
        return code

    def each(self, statements: str, array: str = "x") -> str:
        """Return code that does something for all elements of a line that are the work-item's, in their order."""
        here = f"const I at = start + {self.at('k')};"
        if self.registers:
            return "".join(
                f"  {{ const I k = t + {n * self.team}; if (k < end) {{ {here} const A v = v{n}; {statements} }} }}\n"
                for n in range(self.registers)
            )
        step = f"for (I k = t; k < end; k += {self.team})"
        return f"  {step} {{ {here} const A v = READ({array}, at); {statements} }}\n"

    def shared(self, join: str, **names: str) -> str:
        """Return code after which all of a team have what their variables become together."""
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
    """Return the local memory of a work-item that shares variables of some dtypes."""
    return sum(ITEM_BYTES[dtype] for dtype in dtypes)


def _place(number: str, axes: Axes) -> str:
    """Return an expression of where an element is, given its number in row-major order."""
    terms, behind = [], 1
    for place, (extent, stride) in reversed([*enumerate(axes)]):
        index = number if behind == 1 else f"{number} / {behind}"
        if place > 0:
            index = f"({index}) % {max(extent, 1)}"
        terms.append(index if stride == 1 else f"({index}) * {stride}")
        behind *= max(extent, 1)
    return " + ".join(reversed(terms)) or "0"
