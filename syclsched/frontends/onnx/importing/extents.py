# SPDX-License-Identifier: Apache-2.0
"""Extents of results that values decide: constants, lengths of other values, or numbers with an upper bound."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from syclsched.errors import ValueNeededError
from syclsched.frontends.onnx.importing.iterated_values import values_in_iterations
from syclsched.frontends.onnx.importing.lengths import Length, LengthError
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.observed_extents import UnseenExtentError

#: An integer of a shape: known, or the value of a single int64 that has it at run time.
Number = int | str


@dataclass(frozen=True, slots=True)
class Extent:
    """An extent of a result: its value, or the largest there can be with the value that says how much of it counts."""

    bound: int
    count: str | None = None

    def times(self, b: NetworkBuilder, factor: int) -> Extent:
        """Return a multiple of it."""
        if self.count is None or factor == 1:
            return Extent(self.bound * factor, self.count)
        return Extent(self.bound * factor, b.elementwise(("mul", 0, ("const", factor, "int64")), self.count))


def extents_of(b: NetworkBuilder, x: str) -> list[Extent]:
    """Return the extents of a value."""
    return [Extent(n, b.length_along(x, axis)) for axis, n in enumerate(b.shape(x))]


def with_extents(b: NetworkBuilder, made: str, extents: Iterable[Extent]) -> str:
    """Set the lengths of a result; return it."""
    lengths = [Length(axis, each.count) for axis, each in enumerate(extents) if each.count is not None]
    b.give_lengths(made, lengths)
    return made


def bounds_of(extents: Iterable[Extent]) -> tuple[int, ...]:
    """Return the extents of the array."""
    return tuple(each.bound for each in extents)


def with_lengths(b: NetworkBuilder, made: str, axis: int, extent: Extent) -> str:
    """Give a result, which has its other lengths, that along an axis; return it."""
    if extent.count is not None:
        others = [each for each in b.lengths.get(made, ()) if each.axis != axis]
        b.give_lengths(made, [*others, Length(axis, extent.count)])
    return made


def is_fixed(extents: Iterable[Extent]) -> bool:
    """Return whether all are known."""
    return all(each.count is None for each in extents)


def numbers(b: NetworkBuilder, name: str, what: str) -> list[Number]:
    """Return the elements of a list of integers: those known, or that were the same in all calls so far, as `int`."""
    if b.observed is None and not b.bounds and not b.iterations:
        return list(b.integers(name, what))
    if name in b.lengths:
        raise LengthError(f"{what} are as many as follows from values", where=b.place())
    if b.known(name) is not None:
        found = b.integers(name, what)
        for i, value in enumerate(found):
            _record(b, f"{what}, {i}", value, marks=True)
        return list(found)
    if len(b.shape(name)) > 1 or not b.dtype(name).startswith(("int", "uint")):
        raise b.wrong(f"{what} are {b.dtype(name)} of shape {b.shape(name)}, expected a list of integers")
    count = math.prod(b.shape(name))
    return [_number(b, name, i, what, count) for i in range(count)]


def _number(b: NetworkBuilder, name: str, index: int, what: str, size: int) -> Number:
    traced = _traced(b, name, index)
    if isinstance(traced, int):
        return traced
    if traced[0] in b.bounds:
        return _scalar(b, traced)
    iterated = values_in_iterations(b, name)
    if iterated is not None:
        column = iterated.reshape(len(iterated), -1)[:, index]
        return int(column[0]) if (column == column[0]).all() else _scalar(b, traced)
    if b.observed is None:
        if b.extent_inputs and b.extent_inputs.keys() >= {*b.sources(name)}:
            return _scalar(b, traced)  # of lengths: with an upper bound of its own where it is used, or none
        raise value_needed(b, name, what)
    key = _key(b, f"{what}, {index}")
    seen = b.observed.get(key)
    if seen is None:
        raise UnseenExtentError(**_needed(b, name, what))
    value = _scalar(b, traced)
    if seen.least < seen.most or (size == 1 and any(b.dtype(each) in FLOATS for each in b.sources(name))):
        return value
    b.guard(value, key, seen.least, seen.least)
    return seen.least


def bounded(b: NetworkBuilder, number: Number, what: str, *, least: int | None = 0, most: int | None = None) -> Extent:
    """Return the extent of a number: itself, the length of another value, or its upper bound so far and a length.

    Numbers below ``least`` are wrong, ``None``: they stand for 0. No number exceeds ``most``.
    """
    if isinstance(number, int):
        if b.observed is not None or b.bounds:
            _record(b, what, number)
        return Extent(number if least is not None else max(number, 0))
    traced = _traced(b, number, 0)
    if isinstance(traced, int):
        return Extent(traced)
    root, place, factor = traced
    if root in b.bounds:
        return Extent(b.bounds[root] * factor, _scalar(b, traced))
    iterated = values_in_iterations(b, number)
    if iterated is not None and (least is None or iterated.min() >= least):
        least_extent, bound = (int(each.clip(0, most)) for each in (iterated.min(), iterated.max()))
        if least_extent == bound:
            return Extent(bound)
        most = bound
    known = b.extent_roots.get((root, place))
    if known is None:
        bound = -(-_bound_so_far(b, number, what, most) // factor)
        within = ("min", ("max", 0, ("const", 0, "int64")), ("const", bound, "int64"))
        known = b.extent_roots[root, place] = bound, b.elementwise(within, _scalar(b, (root, place, 1)))
    bound = known[0] * factor
    if most is None or bound < most:
        b.guard(number, _key(b, what), least, bound)
    return Extent(*known).times(b, factor)


def _bound_so_far(b: NetworkBuilder, number: str, what: str, most: int | None) -> int:
    """Return the upper bound of a number in the calls so far."""
    if b.observed is None:
        if most is None:
            raise value_needed(b, number, what)
        return most
    seen = b.observed.get(_key(b, what))
    if seen is None:
        raise UnseenExtentError(**_needed(b, number, what))
    return seen.bound if most is None else min(seen.bound, most)


def bounded_numbers(b: NetworkBuilder, name: str, what: str) -> list[Extent]:
    """Return the extents that a list of integers gives."""
    found = numbers(b, name, what)
    return [
        bounded(b, each, f"{what}, extent {i}") if isinstance(each, str) or each >= 0 else Extent(each)
        for i, each in enumerate(found)
    ]


def mean(b: NetworkBuilder, x: str, axes: Sequence[int], *, keepdims: bool) -> str:
    """Return means; along an axis whose length is known only at run time, over the elements that count."""
    counts = [each.count for each in b.lengths.get(x, ()) if each.axis in axes]
    if not counts:
        return b.reduce("mean", x, axes, keepdims=keepdims)
    others = math.prod(b.shape(x)[axis] for axis in axes if b.length_along(x, axis) is None)
    kind = b.dtype(x)
    wide = "float32" if kind == "float16" else kind  # a sum may be beyond half precision, and its mean within
    number = ("cast", wide, ("mul", *range(1, len(counts) + 1), ("const", others, "int64")))
    total = b.reduce("sum", b.cast(x, wide), axes, keepdims=keepdims)
    return b.cast(b.elementwise(("div", 0, number), total, *counts), kind)


def value_needed(b: NetworkBuilder, name: str, what: str) -> ValueNeededError:
    """Return the error that the model must be planned for each value of the inputs that decide an extent."""
    return ValueNeededError(
        **_needed(b, name, what),
        hint="Give these inputs' values when the model is loaded (known=), or export it with constant shapes",
    )


def is_length(b: NetworkBuilder, number: Number) -> bool:
    """Return whether a number is a multiple of the length of a value."""
    traced = number if isinstance(number, int) else _traced(b, number, 0)
    return isinstance(traced, tuple) and traced[0] in b.bounds


def is_bounded(b: NetworkBuilder, number: Number) -> bool:
    """Return whether a number is a multiple of the length of a value, or of one with an upper bound."""
    if isinstance(number, int):
        return False
    traced = _traced(b, number, 0)
    return isinstance(traced, tuple) and (traced[0] in b.bounds or traced[:2] in b.extent_roots)


def is_positive(b: NetworkBuilder, what: str, index: int) -> bool:
    """Return whether an element of a list of integers was positive in all calls so far."""
    seen = None if b.observed is None else b.observed.get(_key(b, f"{what}, {index}"))
    return seen is not None and seen.is_positive


def is_same(b: NetworkBuilder, a: str, c: str) -> bool:
    """Return whether two numbers are the same by how they are computed."""
    return a == c or _traced(b, a, 0) == _traced(b, c, 0)


def root_of(b: NetworkBuilder, count: str) -> int | tuple[str, int]:
    """Return the length and the factor of which a number is the product; or its value."""
    traced = _traced(b, count, 0)
    return traced if isinstance(traced, int) else (_scalar(b, (*traced[:2], 1)), traced[2])


def scalar_of(b: NetworkBuilder, count: str, factor: int) -> str:
    """Return the number that is a multiple of a length."""
    return _scalar(b, (count, 0, factor))


def formula(b: NetworkBuilder, operator: str, number: int, counts: Iterable[str]) -> str:
    """Return a number with lengths added (``add``) or multiplied (``mul``); always the same value for the same ones."""
    names = tuple(sorted(counts))
    value: Any = ("const", number, "int64")
    for i in range(len(names)):
        value = (operator, value, i)
    return b.formula(operator, (number,), value, names)


def _needed(b: NetworkBuilder, name: str, what: str) -> dict[str, Any]:
    inputs = b.sources(name)
    listed = ", ".join(map(repr, inputs)) or "unknown values"
    said = f"{what} must be known before anything runs, but {name!r} is computed from the values of {listed}"
    return {"what": said, "inputs": inputs, "where": b.place()}


def _key(b: NetworkBuilder, what: str) -> str:
    return f"{b.node_name}: {what}"


def _record(b: NetworkBuilder, what: str, value: int, *, marks: bool = False) -> None:
    if b.observed is not None and b.is_observing:
        b.observed.record(_key(b, what), value, marks=marks)


# --- where a number comes from --------------------------------------------------------------------------

#: The value, the position in it, and a factor.
_Trace = tuple[str, int, int]
#: What has been found for elements on the way.
_Seen = dict[tuple[str, int], int | _Trace]
#: Most elements that are looked at for one number.
_LONGEST_TRACE = 100


def _scalar(b: NetworkBuilder, traced: _Trace) -> str:
    """Return the single int64 that a number is."""
    name, place, factor = traced
    if name in b.bounds and factor == 1:
        return name
    found = b.extent_scalars.get(traced)
    if found is None:
        x = b.reshape(name, (math.prod(b.shape(name)),))
        x = b.reshape(b.part(x, 0, place, 1), ())
        found = x if b.dtype(x) == "int64" else b.elementwise(("cast", "int64", 0), x)
        if factor != 1:
            found = b.elementwise(("mul", 0, ("const", factor, "int64")), found)
        b.extent_scalars[traced] = found
    return found


def _traced(b: NetworkBuilder, name: str, index: int, seen: _Seen | None = None) -> int | _Trace:
    """Return an element of a small array of integers: its value, or the one it is taken from.

    Chains, as of values that a loop carries, are followed for some steps only.
    """
    known = b.known(name)
    if known is not None:
        return int(known.reshape(-1)[index])
    itself = (name, index, 1)
    seen = {} if seen is None else seen
    if (name, index) in seen or len(seen) >= _LONGEST_TRACE:
        return seen.get((name, index), itself)
    seen[name, index] = itself
    node = b.producer(name)
    found = None if node is None or len(b.shape(name)) > 1 else _through(b, node, index, seen)
    if found is not None and (isinstance(found, int) or found[0] in b.bounds or name not in b.bounds):
        seen[name, index] = found
    return seen[name, index]


def _through(b: NetworkBuilder, node: CanonicalNode, index: int, seen: _Seen) -> int | _Trace | None:
    first = node.inputs[0] if node.inputs else None
    if node.kind == "elementwise":
        places = [(each, 0 if math.prod(b.shape(each)) == 1 else index) for each in node.inputs if each is not None]
        return _evaluated(b, node.attributes["expression"], [_traced(b, *each, seen) for each in places])
    if first is None or len(b.shape(first)) > 1:
        return None
    if node.kind == "reshape":
        return _traced(b, first, index, seen)
    if node.kind == "slice":
        return _traced(b, first, node.attributes["starts"][0] + index * node.attributes["steps"][0], seen)
    if node.kind == "concat":
        for each in node.inputs:
            count = b.shape(each or "")[0]
            if index < count:
                return _traced(b, each or "", index, seen)
            index -= count
    if node.kind == "gather":
        at = b.known(node.inputs[1] or "")
        if at is not None:
            place = int(at.reshape(-1)[index])
            return _traced(b, first, place + b.shape(first)[0] if place < 0 else place, seen)
    return None


def _evaluated(b: NetworkBuilder, expression: Any, given: Sequence[int | _Trace]) -> int | _Trace | None:
    """Return the value of an expression of integers, as far as that is a multiple of one of them."""
    if isinstance(expression, int):
        return given[expression]
    operator, *rest = expression
    if operator == "const":
        return rest[0] if isinstance(rest[0], int) else None
    if operator == "cast":
        return _evaluated(b, rest[1], given) if rest[0] == "int64" else None
    if operator not in ("mul", "add", "sub", "max", "div", "equal", "where"):
        return None
    found = [_evaluated(b, each, given) for each in rest]
    if operator == "where":
        condition, yes, no = found
        return (yes if condition else no) if isinstance(condition, int) else None
    if operator in ("add", "sub"):
        total = _sum(b, found, [1, *([1 if operator == "add" else -1] * (len(found) - 1))])
        if total is not None:
            return total
    known = [each for each in found if isinstance(each, int)]
    if len(known) == len(found):
        return _of_integers(operator, known)
    open_ones = [each for each in found if isinstance(each, tuple)]
    if len(known) + 1 < len(found) or not open_ones:
        return None
    name, place, factor = open_ones[0]
    if operator == "equal":  # with a marker such as -1: lengths are not negative
        return 0 if known and known[0] < 0 and name in b.bounds else None
    if operator == "max":
        return open_ones[0] if max(known) <= 0 and name in b.bounds else None
    if operator in ("add", "sub"):
        return open_ones[0] if sum(known) == 0 and (operator == "add" or found[0] is open_ones[0]) else None
    if operator == "mul":
        return (name, place, factor * math.prod(known)) if math.prod(known) > 0 else None
    is_whole = found[0] is open_ones[0] and known[0] > 0 and factor % known[0] == 0
    return (name, place, factor // known[0]) if is_whole else None


def _of_integers(operator: str, given: Sequence[int]) -> int | None:
    if operator == "equal":
        return int(given[0] == given[1])
    if operator == "sub":
        return given[0] - sum(given[1:])
    if operator == "max":
        return max(given)
    if operator == "div":
        return None
    return math.prod(given) if operator == "mul" else sum(given)


def _sum(b: NetworkBuilder, given: Sequence[int | _Trace | None], signs: Sequence[int]) -> int | _Trace | None:
    """Return a sum of numbers and lengths, where that is a number, a multiple of a length, or known to be a length."""
    number, lengths = 0, Counter[str]()
    for each, sign in zip(given, signs, strict=True):
        if isinstance(each, int):
            number += sign * each
        elif each is None or each[0] not in b.bounds:
            return None
        else:
            more, names = _summands(b, each[0])
            number += sign * each[2] * more
            for name in names:
                lengths[name] += sign * each[2]
    left = {name: factor for name, factor in lengths.items() if factor}
    if not left:
        return number
    if min(left.values()) < 0:
        return None
    if not number and len(left) == 1:
        ((name, factor),) = left.items()
        return name, 0, factor
    found = b.extent_formulas.get(("add", (number,), tuple(sorted(Counter(left).elements()))))
    return None if found is None else (found, 0, 1)


def _summands(b: NetworkBuilder, length: str) -> tuple[int, Sequence[str]]:
    """Return the number and the lengths of which a length is the sum."""
    for (operator, numbers, names), made in b.extent_formulas.items():
        if made == length and operator == "add":
            return numbers[0], names
    return 0, (length,)
