# SPDX-License-Identifier: Apache-2.0
"""Topological order and cycles, on plain names."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from syclsched.errors import CycleError


def topological_order(nodes: Iterable[str], edges: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the nodes so that every edge points forward (Kahn 1962), stable in the order given.

    Parameters
    ----------
    nodes : iterable of str
        Node names.
    edges : sequence of (str, str)
        Before and after.

    Returns
    -------
    tuple of str
        Shorter than ``nodes`` if and only if there is a cycle.
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
    """Return the topological order of all nodes.

    Parameters
    ----------
    nodes, edges
        As for `topological_order`.
    where, hint : str
        For the error.

    Returns
    -------
    tuple of str
        As long as ``nodes``.

    Raises
    ------
    CycleError
        If the edges close a cycle; names its nodes.
    """
    names = list(nodes)
    order = topological_order(names, edges)
    if len(order) < len(names):
        raise CycleError("the edges close a cycle: " + " -> ".join(find_cycle(names, edges)), where=where, hint=hint)
    return order


def find_cycle(nodes: Iterable[str], edges: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return one cycle as names, the first repeated at the end; empty if there is none.

    Parameters
    ----------
    nodes : iterable of str
        Node names.
    edges : sequence of (str, str)
        Before and after.

    Returns
    -------
    tuple of str
        The cycle.
    """
    sorted_out = set(topological_order(nodes := list(nodes), edges))
    left = [(b, a) for b, a in edges if b not in sorted_out and a not in sorted_out]
    predecessor = {after: before for before, after in left}
    if not predecessor:
        return ()
    # Every node left that has a predecessor left leads back into a cycle.
    node = next(iter(predecessor))
    seen: dict[str, int] = {}
    path: list[str] = []
    while node not in seen:
        seen[node] = len(path)
        path.append(node)
        node = predecessor[node]
    cycle = path[seen[node] :]
    return (*reversed(cycle), cycle[-1])
