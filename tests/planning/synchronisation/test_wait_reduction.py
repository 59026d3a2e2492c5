# SPDX-License-Identifier: Apache-2.0
"""Transitive reduction of graphs and of plans, compared with networkx and with reachability."""

from __future__ import annotations

import networkx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import graphs

from syclsched.model.graph import TaskGraph
from syclsched.planning import transitive_reduction
from syclsched.planning.draft import ragged
from syclsched.planning.synchronisation.graph_reduction import reduced_edges
from syclsched.planning.synchronisation.wait_reduction import reduce_waits

Edges = list[tuple[int, int]]


@st.composite
def edge_lists(draw: st.DrawFn, max_nodes: int = 150) -> tuple[int, Edges]:
    """Draw nodes in topological order and edges between them, some of them repeated."""
    count = draw(st.integers(1, max_nodes))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda p: p[0] != p[1])
    edges = draw(st.lists(pairs, max_size=4 * count)) if count > 1 else []
    return count, [(min(p), max(p)) for p in edges]


def reduce(count: int, edges: Edges) -> set[tuple[int, int]]:
    ends = np.array(edges, np.int64).reshape(-1, 2)
    before, after = reduced_edges(count, ends[:, 0], ends[:, 1])
    kept = list(zip(before.tolist(), after.tolist(), strict=True))
    assert len(set(kept)) == len(kept)
    return set(kept)


@given(edge_lists())
def test_the_reduction_is_the_one_networkx_finds(case: tuple[int, Edges]) -> None:
    count, edges = case
    graph = networkx.DiGraph(edges)
    graph.add_nodes_from(range(count))
    assert reduce(count, edges) == set(networkx.transitive_reduction(graph).edges())


def test_more_sources_than_one_word_has_bits() -> None:
    # A path of 300 nodes, and an edge from each to the last: only the path remains.
    path = [(n, n + 1) for n in range(299)]
    assert reduce(300, path + [(n, 299) for n in range(298)]) == set(path)


@given(graphs())
def test_the_reduction_of_a_graph_orders_the_same_tasks(graph: TaskGraph) -> None:
    full = networkx.DiGraph([(d.before, d.after) for d in graph.dependencies()])
    kept = networkx.DiGraph(list(transitive_reduction(graph)))
    assert set(networkx.transitive_closure(kept).edges()) == set(networkx.transitive_closure(full).edges())


@given(edge_lists(max_nodes=40), st.integers(1, 4), st.data())
def test_waits_are_sufficient_and_irredundant(case: tuple[int, Edges], lanes: int, data: st.DataObject) -> None:
    count, edges = case
    lane = data.draw(st.lists(st.integers(0, lanes - 1), min_size=count, max_size=count))
    holds = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    rows = [sorted({b for b, a in edges if a == n}) for n in range(count)]
    starts, waits = reduce_waits(np.array(lane), *ragged(rows), np.array(holds), lanes)
    found = [waits[starts[n] : starts[n + 1]].tolist() for n in range(count)]

    def before(missing: tuple[int, int] | None) -> list[set[int]]:
        """Return the finished steps before each step; a step that does not hold its lane passes on less."""
        known: list[set[int]] = []
        on_lane: list[set[int]] = [set() for _ in range(lanes)]
        for n in range(count):
            mine = set(on_lane[lane[n]])
            for wait in found[n]:
                if (wait, n) != missing:
                    mine |= {wait} | known[wait]
            known.append(mine)
            on_lane[lane[n]] |= mine | {n} if holds[n] else {n}
        return known

    whole = before(None)
    for n in range(count):
        assert found[n] == sorted(found[n])
        assert set(rows[n]) <= whole[n]
        for wait in found[n]:
            assert lane[wait] != lane[n]
            assert not set(rows[n]) <= before((wait, n))[n]
