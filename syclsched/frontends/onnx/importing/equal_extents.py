# SPDX-License-Identifier: Apache-2.0
"""Axes that must have equal extents, some known only at run time: runs check that their lengths are equal.

A value whose length must be another extent is cut or filled to that extent. A model for which the extents differ is
wrong: after a run beyond this assumption, an import with the inputs' values says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from syclsched.frontends.onnx.importing.lengths import Length, LengthBuilder, summed_axes

_ONE = ("const", 1, "int64")


class AssumingBuilder(LengthBuilder, Protocol):
    """Builder of a network, as far as assumptions of lengths need it."""

    observed: Any

    @property
    def node_name(self) -> str:
        """The name of the current node."""

    def guard(self, value: str, key: str, least: int | None, most: int, deciding: tuple[str, ...] = ()) -> None:
        """Let runs check that a number lies within these limits, as the network assumes."""

    def sources(self, name: str) -> tuple[str, ...]:
        """Return the network inputs that a value depends on."""

    def gather(self, x: str, indices: str, axis: int = 0) -> str:
        """Return the elements of a value at indices along an axis."""


def broadcast_alike(b: AssumingBuilder, inputs: Sequence[str]) -> list[str]:
    """Return inputs that are broadcast, with the same extent or 1 along each axis where some have lengths.

    A length of 1 is broadcast, too.
    """
    made: list[str | None] = [*inputs]
    ranks = [len(b.shape(each)) for each in inputs]
    for axis in range(-max(ranks), 0):
        made = _alike(b, made, [(i, rank + axis) for i, rank in enumerate(ranks) if rank + axis >= 0], broadcasts=True)
    return [each or "" for each in made]


def joined_alike(
    b: AssumingBuilder, kind: str, inputs: Sequence[str | None], attributes: Mapping[str, Any]
) -> list[str | None]:
    """Return the inputs of an operation with equal extents along the axes for which it requires that."""
    made = list(inputs)
    for places, broadcasts in _equal_axes(kind, [() if each is None else b.shape(each) for each in inputs], attributes):
        made = _alike(b, made, places, broadcasts=broadcasts)
    if kind in ("gather_elements", "scatter_elements"):
        _assume_within(b, made[0] or "", made[1] or "", attributes["axis"])
    return made


def _assume_within(b: AssumingBuilder, x: str, indices: str, axis: int) -> None:
    """Let runs check that indices along an axis are no more, along the others, than the elements that count."""
    for length in b.lengths.get(x, ()):
        if length.axis == axis or length.axis >= len(b.shape(indices)):
            continue
        most = b.length_along(indices, length.axis)
        limit: Any = ("const", b.shape(indices)[length.axis], "int64") if most is None else 1
        fits = ("cast", "int64", ("greater_equal", 0, limit))
        if most != length.count:
            assume(b, b.elementwise(fits, *filter(None, (length.count, most))), "the extents of its indices", 1)


def with_extents_of(b: AssumingBuilder, x: str, name: str | None) -> str:
    """Return a value with the extents, where these are known and not 1, of one that is broadcast to it."""
    shape = () if name is None or b.observed is None else b.shape(name)
    before = len(b.shape(x)) - len(shape)
    for axis, extent in enumerate(shape):
        if before + axis >= 0 and extent != 1 and b.length_along(name or "", axis) is None:
            x = with_extent(b, x, before + axis, extent)
    return x


def with_extent(b: AssumingBuilder, x: str, axis: int, extent: int, *, broadcasts: bool = False) -> str:
    """Return a value whose length along an axis must be a known extent, or 1 if it ``broadcasts``, with that extent."""
    count = b.length_along(x, axis)
    if count is None:
        return x
    same: Any = ("where", ("equal", 0, _ONE), ("const", extent, "int64"), 0) if broadcasts else 0
    assume(b, b.formula(f"extent {broadcasts}", (extent,), same, [count]), "its extents", extent)
    return _extended(b, x, Length(axis, count), extent, broadcasts=broadcasts)


def chosen_alike(b: AssumingBuilder, condition: str, yes: str, no: str) -> tuple[str, str] | None:
    """Return two values of which a condition chooses one, in arrays of the same extents and with the same lengths.

    The lengths are those of the chosen one; None if one has another number of axes, or no elements.
    """
    if len(b.shape(yes)) != len(b.shape(no)) or 0 in (*b.shape(yes), *b.shape(no)):
        return None
    for axis, extents in enumerate(zip(b.shape(yes), b.shape(no), strict=True)):
        counts = b.length_along(yes, axis), b.length_along(no, axis)
        if counts[0] == counts[1] and extents[0] == extents[1]:
            continue
        names = [each for each in counts if each is not None]
        numbers = [
            ("const", n, "int64") if count is None else 1 + names.index(count)
            for n, count in zip(extents, counts, strict=True)
        ]
        chosen = b.elementwise(("where", 0, *numbers), condition, *names, shape=(), dtype="int64")
        yes, no = (_with_length(b, each, axis, max(extents), chosen) for each in (yes, no))
    return yes, no


def _with_length(b: AssumingBuilder, x: str, axis: int, extent: int, count: str) -> str:
    """Return a value in an array of another extent along an axis, with this length."""
    others = [each for each in b.lengths.get(x, ()) if each.axis != axis]
    made = b.with_all(x, b.shape(x))
    b.give_lengths(made, others)
    bound = b.shape(x)[axis]
    if bound != extent:
        place = ("min", ("index", -1), ("const", bound - 1, "int64"))
        made = b.gather(made, b.elementwise(place, shape=(extent,), dtype="int64"), axis)
    b.give_lengths(made, (*others, Length(axis, count)))
    return made


#: Inputs by their places, each with one of its axes.
_Places = Sequence[tuple[int, int]]


def _equal_axes(
    kind: str, shapes: Sequence[tuple[int, ...]], attributes: Mapping[str, Any]
) -> Iterator[tuple[_Places, bool]]:
    """Yield the axes of inputs that must have equal extents, and whether they are broadcast."""
    ranks = [len(shape) for shape in shapes]
    if kind == "matmul":
        yield [*enumerate(summed_axes(kind, shapes, attributes))], False
        for axis in range(-max(ranks[:2]), -2):
            yield [(i, rank + axis) for i, rank in enumerate(ranks[:2]) if rank + axis >= 0], True
    elif kind == "concat":
        for axis in range(ranks[0]):
            if axis != attributes["axis"]:
                yield [(i, axis) for i in range(len(shapes))], False
    elif kind in ("batch_norm", "group_norm"):
        yield [(0, 1), *((i, 0) for i in range(1, len(shapes)))], False
    elif kind == "conv_transpose" or (kind == "conv" and attributes["groups"] == 1):
        yield [(0, 1), (1, 1 if kind == "conv" else 0)], False
    elif kind == "scatter_elements" and ranks[1] == ranks[2]:
        for axis in range(ranks[1]):
            yield [(1, axis), (2, axis)], False
    elif kind == "scatter_nd":
        for axis in range(min(ranks[1] - 1, ranks[2])):
            yield [(1, axis), (2, axis)], False


def assume(b: AssumingBuilder, number: str, what: str, value: int) -> None:
    """Let runs check that a number has the value that the network assumes."""
    b.guard(number, f"{b.node_name}: {what}", value, value, b.sources(number))


def _alike(b: AssumingBuilder, inputs: Sequence[str | None], places: _Places, *, broadcasts: bool) -> list[str | None]:
    """Return inputs with the same extent along an axis of each of some of them."""
    made = list(inputs)
    named = [(i, inputs[i] or "", axis) for i, axis in places]
    counts = [b.length_along(name, axis) for _, name, axis in named]
    extents = [b.shape(name)[axis] for _, name, axis in named]
    opened = [n for n, count in zip(extents, counts, strict=True) if count is not None]
    fixed = {n for n, count in zip(extents, counts, strict=True) if count is None and not (broadcasts and n == 1)}
    different = tuple(dict.fromkeys(count for count in counts if count is not None))
    if not different or len(different) + len(fixed) < 2 or len(fixed) > 1 or 0 in opened:
        return made
    for extent in fixed:
        if broadcasts or extent <= min(opened):
            for i, name, axis in named:
                made[i] = with_extent(b, name, axis, extent, broadcasts=broadcasts)
        return made
    extent, common = max(opened) if broadcasts else min(opened), _common(b, different, broadcasts=broadcasts)
    for (i, name, axis), count in zip(named, counts, strict=True):
        if count is not None:
            now = _extended(b, name, Length(axis, count), extent, broadcasts=broadcasts)
            b.give_lengths(now, (*b.lengths.get(now, ()), Length(axis, common)))
            made[i] = now
    return made


def _common(b: AssumingBuilder, counts: Sequence[str], *, broadcasts: bool) -> str:
    """Return the length that different ones must be the same as, or 1 where they are broadcast."""
    common = counts[0]
    if broadcasts:
        found: Any = 0
        for i in range(1, len(counts)):
            found = ("where", ("equal", found, _ONE), i, found)
        common = b.formula("common", (), found, counts)
    for count in counts:
        if count != common:
            same: Any = ("equal", 0, 1)
            if broadcasts:
                same = ("or", same, ("equal", 1, _ONE))
            number = b.formula(f"same {broadcasts}", (), ("cast", "int64", same), [common, count])
            assume(b, number, "its extents", 1)
    return common


def _extended(b: AssumingBuilder, x: str, length: Length, extent: int, *, broadcasts: bool) -> str:
    """Return a value with another extent along the axis of a length, and without this length."""
    made, bound = b.with_all(x, b.shape(x)), b.shape(x)[length.axis]
    b.give_lengths(made, [each for each in b.lengths[x] if each != length])
    if not broadcasts and bound == extent:
        return made
    place: Any = ("min", ("index", -1), ("const", bound - 1, "int64"))
    if broadcasts:
        place = ("where", ("equal", 0, _ONE), ("const", 0, "int64"), place)
    indices = b.elementwise(place, length.count, shape=(extent,), dtype="int64")
    return b.gather(made, indices, length.axis)
