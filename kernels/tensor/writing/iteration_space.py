# SPDX-License-Identifier: Apache-2.0
"""Iteration over a contiguous array and strided operands, without a division per element.

Neighbouring axes that are contiguous in all arrays are merged. The index space is two-dimensional: lines along the last
axis, and line numbers. Only line numbers are divided into indices, and all work-items that become lanes of a vector
share one. If lines are shorter than a vector register, each element's number is divided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from syclsched.kernels.common import GROUPS_PER_UNIT, VECTOR_ITEMS, ceil_div, line_launch
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter
from syclsched.model.operation import DeviceLimits, Launch, Shape

#: Most elements of arrays whose kernels share code: sums of larger arrays, which memory bounds, take a tenth longer if
#: the number of elements is an argument, those of smaller ones up to a quarter less. Divisions by numbers that are not
#: known take a few microseconds there, and 0.1 s to compile a kernel for each shape.
_SHARED: Final = 1 << 17
#: Most bytes of their arguments: OpenCL guarantees 1,024.
_MOST_BYTES: Final = 1000
#: Most elements if the number of each element is divided.
_SHARED_DIVIDED: Final = 1 << 13


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
        # An address for each operand and the result, and at most so many numbers.
        if 8 * (len(self.strides) + 1) + 4 * len(self.shape) * (len(self.strides) + 2) > _MOST_BYTES:
            return False
        if self.indexed_by_element and len(self.shape) > 1:
            return self.elements <= _SHARED_DIVIDED
        return len(self.shape) == 2 or self.elements <= _SHARED

    def number(self, w: KernelWriter, name: str, value: int) -> str:
        """Return the text of a number that follows from the shape: an argument, if kernels share code."""
        return w.number(name, value) if self.shares_code and value not in (0, 1) else str(value)

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
    if space.indexed_by_element:
        i = w.index(w.item)
        count = space.number(w, "elements", space.elements)
        with w.if_block(f"{i} < {count}"):
            places = unravel_index(w, i, _extents(w, space, len(space.shape)))
            body(i, [w.index(each) for each in _indices(w, space, places, starts)])
        return
    *outer, inner = space.shape
    rows, length = space.number(w, "rows", math.prod(outer)), space.number(w, "length", inner)
    row, j = w.index(w.plane_row), w.index(w.plane_column)
    # If the line is a multiple of the vector length, groups end with it and j needs no check. A needless check does
    # harm: knowing that j is below a power of two, a compiler adds it by "or" and misses the contiguous access.
    in_range = [f"{row} < {rows}"] + ([f"{j} < {length}"] if inner % VECTOR_ITEMS else [])
    with w.if_block(w.all_of(*in_range)):
        places = unravel_index(w, row, _extents(w, space, len(outer)))
        lines = [w.index(each) for each in _indices(w, space, places, starts)]
        steps = [space.number(w, f"step{number}", each[-1]) for number, each in enumerate(space.strides)]
        others = [w.index(_sum([line, j], ["1", step])) for line, step in zip(lines, steps, strict=True)]
        body(w.index(f"{row} * {length} + {j}"), others)


def _extents(w: KernelWriter, space: IterationSpace, axes: int) -> list[str]:
    """Return the texts of the extents of the first axes; numbers are not divided by that of the very first."""
    return [space.number(w, f"extent{axis}", n) if axis else str(n) for axis, n in enumerate(space.shape[:axes])]


def _indices(w: KernelWriter, space: IterationSpace, places: Sequence[str], starts: Sequence[int]) -> list[str]:
    """Return the texts of the other operands' indices, given the indices along as many axes."""
    texts = []
    for number, steps in enumerate(space.strides):
        known = [space.number(w, f"stride{number}_{axis}", step) for axis, step in enumerate(steps[: len(places)])]
        start = space.number(w, f"start{number}", starts[number]) if starts else "0"
        texts.append(_sum([start, *places], ["1" if start != "0" else "0", *known]))
    return texts


def unravel_index(w: KernelWriter, number: str, shape: Sequence[int | str]) -> list[str]:
    """Emit the division of an element's number into its indices in a shape, and return their names."""
    places: list[str] = []
    for extent in reversed(shape[1:]):
        rest = w.index(w.div(number, str(extent)))
        places.append(w.index(f"{number} - {rest} * {extent}"))
        number = rest
    return [number, *reversed(places)] if shape else []


def _sum(places: Sequence[str], steps: Sequence[str]) -> str:
    """Return the text of an index."""
    known = [(place, step) for place, step in zip(places, steps, strict=True) if step != "0"]
    return " + ".join(place if step == "1" else f"{place} * ({step})" for place, step in known) or "0"


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
