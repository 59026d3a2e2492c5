# SPDX-License-Identifier: Apache-2.0
"""Detection of network inputs used as indices, such as token ids and labels, and of their valid ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from syclsched.frontends.onnx.network import CanonicalNode, Network
from syclsched.kernels.tensor.writing.expression import Expression, count_operators, substitute

Array = np.ndarray[Any, Any]
#: A movement of elements: the kind of its node, and the slices, permutation or shape.
Movement = tuple[str, tuple[Any, ...]]

#: Kinds of nodes whose second input holds indices along their attribute ``axis``.
_PICKING: Final = ("gather", "gather_elements", "scatter_elements")
#: Operators whose indices are labels, which do not count from the end.
_OF_LABELS: Final = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
#: Operators whose indices do not count from the end.
_NOT_NEGATIVE: Final = (*_OF_LABELS, "RoiAlign")
#: Operators of the longest expression of an index that is followed.
_LONGEST: Final = 8
#: Expressions of an input that have its numbers.
_SAME: Final[tuple[Expression, ...]] = (0, ("cast", "int64", 0))


@dataclass(frozen=True, slots=True)
class IndexInput:
    """The valid range of an index input, or of a part of it."""

    extent: int  # elements along the axis: valid indices are below
    operator: str  # the model's operator that uses the indices, as ``"Gather embedding"``
    room: int | None = None  # of the cache that the operator writes at these positions, in tokens
    least: int = 0
    ignored: int | None = None  # one that may be beyond the range, as it picks nothing
    moved: tuple[Movement, ...] = ()  # from the input to its part that holds the indices

    @property
    def is_label(self) -> bool:
        """Whether the indices are labels of classes."""
        return self.operator.startswith(_OF_LABELS)

    @property
    def is_range(self) -> bool:
        """Whether all elements of the input must be in the range."""
        return self.ignored is None and not self.moved

    def part(self, given: Array) -> Array:
        """Return the indices among the elements of the input."""
        for kind, how in self.moved:
            if kind == "slice":
                given = given[how]
            elif kind == "transpose":
                given = given.transpose(how)
            else:
                given = given.reshape(how) if given.size == math.prod(how) else np.broadcast_to(given, how)
        return given


@dataclass(frozen=True, slots=True)
class _Derived:
    """A value whose elements follow from one element each of an input: input 0 of the expression."""

    name: str
    moved: tuple[Movement, ...] = ()
    expression: Expression = 0


def find_index_inputs(network: Network) -> dict[str, tuple[IndexInput, ...]]:
    """Return the inputs used as indices without computation, with the ranges of their parts.

    Casts, movements of elements, and a replaced index that is ignored are allowed. The host can check such inputs in a
    few microseconds. Computed indices are not covered: devices clamp an index that is out of range.
    """
    derived = {name: _Derived(name) for name in network.inputs}
    lengths: dict[str, str] = {}  # first positions of new tokens -> the input of lengths they are computed from
    found: dict[str, tuple[IndexInput, ...]] = {}
    for node in network.nodes:
        source, indices = (*node.inputs, None, None)[:2]
        made = node.outputs[0] if node.outputs else None
        follows = _followed(node, network, derived)
        if follows is not None and made is not None:
            derived[made] = follows
        if node.kind == "elementwise" and made is not None:
            number = _minuend(node.attributes["expression"])
            last = derived.get(node.inputs[number] or "") if number is not None else None
            if last is not None and last.expression in _SAME:
                lengths[made] = last.name
        label = (node.origin or (node.name,))[0]
        if node.kind == "cache_write" and not node.attributes["circular"]:
            cache, rows = (network.values[name or ""].shape for name in node.inputs[:2])
            room, count = cache[2], rows[-2]
            starts = node.inputs[2] or ""
            is_start = starts in derived and derived[starts].expression in _SAME
            input_name = derived[starts].name if is_start else lengths.get(starts)
            if input_name is not None:
                _add(found, input_name, IndexInput(room - count + 1 if is_start else room, label, room))
        picked = derived.get(indices or "") if node.kind in _PICKING and source is not None else None
        if picked is not None and source is not None and (ignored := _ignored(picked.expression)) is not False:
            extent = network.values[source].shape[node.attributes["axis"]]
            each = IndexInput(extent, label, least=-extent, ignored=ignored, moved=_without_last(picked.moved))
            _add(found, picked.name, replace(each, least=0) if label.startswith(_NOT_NEGATIVE) else each)
    return found


def _followed(node: CanonicalNode, network: Network, derived: Mapping[str, _Derived]) -> _Derived | None:
    """Return what the first result of a node is of an input; None if it has elements of several, or of none."""
    first = derived.get(node.inputs[0] or "") if node.inputs else None
    if node.kind in ("reshape", "slice", "transpose"):
        if first is None:
            return None
        shape = network.values[node.outputs[0] or ""].shape
        how: tuple[Any, ...] = shape
        if node.kind == "transpose":
            how = tuple(node.attributes["permutation"])
        elif node.kind == "slice":
            if any(step < 1 for step in node.attributes["steps"]):
                return None
            begins = zip(node.attributes["starts"], shape, node.attributes["steps"], strict=True)
            how = tuple(slice(start, start + n * step, step) for start, n, step in begins)
        return replace(first, moved=(*first.moved, (node.kind, how)))
    return _computed(node, network, derived) if node.kind == "elementwise" else None


def _computed(node: CanonicalNode, network: Network, derived: Mapping[str, _Derived]) -> _Derived | None:
    """Return the result of an element-wise node that reads one input, and constants of one element."""
    whole: _Derived | None = None
    terms: dict[int, Expression] = {}
    for position, name in enumerate(node.inputs):
        constant, given = network.constants.get(name or ""), derived.get(name or "")
        if constant is not None and constant.size == 1 and constant.dtype.kind in "biu":
            terms[position] = ("const", constant.reshape(-1)[0].item())
        elif given is None or (whole is not None and (given.name, given.moved) != (whole.name, whole.moved)):
            return None
        else:
            whole, terms[position] = whole or given, given.expression
    if whole is None or network.values[node.outputs[0] or ""].dtype not in ("bool", "int32", "int64"):
        return None
    made = substitute(node.attributes["expression"], terms)
    if count_operators(made) > _LONGEST:
        return None
    shapes = [network.values[name or ""].shape for name in (*node.inputs, *node.outputs) if name in derived]
    shape = network.values[node.outputs[0] or ""].shape
    moved = whole.moved if shapes == [shape] * len(shapes) else (*whole.moved, ("reshape", shape))
    return _Derived(whole.name, moved, made)


def _ignored(expression: Expression) -> int | bool | None:
    """Return the index that another one replaces, None if there is none; False if it is no index of an input."""
    if expression in _SAME:
        return None
    if not isinstance(expression, tuple) or expression[0] != "where":
        return False
    condition, yes, no = expression[1:]
    if not isinstance(condition, tuple) or condition[0] not in ("equal", "not_equal"):
        return False
    kept, other = (no, yes) if condition[0] == "equal" else (yes, no)
    tested = [each for each in condition[1:] if each in _SAME]
    against = [each[1] for each in condition[1:] if isinstance(each, tuple) and each[0] == "const"]
    is_replaced = isinstance(other, tuple) and (other[0] == "const" or (other[0] == "sub" and other[1] == other[2]))
    return int(against[0]) if kept in _SAME and tested and against and is_replaced else False


def _without_last(moved: tuple[Movement, ...]) -> tuple[Movement, ...]:
    """Return movements without those at the end that keep all elements."""
    while moved and moved[-1][0] != "slice":
        moved = moved[:-1]
    return moved


def _add(found: dict[str, tuple[IndexInput, ...]], name: str, new: IndexInput) -> None:
    """Add a range of an input, or narrow that of the same elements to what one more operator allows."""
    others = found.get(name, ())
    for place, before in enumerate(others):
        if (before.moved, before.ignored) == (new.moved, new.ignored):
            least = max(before.least, new.least)
            narrowed = replace(min(before, new, key=lambda each: each.extent), least=least)
            found[name] = (*others[:place], narrowed, *others[place + 1 :])
            return
    found[name] = (*others, new)


def _minuend(expression: Any) -> int | None:
    """Return the input from which an expression subtracts, unless a condition holds; None for others."""
    if not isinstance(expression, tuple):
        return None
    operator, *rest = expression
    if operator == "where":
        return _minuend(rest[-1])
    number = rest[0] if operator == "sub" else None
    if isinstance(number, tuple) and number[0] == "cast":
        number = number[-1]
    return number if isinstance(number, int) else None
