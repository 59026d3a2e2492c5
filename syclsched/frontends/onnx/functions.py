# SPDX-License-Identifier: Apache-2.0
"""How large a model becomes when its functions are inlined, known before it is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from syclsched.errors import ModelError

_Key = tuple[str, str, str]


def check_functions(proto: Any, where: str, most: int) -> None:
    """Refuse functions that call others so often that inlining them would not end or not fit.

    Forty functions of which each calls the next twice are a small file and 2^40 nodes.
    """
    functions = {_key(each): each for each in proto.functions}
    sizes: dict[_Key, int] = {}
    started: set[_Key] = set()
    todo = list(functions)
    while todo:
        key = todo[-1]
        if key in sizes:
            todo.pop()
            continue
        called = [each for each in map(_called, _nodes(functions[key].node)) if each in functions]
        open_ones = [each for each in called if each not in sizes]
        if open_ones:
            started.add(key)
            again = next((each for each in open_ones if each in started), None)
            if again is not None:
                raise ModelError(f"its function {again[1]!r} calls itself", where=where)
            todo += open_ones
        else:
            started.discard(key)
            sizes[todo.pop()] = _size(functions[key].node, sizes)
    total = _size(proto.graph.node, sizes)
    if total > most:
        raise ModelError(
            f"{total:,} nodes when its functions are inlined, more than {most:,}",
            where=where,
            hint="If that is meant, raise ModelLimits.nodes",
        )


def _size(nodes: Iterable[Any], sizes: dict[_Key, int]) -> int:
    return sum(sizes.get(_called(node), 1) for node in _nodes(nodes))


def _key(function: Any) -> _Key:
    return (function.domain, function.name, getattr(function, "overload", ""))


def _called(node: Any) -> _Key:
    return (node.domain, node.op_type, getattr(node, "overload", ""))


def _nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """Yield nodes, and those of the graphs in them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g.node)
            for graph in attribute.graphs:
                yield from _nodes(graph.node)
