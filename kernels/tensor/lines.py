# SPDX-License-Identifier: Apache-2.0
"""Walking over an array and others at strides beside it, without a division for each element.

Axes that all arrays run through alike become one. What is left is lines along the last axis, and the index space is a
plane of lines: only a line's number is taken apart into indices, and all work-items that become lanes of a vector share
it. Where the lines are shorter than a vector register, each element's number is taken apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from syclsched.kernels.common import GROUPS_PER_UNIT, VECTOR_ITEMS, ceil_div, line_launch
from syclsched.kernels.tensor.writer import Writer
from syclsched.model.operation import DeviceLimits, Launch, Shape


@dataclass(frozen=True, slots=True)
class Walk:
    """A contiguous array, and how others are met on the way through it."""

    shape: Shape  # extents, none of them 1
    #: For every other array, how many elements further it is along each axis; may be 0 or negative.
    strides: tuple[tuple[int, ...], ...]

    @property
    def elements(self) -> int:
        """How many elements there are."""
        return math.prod(self.shape)

    @property
    def by_element(self) -> bool:
        """Whether each element's number is taken apart."""
        return len(self.shape) <= 1 or self.shape[-1] < VECTOR_ITEMS


def contiguous_strides(shape: Shape) -> tuple[int, ...]:
    """Return the strides, in elements, of a C-contiguous array."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def broadcast_strides(given: Shape, shape: Shape) -> tuple[int, ...]:
    """Return the strides of a contiguous array along the axes of a shape it is broadcast to."""
    own = contiguous_strides(given)
    missing = len(shape) - len(given)
    return (0,) * missing + tuple(0 if n == 1 else s for n, s in zip(given, own, strict=True))


def walk(shape: Shape, strides: Sequence[tuple[int, ...]]) -> Walk:
    """Return a walk with as few axes as possible."""
    extents: list[int] = []
    steps: list[list[int]] = []  # one list of all arrays' strides for each axis that is left
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        here = [each[axis] for each in strides]
        if extents and all(before == now * extent for before, now in zip(steps[-1], here, strict=True)):
            extents[-1] *= extent
            steps[-1] = here
        else:
            extents.append(extent)
            steps.append(here)
    return Walk(tuple(extents), tuple(tuple(axis[i] for axis in steps) for i in range(len(strides))))


def write_walk(w: Writer, way: Walk, body: Callable[[str, list[str]], None], starts: Sequence[int] = ()) -> None:
    """Write a kernel that does something for every element."""
    begin = list(starts) or [0] * len(way.strides)
    if way.by_element:
        i = w.index(w.item)
        with w.when(f"{i} < {way.elements}"):
            places = take_apart(w, i, way.shape)
            body(i, [w.index(_sum(start, places, steps)) for start, steps in zip(begin, way.strides, strict=True)])
        return
    *outer, inner = way.shape
    row, j = w.index(w.plane_row), w.index(w.plane_column)
    # Lines of whole vectors end with a group. A comparison that is not needed does harm: told that j is below a power
    # of two, a compiler adds it by "or", and no longer sees that neighbours are neighbours in memory.
    inside = [f"{row} < {math.prod(outer)}"] + ([f"{j} < {inner}"] if inner % VECTOR_ITEMS else [])
    with w.when(w.both(*inside)):
        places = take_apart(w, row, tuple(outer))
        others = []
        for start, steps in zip(begin, way.strides, strict=True):
            base = w.index(_sum(start, places, steps[:-1]))
            others.append(w.index(_sum(0, [base, j], (1, steps[-1]))))
        body(w.index(f"{row} * {inner} + {j}"), others)


def take_apart(w: Writer, number: str, shape: Shape) -> list[str]:
    """Take the number of an element of a shape apart into its indices, and name them."""
    places: list[str] = []
    for extent in reversed(shape[1:]):
        rest = w.index(w.div(number, str(extent)))
        places.append(w.index(f"{number} - {rest} * {extent}"))
        number = rest
    return [number, *reversed(places)] if shape else []


def _sum(start: int, places: Sequence[str], steps: Sequence[int]) -> str:
    parts = [] if start == 0 else [str(start)]
    parts += [place if step == 1 else f"{place} * ({step})" for place, step in zip(places, steps, strict=True) if step]
    return " + ".join(parts) or "0"


def walk_launch(way: Walk, limits: DeviceLimits, *, always: bool = False) -> Launch:
    """Return the index space of what `write_walk` writes."""
    if way.by_element:
        return line_launch(limits, max(way.elements, int(always)))
    *outer, inner = way.shape
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
    """Return how much of a line a group takes: whole vectors, and of a line of whole vectors a whole part."""
    vector = min(VECTOR_ITEMS, limits.max_work_group_size)
    vectors, most = ceil_div(inner, vector), limits.max_work_group_size // vector
    parts = ceil_div(vectors, most)
    if inner % VECTOR_ITEMS == 0:
        while vectors % parts:
            parts += 1
    return ceil_div(vectors, parts) * vector
