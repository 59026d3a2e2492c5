# SPDX-License-Identifier: Apache-2.0
"""Conversion of digraphs from and to networkx, and refusals."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import graphs, touching

from syclsched.errors import ArgumentError, CycleError, FormatError, GraphError, UnknownArrayError
from syclsched.frontends import Units, from_networkx, read_graph, to_networkx
from syclsched.kernels.elementwise import AXPY
from syclsched.model.access import AccessMode
from syclsched.model.constant import constant
from syclsched.model.graph import TaskGraph

UPDATE = touching((AccessMode.UPDATE,))


def described(graph: TaskGraph) -> tuple[Any, ...]:
    """Return all properties of a graph, without the order of explicit edges and repeated edges."""
    tasks = [(t.name, t.kind, t.family, t.accesses, t.arguments, t.rows, t.signature, t.priority) for t in graph.tasks]
    return graph.name, dict(graph.arrays), tasks, set(graph.edges), graph.data.keys()


@given(st.one_of(graphs(), graphs(ranges=True)))
def test_graphs_are_restored_from_networkx(graph: TaskGraph) -> None:
    back = from_networkx(to_networkx(graph))
    assert described(back) == described(graph)
    assert back.fingerprint() == graph.fingerprint()
    assert back.order() == graph.order()
    assert set(back.dependencies()) == set(graph.dependencies())


@given(st.one_of(graphs(), graphs(ranges=True)))
def test_the_digraph_has_every_dependency(graph: TaskGraph) -> None:
    digraph = to_networkx(graph)
    pairs = {(b, a, kind, array) for b, a, d in digraph.edges(data="dependencies") for kind, array in d}
    assert pairs == {(d.before, d.after, d.kind, d.array) for d in graph.dependencies()}
    assert list(digraph.nodes) == [t.name for t in graph.tasks]
    assert nx.is_directed_acyclic_graph(digraph)


def test_rows_are_read_and_refused() -> None:
    arrays = {"x": {"shape": (10,), "dtype": "float64"}, "y": {"shape": (10,), "dtype": "float64"}}

    def graph(kind: str, rows: Any, **attributes: Any) -> TaskGraph:
        digraph = nx.DiGraph(arrays=arrays)
        arguments = {"p0": "x"} if kind != "copy" else {"source": "x", "destination": "y"}
        digraph.add_node("t", kind=kind, arguments=arguments, rows=rows, **attributes)
        return from_networkx(digraph)

    for kind, attributes in (
        ("kernel", {"operation": UPDATE}),
        ("host", {"operation": lambda p0: None, "accesses": {"p0": "update"}}),
    ):
        (task,) = graph(kind, {"p0": [2, 5]}, **attributes).tasks
        assert (task.rows, task.accesses[0].rows, task.accesses[0].mode) == ({"p0": (2, 5)}, (2, 5), AccessMode.UPDATE)
    (task,) = graph("copy", {"source": (0, 3), "destination": (7, 10)}).tasks
    assert task.rows == {"source": (0, 3), "destination": (7, 10)}
    with pytest.raises(ArgumentError, match=r"x\[5:20\] is beyond the array"):
        graph("kernel", {"p0": (5, 20)}, operation=UPDATE)
    for wrong in ({"p0": 3}, {"p0": (1, 2, 3)}, {"p0": ("a", 2)}, {"other": (1, 2)}):
        with pytest.raises(GraphError, match=r"node 't'.*rows of"):
            graph("kernel", wrong, operation=UPDATE)


def test_host_tasks_copies_data_and_priorities_are_restored() -> None:
    graph = TaskGraph("all kinds")
    x = graph.array("x", data=np.arange(4.0))
    y = graph.array("y", (4,), temporary=True)

    def double(source: Any, target: Any, factor: float) -> None:
        target[...] = factor * source

    graph.kernel(UPDATE, p0=x, name="k", priority=3)
    graph.copy(x, y, name="c")
    graph.barrier(name="b")
    graph.host(double, source=x.read(), target=y.write(), factor=2.5, name="h", priority=1, flops=8.0)
    back = from_networkx(to_networkx(graph))
    assert described(back) == described(graph)
    assert back.fingerprint() == graph.fingerprint()
    assert back.data["x"] is graph.data["x"]
    task = back.find_task("h")
    assert task.operation is not None and task.signature is not None
    assert task.operation.work(task.signature).flops == 8.0
    assert task.operation.implementations[0].load(task.signature) is double


def test_options_functions_and_memory_kinds_are_restored() -> None:
    graph = TaskGraph("options")
    upper, lower = graph.array("upper", (2, 3), usm="host"), graph.array("lower", (4, 3))
    graph.join("whole", [upper, lower])
    graph.kernel(UPDATE, p0=upper, name="k", retries=2, deadline_s=1.5)
    graph.host(lambda x: None, x=lower.write(), name="h", retries=1, pure=True)
    total = graph.submit(np.sum, lower, name="sum")
    graph.free(total)
    back = from_networkx(to_networkx(graph))
    assert described(back) == described(graph)
    assert back.fingerprint() == graph.fingerprint()
    assert back.joined == graph.joined
    assert [(t.retries, t.deadline_s) for t in back.tasks] == [(2, 1.5), (1, None), (0, None)]
    assert [t.operation is not None and t.operation.pure for t in back.tasks] == [True, True, False]
    digraph = to_networkx(graph)
    digraph.graph["joined"] = {"whole": [("upper", "other")]}
    with pytest.raises(GraphError, match=r"joined array 'whole': part 'other' is not declared"):
        from_networkx(digraph)


def test_edges_have_the_bytes_that_are_passed_on() -> None:
    graph = TaskGraph()
    x, y = graph.array("x", (10,), "float32"), graph.array("y", (10,), "float64")
    for name, mode in (("write", AccessMode.WRITE), ("read", AccessMode.READ), ("again", AccessMode.WRITE)):
        graph.kernel(touching((mode, mode)), name=name, p0=x, p1=y[2:5])
    digraph = to_networkx(graph)
    assert set(digraph.edges(data="bytes")) == {
        ("write", "read", 10 * 4 + 3 * 8),
        ("read", "again", 0),
    }
    assert nx.dag_longest_path_length(digraph, weight="bytes") == 64


def test_a_digraph_of_callables_keeps_its_edges() -> None:
    digraph = nx.DiGraph([("read", "sum"), ("sum", "print"), ("read", "print")])
    calls: list[str] = []
    graph = from_networkx(digraph, {n: (lambda n=n: calls.append(n)) for n in digraph})
    assert set(graph.edges) == set(digraph.edges)
    assert graph.order() == ("read", "sum", "print")
    assert {t.kind for t in graph.tasks} == {"host"}


def test_arrays_and_accesses_of_a_callable() -> None:
    def scale(x: Any, factor: float) -> None:
        x *= factor

    digraph = nx.DiGraph(name="scaled")
    digraph.add_node(7, operation=scale, accesses={"x": "update"}, arguments={"factor": 3})
    graph = from_networkx(digraph, arrays={"x": np.ones(3)})
    (task,) = graph.tasks
    assert (graph.name, task.name, task.accesses[0].mode) == ("scaled", "7", AccessMode.UPDATE)
    assert task.signature is not None and task.signature.scalars == {"factor": 3}
    assert graph.inputs() == ("x",)


def test_submission_follows_the_edges_unless_the_nodes_say() -> None:
    digraph = nx.DiGraph()
    for node in ("second", "first"):
        digraph.add_node(node, operation=UPDATE, arguments={"p0": "a"})
    digraph.add_edge("first", "second")
    digraph.graph["arrays"] = {"a": {"shape": (2,), "dtype": "float32"}}
    graph = from_networkx(digraph)
    assert [t.name for t in graph.tasks] == ["first", "second"]
    assert graph.edges == (("first", "second"),)


def test_an_edge_marked_implied_that_is_not_is_kept() -> None:
    graph = TaskGraph()
    a, b = graph.array("a", (1,)), graph.array("b", (1,))
    graph.kernel(UPDATE, p0=a, name="s")
    graph.kernel(UPDATE, p0=a, name="t")
    digraph = to_networkx(graph)
    digraph.nodes["t"]["arguments"] = {"p0": b.name}
    assert from_networkx(digraph).edges == (("s", "t"),)


def test_a_cycle_is_named() -> None:
    digraph = nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a"), ("a", "d")])
    with pytest.raises(CycleError) as caught:
        from_networkx(digraph, dict.fromkeys(digraph, print))
    cycle = caught.value.what.split(": ")[1].split(" -> ")
    assert cycle[0] == cycle[-1]
    assert set(cycle) == {"a", "b", "c"}
    assert all(digraph.has_edge(*pair) for pair in pairwise(cycle))


def test_graph_with_a_cycle_as_a_digraph() -> None:
    graph = TaskGraph()
    for name in ("s", "t"):
        graph.host(print, name=name)
    graph.edge("s", "t")
    graph.edge("t", "s")
    assert not nx.is_directed_acyclic_graph(to_networkx(graph))


@pytest.mark.parametrize(
    ("digraph", "said"),
    [
        (nx.Graph([("a", "b")]), "undirected"),
        (nx.MultiDiGraph([("a", "b")]), "multigraph"),
        ({"a": ["b"]}, "dict"),
    ],
)
def test_other_graphs_are_refused(digraph: Any, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        from_networkx(digraph)


def one(**attributes: Any) -> nx.DiGraph:
    digraph = nx.DiGraph()
    digraph.add_node("t", **attributes)
    digraph.graph["arrays"] = {"a": {"shape": (2,), "dtype": "float32"}}
    return digraph


@pytest.mark.parametrize(
    ("attributes", "kind", "said"),
    [
        ({}, GraphError, "'operation' is missing"),
        ({"operation": 3}, GraphError, "neither an Operation nor a callable"),
        ({"operation": print, "kind": "kernel"}, GraphError, "'kernel' task cannot be made"),
        ({"operation": print, "kind": "magic"}, GraphError, "'magic' task"),
        ({"operation": print, "arguments": {"x": "a"}}, ArgumentError, "does not say how"),
        ({"operation": print, "arguments": {"x": "a"}, "accesses": {"x": "look"}}, GraphError, "'look'"),
        ({"operation": print, "arguments": ["a"]}, GraphError, "'arguments' must map"),
        ({"operation": print, "arguments": {"name": 1}}, ArgumentError, "cannot be called 'name'"),
        ({"operation": print, "priority": "high"}, GraphError, "'high', not an integer"),
        ({"operation": UPDATE}, ArgumentError, "'p0' is missing"),
        ({"operation": UPDATE, "arguments": {"p0": "b"}}, UnknownArrayError, "'b' is not declared"),
        ({"operation": UPDATE, "arguments": {"p0": "a"}, "accesses": {"p0": "read"}}, ArgumentError, "not a read"),
        ({"kind": "copy", "arguments": {"source": "a"}}, GraphError, "'source' and 'destination'"),
    ],
)
def test_bad_attributes_are_refused_by_name(attributes: Any, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said) as caught:
        from_networkx(one(**attributes))
    assert "'t'" in str(caught.value)


def test_bad_arrays_are_refused() -> None:
    with pytest.raises(GraphError, match="unknown key 'size'"):
        from_networkx(nx.DiGraph(), arrays={"a": {"size": 3}})
    with pytest.raises(GraphError, match="declared by its shape"):
        from_networkx(nx.DiGraph(), arrays={"a": 3})


def test_two_nodes_of_one_name_are_refused() -> None:
    digraph = nx.DiGraph()
    digraph.add_nodes_from([1, "1"])
    with pytest.raises(GraphError, match="both named '1'"):
        from_networkx(digraph, {1: print, "1": print})


def test_constants_and_reshaped_arrays_are_restored() -> None:
    graph = TaskGraph("shapes")
    x, y = graph.array("x", (2, 6), "float64"), graph.array("y", (12,), "float64")
    weights = constant(np.ones(12))
    graph.kernel(AXPY, name="kernel", x=x.reshaped(-1), y=y, alpha=1.0)
    graph.kernel(AXPY, name="weighed", x=weights, y=y, alpha=1.0)
    graph.host(lambda a, w: None, name="host", a=y.reshaped((3, 4)).read(), w=weights)
    back = from_networkx(to_networkx(graph))
    assert back.fingerprint() == graph.fingerprint()
    assert back.find_task("host").constants == {"w": weights}


def costs() -> nx.DiGraph:
    """Return a digraph of three tasks with costs, as other programs make it."""
    digraph = nx.DiGraph(name="costs")
    digraph.add_node("a", cost=3, cores=np.int64(4))
    digraph.add_node("b", seconds=0.25, seconds_gpu=np.float64(1e-5), priority=2, family="fft", color="red")
    digraph.add_node(7, weight="1.5")
    digraph.add_edge("a", "b", bytes=1000)
    digraph.add_edge("a", 7, cost=2)
    digraph.add_edge("b", 7)
    return digraph


@pytest.mark.parametrize("units", [None, Units(time_s=2.0, communication_bytes=10.0, same_speed=True)])
def test_costs_are_read_as_from_a_graphml_file(units: Units | None, tmp_path: Path) -> None:
    nx.write_graphml(costs(), tmp_path / "costs.graphml")
    expected = read_graph(tmp_path / "costs.graphml", units=units)
    graph = from_networkx(costs(), units=units)
    assert described(graph) == described(expected)
    assert graph.fingerprint() == expected.fingerprint()
    assert [t.name for t in graph.tasks] == ["a", "b", "7"]
    # The converted graph has the same round trip as any other, and the digraph has the costs.
    digraph = to_networkx(graph)
    assert from_networkx(digraph).fingerprint() == graph.fingerprint()
    assert digraph.nodes["b"]["seconds_gpu"] == 1e-5
    assert digraph.edges["a", "b"]["bytes"] == 1000


def test_own_names_of_cost_attributes() -> None:
    digraph = nx.DiGraph()
    digraph.add_node("a", time=2, cost=100)
    digraph.add_node("b", time=3)
    digraph.add_edge("a", "b", data=5, cost=100)
    graph = from_networkx(digraph, units=Units(task_cost="time", edge_cost="data", communication_bytes=8.0))
    assert [array.nbytes for array in graph.arrays.values()] == [40]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda g: g.nodes["a"].update(cost="much"), "node 'a': cost is 'much'"),
        (lambda g: g.nodes["a"].update(cost=float("nan")), "node 'a': cost is 'nan'"),
        (lambda g: g.nodes["a"].pop("cost"), "node 'a': task 'a' has no cost"),
        (lambda g: g.edges["a", "b"].update(bytes=-1), "edge 'a' -> 'b': bytes is '-1'"),
        (lambda g: g.add_edge(7, "a"), "cycle"),
    ],
)
def test_costs_that_are_wrong_are_refused_with_their_place(change: Any, expected: str) -> None:
    digraph = costs()
    change(digraph)
    with pytest.raises(FormatError, match=expected):
        from_networkx(digraph)


def test_costs_do_not_replace_operations() -> None:
    digraph = costs()
    digraph.add_node("code", operation=lambda: None)
    with pytest.raises(GraphError, match="attribute 'operation' is missing"):
        from_networkx(digraph)
