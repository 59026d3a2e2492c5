# SPDX-License-Identifier: Apache-2.0
"""Importers of Slice, Split, Concat and Pad."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from syclsched.frontends.onnx.importing.equal_extents import with_extent
from syclsched.frontends.onnx.importing.extents import (
    Extent,
    Number,
    bounded,
    formula,
    is_length,
    numbers,
    value_needed,
    with_lengths,
)
from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.lengths import Length, LengthError
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.window_parameters import crop_negative_pads
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

_ZERO: Final = ("const", 0, "int64")
#: Elements of a slice in steps of 0.
_ENDLESS: Final = 1 << 60
#: Ends that mean the end of the axis in either direction, as for ONNX Runtime.
_WHOLE: Final = (1 << 31) - 1, (1 << 63) - 1


def _integer(value: int) -> Any:
    return ("const", value, "int64")


@imports("Slice")
def _slice_of(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Slice; its parameters are attributes before opset 10, then inputs."""
    x = inputs.required(0, "data")
    shape = b.shape(x)
    starts: Sequence[Number]
    ends: Sequence[Number]
    steps: Sequence[Number] | None = None
    if b.opset < 10:
        starts, ends = node.integers_or("starts"), node.integers_or("ends")
        axes = node.integers("axes")
    else:
        first = _first_elements(b, x, inputs)
        if first is not None:
            return [first]
        starts = numbers(b, inputs.required(1, "starts"), "the starts")
        ends = numbers(b, inputs.required(2, "ends"), "the ends")
        axes_name, steps_name = inputs.optional(3), inputs.optional(4)
        axes = None if axes_name is None else b.integers(axes_name, "the axes")
        steps = None if steps_name is None else numbers(b, steps_name, "the steps")
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise b.wrong(f"{len(starts)} starts, {len(ends)} ends, {len(axes)} axes and {len(steps)} steps")
    firsts, extents, strides = [0] * len(shape), list(shape), [1] * len(shape)
    b.axes(axes, len(shape))
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        at = b.axis(axis, len(shape))
        if step == 0:
            raise b.wrong("a step is 0")
        if (
            isinstance(start, str)
            or isinstance(end, str)
            or isinstance(step, str)
            or _needs_length(b, x, at, start, end, step)
        ):
            x = _open_slice(b, x, at, start, end, step)
            extents[at] = b.shape(x)[at]
            continue
        if step < 0 and shape[at]:
            start = max(start, -shape[at])  # unlike in Python, a start before the first element means the first
        if step < 0 and end in _WHOLE:
            end = -shape[at] - 1
        places = range(*slice(start, end, step).indices(shape[at]))
        if b.observed is not None:
            bounded(b, len(places), f"the slice of axis {at}")
        # For ends below -n and negative steps, ONNX has Python's rule: clamp to just before the first element.
        firsts[at], extents[at], strides[at] = (places[0], len(places), step) if places else (0, 0, 1)
    return [b.slice(x, firsts, extents, strides)]


def _needs_length(b: NetworkBuilder, x: str, axis: int, start: int, end: int, step: int) -> bool:
    """Return whether a slice is more than the first elements, of an axis whose length is known only at run time."""
    return b.length_along(x, axis) is not None and ((start, step) != (0, 1) or end < 0)


def _open_slice(
    b: NetworkBuilder, x: str, axis: int, start: Number, end: Number, step: Number, most: int | None = None
) -> str:
    """Return the part of a value along an axis, where bounds or its length are known only at run time.

    It has at most as many elements as there are, or as given.
    """
    n, length = b.shape(x)[axis], b.length_along(x, axis)
    what = f"the slice of axis {axis}"
    if not n:
        return x
    if start == 0 and step == 1 and length is None and isinstance(end, str) and is_length(b, end):
        extent = bounded(b, end, what)
        if extent.bound <= n:  # the first elements, as many as another value has: no element for each of its values
            return with_lengths(b, b.part(x, axis, 0, extent.bound), axis, extent)
    given = list(dict.fromkeys(each for each in (start, end, length, step) if isinstance(each, str)))
    at = {each: i for i, each in enumerate(given)}
    one = _integer(1)
    whole: Any = _integer(n) if length is None else at[length]
    stride: Any = _integer(step) if isinstance(step, int) else at[step]

    def by_way(forwards: Any, backwards: Any) -> Any:
        """Return one of two expressions by the sign of the step."""
        if isinstance(step, int):
            return forwards if step > 0 else backwards
        return ("where", ("less", stride, _ZERO), backwards, forwards)

    def place(number: Number, least: Any) -> Any:
        """Return the expression of a bound, from the front and within the axis."""
        given: Any = _integer(max(-(1 << 62), min(number, 1 << 62))) if isinstance(number, int) else at[number]
        return ("min", ("max", ("where", ("less", given, _ZERO), ("add", given, whole), given), least), last)

    last = by_way(whole, ("sub", whole, one))
    begin, stop = place(start, _ZERO), place(end, by_way(_ZERO, _integer(-1)))
    if isinstance(end, str):
        is_whole = ("or", *(("equal", at[end], _integer(each)) for each in _WHOLE))
        stop = by_way(stop, ("where", is_whole, _integer(-1), stop))
    elif end in _WHOLE:
        stop = by_way(stop, _integer(-1))
    span = by_way(("sub", stop, begin), ("sub", begin, stop))
    size = _integer(abs(step)) if isinstance(step, int) else ("max", ("abs", stride), one)
    expression: Any = ("max", ("div", ("add", span, ("sub", size, one)), size), _ZERO)
    if isinstance(step, str):  # a step of 0 is beyond all bounds: a further import refuses it
        expression = ("where", ("equal", stride, _ZERO), _integer(_ENDLESS), expression)
    count = b.elementwise(expression, *given, dtype="int64")
    known = is_length(b, count)
    if most is None:
        most = n if isinstance(step, str) else -(-n // abs(step))
    extent = bounded(b, count, what) if known or isinstance(step, str) else bounded(b, count, what, most=most)
    first = b.elementwise(begin, *given, shape=(), dtype="int64")
    way = stride if isinstance(step, int) else 1
    picked = ("add", ("mul", ("index", -1), way), 0)
    places = ("min", ("max", picked, _ZERO), _integer(n - 1))
    lengths = b.lengths.pop(x, ())
    b.give_lengths(x, [each for each in lengths if each.axis != axis])
    more = [step] if isinstance(step, str) else []
    indices = b.elementwise(places, first, *more, shape=(extent.bound,), dtype="int64")
    made = b.gather(x, indices, axis)
    b.give_lengths(x, lengths)
    return with_lengths(b, made, axis, extent)


def _first_elements(b: NetworkBuilder, x: str, inputs: Inputs) -> str | None:
    """Return the first elements along an axis, as many as follows from floating-point inputs at run time.

    None for other slices: the values of integers, which decide them, repeat, and a plan for each value is faster.
    """
    starts, ends = inputs.required(1, "starts"), inputs.required(2, "ends")
    axes, steps = inputs.optional(3), inputs.optional(4)
    is_floating = any(b.dtype(each) in FLOATS for each in b.sources(ends))
    is_first = all(
        name is None or (b.known(name) is not None and b.integers(name, "the bounds") == (wanted,))
        for name, wanted in ((starts, 0), (steps, 1))
    )
    if not is_floating or not is_first or x in b.lengths or ends in b.lengths or math.prod(b.shape(ends)) != 1:
        return None
    shape = b.shape(x)
    axis = b.axis(0 if axes is None else b.integer(axes, "the axes"), len(shape))
    kind = b.dtype(ends)
    extent, zero = ("const", shape[axis], kind), ("const", 0, kind)
    from_front = ("where", ("less", 0, zero), ("add", 0, extent), 0)
    most = ("cast", "int64", ("min", ("max", from_front, zero), extent))
    count = b.elementwise(most, b.reshape(ends, ()), dtype="int64")
    made = b.emit("reshape", [x], shape=shape)
    b.give_lengths(made, [Length(axis, count)])
    return made


@imports("Split")
def _split(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Split; the sizes are an attribute before opset 13, then an input; by default they are equal."""
    x, sizes_name = inputs.required(0, "input"), inputs.optional(1)
    shape = b.shape(x)
    axis = b.axis(node.integer("axis"), len(shape))
    if b.length_along(x, axis) is not None or (sizes_name is not None and b.known(sizes_name) is None):
        return _open_split(b, node, x, axis, sizes_name)
    sizes = node.integers("split") if sizes_name is None else b.integers(sizes_name, "the sizes")
    if not sizes:
        count = node.integer("num_outputs", len(node.outputs))
        chunk = -(-shape[axis] // count) if count > 0 else 0
        if count < 1 or (b.opset < 18 and shape[axis] % count):
            raise b.wrong(f"axis {axis} of {shape} cannot be split into {count} equal parts")
        sizes = tuple(min(chunk, max(shape[axis] - i * chunk, 0)) for i in range(count))
    if sum(sizes) != shape[axis] or min(sizes) < 0 or len(sizes) < len(node.outputs):
        raise b.wrong(f"parts {sizes} of axis {axis} of {shape}, for {len(node.outputs)} outputs")
    if sizes_name is not None and b.observed is not None:
        for number in numbers(b, sizes_name, "the sizes"):
            bounded(b, number, f"the slice of axis {axis}")
    parts: list[str | None] = []
    start = 0
    for size, name in zip(sizes, node.outputs, strict=False):
        parts.append(b.part(x, axis, start, size) if name else None)
        start += size
    return parts


def _open_split(b: NetworkBuilder, node: ModelNode, x: str, axis: int, sizes_name: str | None) -> Names:
    """Return the parts of an axis, whose sizes or whose length are known only at run time."""
    n, length, count = b.shape(x)[axis], b.length_along(x, axis), node.integer("num_outputs", len(node.outputs))
    sizes: Sequence[Number] = node.integers_or("split")
    if sizes_name is not None:
        sizes = numbers(b, sizes_name, "the sizes")
    if not sizes:  # as many in each part but the last
        share = ("div", ("add", 0, ("const", count - 1, "int64")), ("const", count, "int64"))
        chunk = b.elementwise(share, length or "", dtype="int64")
        ends: list[Number] = [0, *(b.elementwise(("mul", 0, _integer(i)), chunk) for i in range(1, count + 1))]
        most = [-(-n // count)] * count
    else:
        ends = [0]
        for size in sizes:
            ends.append(_added(b, ends[-1], size))
        most = [size if isinstance(size, int) else n for size in sizes]
        if length is None and isinstance(ends[-1], int) and (ends[-1] != n or min(most) < 0):
            raise b.wrong(f"parts {tuple(sizes)} of axis {axis} of {b.shape(x)}, for {len(node.outputs)} outputs")
    if length is None and isinstance(ends[-1], str) and b.observed is not None:
        b.guard(ends[-1], f"{b.node_name}: the sum of the sizes", n, n)
    if length is not None and isinstance(ends[-1], int):
        if b.observed is None or not 0 <= min(most) <= ends[-1] <= n:
            raise LengthError("parts of fixed sizes of an axis whose length is known only at run time", where=b.place())
        x, length = with_extent(b, x, axis, ends[-1]), None
    if len(most) < len(node.outputs):
        raise b.wrong(f"{len(most)} parts for {len(node.outputs)} outputs")
    parts: list[str | None] = []
    for name, start, end, bound in zip(node.outputs, ends, ends[1:], most, strict=False):
        if not name:
            parts.append(None)
        elif length is None and isinstance(start, int) and isinstance(end, int):
            parts.append(b.part(x, axis, start, end - start))
        else:
            parts.append(_open_slice(b, x, axis, start, end, 1, bound))
    return parts


def _added(b: NetworkBuilder, *given: Number) -> Number:
    open_ones = [each for each in given if isinstance(each, str)]
    fixed = sum(each for each in given if isinstance(each, int))
    if not open_ones:
        return fixed
    return b.elementwise(("add", *range(len(open_ones)), ("const", fixed, "int64")), *open_ones, dtype="int64")


@imports("Concat")
def _concat(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    values = inputs.all("inputs_")
    axis = b.axis(node.integer("axis"), len(b.shape(values[0])))
    if len({len(b.shape(value)) for value in values}) > 1:
        raise b.wrong(f"shapes {', '.join(str(b.shape(v)) for v in values)} cannot be joined along axis {axis}")
    if len(values) > 1 and any(b.length_along(value, axis) is not None for value in values):
        beside = {(*b.shape(value)[:axis], *b.shape(value)[axis + 1 :]) for value in values}
        if len(beside) == 1:  # else the check of the shapes reports the error
            values = [value for value in values if b.shape(value)[axis]] or values[:1]
        return [_open_concat(b, values, axis) if len(values) > 1 else values[0]]
    return [b.concat(values, axis)]


def _open_concat(b: NetworkBuilder, values: Sequence[str], axis: int) -> str:
    """Return values joined along an axis, of which some have a length along it."""
    extents = [Extent(b.shape(value)[axis], b.length_along(value, axis)) for value in values]
    whole = []
    for value in values:
        made = b.with_all(value, b.shape(value)) if value in b.lengths else value
        b.give_lengths(made, [each for each in b.lengths.get(value, ()) if each.axis != axis])
        whole.append(made)
    counts = [each.count for each in extents if each.count is not None]
    fixed = sum(each.bound for each in extents if each.count is None)
    count = formula(b, "add", fixed, counts)
    most = sum(each.bound for each in extents)
    total = Extent(min(most, b.bounds.get(count, most)), count)
    if len(values) == 2 and extents[0] == Extent(total.bound, extents[0].count) and counts[0] == extents[0].count:
        is_fixed = extents[1].count is None
        written = _written(b, values[0], whole, axis, counts[0]) if is_fixed else None
        return with_lengths(b, written or _appended(b, whole[0], whole[1], axis, total, counts[0]), axis, total)
    given = list(dict.fromkeys(counts))
    sums: list[Any] = []  # where each value ends
    for each in extents:
        extent = ("const", each.bound, "int64") if each.count is None else given.index(each.count)
        sums.append(extent if not sums else ("add", sums[-1], extent))
    place: Any = ("index", -1)
    bounds = [sum(each.bound for each in extents[: i + 1]) for i in range(len(extents))]
    found: Any = ("add", ("sub", place, sums[-2]), ("const", bounds[-2], "int64"))
    for i in range(len(extents) - 2, -1, -1):
        own = place if i == 0 else ("add", ("sub", place, sums[i - 1]), ("const", bounds[i - 1], "int64"))
        found = ("where", ("less", place, sums[i]), own, found)
    found = ("min", found, ("const", max(bounds[-1] - 1, 0), "int64"))
    indices = b.elementwise(found, *given, shape=(total.bound,), dtype="int64")
    return with_lengths(b, b.gather(b.concat(whole, axis), indices, axis), axis, total)


def _written(b: NetworkBuilder, cache: str, values: Sequence[str], axis: int, count: str) -> str | None:
    """Return a value that is carried from call to call with rows written into it, behind as many as there are.

    None for other values.
    """
    shape, rows = b.shape(cache), b.shape(values[1])
    if cache not in b.carried or len(shape) not in (3, 4) or axis != len(shape) - 2:
        return None
    if any(each in b.lengths for each in values) or b.dtype(values[1]) != b.dtype(cache):
        return None
    parts = [
        b.reshape(each, (n[0], *(1,) * (4 - len(n)), *n[1:])) for each, n in zip(values, (shape, rows), strict=True)
    ]
    starts = b.elementwise(0, count, shape=shape[:1])
    return b.reshape(b.emit("cache_write", [*parts, starts], circular=False), shape)


def _appended(b: NetworkBuilder, x: str, rows: str, axis: int, total: Extent, count: str) -> str:
    """Return a value with rows after its first ones, as many as its length; there is room for them."""
    n, place = b.shape(rows)[axis], ("index", axis - len(b.shape(x)))
    if n > 1:
        behind = ("min", ("max", ("sub", ("index", -1), 0), _ZERO), ("const", n - 1, "int64"))
        rows = b.gather(rows, b.elementwise(behind, count, shape=(total.bound,), dtype="int64"), axis)
    return b.elementwise(("where", ("less", place, 2), 0, 1), x, rows, count, shape=b.shape(x))


@imports("Pad")
def _pad(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Pad; its parameters are attributes before opset 11, then inputs; negative pads crop."""
    x = inputs.required(0, "data")
    shape = b.shape(x)
    rank = len(shape)
    value: float = 0
    pads: Sequence[Number]
    if b.opset < 11:
        pads, value = node.integers_or("pads"), node.number("value", 0.0)
    else:
        pads = numbers(b, inputs.required(1, "pads"), "the margins")
        value_name, axes_name = inputs.optional(2), inputs.optional(3)
        if value_name is not None:
            number = b.require(value_name, "the value of a margin").reshape(-1)
            if number.size:
                value = number[0].item()
        if axes_name is not None:
            axes = b.integers(axes_name, "the axes")
            if len(pads) != 2 * len(axes):
                raise b.wrong(f"{len(pads)} margins for {len(axes)} axes")
            b.axes(axes, rank)
            spread: list[Number] = [0] * (2 * rank)
            for i, axis in enumerate(axes):
                at = b.axis(axis, rank)
                spread[at], spread[at + rank] = pads[i], pads[i + len(axes)]
            pads = spread
    if len(pads) != 2 * rank:
        raise b.wrong(f"{len(pads)} margins for {rank} dimensions")
    mode = node.text("mode", "constant")
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise b.wrong(f"mode is {mode!r}, expected constant, reflect, edge or wrap")
    return [_padded(b, x, pads, mode, value)]


def _padded(b: NetworkBuilder, x: str, pads: Sequence[Number], mode: str, value: float) -> str:
    """Return a value with margins; first those of known widths."""
    rank = len(b.shape(x))
    for axis, n in enumerate(b.shape(x)):
        begin, end = pads[axis], pads[axis + rank]
        if b.observed is not None and isinstance(begin, int) and isinstance(end, int) and x not in b.lengths:
            bounded(b, n + begin + end, f"the margins of axis {axis}")
    open_axes = [
        axis
        for axis, (begin, end) in enumerate(zip(pads[:rank], pads[rank:], strict=True))
        if isinstance(begin, str) or isinstance(end, str) or ((begin or end) and b.length_along(x, axis) is not None)
    ]
    known = tuple(n if isinstance(n, int) and i % rank not in open_axes else 0 for i, n in enumerate(pads))
    x, known = crop_negative_pads(b, x, known)
    if mode != "constant" and any(n == 0 and known[i] + known[i + rank] for i, n in enumerate(b.shape(x))):
        raise b.wrong(f"{b.shape(x)} has no elements to fill a margin with")
    x = b.pad(x, known, mode, value)
    for axis in open_axes:
        x = _open_pad(b, x, axis, pads[axis], pads[axis + rank], mode, value)
    return x


def _open_pad(b: NetworkBuilder, x: str, axis: int, begin: Number, end: Number, mode: str, value: float) -> str:
    """Return a value with margins along an axis, where their widths or its length are known only at run time."""
    n, rank, length = b.shape(x)[axis], len(b.shape(x)), b.length_along(x, axis)
    given = [each for each in (begin, end, length) if isinstance(each, str)]
    if not n:
        raise value_needed(b, given[0], "the margins")
    at = {each: i for i, each in enumerate(given)}
    first, last = (("const", each, "int64") if isinstance(each, int) else at[each] for each in (begin, end))
    whole: Any = ("const", n, "int64") if length is None else at[length]
    total = b.elementwise(("add", whole, first, last), *given, dtype="int64")
    most = n + max(begin, 0) + max(end, 0) if isinstance(begin, int) and isinstance(end, int) else None
    extent = bounded(b, total, f"the margins of axis {axis}", most=most)

    def place(index: int) -> Any:
        """Return the expression of an element's index in the value, which may be in a margin."""
        return ("sub", ("index", index), first)

    final = ("sub", whole, ("const", 1, "int64"))
    near = ("min", ("max", place(-1), _ZERO), final)
    if mode != "constant":
        near = _repeated(mode, whole, first, last)
    indices = b.elementwise(near, *given, shape=(extent.bound,), dtype="int64")
    made = b.gather(x, indices, axis)
    if mode == "constant":
        shifted = _shifted(place(axis - rank))
        inside = ("and", ("less_equal", _ZERO, shifted), ("less_equal", shifted, _shifted(final)))
        lengths = b.lengths.get(made, ())
        whole_made = b.with_all(made, b.shape(made))
        made = b.elementwise(("where", inside, 0, ("const", value, b.dtype(x))), whole_made, *given)
        b.give_lengths(made, lengths)
    return with_lengths(b, made, axis, extent)


def _repeated(mode: str, whole: Any, first: Any, last: Any) -> Any:
    """Return the place of each element of an axis whose margins repeat elements; negative margins crop before."""
    one, cropped = ("const", 1, "int64"), ("max", ("neg", first), _ZERO)
    final = ("sub", ("sub", ("sub", whole, cropped), ("max", ("neg", last), _ZERO)), one)
    place: Any = ("sub", ("index", -1), ("max", first, _ZERO))
    if mode == "edge":
        place = ("min", ("max", place, _ZERO), final)
    elif mode == "wrap":
        place = ("mod", place, ("max", ("add", final, one), one))
    else:  # back and forth without the last element twice
        period = ("max", ("mul", ("const", 2, "int64"), final), one)
        place = ("sub", final, ("abs", ("sub", ("mod", place, period), final)))
    return ("max", ("add", place, cropped), _ZERO)


def _shifted(expression: Any) -> Any:
    """Return an expression for inputs that stand one place later."""
    if isinstance(expression, int):
        return expression + 1
    name, *rest = expression
    if name in ("const", "index"):
        return expression
    return (name, *map(_shifted, rest))
