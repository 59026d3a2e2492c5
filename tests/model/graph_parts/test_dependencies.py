# SPDX-License-Identifier: Apache-2.0
"""Implied dependencies, compared with their definition by brute force."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
from hypothesis import given
from support.strategies import graphs, touching

from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.graph_parts.dependencies import Dependency
from syclsched.model.task import Task

R, W, U, A = AccessMode.READ, AccessMode.WRITE, AccessMode.UPDATE, AccessMode.REDUCE


def conflict(first: Task, second: Task) -> bool:
    """Return whether swapping two tasks could change the values that either reads or the final values."""
    if "barrier" in (first.kind, second.kind):
        return True
    return any(a.array == b.array and (a.mode.writes or b.mode.writes) for a in first.accesses for b in second.accesses)


def implied(graph: TaskGraph) -> list[Dependency]:
    """Return the dependencies implied by accesses and barriers."""
    return [d for d in graph.dependencies() if d.kind != "explicit"]


@given(graphs())
def test_the_transitive_closure_orders_exactly_conflicting_tasks(graph: TaskGraph) -> None:
    found = implied(graph)
    got, needed = nx.DiGraph(), nx.DiGraph()
    for digraph in (got, needed):
        digraph.add_nodes_from(t.name for t in graph.tasks)
    got.add_edges_from((d.before, d.after) for d in found)
    needed.add_edges_from((a.name, b.name) for a, b in combinations(graph.tasks, 2) if conflict(a, b))
    assert set(nx.transitive_closure_dag(got).edges) == set(nx.transitive_closure_dag(needed).edges)


@given(graphs())
def test_each_dependency_has_its_kind_and_is_listed_once(graph: TaskGraph) -> None:
    found = implied(graph)
    place = {t.name: i for i, t in enumerate(graph.tasks)}
    assert len({(d.before, d.after, d.array) for d in found}) == len(found)
    assert [place[d.after] for d in found] == sorted(place[d.after] for d in found)
    for dependency in found:
        before, after = graph.find_task(dependency.before), graph.find_task(dependency.after)
        assert place[before.name] < place[after.name]
        if dependency.kind == "barrier":
            assert "barrier" in (before.kind, after.kind)
            assert dependency.array is None
            continue
        first = next(a.mode for a in before.accesses if a.array == dependency.array)
        second = next(a.mode for a in after.accesses if a.array == dependency.array)
        assert {
            "RAW": first.writes and second.reads,
            "WAR": not first.writes and second.writes,
            "WAW": first.writes and second is W,
        }[dependency.kind]


@given(graphs())
def test_a_reader_reads_from_the_last_writer(graph: TaskGraph) -> None:
    flows = {(d.after, d.array): d.before for d in implied(graph) if d.kind == "RAW"}
    last: dict[str, str] = {}
    for task in graph.tasks:
        for access in task.accesses:
            if access.mode.reads:
                assert flows.get((task.name, access.array)) == last.get(access.array)
        last |= {a.array: task.name for a in task.accesses if a.mode.writes}


def names(*modes: AccessMode) -> list[tuple[str, str, str]]:
    """Return the dependencies among tasks 0, 1, ... that access one array in these modes."""
    graph = TaskGraph()
    x = graph.array("x", (1,))
    for number, mode in enumerate(modes):
        graph.kernel(touching((mode,)), name=str(number), p0=x)
    return [(d.before, d.after, d.kind) for d in graph.dependencies()]


def test_dependencies_of_access_sequences() -> None:
    assert names(W, R) == [("0", "1", "RAW")]
    assert names(R, W) == [("0", "1", "WAR")]
    assert names(W, W) == [("0", "1", "WAW")]
    assert names(R, R) == []
    assert names(U, U, U) == [("0", "1", "RAW"), ("1", "2", "RAW")]
    assert names(A, A) == [("0", "1", "RAW")]  # reductions keep their order
    assert names(W, R, R, W) == [("0", "1", "RAW"), ("0", "2", "RAW"), ("1", "3", "WAR"), ("2", "3", "WAR")]
    assert names(W, R, U) == [("0", "1", "RAW"), ("0", "2", "RAW"), ("1", "2", "WAR")]


def test_dependencies_of_barriers() -> None:
    graph = TaskGraph()
    for name in ("a", "b"):
        graph.host(print, name=name)
    graph.barrier(name="first")
    graph.barrier(name="second")
    graph.host(print, name="c")
    assert graph.dependencies() == (
        Dependency("a", "first", "barrier"),
        Dependency("b", "first", "barrier"),
        Dependency("first", "second", "barrier"),
        Dependency("second", "c", "barrier"),
    )
