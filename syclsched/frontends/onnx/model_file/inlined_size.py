# SPDX-License-Identifier: Apache-2.0
"""Check of a model's size after function inlining, computed before inlining."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from syclsched.errors import ModelError

FunctionKey = tuple[str, str, str]


def check_inlined_size(proto: Any, where: str, most: int) -> None:
    """Raise `ModelError` if inlining a model's functions would not end or would make too many nodes."""
    # A small file can hold 40 functions that each call the next one twice: 2^40 nodes after inlining.
    functions = {function_key(each): each for each in proto.functions}
    sizes: dict[FunctionKey, int] = {}
    on_stack: set[FunctionKey] = set()
    todo = list(functions)
    while todo:
        key = todo[-1]
        if key in sizes:
            todo.pop()
            continue
        called = [each for each in map(called_function, nested_nodes(functions[key].node)) if each in functions]
        pending = [each for each in called if each not in sizes]
        if pending:
            on_stack.add(key)
            recursive = next((each for each in pending if each in on_stack), None)
            if recursive is not None:
                raise ModelError(f"its function {recursive[1]!r} calls itself", where=where)
            todo += pending
        else:
            on_stack.discard(key)
            sizes[todo.pop()] = _size(functions[key].node, sizes)
    total = _size(proto.graph.node, sizes)
    if total > most:
        raise ModelError(
            f"{total:,} nodes when its functions are inlined, more than {most:,}",
            where=where,
            hint="If that is meant, raise ModelLimits.nodes",
        )


def _size(nodes: Iterable[Any], sizes: dict[FunctionKey, int]) -> int:
    return sum(sizes.get(called_function(node), 1) for node in nested_nodes(nodes))


def function_key(function: Any) -> FunctionKey:
    """Return the key that identifies a function of a model."""
    return (function.domain, function.name, getattr(function, "overload", ""))


def called_function(node: Any) -> FunctionKey:
    """Return the key of the function that a node calls, if there is such a function."""
    return (node.domain, node.op_type, getattr(node, "overload", ""))


def nested_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """Yield nodes and, recursively, the nodes of their subgraphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in subgraphs(attribute):
                yield from nested_nodes(graph.node)


def subgraphs(attribute: Any) -> list[Any]:
    """Return the graphs that an attribute of a node holds."""
    return [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]
