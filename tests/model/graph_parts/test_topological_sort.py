# SPDX-License-Identifier: Apache-2.0
"""Topological orders and cycles, compared with networkx."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from syclsched.model.graph_parts.topological_sort import find_cycle, topological_order

PAIRS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=16)


@given(PAIRS)
def test_an_order_or_a_cycle(pairs: list[tuple[int, int]]) -> None:
    nodes, edges = [str(n) for n in range(9)], [(str(a), str(b)) for a, b in pairs]
    digraph = nx.DiGraph(edges)
    digraph.add_nodes_from(nodes)
    order, cycle = topological_order(nodes, edges), find_cycle(nodes, edges)
    if nx.is_directed_acyclic_graph(digraph):
        assert sorted(order) == nodes
        place = {name: i for i, name in enumerate(order)}
        assert all(place[a] < place[b] for a, b in edges)
        assert cycle == ()
        assert list(order) == list(nx.lexicographical_topological_sort(digraph))
    else:
        assert len(order) < len(nodes)
        assert cycle[0] == cycle[-1]
        assert len(set(cycle)) == len(cycle) - 1 >= 1
        assert all(pair in edges for pair in pairwise(cycle))


def test_free_nodes_keep_their_order() -> None:
    assert topological_order(["b", "a", "c"], []) == ("b", "a", "c")
    assert topological_order(["b", "a", "c"], [("c", "b")]) == ("a", "c", "b")


def test_a_node_that_waits_for_itself() -> None:
    assert find_cycle(["a"], [("a", "a")]) == ("a", "a")


def test_neighbours_of_a_cycle_are_not_part_of_it() -> None:
    edges = [("x", "a"), ("a", "b"), ("b", "a"), ("b", "y"), ("y", "z")]
    assert set(find_cycle(["z", "y", "x", "a", "b"], edges)) == {"a", "b"}


def test_a_long_chain_needs_no_deep_stack() -> None:
    nodes = [str(i) for i in range(50_000)]
    edges = list(pairwise(nodes))
    assert topological_order(reversed(nodes), edges) == tuple(nodes)
    assert len(find_cycle(nodes, [*edges, (nodes[-1], nodes[0])])) == 50_001
