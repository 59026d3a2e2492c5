# SPDX-License-Identifier: Apache-2.0
"""Detection of network inputs used as indices, such as token ids, and of their valid ranges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from syclsched.frontends.onnx.network import CanonicalNode, Network

#: Kinds of nodes whose second input holds indices along their attribute ``axis``.
_PICKING = ("gather", "gather_elements", "scatter_elements")


@dataclass(frozen=True, slots=True)
class IndexInput:
    """The valid range of an index input."""

    extent: int  # elements along the axis: valid indices are below
    operator: str  # the model's operator that uses the indices, as ``"Gather embedding"``
    room: int | None = None  # of the cache that the operator writes at these positions, in tokens
    least: int = 0


def find_index_inputs(network: Network) -> dict[str, IndexInput]:
    """Return the inputs used as indices without computation; reshapes and casts are allowed.

    The host can check such inputs in a few microseconds. Computed indices are not covered: devices clamp an index that
    is out of range.
    """
    same = {name: name for name in network.inputs}
    lengths: dict[str, str] = {}  # first positions of new tokens -> the input of lengths they are computed from
    found: dict[str, IndexInput] = {}
    for node in network.nodes:
        source, indices = (*node.inputs, None, None)[:2]
        if source in same and node.outputs[0] is not None and _keeps_numbers(node):
            same[node.outputs[0]] = same[source]
        elif node.kind == "elementwise" and node.outputs[0] is not None:
            number = _minuend(node.attributes["expression"])
            last = None if number is None else node.inputs[number]
            if last in same:
                lengths[node.outputs[0]] = same[last]
        if node.kind == "cache_write" and not node.attributes["circular"]:
            cache, rows = (network.values[name or ""].shape for name in node.inputs[:2])
            room, count = cache[2], rows[-2]
            starts = node.inputs[2] or ""
            input_name = same.get(starts, lengths.get(starts))
            if input_name is not None:
                extent = room - count + 1 if starts in same else room
                _add(found, input_name, IndexInput(extent, (node.origin or (node.name,))[0], room))
        if node.kind in _PICKING and source is not None and indices in same:
            extent = network.values[source].shape[node.attributes["axis"]]
            _add(found, same[indices], IndexInput(extent, (node.origin or (node.name,))[0], least=-extent))
    return found


def _add(found: dict[str, IndexInput], name: str, new: IndexInput) -> None:
    """Narrow the range of an input to the range of one more operator."""
    before = found.get(name, new)
    found[name] = replace(min(before, new, key=lambda each: each.extent), least=max(before.least, new.least))


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


def _keeps_numbers(node: CanonicalNode) -> bool:
    if node.kind == "reshape":
        return True
    return node.kind == "elementwise" and node.attributes["expression"] in (0, ("cast", "int64", 0))
