# SPDX-License-Identifier: Apache-2.0
"""Importers of Reshape and Flatten, also for extents that are known only at run time.

The elements of an array with lengths are not contiguous. Where a reshape joins or parts an axis of a length, or its
extents follow from values, each element of the result is picked by its place.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from syclsched.frontends.onnx.importing.equal_extents import assume
from syclsched.frontends.onnx.importing.extents import (
    Extent,
    Number,
    bounded,
    bounds_of,
    extents_of,
    formula,
    is_bounded,
    is_length,
    is_positive,
    is_same,
    numbers,
    root_of,
    scalar_of,
    value_needed,
    with_extents,
)
from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.lengths import Length, LengthError
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

#: Elements up to which an array with upper bounds may be larger than it was, and how many times as large beyond.
_SMALL: Final = 1 << 14
_MOST: Final = 4


@imports("Reshape")
def _reshape(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Reshape: 0 keeps an extent, -1 is inferred."""
    x, name = inputs.required(0, "data"), inputs.required(1, "shape")
    given, keeps = numbers(b, name, "the shape"), not node.flag("allowzero")
    shape = b.shape(x)
    if x in b.lengths:
        return [_open_reshape(b, x, given, keeps=keeps)]
    if any(isinstance(each, str) for each in given):
        return [_reshaped_by_values(b, x, name, given, keeps=keeps)]
    wanted = tuple(each for each in given if isinstance(each, int))
    extents = list(wanted)
    if keeps:
        for axis, extent in enumerate(wanted):
            if extent == 0:
                if axis >= len(shape):
                    raise b.wrong(f"shape {wanted} keeps axis {axis}, which {shape} does not have")
                extents[axis] = shape[axis]
    if extents.count(-1) > 1 or any(n < -1 for n in extents):
        raise b.wrong(f"{wanted} is no shape")
    if -1 in extents:
        rest = math.prod(n for n in extents if n != -1)
        total = math.prod(shape)
        if rest == 0 or total % rest:
            raise b.wrong(f"{shape} cannot be reshaped to {wanted}")
        extents[extents.index(-1)] = total // rest
    for axis, extent in enumerate(extents):
        bounded(b, extent, _extent(axis))
    return [b.reshape(x, tuple(extents))]


def _extent(axis: int) -> str:
    return f"the shape, extent {axis}"


@imports("Flatten")
def _flatten(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x = inputs.required(0, "input")
    shape = b.shape(x)
    axis = node.integer("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise b.wrong(f"there is no axis {axis} in {len(shape)} dimensions")
    axis = axis + len(shape) if axis < 0 else axis
    if x in b.lengths:
        before = extents_of(b, x)
        return [_regrouped(b, x, [_product(b, _size(b, each)) for each in (before[:axis], before[axis:])])]
    return [b.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))]


def _reshaped_by_values(b: NetworkBuilder, x: str, name: str, given: Sequence[Number], *, keeps: bool) -> str:
    """Return a value of fixed shape reshaped to extents of which some follow from values."""
    shape, total = b.shape(x), math.prod(b.shape(x))
    if not total:
        raise value_needed(b, name, "the shape")
    used = [each for each in given if isinstance(each, str)]
    resolved: list[Any] = []  # expressions; -1 where an extent is to be inferred
    for axis, number in enumerate(given):
        one = _constant(number) if isinstance(number, int) else used.index(number)
        if keeps and axis < len(shape) and not is_positive(b, "the shape", axis):
            one = ("where", ("equal", one, _constant(0)), _constant(shape[axis]), one)
        resolved.append(one)
    rest: Any = _constant(1)
    for one in resolved:
        rest = ("mul", rest, ("where", ("equal", one, _constant(-1)), _constant(1), one))
    inferred = ("div", _constant(total), ("max", rest, _constant(1)))
    extents, whole = [], _constant(1)
    for axis, (number, one) in enumerate(zip(given, resolved, strict=True)):
        found: Any = ("where", ("equal", one, _constant(-1)), inferred, one)
        whole = ("mul", whole, found)
        if isinstance(number, int) and number != -1:
            extents.append(Extent(number or shape[axis]))
        elif isinstance(number, str) and is_positive(b, "the shape", axis):
            extents.append(bounded(b, number, _extent(axis), most=total))
        else:
            extents.append(bounded(b, b.elementwise(found, *used, dtype="int64"), _extent(axis), most=total))
    b.guard(b.elementwise(whole, *used, dtype="int64"), f"{b.node_name}: the elements of the shape", total, total)
    if math.prod(bounds_of(extents)) > max(_MOST * total, _SMALL):
        raise value_needed(b, name, "the shape, whose extents vary much,")
    return _regrouped(b, x, extents)


def _constant(value: int) -> Any:
    return ("const", value, "int64")


def _open_reshape(b: NetworkBuilder, x: str, given: Sequence[Number], *, keeps: bool) -> str:
    """Return a value with lengths reshaped."""
    before = extents_of(b, x)

    def wanted(is_known: Callable[[NetworkBuilder, Number], bool]) -> list[Extent | None]:
        """Return the requested extents; None for inferred ones."""
        found: list[Extent | None] = []
        for axis, number in enumerate(given):
            if number == 0 and keeps and axis < len(before):
                found.append(before[axis])
            elif isinstance(number, int):
                found.append(None if number == -1 else Extent(number))
            else:
                found.append(bounded(b, number, _extent(axis)) if is_known(b, number) else None)
        return found

    try:
        return _contiguous(b, x, wanted(is_length))
    except LengthError:
        given_extents = wanted(is_bounded)
        extents = _by_size(b, before, given_extents)
        if extents is None:
            extents = _assumed(b, before, given_extents)
        if extents is None:
            raise
    return _regrouped(b, x, extents)


def _assumed(b: NetworkBuilder, before: Sequence[Extent], found: Sequence[Extent | None]) -> list[Extent] | None:
    """Return extents of a reshape of which runs check that they fit the number of elements; None if some are unknown.

    All are known, or one is inferred.
    """
    known = [each for each in found if each is not None]
    total = math.prod(bounds_of(known))
    size = _product(b, _size(b, before))
    is_open = b.observed is None or found.count(None) > 1 or any(each.count is not None for each in known)
    if is_open or size.count is None or not 0 < total <= size.bound:
        return None
    if None not in found:
        assume(b, size.count, "the elements of the shape", total)
        return known
    rows = b.elementwise(("div", 0, _constant(total)), size.count)
    assume(b, b.elementwise(("mod", 0, _constant(total)), size.count), "the elements beyond the shape", 0)
    return [Extent(size.bound // total, rows) if each is None else each for each in found]


def _contiguous(b: NetworkBuilder, x: str, found: Sequence[Extent | None]) -> str:
    """Return a value reshaped, where the elements of the whole array keep their order."""
    total = math.prod(b.shape(x))
    rest = math.prod(each.bound for each in found if each is not None)
    if found.count(None) > 1 or not rest or total % rest or (None not in found and total != rest):
        raise LengthError("a reshape of axes whose lengths are known only at run time", where=b.place())
    whole = [Extent(total // rest) if each is None else each for each in found]
    made = bounds_of(whole)
    lengths = {}
    for length in b.lengths.get(x, ()):
        axis, count = _reshaped_length(b, x, length, made)
        wanted = found[axis]
        if wanted is not None and (wanted.count is None or not is_same(b, wanted.count, count)):
            raise LengthError("a reshape parts the axis whose length is known only at run time", where=b.place())
        lengths[axis] = Length(axis, count if wanted is None or wanted.count is None else wanted.count)
    if any(each is not None and each.count is not None and axis not in lengths for axis, each in enumerate(found)):
        raise LengthError("a reshape to an extent that is known only at run time", where=b.place())
    result = b.with_all(x, made)
    b.give_lengths(result, lengths.values())
    return result


def _reshaped_length(b: NetworkBuilder, x: str, length: Length, made: tuple[int, ...]) -> tuple[int, str]:
    """Return along which axis of a new shape a length is, and its count."""
    before = b.shape(x)
    extent, outer = before[length.axis], math.prod(before[: length.axis])
    places = [axis for axis, n in enumerate(made) if n > 1 and math.prod(made[:axis]) == outer]
    others = [each.axis for each in b.lengths[x] if each is not length]
    if len(places) == 1 and extent:
        (axis,) = places
        n = made[axis]
        is_joined = any(a > length.axis and math.prod(before[:a]) < outer * n for a in others)
        if n % extent == 0 and not is_joined:
            return axis, Extent(extent, length.count).times(b, n // extent).count or ""
        if extent % n == 0:  # whole lines count: else the numbers would not fill the shape
            return axis, b.elementwise(("div", 0, ("const", extent // n, "int64")), length.count)
    raise LengthError("a reshape joins the axis whose length is known only at run time with others", where=b.place())


# --- sizes: products of extents -------------------------------------------------------------------------

#: A factor, and the lengths by which it is multiplied.
_Size = tuple[int, "Counter[str]"]


def _size(b: NetworkBuilder, extents: Iterable[Extent]) -> _Size:
    """Return the number of elements of extents."""
    factor, roots = 1, Counter[str]()
    for each in extents:
        if each.count is None:
            factor *= each.bound
            continue
        root = root_of(b, each.count)
        if isinstance(root, int):
            factor *= root
            continue
        name, times = root
        formulas = (key for key, made in b.extent_formulas.items() if made == name and key[0] == "mul")
        _, inner, names = next(formulas, ("mul", (1,), (name,)))
        factor *= times * inner[0]
        roots.update(names)
    return factor, roots


def _product(b: NetworkBuilder, size: _Size) -> Extent:
    """Return the extent of an axis with this number of elements; the same value for the same size."""
    factor, roots = size
    names = tuple(sorted(roots.elements()))
    bound = factor * math.prod(b.bounds[name] for name in names)
    if len(names) < 2:
        return Extent(bound, scalar_of(b, names[0], factor) if names else None)
    return Extent(bound, formula(b, "mul", factor, names))


def _by_size(b: NetworkBuilder, before: Sequence[Extent], found: Sequence[Extent | None]) -> list[Extent] | None:
    """Return the extents of a reshape, an open one inferred; None if they may have another number of elements."""
    (total, roots), (rest, given) = _size(b, before), _size(b, [each for each in found if each is not None])
    if found.count(None) > 1 or not rest or total % rest or given - roots:
        return None
    left = total // rest, roots - given
    if None not in found and left != (1, Counter()):
        return None
    return [_product(b, left) if each is None else each for each in found]


# --- elements by their places ---------------------------------------------------------------------------


def _regrouped(b: NetworkBuilder, x: str, extents: Sequence[Extent]) -> str:
    """Return a value in another shape of the same number of elements, each picked by its index."""
    before, made = extents_of(b, x), bounds_of(extents)
    opened = [axis for axis, each in enumerate(before) if each.count is not None]
    within = max([axis + 1 for axis, each in enumerate(extents) if each.count is not None], default=0)
    behind = math.prod(b.shape(x)[opened[-1] + 1 :]) if opened else math.prod(b.shape(x))
    unit = math.gcd(math.prod(made[within:]), behind)  # elements that stay together
    if not unit:
        raise LengthError("a reshape of no elements", where=b.place())
    shape = (*made[:within], math.prod(made[within:]) // unit)
    counts = list(dict.fromkeys(each.count for each in (*before, *extents) if each.count is not None))
    inner: Any = _constant(shape[-1])
    place: Any = ("index", -1)
    for axis in reversed(range(within)):
        place = ("add", place, ("mul", ("index", axis - within - 1), inner))
        inner = ("mul", inner, _counted(extents[axis], counts))
    if opened:
        place = _place_within(before[: opened[-1] + 1], counts, place, behind // unit)
    rows = math.prod(b.shape(x)) // unit
    last = _constant(max(rows - 1, 0))
    indices = b.elementwise(("min", place, last), *counts, shape=shape, dtype="int64")
    picked = b.gather(b.with_all(x, (rows, unit)), indices)
    return with_extents(b, b.with_all(picked, made), extents)


def _place_within(before: Sequence[Extent], counts: Sequence[str], place: Any, behind: int) -> Any:
    """Return the index in an array for an index among its elements that count."""
    found: Any = ("mod", place, _constant(behind)) if behind > 1 else _constant(0)
    inner: Any = _constant(behind)
    stride = behind
    for axis, each in reversed(list(enumerate(before))):
        at: Any = ("div", place, ("max", inner, _constant(1)))
        extent = _counted(each, counts)
        if axis:
            at = ("mod", at, ("max", extent, _constant(1)))
        found = ("add", found, ("mul", at, _constant(stride)))
        inner, stride = ("mul", inner, extent), stride * each.bound
    return found


def _counted(extent: Extent, counts: Sequence[str]) -> Any:
    return _constant(extent.bound) if extent.count is None else counts.index(extent.count)
