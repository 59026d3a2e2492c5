# SPDX-License-Identifier: Apache-2.0
"""The Standard Task Graph Set: plain files, and both notations of communication costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graph_files import STG, STG_PAIRS, cost_of, modes_of, refused

from syclsched.frontends import Units, parse_graph
from syclsched.model.cost_only import REFERENCE_LINK_BYTES_PER_S, StatedCost


def test_a_plain_graph() -> None:
    graph = parse_graph(STG.encode(), where="10/sample.stg")
    assert graph.name == "sample"
    assert [t.name for t in graph.tasks] == ["T0", "T1", "T2", "T3", "T4"]
    assert [cost_of(graph, f"T{i}").seconds for i in range(5)] == pytest.approx([0.0, 0.02, 0.003, 0.004, 0.0])
    assert graph.edges == (("T0", "T1"), ("T0", "T2"), ("T1", "T3"), ("T2", "T3"), ("T3", "T4"))
    assert not graph.arrays


def test_communication_costs_become_arrays() -> None:
    graph = parse_graph(STG_PAIRS.encode(), where="x.stg", units=Units(time_s=1e-6))
    unit = 1e-6 * REFERENCE_LINK_BYTES_PER_S
    assert {a.name: a.nbytes for a in graph.arrays.values()} == {
        "T0->T1": 5 * unit, "T1->T3": 2 * unit, "T2->T3": 7 * unit, "T3->T4": unit,
    }  # fmt: skip
    assert graph.edges == (("T0", "T2"),)
    assert modes_of(graph, "T3") == {"T1->T3": "read", "T2->T3": "read", "T3->T4": "write"}


def test_pairs_on_the_line_of_the_task_mean_the_same() -> None:
    joined = "3\n0 0 0\n1 20 1 0 5\n2 3 1 0 0\n3 4 2 1 2 2 7\n4 0 1 3 1\n"
    one, other = (parse_graph(t.encode(), where="x.stg") for t in (joined, STG_PAIRS))
    assert one.fingerprint() == other.fingerprint()


def test_units() -> None:
    graph = parse_graph(STG_PAIRS.encode(), where="x.stg", units=Units(2.0, 100.0, same_speed=True))
    assert cost_of(graph, "T1") == StatedCost(None, {"any": 40.0})
    assert graph.arrays["T2->T3"].nbytes == 700


def test_dummies_may_be_missing() -> None:
    graph = parse_graph(b"2\n1 5 0\n2 6 1 1\n", where="x.stg")
    assert graph.edges == (("T1", "T2"),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "x.stg, line 0: the file ends here, expected the count of tasks"),
        ("# only remarks\n", "expected the count of tasks"),
        ("two\n", "line 1: the count of tasks is 'two', expected a whole number"),
        ("1 2 3\n", "line 1: 3 numbers"),
        ("3\n0 0 0\n", "line 2: 1 tasks, expected 3 and two dummies"),
        ("1\n0 0 0\n1 1 0\n2 0 0\n\n3 0 0\n", "line 6: one task too many"),
        ("1\n0 0\n", "line 2: 2 numbers, expected those of a task"),
        ("1\n0 0 0\n1 -5 0\n", "line 3: the processing time is '-5'"),
        ("1\n0 0 0\n1 nan 0\n", "line 3: the processing time is 'nan'"),
        ("1\n0 0 0\n1 1e400 0\n", "line 3: the processing time"),
        ("1\n0 0 0\n1 x 0\n", "line 3: the processing time is 'x', expected a number"),
        ("1\n0 0 0\n1 5 -1\n", "line 3: the count of predecessors is '-1'"),
        ("1\n0 0 0\n1 5 2 0\n", "line 3: 1 numbers follow, expected 2 predecessors, or 2 pairs"),
        ("1\n0 0 0\n1 5 1\n", "line 3: the file ends here, expected a predecessor with its communication cost"),
        ("1\n0 0 0\n1 5 1\n0 1 2\n", "line 4: 3 numbers, expected a predecessor and its communication cost"),
        ("1\n0 0 0\n1 5 1 7\n", "line 3: no task 'T7'"),
        ("1\n0 0 0\n1 5 1 0 -2\n", "line 3: the communication cost is '-2'"),
        ("1\n0 0 0\n0 5 0\n", "task 'T0' is listed twice, expected unique names (first at x.stg, line 2)"),
        ("2\n0 0 0\n1 5 1 2\n2 5 1 1\n", "T2 -> T1 -> T2"),
        ("1\n0 0 0\n1 5 1 1\n", "T1 -> T1"),
        ("99999999999999999999\n", "whole number"),
        ("999999999\n", "more than 200,000 tasks"),
    ],
)
def test_errors_name_their_line(text: str, expected: str) -> None:
    assert expected in refused(text, "x.stg")


@given(st.data())
def test_any_graph_is_read_back(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 12))
    costs = [data.draw(st.integers(0, 1000)) for _ in range(count + 2)]
    before = [sorted(data.draw(st.sets(st.integers(0, i - 1)))) if i else [] for i in range(count + 2)]
    lines = [f"{i:11}{costs[i]:11}{len(p):11}{''.join(f'{x:11}' for x in p)}" for i, p in enumerate(before)]
    graph = parse_graph("\n".join([f"{count:11}", *lines, "# end"]).encode(), where="x.stg", units=Units(1.0))
    assert [cost_of(graph, f"T{i}").seconds for i in range(count + 2)] == costs
    assert set(graph.edges) == {(f"T{p}", f"T{i}") for i, ps in enumerate(before) for p in ps}
