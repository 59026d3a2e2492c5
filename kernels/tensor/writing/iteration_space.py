# SPDX-License-Identifier: Apache-2.0
"""Iteration over a contiguous array and strided operands, without a division per element.

Neighbouring axes that are contiguous in all arrays are merged. The index space is two-dimensional: lines along the last
axis, and line numbers. Only line numbers are divided into indices, and all work-items that become lanes of a vector
share one. If lines are shorter than a vector register, each element's number is divided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from syclsched.kernels.common import GROUPS_PER_UNIT, VECTOR_ITEMS, ceil_div, line_launch
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter
from syclsched.model.operation import DeviceLimits, Launch, Shape

#: Most elements of arrays whose kernels share code: sums of larger arrays, which memory bounds, take a tenth longer if
#: the number of elements is an argument, those of smaller ones up to a quarter less.
_SHARED: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class IterationSpace:
    """An iteration space: the shape of a contiguous array, and the strides of the other operands."""

    shape: Shape  # extents, none of them 1
    strides: tuple[tuple[int, ...], ...]  # of each other operand, in elements per axis; may be 0 or negative

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def shares_code(self) -> bool:
        """Whether kernels take the numbers that follow from the shape as arguments."""
        is_line = len(self.shape) <= 1 and self.elements <= _SHARED
        return is_line if self.indexed_by_element else len(self.shape) == 2

    @property
    def indexed_by_element(self) -> bool:
        """True if each element's number is divided into indices, not only each line's."""
        return len(self.shape) <= 1 or self.shape[-1] < VECTOR_ITEMS


def contiguous_strides(shape: Shape) -> tuple[int, ...]:
    """Return the strides of a C-contiguous array, in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def broadcast_strides(given: Shape, shape: Shape) -> tuple[int, ...]:
    """Return the strides of a contiguous array along the axes of a shape that it is broadcast to."""
    own = contiguous_strides(given)
    missing = len(shape) - len(given)
    return (0,) * missing + tuple(0 if n == 1 else s for n, s in zip(given, own, strict=True))


def iteration_space(shape: Shape, strides: Sequence[tuple[int, ...]]) -> IterationSpace:
    """Return the iteration space of a shape and operands' strides, with as few axes as possible."""
    extents: list[int] = []
    steps: list[list[int]] = []  # for each remaining axis, the strides of all operands
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        inner = [each[axis] for each in strides]
        if extents and all(before == now * extent for before, now in zip(steps[-1], inner, strict=True)):
            extents[-1] *= extent
            steps[-1] = inner
        else:
            extents.append(extent)
            steps.append(inner)
    return IterationSpace(tuple(extents), tuple(tuple(axis[i] for axis in steps) for i in range(len(strides))))


def write_iteration(
    w: KernelWriter, space: IterationSpace, body: Callable[[str, list[str]], None], starts: Sequence[int] = ()
) -> None:
    """Emit a kernel that runs a body for every element, given its index and those of the other operands."""
    begin = list(starts) or [0] * len(space.strides)
    if space.indexed_by_element:
        i = w.index(w.item)
        count = _number(w, space, "elements", space.elements)
        with w.if_block(f"{i} < {count}"):
            places = unravel_index(w, i, space.shape)
            body(i, [w.index(_sum(start, places, steps)) for start, steps in zip(begin, space.strides, strict=True)])
        return
    *outer, inner = space.shape
    rows, length = _number(w, space, "rows", math.prod(outer)), _number(w, space, "length", inner)
    texts = {inner: length}
    for step in sorted({step for steps in space.strides for step in steps} - {0, 1, inner}):
        texts[step] = _number(w, space, f"stride{len(texts)}", step)
    row, j = w.index(w.plane_row), w.index(w.plane_column)
    # If the line is a multiple of the vector length, groups end with it and j needs no check. A needless check does
    # harm: knowing that j is below a power of two, a compiler adds it by "or" and misses the contiguous access.
    in_range = [f"{row} < {rows}"] + ([f"{j} < {length}"] if inner % VECTOR_ITEMS else [])
    with w.if_block(w.all_of(*in_range)):
        places = unravel_index(w, row, tuple(outer))
        others = []
        for start, steps in zip(begin, space.strides, strict=True):
            base = w.index(_sum(start, places, steps[:-1], texts))
            others.append(w.index(_sum(0, [base, j], (1, steps[-1]), texts)))
        body(w.index(f"{row} * {length} + {j}"), others)


def unravel_index(w: KernelWriter, number: str, shape: Shape) -> list[str]:
    """Emit the division of an element's number into its indices in a shape, and return their names."""
    places: list[str] = []
    for extent in reversed(shape[1:]):
        rest = w.index(w.div(number, str(extent)))
        places.append(w.index(f"{number} - {rest} * {extent}"))
        number = rest
    return [number, *reversed(places)] if shape else []


def _number(w: KernelWriter, space: IterationSpace, name: str, value: int) -> str:
    """Return the text of a number that follows from the shape: an argument, if kernels of other shapes share code."""
    return w.number(name, value) if space.shares_code else str(value)


def _sum(
    start: int, places: Sequence[str], steps: Sequence[int], texts: Mapping[int, str] = MappingProxyType({})
) -> str:
    """Return the text of an index; ``texts`` are those of steps that are no constants of the kernel."""
    parts = [] if start == 0 else [str(start)]
    for place, step in zip(places, steps, strict=True):
        if step:
            parts.append(place if step == 1 else f"{place} * ({texts.get(step, step)})")
    return " + ".join(parts) or "0"


def iteration_launch(space: IterationSpace, limits: DeviceLimits, *, always: bool = False) -> Launch:
    """Return the launch of a kernel emitted by `write_iteration`; at least one work-item if ``always``."""
    if space.indexed_by_element:
        return line_launch(limits, max(space.elements, int(always)))
    *outer, inner = space.shape
    rows = max(math.prod(outer), int(always))
    if not rows:
        return Launch((0, 1), (1, 1))
    width = _width(inner, limits)
    lines = ceil_div(inner, width)
    wanted = GROUPS_PER_UNIT * limits.compute_units
    height = 1
    while 2 * height * width <= limits.max_work_group_size and lines * ceil_div(rows, 2 * height) >= wanted:
        height *= 2
    return Launch((lines * width, ceil_div(rows, height) * height), (width, height))


def _width(inner: int, limits: DeviceLimits) -> int:
    """Return the group width along a line: whole vectors, that divide a line of whole vectors evenly."""
    vector = min(VECTOR_ITEMS, limits.max_work_group_size)
    vectors, most = ceil_div(inner, vector), limits.max_work_group_size // vector
    parts = ceil_div(vectors, most)
    if inner % VECTOR_ITEMS == 0:
        while vectors % parts:
            parts += 1
    return ceil_div(vectors, parts) * vector
