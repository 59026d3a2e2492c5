# SPDX-License-Identifier: Apache-2.0
"""Transitive reduction of a task graph: the fewest dependencies that imply all others."""

from __future__ import annotations

import numpy as np

from syclsched.compiled import compiled
from syclsched.model.graph import TaskGraph
from syclsched.planning.draft import Flags, Ints
from syclsched.planning.graph_record import record


def transitive_reduction(graph: TaskGraph) -> tuple[tuple[str, str], ...]:
    """Return the dependencies of a graph that no others imply.

    For an acyclic graph this set is unique, and the smallest with the same order (Aho, Garey and Ullman 1972).
    """
    known = record(graph)
    names = list(known.place)
    before, after = reduced_edges(len(names), known.before, known.after)
    return tuple((names[b], names[a]) for b, a in zip(before.tolist(), after.tolist(), strict=True))


def reduced_edges(count: int, before: Ints, after: Ints) -> tuple[Ints, Ints]:
    """Return the transitive reduction of edges between nodes in topological order.

    A node's level is the length of the longest path to it. An edge between adjacent levels is never implied. The
    sources of all other edges are propagated through the graph 64 at a time, one bit each, as in bit-parallel
    transitive closure. Each pass covers only the nodes between a group's first source and the last target of its edges,
    so it is near linear for edges that are short in topological order. At most V/64 passes over the edges are needed.
    """
    edges = np.unique(after * np.int64(max(count, 1)) + before)
    after, before = edges // max(count, 1), edges % max(count, 1)
    starts = np.searchsorted(after, np.arange(count + 1))
    long = _long_edges(starts, before)
    sources = np.unique(before[long])
    last = np.zeros(count, np.int64)
    np.maximum.at(last, before[long], after[long])
    implied = _implied(starts, before, sources, last)
    return before[~implied], after[~implied]


@compiled
def _long_edges(starts: Ints, before: Ints) -> Flags:
    """Return which edges skip a level."""
    count = len(starts) - 1
    level = np.zeros(count, np.int64)
    long = np.zeros(len(before), np.bool_)
    for node in range(count):
        for k in range(starts[node], starts[node + 1]):
            level[node] = max(level[node], level[before[k]] + 1)
        for k in range(starts[node], starts[node + 1]):
            long[k] = level[before[k]] + 1 < level[node]
    return long


@compiled
def _implied(starts: Ints, before: Ints, sources: Ints, last: Ints) -> Flags:
    """Return which edges another path implies; ``last`` is the last target of each source's long edges."""
    count = len(starts) - 1
    implied = np.zeros(len(before), np.bool_)
    bit = np.zeros(count, np.uint64)
    reached = np.zeros(count, np.uint64)  # the group's sources from which each node is reachable
    for group in range(0, len(sources), 64):
        members = sources[group : group + 64]
        end = 0
        for k in range(len(members)):
            bit[members[k]] = np.uint64(1) << np.uint64(k)
            end = max(end, last[members[k]])
        first = members[0]
        for node in range(first, end + 1):
            around = np.uint64(0)  # sources with a path to here through another node
            direct = np.uint64(0)
            for k in range(starts[node], starts[node + 1]):
                if before[k] >= first:
                    around |= reached[before[k]]
                    direct |= bit[before[k]]
            if around & direct:
                for k in range(starts[node], starts[node + 1]):
                    if around & bit[before[k]]:
                        implied[k] = True
            reached[node] = around | direct
        reached[first : end + 1] = 0
        bit[members] = 0
    return implied
