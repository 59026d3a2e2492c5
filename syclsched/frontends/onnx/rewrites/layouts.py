# SPDX-License-Identifier: Apache-2.0
"""In which order of axes values may be stored, and what nodes make of it.

A layout is a permutation: what is stored is the value transposed by it. So ``(0, 1, 2, 3)`` is the value itself, and
``(0, 2, 3, 1)`` an image with its channels last. Layouts that differ only in where axes of one element stand store the
same elements in the same order.
"""

from __future__ import annotations

import math
from typing import Any

Layout = tuple[int, ...]
Shape = tuple[int, ...]


def plain(rank: int) -> Layout:
    """Return the layout of a value stored as it is."""
    return tuple(range(rank))


def channels_last(rank: int) -> Layout:
    """Return the layout with axis 1 last."""
    return (0, *range(2, rank), 1) if rank > 1 else plain(rank)


def stored_shape(shape: Shape, layout: Layout) -> Shape:
    """Return the shape of what is stored."""
    return tuple(shape[axis] for axis in layout)


def moving(shape: Shape, layout: Layout) -> Layout:
    """Return a layout without the axes of one element."""
    return tuple(axis for axis in layout if shape[axis] != 1)


def same(shape: Shape, one: Layout, other: Layout) -> bool:
    """Return whether two layouts store the elements in the same order."""
    return moving(shape, one) == moving(shape, other) or 0 in shape


def between(have: Layout, want: Layout) -> Layout:
    """Return the permutation that makes one layout from another."""
    return tuple(have.index(axis) for axis in want)


def through_transpose(layout: Layout, permutation: Layout) -> Layout:
    """Return the layout of a transposed value that is stored as the value it is made of."""
    return tuple(permutation.index(axis) for axis in layout)


def before_transpose(layout: Layout, permutation: Layout) -> Layout:
    """Return the layout of a value whose transposed value, stored alike, has a layout."""
    return tuple(permutation[axis] for axis in layout)


def through_reshape(source: Shape, target: Shape, layout: Layout) -> Layout | None:
    """Return the layout in which a reshaped value is stored like the value it is made of."""
    groups = _groups(source, target)
    if groups is None:
        return None
    stored = moving(source, layout)
    group_of = {axis: index for index, (axes, _) in enumerate(groups) for axis in axes}
    order: list[int] = []
    position = 0
    while position < len(stored):
        axes, made = groups[group_of[stored[position]]]
        if stored[position : position + len(axes)] != axes:
            return None
        order += made
        position += len(axes)
    for axis, extent in enumerate(target):
        if extent == 1:
            # An axis of one element stands behind the one before it.
            order.insert(order.index(axis - 1) + 1 if axis else 0, axis)
    return tuple(order)


def _groups(source: Shape, target: Shape) -> list[tuple[tuple[int, ...], tuple[int, ...]]] | None:
    """Return which axes together become which, without those of one element."""
    if 0 in source:
        return None
    ins = [axis for axis, extent in enumerate(source) if extent != 1]
    outs = [axis for axis, extent in enumerate(target) if extent != 1]
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    i = o = 0
    while i < len(ins) and o < len(outs):
        first_i, first_o = i, o
        have, made = source[ins[i]], target[outs[o]]
        i, o = i + 1, o + 1
        while have != made:
            if have < made:
                if i == len(ins):
                    return None
                have, i = have * source[ins[i]], i + 1
            else:
                if o == len(outs):
                    return None
                made, o = made * target[outs[o]], o + 1
        groups.append((tuple(ins[first_i:i]), tuple(outs[first_o:o])))
    return groups if i == len(ins) and o == len(outs) else None


def reduced(layout: Layout, axes: tuple[int, ...]) -> Layout:
    """Return the layout that is left when axes are taken away."""
    kept = sorted(axis for axis in layout if axis not in axes)
    return tuple(kept.index(axis) for axis in layout if axis not in axes)


def widened(layout: Layout, rank: int) -> Layout:
    """Return the layout of a value that has been given leading axes of one element, up to a rank."""
    more = rank - len(layout)
    return (*range(more), *(axis + more for axis in layout))


def narrowed(layout: Layout, rank: int) -> Layout:
    """Return the order in which the last axes of a value, so many, stand in a layout."""
    less = len(layout) - rank
    return tuple(axis - less for axis in layout if axis >= less)


def elements(shape: Shape) -> int:
    """Return how many elements a shape has."""
    return math.prod(shape)


def permuted(numbers: Any, layout: Layout) -> tuple[Any, ...]:
    """Return what is said of every axis in the order in which the axes are stored."""
    return tuple(numbers[axis] for axis in layout)


def permuted_pairs(numbers: Any, layout: Layout) -> tuple[Any, ...]:
    """Return begins and then ends of every axis in the order in which the axes are stored."""
    rank = len(layout)
    return (*permuted(numbers[:rank], layout), *permuted(numbers[rank:], layout))
