# SPDX-License-Identifier: Apache-2.0
"""Topological order and cycle detection of graphs given as names and edges."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from syclsched.errors import CycleError


def topological_order(nodes: Iterable[str], edges: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the nodes in topological order (Kahn 1962); ties keep the given order.

    Edges are pairs of before and after. The result is shorter than ``nodes`` if and only if there is a cycle.
    """
    names = list(nodes)
    index = {name: i for i, name in enumerate(names)}
    successors: list[list[int]] = [[] for _ in names]
    waiting = [0] * len(names)
    for before, after in edges:
        successors[index[before]].append(index[after])
        waiting[index[after]] += 1
    ready = [i for i, count in enumerate(waiting) if count == 0]
    order: list[str] = []
    while ready:
        node = heapq.heappop(ready)
        order.append(names[node])
        for after_index in successors[node]:
            waiting[after_index] -= 1
            if waiting[after_index] == 0:
                heapq.heappush(ready, after_index)
    return tuple(order)


def acyclic_order(nodes: Iterable[str], edges: Sequence[tuple[str, str]], where: str, hint: str) -> tuple[str, ...]:
    """Return the nodes in topological order; raise `CycleError`, which names the nodes of a cycle, if there is none."""
    names = list(nodes)
    order = topological_order(names, edges)
    if len(order) < len(names):
        raise CycleError("the edges close a cycle: " + " -> ".join(find_cycle(names, edges)), where=where, hint=hint)
    return order


def find_cycle(nodes: Iterable[str], edges: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the nodes of one cycle, with the first repeated at the end; empty if there is none."""
    acyclic = set(topological_order(nodes := list(nodes), edges))
    remaining = [(b, a) for b, a in edges if b not in acyclic and a not in acyclic]
    predecessor = {after: before for before, after in remaining}
    if not predecessor:
        return ()
    # Following the remaining predecessors from any node leads into a cycle.
    node = next(iter(predecessor))
    seen: dict[str, int] = {}
    path: list[str] = []
    while node not in seen:
        seen[node] = len(path)
        path.append(node)
        node = predecessor[node]
    cycle = path[seen[node] :]
    return (*reversed(cycle), cycle[-1])
