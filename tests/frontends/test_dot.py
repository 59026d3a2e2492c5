# SPDX-License-Identifier: Apache-2.0
"""The DOT language with costs as attributes."""

from __future__ import annotations

import pytest
from support.graph_files import DOT, cost_of, refused

from syclsched.errors import FormatError
from syclsched.frontends import Limits, Units, parse_graph
from syclsched.model.cost_only import StatedCost
from syclsched.model.graph import TaskGraph


def parse(text: str, units: Units | None = None) -> TaskGraph:
    return parse_graph(text.encode(), where="x.dot", units=units or Units(1.0, 1.0))


def sizes(graph: TaskGraph) -> dict[str, int]:
    return {a.name: a.nbytes for a in graph.arrays.values()}


def test_the_sample() -> None:
    graph = parse(DOT)
    assert graph.name == "my graph"
    assert {t.name for t in graph.tasks} == set("abcde")
    assert cost_of(graph, "a") == StatedCost(1.5, {"cpu": 2.0, "xeon-8480": 500.0})
    assert cost_of(graph, "b") == StatedCost(3.0)
    assert cost_of(graph, "e") == StatedCost(3.0, cores=4.0)
    assert (graph.find_task("e").family, graph.find_task("e").priority) == ("potrf", -3)
    assert sizes(graph) == {"a->b": 100, "b->c": 100, "d->e": 2}
    assert set(graph.edges) == {("d", "c"), ("e", "c")}


@pytest.mark.parametrize(
    ("body", "edges"),
    [
        ("a -> b -> c", {"a->b", "b->c"}),
        ("a -> {b c}", {"a->b", "a->c"}),
        ("{a b} -> {c; d}", {"a->c", "a->d", "b->c", "b->d"}),
        ("subgraph s {a -> b} -> c", {"a->b", "a->c", "b->c"}),
        ("{a {b {c}}} -> d", {"a->d", "b->d", "c->d"}),
        ('a:port -> "a b":n:sw', {"a->a b"}),
        ("a -> b; a -> b", {"a->b"}),
        ("A -> a", {"A->a"}),
        ("1 -> -2.5 -> .5", {"1->-2.5", "-2.5->.5"}),
        ("käse -> näse", {"käse->näse"}),
        ('"node" -> "edge"', {"node->edge"}),
        ("a -> b # remark\n# 1 line\n -> c // x\n", {"a->b", "b->c"}),
        ("a -> b [] [x=y,z];;", {"a->b"}),
        ('a -> "b\\"c" ', {'a->b"c'}),
        ('a -> "b\\\nc" ', {"a->bc"}),
        ("a -> <<b>html</b>>", {"a-><b>html</b>"}),
    ],
)
def test_edges(body: str, edges: set[str]) -> None:
    graph = parse("digraph { node [cost=1] " + body + "}")
    assert {f"{before}->{after}" for before, after in graph.edges} == edges


def test_defaults_hold_within_their_braces() -> None:
    graph = parse("digraph { node [cost=1] a; { node [cost=2, cores=3] b; a } c; node [cost=4] d; a }")
    assert {n: cost_of(graph, n).seconds for n in "abcd"} == {"a": 1.0, "b": 2.0, "c": 1.0, "d": 4.0}
    assert cost_of(graph, "b").cores == 3.0
    edges = parse("digraph { node [cost=1] edge [bytes=1] a -> b; { edge [bytes=2] a -> c } a -> d [bytes=3] }")
    assert sizes(edges) == {"a->b": 1, "a->c": 2, "a->d": 3}


def test_attributes_of_a_node_add_up_and_the_last_holds() -> None:
    graph = parse("digraph { a -> b; a [cost=1]; b [cost=2]; a [cores=2, cost=7] }")
    assert cost_of(graph, "a") == StatedCost(7.0, cores=2.0)


def test_parallel_edges_are_several_arrays_unless_strict() -> None:
    body = "{ node [cost=1] a -> b [bytes=1]; a -> b [bytes=2] }"
    assert sorted(sizes(parse("digraph " + body)).values()) == [1, 2]
    assert sizes(parse("strict digraph " + body)) == {"a->b": 2}


def test_numbers_may_have_exponents() -> None:
    graph = parse("digraph { a [seconds=1e-3]; b [seconds=2.5E+2] a->b[bytes=1e3] }")
    assert [cost_of(graph, n).seconds for n in "ab"] == [1e-3, 250.0]
    assert sizes(graph) == {"a->b": 1000}


def test_precedence_of_cost_attributes() -> None:
    node = parse("digraph { a [weight=5, cost=6, seconds=7, weight_gpu=1, seconds_gpu=3, cost_gpu=2] }", Units(10.0))
    assert cost_of(node, "a") == StatedCost(7.0, {"gpu": 3.0})
    assert sizes(parse("digraph { node [cost=1] a -> b [weight=5, cost=6, bytes=7] }")) == {"a->b": 7}
    assert sizes(parse("digraph { node [cost=1] a -> b [weight=5, cost=6] }")) == {"a->b": 6}


def test_units() -> None:
    graph = parse("digraph { a [cost=2]; b [cost=3]; a -> b [weight=4] }", Units(0.5))
    assert cost_of(graph, "b") == StatedCost(1.5)
    assert sizes(graph) == {"a->b": 4 * 0.5 * 10e9}


def test_names_of_attributes_are_read_in_any_case() -> None:
    graph = parse("digraph { 0 [Weight=5]; 1 [WEIGHT=6, Seconds_GPU=2, Family=x]; 0 -> 1 [Weight=15, x=7] }")
    assert cost_of(graph, "0") == StatedCost(5.0)
    assert cost_of(graph, "1") == StatedCost(6.0, {"GPU": 2.0})
    assert sizes(graph) == {"0->1": 15}


def test_attributes_that_the_user_names() -> None:
    text = "digraph { a [time=2, cost=9, time_gpu=1, seconds=8, Cores=3]; b [time=4]; a -> b [data=7, bytes=1] }"
    graph = parse(text, Units(10.0, 2.0, task_cost="time", edge_cost="data"))
    assert cost_of(graph, "a") == StatedCost(20.0, {"gpu": 10.0}, 3.0)
    assert cost_of(graph, "b") == StatedCost(40.0)
    assert sizes(graph) == {"a->b": 14}
    with pytest.raises(FormatError, match=r"expected an attribute effort.*--task-cost"):
        parse(text, Units(task_cost="effort"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "x.dot, line 1: the file ends here, expected digraph"),
        ("graph { a -- b }", "line 1: a graph without directions"),
        ("digraph {\n a -- b }", "line 2: an edge without direction"),
        ("digraph {\n a [cost=1]", "line 2: the file ends here, expected a statement or }"),
        ("digraph {} \n digraph {}", "line 2: found 'digraph', expected the end of the file"),
        ("digraph a b {}", "found 'b', expected {"),
        ("digraph {\n\n a [cost=] }", "line 3: found ']', expected a value"),
        ("digraph { a [=3] }", "found '=', expected an attribute"),
        ("digraph { a -> }", "found '}', expected a statement"),
        ("digraph { a -> b = 3 }", "an assignment, expected a node"),
        ("digraph { {a b} [cost=1] }", "attributes after a subgraph"),
        ("digraph { node cost=1 }", "found 'cost', expected [ after node"),
        ('digraph {\n "a }', "line 2: found a text in quotes, or a remark, that does not end"),
        ("digraph {\n /* a }", "line 2: found a text in quotes, or a remark, that does not end"),
        ("digraph { <a }", "HTML text that does not end"),
        ('digraph { "a" + "b }', "text in quotes that does not end"),
        ("digraph { a ! b }", "found '!'"),
        ("digraph { 12ab [cost=1] }", "found '1', expected a name, a number or a mark"),
        ("digraph { a [cost=1.2.3] }", "found '1'"),
        ("digraph {\n a\n}", "line 2: task 'a' has no cost, expected an attribute seconds, cost or weight"),
        ('digraph { a [cost="1_000"] }', "cost is '1_000', expected a number"),
        ('digraph { a [cost="\u0661"] }', "cost is '\u0661', expected a number"),
        ("digraph {\n a [cost=x] }", "line 2: cost is 'x', expected a number"),
        ("digraph { a [cost=-1] }", "cost is '-1', expected a finite number"),
        ("digraph { a [cost=nan] }", "cost is 'nan'"),
        ("digraph { a [seconds_gpu=inf] }", "seconds_gpu is 'inf'"),
        ("digraph { a [seconds=1e15] }", "seconds is 1000000000000000.0"),
        ("digraph { a [cost=1, cores=0] }", "cores is 0.0"),
        ("digraph { a [cost=1, cores=1e10] }", "cores is 10000000000.0, not from 1 to 1e+09"),
        ("digraph { a [cost=1, cores=1e308] }", "cores is '1e308', expected a finite number from 0 to 1e+18"),
        ("digraph { a [cost=1, priority=1.5] }", "priority is '1.5', expected a whole number"),
        ("digraph { a [cost=1, priority=99999999999] }", "32 bits"),
        ('digraph { a [cost=1, family=""] }', "name is empty"),
        ('digraph { "" [cost=1] }', "name is empty"),
        ("digraph { a [seconds_=1] }", "name is empty"),
        ("digraph {\n node [cost=1]\n a -> b [bytes=1e17] }", "line 3: 1e+17 bytes"),
        ("digraph { node [cost=1]\n a -> b\n -> a }", "a -> b -> a"),
        ("digraph { node [cost=1] a -> a }", "a -> a"),
        ("digraph " + "{" * 100 + "}" * 100, "nested more than 40 deep"),
    ],
)
def test_errors_name_their_line(text: str, expected: str) -> None:
    assert expected in refused(text, "x.dot")


def test_many_devices_are_refused() -> None:
    costs = ", ".join(f"seconds_d{i}=1" for i in range(65))
    assert "65 devices" in refused(f"digraph {{ a [{costs}] }}", "x.dot")


def test_products_of_subgraphs_are_limited_before_they_are_made() -> None:
    nodes = " ".join(f"n{i}" for i in range(100))
    text = f"digraph {{ node [cost=1] {{{nodes}}} -> {{{nodes.replace('n', 'm')}}} }}"
    assert len(parse_graph(text.encode(), where="x.dot").edges) == 10_000
    assert "more than 9,999 edges" in refused(text, "x.dot", Limits(edges=9_999))


def test_a_long_cycle_is_named_by_its_first_tasks() -> None:
    ring = " -> ".join([*(f"n{i}" for i in range(1000)), "n0"])
    said = refused(f"digraph {{ node [cost=1] {ring} }}", "x.dot")
    assert "(1000 tasks)" in said
    assert len(said) < 300
