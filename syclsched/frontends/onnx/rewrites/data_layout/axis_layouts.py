# SPDX-License-Identifier: Apache-2.0
"""Storage layouts of values as axis permutations, and their propagation through nodes.

A layout is the permutation by which the stored value is transposed: ``(0, 1, 2, 3)`` is the value itself, and
``(0, 2, 3, 1)`` an image with channels last. Layouts that differ only in the positions of axes of extent 1 store the
elements in the same order.
"""

from __future__ import annotations

from typing import Any

Layout = tuple[int, ...]
Shape = tuple[int, ...]


def identity_layout(rank: int) -> Layout:
    """Return the identity layout."""
    return tuple(range(rank))


def channels_last(rank: int) -> Layout:
    """Return the layout with axis 1 at the end."""
    return (0, *range(2, rank), 1) if rank > 1 else identity_layout(rank)


def stored_shape(shape: Shape, layout: Layout) -> Shape:
    """Return the shape of the stored value."""
    return tuple(shape[axis] for axis in layout)


def significant_axes(shape: Shape, layout: Layout) -> Layout:
    """Return a layout without the axes of extent 1."""
    return tuple(axis for axis in layout if shape[axis] != 1)


def same_element_order(shape: Shape, one: Layout, other: Layout) -> bool:
    """Return whether two layouts give the same element order."""
    return significant_axes(shape, one) == significant_axes(shape, other) or 0 in shape


def permutation_between(have: Layout, want: Layout) -> Layout:
    """Return the permutation that converts one layout to another."""
    return tuple(have.index(axis) for axis in want)


def through_transpose(layout: Layout, permutation: Layout) -> Layout:
    """Return the layout in which a transposed value is stored identically to its source."""
    return tuple(permutation.index(axis) for axis in layout)


def before_transpose(layout: Layout, permutation: Layout) -> Layout:
    """Return the layout of the source for which the identically stored transposed value has the given layout."""
    return tuple(permutation[axis] for axis in layout)


def through_reshape(source: Shape, target: Shape, layout: Layout) -> Layout | None:
    """Return the layout in which a reshaped value is stored identically to its source; None if there is none."""
    groups = _groups(source, target)
    if groups is None:
        return None
    stored = significant_axes(source, layout)
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
            # An axis of extent 1 follows its predecessor.
            order.insert(order.index(axis - 1) + 1 if axis else 0, axis)
    return tuple(order)


def _groups(source: Shape, target: Shape) -> list[tuple[tuple[int, ...], tuple[int, ...]]] | None:
    """Return the groups of source axes and the target axes each becomes, without axes of extent 1."""
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
    """Return the layout without the given axes, which are removed from the value."""
    kept = sorted(axis for axis in layout if axis not in axes)
    return tuple(kept.index(axis) for axis in layout if axis not in axes)


def extended_layout(layout: Layout, rank: int) -> Layout:
    """Return the layout of a value extended with leading axes of extent 1 to a rank."""
    more = rank - len(layout)
    return (*range(more), *(axis + more for axis in layout))


def trailing_layout(layout: Layout, rank: int) -> Layout:
    """Return the layout of the last ``rank`` axes."""
    less = len(layout) - rank
    return tuple(axis - less for axis in layout if axis >= less)


def permuted(numbers: Any, layout: Layout) -> tuple[Any, ...]:
    """Return per-axis numbers in storage order."""
    return tuple(numbers[axis] for axis in layout)


def permuted_pairs(numbers: Any, layout: Layout) -> tuple[Any, ...]:
    """Return per-axis numbers, all begins and then all ends, in storage order."""
    rank = len(layout)
    return (*permuted(numbers[:rank], layout), *permuted(numbers[rank:], layout))
