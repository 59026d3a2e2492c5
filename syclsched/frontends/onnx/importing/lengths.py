# SPDX-License-Identifier: Apache-2.0
"""Values with a length known only at run time: the axis it counts, and what operations do to it.

The array of such a value has the largest extent there can be, and a value of its own says how much of it counts. The
elements beyond are arbitrary. So an operation that would mix them with others reads its neutral element in their place
(`neutral`), or is refused here, and the host computes it from arrays that are cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syclsched.errors import ModelError
from syclsched.frontends.onnx.network import Value


@dataclass(frozen=True, slots=True)
class Length:
    """The length of a value."""

    axis: int  # that it counts
    count: str  # the value, a single integer, that says how many elements of this axis there are


class LengthError(ModelError):
    """An operation cannot be computed from arrays that are not cut to their lengths."""


#: Kinds whose first input may have a length along its first axis, which is one of independent pictures or rows.
_BATCHED: Final = ("conv", "conv_transpose", "pool", "lrn", "batch_norm", "group_norm", "resize")


def resulting_length(
    kind: str,
    inputs: Sequence[Value | None],
    lengths: Sequence[Length | None],
    shape: tuple[int, ...],
    attributes: Mapping[str, Any],
) -> Length | None:
    """Return the length of a node's result with a shape; raise `LengthError` if there is no such result."""
    given = [(value, length) for value, length in zip(inputs, lengths, strict=True) if value is not None]
    if kind != "gather" and len({length.count for _, length in given if length is not None}) > 1:
        raise LengthError("its inputs have different lengths")
    rule = _RULES.get(kind)
    if all(length is None for _, length in given):
        return None
    if rule is not None:
        return rule(given, shape, attributes)
    (_, length), *others = given
    is_batched = kind in _BATCHED and length is not None and not length.axis and shape[:1] == given[0][0].shape[:1]
    if not is_batched or any(each is not None for _, each in others):
        raise LengthError(f"{kind} of a value whose length is known only at run time")
    return length


_Given = Sequence[tuple[Value, Length | None]]


def _kept(length: Length | None, axis: int) -> Length | None:
    return None if length is None else Length(axis, length.count)


def _elementwise(given: _Given, shape: tuple[int, ...], _: Mapping[str, Any]) -> Length | None:
    found = {Length(len(shape) - len(value.shape) + own.axis, own.count) for value, own in given if own is not None}
    if len(found) > 1:
        raise LengthError("it combines values that have a length along different axes")
    length = found.pop()
    for value, own in given:
        at = length.axis - len(shape) + len(value.shape)
        extent = value.shape[at] if at >= 0 else 1
        if extent != (1 if own is None else shape[length.axis]):
            raise LengthError("it combines a value whose length is known only at run time with one of fixed extent")
    return length


def _transpose(given: _Given, _: tuple[int, ...], at: Mapping[str, Any]) -> Length | None:
    ((_value, length),) = given
    return None if length is None else _kept(length, at["permutation"].index(length.axis))


def _reshape(given: _Given, shape: tuple[int, ...], _: Mapping[str, Any]) -> Length | None:
    ((value, length),) = given
    if length is None:
        return None
    extent, before = value.shape[length.axis], math.prod(value.shape[: length.axis])
    found = [axis for axis, n in enumerate(shape) if n == extent and math.prod(shape[:axis]) == before]
    if len(found) != 1:
        raise LengthError("a reshape joins the axis whose length is known only at run time with others")
    return _kept(length, found[0])


def _gather(given: _Given, _: tuple[int, ...], at: Mapping[str, Any]) -> Length | None:
    ((_x, own), (indices, length)), axis = given, at["axis"]
    if own is not None and own.axis != axis and length is not None:
        raise LengthError("elements are picked from a value whose length is known only at run time")
    if own is not None and own.axis != axis:
        return _kept(own, own.axis if own.axis < axis else own.axis + len(indices.shape) - 1)
    return None if length is None else _kept(length, axis + length.axis)


def _gather_nd(given: _Given, _: tuple[int, ...], at: Mapping[str, Any]) -> Length | None:
    (_x, own), (indices, length) = given
    if own is not None or length is None or length.axis == len(indices.shape) - 1:
        raise LengthError("elements are picked from a value whose length is known only at run time")
    return length


def _slice(given: _Given, shape: tuple[int, ...], at: Mapping[str, Any]) -> Length | None:
    ((value, length),) = given
    if length is not None and (shape[length.axis], at["steps"][length.axis]) != (value.shape[length.axis], 1):
        raise LengthError("a slice of the axis whose length is known only at run time")
    return length


def _concat(given: _Given, _: tuple[int, ...], at: Mapping[str, Any]) -> Length | None:
    found = {length for _, length in given}
    if len(found) > 1 or any(length is not None and length.axis == at["axis"] for length in found):
        raise LengthError("a concatenation of values whose lengths are known only at run time")
    return found.pop()


def _over_other_axes(given: _Given, _: tuple[int, ...], at: Mapping[str, Any]) -> Length | None:
    (value, length), *others = given
    axes = at["axes"] if "axes" in at else (at["axis"],)
    if "epsilon" in at:  # layer normalisation: all axes from this one on
        axes = tuple(range(at["axis"], len(value.shape)))
    if length is None or length.axis in axes or any(each is not None for _, each in others):
        raise LengthError("an operation along the axis whose length is known only at run time")
    gone = 0 if at.get("keepdims", True) else sum(axis < length.axis for axis in axes)
    return _kept(length, length.axis - gone)


def _sums(given: _Given, shape: tuple[int, ...], at: Mapping[str, Any]) -> Length | None:
    """Return the length of sums, which read nothing beyond it if they begin at the first element."""
    return _over_other_axes(given, shape, at) if at["reverse"] else given[0][1]


def _matmul(given: _Given, shape: tuple[int, ...], at: Mapping[str, Any]) -> Length | None:
    (a, own), (b, other), *more = given
    if own is None or other is not None or len(b.shape) > 2 or any(each is not None for _, each in more):
        raise LengthError("a matrix product of values whose lengths are known only at run time")
    if own.axis == len(a.shape) - (2 if at["transpose_a"] else 1):
        raise LengthError("a matrix product along the axis whose length is known only at run time")
    length = Length(len(shape) - 2 if own.axis >= len(a.shape) - 2 else own.axis, own.count)
    for value, _ in more:
        place = length.axis - len(shape) + len(value.shape)
        if place >= 0 and value.shape[place] != 1:
            raise LengthError("a matrix product with a bias of fixed extent")
    return length


#: Reductions -> their neutral elements.
_NEUTRAL: Final = {
    **dict.fromkeys(("sum", "l1", "l2", "sumsquare", "logsum"), 0.0),
    "prod": 1.0,
    **dict.fromkeys(("max", "logsumexp"), -math.inf),
    "min": math.inf,
}


def neutral(kind: str, length: Length, attributes: Mapping[str, Any]) -> float | None:
    """Return the neutral element of an operation along the axis of a length; None if it is none along it."""
    if kind == "reduce" and length.axis in attributes["axes"]:
        return _NEUTRAL.get(attributes["mode"])
    if kind in ("topk", "arg", "softmax") and length.axis == attributes["axis"]:
        if attributes.get("last"):
            raise LengthError("the last of equal elements along the axis whose length is known only at run time")
        is_largest = attributes["mode"] == "max" if kind == "arg" else attributes.get("largest", True)
        return -math.inf if is_largest else math.inf
    return None


_RULES: Final[dict[str, Callable[[_Given, tuple[int, ...], Mapping[str, Any]], Length | None]]] = {
    "elementwise": _elementwise,
    "transpose": _transpose,
    "reshape": _reshape,
    "gather": _gather,
    "gather_nd": _gather_nd,
    "slice": _slice,
    "concat": _concat,
    "matmul": _matmul,
    "softmax": lambda given, *_: given[0][1],  # along the axis, it is given neutral elements
    "scan_sum": _sums,
    **dict.fromkeys(("reduce", "arg", "layer_norm", "topk"), _over_other_axes),
}
