# SPDX-License-Identifier: Apache-2.0
"""Values with lengths known only at run time: the axes these count, and the lengths of results of operations.

The array of such a value has the largest extents there can be, and for each axis of a length a value of its own says
how much of it counts. The elements beyond are arbitrary. So an operation that would mix them with others reads its
neutral element in their place (`neutral`), or is refused here, and the host computes it from arrays that are cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from syclsched.errors import ModelError
from syclsched.frontends.onnx.network import Value


@dataclass(frozen=True, slots=True)
class Length:
    """The length of a value along an axis."""

    axis: int  # that it counts
    count: str  # the value, a single integer, with the number of elements of this axis that count


#: The lengths of a value, at most one an axis.
Lengths = tuple[Length, ...]


class LengthError(ModelError):
    """An operation cannot be computed from arrays that are not cut to their lengths."""


#: Name of the input that has the extent of a dimension with buckets.
EXTENT_INPUT: Final = "extent of {}"


@dataclass(frozen=True, slots=True)
class CountedSum:
    """A further input whose number is how much of an axis there is after a call that appends to it."""

    number: int  # that is added
    counts: tuple[str, ...]  # further inputs that are added, too; first the existing length
    bound: int  # the largest there can be


@dataclass(frozen=True, slots=True)
class CountedAxes:
    """Axes of inputs of which a call fills a part, as much as further inputs say, each a single int64."""

    axes: Mapping[str, Mapping[int, str]]  # input -> axis -> the further input
    sums: Mapping[str, CountedSum] = field(default_factory=dict)  # by further input

    @property
    def extents(self) -> tuple[str, ...]:
        """The further inputs."""
        return tuple(dict.fromkeys([count for axes in self.axes.values() for count in axes.values()] + [*self.sums]))

    @property
    def growing(self) -> dict[str, tuple[int, str]]:
        """The inputs to which a call appends along an axis, and the further input that says how much there is then."""
        totals = {total.counts[0]: name for name, total in self.sums.items()}
        axes = [(name, axis, count) for name, axes in self.axes.items() for axis, count in axes.items()]
        return {name: (axis, totals[count]) for name, axis, count in axes if count in totals}


#: Operators whose importers read extents otherwise than `Shape` does: only the first axis may have a length.
READ_EXTENTS: Final = frozenset(
    {
        *("Attention", "MultiHeadAttention", "RotaryEmbedding", "GridSample", "RoiAlign"),
        *("DFT", "STFT", "ReverseSequence", "CenterCropPad", "AffineGrid"),
    }
)

#: Kinds whose first input may have a length along its first axis, which is one of independent pictures or rows.
_BATCHED: Final = ("conv", "conv_transpose", "group_norm")
#: Kinds that are windows over the axes from the third one on: beyond a length they read elements past its end.
_WINDOWED: Final = ("conv", "conv_transpose", "pool")
#: Kinds whose second input are indices into the first.
_INDEXED: Final = ("gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd")
#: Kinds whose result has the length along the axis of which it is.
_KEEPING: Final = ("softmax", "dynamic_quantise", "scan_sum", "scatter_elements", "scatter_nd", *_WINDOWED)


def resulting_lengths(
    kind: str,
    inputs: Sequence[Value | None],
    lengths: Sequence[Lengths],
    shape: tuple[int, ...],
    attributes: Mapping[str, Any],
) -> Lengths:
    """Return the lengths of a node's result with a shape; raise `LengthError` if there is no such result."""
    given = [(value, found) for value, found in zip(inputs, lengths, strict=True) if value is not None]
    if not any(found for _, found in given):
        return ()
    rule = _RULES.get(kind)
    if rule is not None:
        return rule(given, shape, attributes)
    (first, found), *others = given
    is_batched = kind in _BATCHED and [each.axis for each in found] == [0] and shape[:1] == first.shape[:1]
    if not is_batched or any(each for _, each in others):
        raise LengthError(f"{kind} of a value whose length is known only at run time")
    return found


_Given = Sequence[tuple[Value, Lengths]]
_Rule = Callable[[_Given, tuple[int, ...], Mapping[str, Any]], Lengths]


def _axes(lengths: Lengths) -> dict[int, str]:
    return {each.axis: each.count for each in lengths}


def _elementwise(given: _Given, shape: tuple[int, ...], _: Mapping[str, Any]) -> Lengths:
    found: dict[int, str] = {}
    for value, own in given:
        for each in own:
            if found.setdefault(len(shape) - len(value.shape) + each.axis, each.count) != each.count:
                raise LengthError("its inputs have different lengths")
    for value, own in given:
        before = len(shape) - len(value.shape)
        counted = _axes(own)
        for axis in found:
            extent = value.shape[axis - before] if axis >= before else 1
            if extent != (shape[axis] if axis - before in counted else 1):
                raise LengthError("it combines a value whose length is known only at run time with one of fixed extent")
    return tuple(Length(axis, found[axis]) for axis in sorted(found))


def _transpose(given: _Given, _: tuple[int, ...], at: Mapping[str, Any]) -> Lengths:
    ((_value, lengths),) = given
    return tuple(Length(at["permutation"].index(each.axis), each.count) for each in lengths)


def _reshape(given: _Given, shape: tuple[int, ...], _: Mapping[str, Any]) -> Lengths:
    ((value, lengths),) = given
    return tuple(Length(_same_axis(value.shape, each.axis, shape), each.count) for each in lengths)


def _same_axis(before: tuple[int, ...], axis: int, after: tuple[int, ...]) -> int:
    """Return which axis of the new shape an axis is."""
    outer = math.prod(before[:axis])
    found = [new for new, n in enumerate(after) if n == before[axis] and math.prod(after[:new]) == outer]
    if len(found) != 1:
        raise LengthError("a reshape joins the axis whose length is known only at run time with others")
    return found[0]


def _gather(given: _Given, _: tuple[int, ...], at: Mapping[str, Any]) -> Lengths:
    ((_x, own), (indices, picked)), axis = given, at["axis"]
    more = len(indices.shape) - 1
    if axis in _axes(own):
        raise LengthError("elements are picked along the axis whose length is known only at run time")
    kept = [Length(each.axis if each.axis < axis else each.axis + more, each.count) for each in own]
    return tuple(kept + [Length(axis + each.axis, each.count) for each in picked])


def _gather_elements(given: _Given, _: tuple[int, ...], __: Mapping[str, Any]) -> Lengths:
    return given[1][1]


def _gather_nd(given: _Given, _: tuple[int, ...], at: Mapping[str, Any]) -> Lengths:
    """Return the lengths of the indices' axes but the last one, and of the axes that they do not pick from."""
    (_x, own), (indices, picked) = given
    batch, last = at["batch_dims"], len(indices.shape) - 1
    found, behind = _axes(picked), batch + indices.shape[-1]
    if last in found or any(found.get(each.axis) != each.count for each in own if each.axis < batch):
        raise LengthError("elements are picked from a value whose length is known only at run time")
    kept = [Length(last + each.axis - behind, each.count) for each in own if each.axis >= behind]
    return (*picked, *kept)


def _scatter_elements(given: _Given, _: tuple[int, ...], __: Mapping[str, Any]) -> Lengths:
    """Return the lengths of the updated value; indices beyond theirs are out of range and have no effect."""
    (_x, own), (_indices, picked), (_updates, others) = given
    if picked != others:
        raise LengthError("its indices and updates have different lengths")
    return own


def _scatter_nd(given: _Given, _: tuple[int, ...], __: Mapping[str, Any]) -> Lengths:
    (_x, own), (indices, picked), (_updates, others) = given
    last, depth = len(indices.shape) - 1, indices.shape[-1]
    whole = [Length(last + each.axis - depth, each.count) for each in own if each.axis >= depth]
    if last in _axes(picked) or {*picked, *whole} != {*others}:
        raise LengthError("its indices and updates have different lengths")
    return own


def _slice(given: _Given, shape: tuple[int, ...], at: Mapping[str, Any]) -> Lengths:
    ((value, lengths),) = given
    for each in lengths:
        if (shape[each.axis], at["steps"][each.axis]) != (value.shape[each.axis], 1):
            raise LengthError("a slice of the axis whose length is known only at run time")
    return lengths


def _concat(given: _Given, _: tuple[int, ...], at: Mapping[str, Any]) -> Lengths:
    found = {frozenset(lengths) for _, lengths in given}
    if len(found) > 1 or any(each.axis == at["axis"] for lengths in found for each in lengths):
        raise LengthError("a concatenation of values whose lengths are known only at run time")
    return given[0][1]


def _over_other_axes(given: _Given, _: tuple[int, ...], at: Mapping[str, Any]) -> Lengths:
    """Return the lengths after an operation along axes; those along the axes are gone, see `neutral`."""
    (value, lengths), *others = given
    axes = at["axes"] if "axes" in at else (at["axis"],)
    if "epsilon" in at:  # layer normalisation: all axes from this one on
        axes = tuple(range(at["axis"], len(value.shape)))
    if any(each.axis in axes for each in lengths) or any(each for _, each in others):
        raise LengthError("an operation along the axis whose length is known only at run time")
    keeps = at.get("keepdims", True)
    return tuple(Length(each.axis - (0 if keeps else sum(a < each.axis for a in axes)), each.count) for each in lengths)


def _rows(given: _Given, shape: tuple[int, ...], _: Mapping[str, Any]) -> Lengths:
    """Return the lengths of products of an input's last axis, or of results for each of its rows."""
    (value, lengths), *others = given
    if any(each.axis == len(value.shape) - 1 for each in lengths) or any(found for _, found in others):
        raise LengthError("a product along the axis whose length is known only at run time")
    return lengths


def _batch(given: _Given, shape: tuple[int, ...], _: Mapping[str, Any]) -> Lengths:
    """Return the length of a batch whose entries have nothing to do with each other."""
    (first, lengths), *others = given
    fits = [each.axis for each in lengths] == [0] and first.shape[:1] == shape[:1]
    if not fits or any(
        found not in ((), lengths) or (not found and value.shape[:1] == shape[:1]) for value, found in others
    ):
        raise LengthError("an operation on values whose lengths are known only at run time")
    return lengths


def _recurrence(given: _Given, shape: tuple[int, ...], _: Mapping[str, Any]) -> Lengths:
    """Return the length of the batch of a recurrent network: the second axis of steps, the first of states."""
    (_x, lengths), *others = given
    if [each.axis for each in lengths] != [1]:
        raise LengthError("a recurrence over steps whose number is known only at run time")
    count = lengths[0].count
    if any(found and {each.count for each in found} != {count} for _, found in others):
        raise LengthError("its inputs have different lengths")
    return (Length(len(shape) - 2, count),)


def _pad(given: _Given, shape: tuple[int, ...], at: Mapping[str, Any]) -> Lengths:
    ((value, lengths),) = given
    if any(shape[each.axis] != value.shape[each.axis] or at["pads"][each.axis] for each in lengths):
        raise LengthError("margins of the axis whose length is known only at run time")
    return lengths


def summed_axes(kind: str, inputs: Sequence[tuple[int, ...]], attributes: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the axis of each factor along which a matrix product sums; nothing for other kinds."""
    if kind != "matmul":
        return ()
    ranks = [len(shape) for shape in inputs[:2]]
    return ranks[0] - (2 if attributes["transpose_a"] else 1), ranks[1] - (1 if attributes["transpose_b"] else 2)


def _matmul(given: _Given, shape: tuple[int, ...], at: Mapping[str, Any]) -> Lengths:
    (a, _), (b, _), *more = given
    found: dict[int, str] = {}
    for (value, own), summed, place in zip(
        given[:2], summed_axes("matmul", (a.shape, b.shape), at), (len(shape) - 2, len(shape) - 1), strict=True
    ):
        for each in own:
            if each.axis == summed:
                raise LengthError("a matrix product along the axis whose length is known only at run time")
            is_batch = each.axis < len(value.shape) - 2
            axis = each.axis + len(shape) - len(value.shape) if is_batch else place
            if found.setdefault(axis, each.count) != each.count:
                raise LengthError("its inputs have different lengths")
    batch = {axis: count for axis, count in found.items() if axis < len(shape) - 2}
    for value, own in given[:2]:
        _check_extents(value, own, batch, shape)
    for value, own in more:
        _check_extents(value, own, found, shape)
    return tuple(Length(axis, found[axis]) for axis in sorted(found))


def _check_extents(value: Value, own: Lengths, found: Mapping[int, str], shape: tuple[int, ...]) -> None:
    """Raise if a value is neither of extent 1 nor of these lengths along axes of a result."""
    counted = _axes(own)
    for axis, count in found.items():
        at = axis - len(shape) + len(value.shape)
        if at >= 0 and counted.get(at) != count and value.shape[at] != 1:
            raise LengthError("a matrix product with a value of fixed extent")


#: Reductions -> their neutral elements.
_NEUTRAL: Final = {
    **dict.fromkeys(("sum", "l1", "l2", "sumsquare", "logsum"), 0.0),
    "prod": 1.0,
    **dict.fromkeys(("max", "logsumexp"), -math.inf),
    "min": math.inf,
}


def neutral(kind: str, position: int, shapes: Sequence[Any], axis: int, attributes: Mapping[str, Any]) -> float | None:
    """Return the neutral element of an operation along the axis of an input's length; None if it is none along it."""
    if kind == "matmul":
        return 0.0 if position < 2 and summed_axes(kind, shapes, attributes)[position] == axis else None
    if kind == "reduce" and axis in attributes["axes"]:
        return _NEUTRAL.get(attributes["mode"])
    if kind == "dynamic_quantise":
        return 0.0  # part of each range
    if kind == "scan_sum":
        return 0.0 if attributes["reverse"] and axis == attributes["axis"] else None
    if kind in ("scatter_elements", "scatter_nd"):
        return float(max(shapes[0])) if position == 1 else None  # an index out of range
    if kind in _WINDOWED and position == 0 and axis > 1:
        return _window_padding(kind, axis, attributes)
    if kind in ("topk", "arg", "softmax") and axis == attributes["axis"]:
        if attributes.get("last"):
            raise LengthError("the last of equal elements along the axis whose length is known only at run time")
        is_largest = attributes["mode"] == "max" if kind == "arg" else attributes.get("largest", True)
        return -math.inf if is_largest else math.inf
    return None


def _window_padding(kind: str, axis: int, attributes: Mapping[str, Any]) -> float:
    """Return the value that windows read beyond the length of an axis, as they do in pads."""
    pads = attributes["pads"]
    if kind != "pool":
        return 0.0
    if attributes["mode"] == "max":
        return -math.inf
    if pads[axis - 2 + len(pads) // 2] and not attributes["count_include_pad"]:
        raise LengthError("means of parts of windows at the end of the axis whose length is known only at run time")
    return 0.0


def _resize(given: _Given, shape: tuple[int, ...], at: Mapping[str, Any]) -> Lengths:
    """Return the lengths of axes that keep their extents."""
    ((value, lengths),) = given
    rank = len(shape)
    for each in lengths:
        region = (at["roi"][each.axis], at["roi"][each.axis + rank]) if at["roi"] else (0.0, 1.0)
        if (shape[each.axis], at["scales"][each.axis], region) != (value.shape[each.axis], 1.0, (0.0, 1.0)):
            raise LengthError("it resizes an axis whose length is known only at run time")
    return lengths


def _per_channel(given: _Given, _: tuple[int, ...], __: Mapping[str, Any]) -> Lengths:
    """Return the lengths after an operation on the channels of each place."""
    (_x, lengths), *others = given
    if any(each.axis == 1 for each in lengths) or any(found for _, found in others):
        raise LengthError("an operation on channels whose number is known only at run time")
    return lengths


_RULES: Final[dict[str, _Rule]] = {
    "elementwise": _elementwise,
    "transpose": _transpose,
    "reshape": _reshape,
    "gather": _gather,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "slice": _slice,
    "concat": _concat,
    "matmul": _matmul,
    "softmax": lambda given, *_: given[0][1],  # along the axis, it is given neutral elements
    "dynamic_quantise": lambda given, shape, _: given[0][1] if shape else (),  # scale and zero point are numbers
    "scan_sum": lambda given, *_: given[0][1],  # backwards, it is given zeros
    "pad": _pad,
    "pool": lambda given, *_: given[0][1],  # of pictures and channels: see `_of_windows`
    "resize": _resize,
    "recurrent": _recurrence,
    **dict.fromkeys(("batch_norm", "lrn"), _per_channel),
    **dict.fromkeys(("integer_matmul", "block_matmul", "trees"), _rows),
    **dict.fromkeys(("attention", "rotary"), _batch),
    **dict.fromkeys(("reduce", "arg", "layer_norm", "topk"), _over_other_axes),
}


# --- lengths of a network under construction ------------------------------------------------------------


class LengthBuilder(Protocol):
    """Builder of a network, as far as lengths need it."""

    values: dict[str, Value]
    lengths: dict[str, Lengths]

    def shape(self, name: str) -> tuple[int, ...]:
        """Return a value's shape."""

    def dtype(self, name: str) -> str:
        """Return a value's dtype."""

    def known(self, name: str) -> np.ndarray[Any, Any] | None:
        """Return a value if it is constant, else None."""

    def place(self) -> str:
        """Return the location of the current node for error messages."""

    def length_along(self, name: str, axis: int) -> str | None:
        """Return the count of a value's length along an axis."""

    def give_lengths(self, name: str, lengths: Iterable[Length]) -> None:
        """Set the lengths of a value."""

    def with_all(self, x: str, shape: tuple[int, ...]) -> str:
        """Return a value reshaped, without lengths."""

    def formula(self, kind: str, numbers: tuple[int, ...], expression: Any, names: Sequence[str]) -> str:
        """Return the number computed from lengths; the same value for the same kind of formula."""

    def elementwise(
        self, expression: Any, *inputs: str, shape: tuple[int, ...] | None = None, dtype: str | None = None
    ) -> str:
        """Add an element-wise expression of broadcast inputs."""


def followed_lengths(
    b: LengthBuilder, kind: str, given: Sequence[str | None], shape: tuple[int, ...], attributes: Mapping[str, Any]
) -> Lengths:
    """Return the lengths of a node's result with a shape."""
    values = [None if each is None else b.values[each] for each in given]
    lengths: list[Lengths] = [() if each is None else b.lengths.get(each, ()) for each in given]
    changed: Lengths = ()
    if kind == "slice":
        changed, lengths[0] = _of_first_elements(b, given[0] or "", lengths[0], shape, attributes)
    elif kind == "reshape":
        changed, lengths[0] = _of_joined_axes(b, given[0] or "", lengths[0], shape)
    elif kind in _WINDOWED:
        changed, lengths[0] = _of_windows(b, kind, given, lengths[0], attributes)
    try:
        return changed + resulting_lengths(kind, values, lengths, shape, attributes)
    except LengthError as error:
        raise LengthError(error.what, where=b.place()) from None


def _of_first_elements(
    b: LengthBuilder, x: str, lengths: Lengths, shape: tuple[int, ...], attributes: Mapping[str, Any]
) -> tuple[Lengths, Lengths]:
    """Return the lengths of the first elements along an axis, up to the existing number; and the others."""
    changed: list[Length] = []
    for each in lengths:
        axis = each.axis
        begins = attributes["starts"][axis] == 0 and attributes["steps"][axis] == 1
        if begins and shape[axis] < b.shape(x)[axis]:
            fewest = ("min", ("cast", "int64", 0), ("const", shape[axis], "int64"))
            changed.append(Length(axis, b.elementwise(fewest, each.count, dtype="int64")))
    axes = {each.axis for each in changed}
    return tuple(changed), tuple(each for each in lengths if each.axis not in axes)


def _of_windows(
    b: LengthBuilder, kind: str, given: Sequence[str | None], lengths: Lengths, attributes: Mapping[str, Any]
) -> tuple[Lengths, Lengths]:
    """Return the numbers of windows along the axes after the second one; and the other lengths."""
    kernel = attributes["kernel"] if kind == "pool" else b.shape(given[1] or "")[2:]
    rank, changed = len(kernel), []
    for each in lengths:
        if each.axis < 2:
            continue
        at = each.axis - 2
        stride, pads = attributes["strides"][at], attributes["pads"][at] + attributes["pads"][at + rank]
        covered = attributes["dilations"][at] * (kernel[at] - 1) + 1
        more = covered - pads - stride
        if kind == "conv_transpose":
            more += attributes["output_padding"][at]
        if (stride, more) == (1, 0):
            changed.append(each)
            continue
        value: Any = ("div", ("sub", 0, ("const", more, "int64")), ("const", stride, "int64"))
        if kind == "conv_transpose":
            value = ("add", ("mul", 0, ("const", stride, "int64")), ("const", more, "int64"))
        kept = ("max", value, ("const", 0, "int64"))
        name = "spread" if kind == "conv_transpose" else "windows"
        changed.append(Length(each.axis, b.formula(name, (stride, more), kept, [each.count])))
    return tuple(changed), tuple(each for each in lengths if each.axis < 2)


def _of_joined_axes(b: LengthBuilder, x: str, lengths: Lengths, shape: tuple[int, ...]) -> tuple[Lengths, Lengths]:
    """Return the lengths of axes that a reshape joins with later ones; and the others."""
    changed: list[Length] = []
    before = b.shape(x)
    for each in lengths:
        extent, outer = before[each.axis], math.prod(before[: each.axis])
        places = [a for a, n in enumerate(shape) if n > 1 and math.prod(shape[:a]) == outer]
        if not extent or len(places) != 1 or shape[places[0]] == extent:
            continue
        if extent == 1 and any(n == 1 and math.prod(shape[:a]) == outer for a, n in enumerate(shape)):
            continue  # it may still be an axis of its own
        axis = places[0]
        made = shape[axis]
        covered = [a for a in range(each.axis + 1, len(before)) if math.prod(before[: a + 1]) <= outer * made]
        if any(other.axis in covered for other in lengths):
            continue
        if made % extent:
            continue
        count = b.elementwise(("mul", 0, ("const", made // extent, "int64")), each.count)
        changed.append(Length(axis, count))
        lengths = tuple(other for other in lengths if other is not each)
    return tuple(changed), lengths


def filled_up(
    b: LengthBuilder, kind: str, given: Sequence[str | None], attributes: Mapping[str, Any]
) -> list[str | None]:
    """Return a node's inputs with neutral elements beyond their lengths, where its operation has such."""
    found = list(given)
    _check_factors(b, kind, given, attributes)
    shapes = [None if each is None else b.shape(each) for each in given]
    if kind in _INDEXED and given[0] in b.lengths:
        found[:2] = _indexed(b, kind, given[0] or "", given[1] or "", attributes)
    for position, name in enumerate(given):
        for length in () if name is None else b.lengths.get(name, ()):
            now = found[position] or ""
            fill = neutral(kind, position, shapes, length.axis, attributes)
            if fill is not None:
                found[position] = _filled(b, now, length, fill, keeps_length=kind in _KEEPING)
    return found


def _check_factors(b: LengthBuilder, kind: str, given: Sequence[str | None], attributes: Mapping[str, Any]) -> None:
    """Raise if the factors of a matrix product have different lengths along the axes over which it sums."""
    factors = [each for each in given[:2] if each is not None]
    axes = summed_axes(kind, [b.shape(each) for each in factors], attributes)
    if len({b.length_along(each, axis) for each, axis in zip(factors, axes, strict=False)}) > 1:
        raise LengthError("a matrix product with one factor of fixed extent", where=b.place())


def _indexed(b: LengthBuilder, kind: str, x: str, indices: str, attributes: Mapping[str, Any]) -> list[str]:
    """Return the indexed value and indices, of which negative ones count from the end of lengths."""
    given, many = indices, kind in ("gather_nd", "scatter_nd")
    first = attributes.get("batch_dims", 0) if many else attributes["axis"]
    count = b.shape(indices)[-1] if many else 1
    known, dtype = b.known(indices), b.dtype(indices)
    for length in b.lengths[x]:
        if not first <= length.axis < first + count:
            continue
        if kind == "gather":
            x = _without(b, x, length)
        if known is not None and (known >= 0).all():
            continue
        below: Any = ("less", 0, ("const", 0, dtype))
        if many:
            below = ("and", below, ("equal", ("index", -1), ("const", length.axis - first, "int64")))
        given = b.elementwise(("where", below, ("add", 0, ("cast", dtype, 1)), 0), given, length.count)
    return [x, given]


def _filled(b: LengthBuilder, name: str, length: Length, fill: float, *, keeps_length: bool) -> str:
    kind, shape = b.dtype(name), b.shape(name)
    if kind == "bool":
        raise LengthError(f"a reduction of {kind}", where=b.place())
    if math.isinf(fill) and not kind.startswith("float"):
        info = np.iinfo(kind)
        fill = info.max if fill > 0 else info.min
    inside = ("less", ("index", length.axis - len(shape)), 1)
    lengths = b.lengths.pop(name)
    made = b.elementwise(("where", inside, 0, ("const", fill, kind)), name, length.count, shape=shape)
    b.lengths[name] = lengths
    b.give_lengths(made, [each for each in lengths if keeps_length or each != length])
    return made


def _without(b: LengthBuilder, name: str, length: Length) -> str:
    """Return a value with all its elements along the axis of a length, those beyond it too."""
    made = b.with_all(name, b.shape(name))
    b.give_lengths(made, [each for each in b.lengths[name] if each != length])
    return made
