# SPDX-License-Identifier: Apache-2.0
"""The project's own graph files: reading, refusals, writing, and round trips."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graph_files import GRAPH_FILE, cost_of, modes_of, refused

from syclsched.errors import GraphError, StorageError
from syclsched.frontends import parse_graph, read_graph, write_graph
from syclsched.frontends.graphfile import graph_text
from syclsched.model.access import AccessMode
from syclsched.model.cost_only import StatedCost, add_cost_only
from syclsched.model.graph import TaskGraph
from syclsched.model.task import ArrayRows, LogicalArray


def test_the_sample() -> None:
    graph = parse_graph(json.dumps(GRAPH_FILE).encode(), where="g.json")
    assert graph.name == "own"
    assert [(t.name, t.family, t.kind) for t in graph.tasks] == [
        ("a", "task", "kernel"), ("b", "gemm", "kernel"), ("wall", "barrier", "barrier"), ("c", "task", "kernel"),
    ]  # fmt: skip
    assert cost_of(graph, "b") == StatedCost(None, {"gpu": 0.01})
    assert cost_of(graph, "c") == StatedCost(1.0, cores=8.0)
    assert modes_of(graph, "a") == {"x": "read", "y": "write"}
    assert graph.arrays["y"].shape == (16, 16)
    assert graph.arrays["y"].nbytes == 1024
    assert graph.arrays["y"].temporary and not graph.arrays["x"].temporary
    assert graph.edges == (("a", "c"),)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"tasks": [{"name": "a"}]}, "at tasks.0: no cost is given"),
        ({"tasks": [{"name": "a", "seconds": -1}]}, "at tasks.0.seconds"),
        ({"tasks": [{"name": "a", "seconds": 1e13}]}, "at tasks.0.seconds"),
        ({"tasks": [{"name": "a", "seconds": True}]}, "at tasks.0.seconds"),
        ({"tasks": [{"name": "a", "seconds": "1"}]}, "at tasks.0.seconds"),
        ({"tasks": [{"name": "a", "seconds_on": {"gpu": -1}}]}, "at tasks.0.seconds_on.gpu"),
        ({"tasks": [{"name": "a", "seconds": 1, "cores": 0.5}]}, "at tasks.0.cores"),
        ({"tasks": [{"name": "a", "seconds": 1, "cores": 1e308}]}, "at tasks.0.cores"),
        ({"tasks": [{"name": "a", "seconds": 1, "code": "rm"}]}, "at tasks.0.code"),
        ({"tasks": [{"name": "a", "seconds": 1}, {"name": "a", "seconds": 1}]}, "at tasks.1: the name 'a' is taken"),
        ({"tasks": [{"name": "a", "seconds": 1, "after": ["b"]}]}, "at tasks.0.after: no task 'b'"),
        ({"tasks": [{"name": "a", "seconds": 1, "after": ["a"]}]}, "cycle: a -> a"),
        ({"tasks": [{"name": "a", "seconds": 1, "kind": "barrier"}]}, "barrier 'a' has accesses or a cost"),
        ({"tasks": [{"name": "a", "seconds": 1, "accesses": [{"array": "z", "mode": "read"}]}]}, "no array 'z'"),
        ({"tasks": [{"name": "a", "seconds": 1, "accesses": [{"array": "x", "mode": "eat"}]}]}, "accesses.0.mode"),
        (
            {
                "tasks": [
                    {"name": "a", "seconds": 1, "accesses": [{"array": "x", "mode": m} for m in ("read", "write")]}
                ]
            },
            "passed twice",
        ),
        (
            {"tasks": [{"name": "a", "seconds": 1, "accesses": [{"array": "y", "mode": "read", "rows": [9, 20]}]}]},
            "at tasks.0: y[9:20] is beyond the array, which has 16 rows",
        ),
        (
            {"tasks": [{"name": "a", "seconds": 1, "accesses": [{"array": "y", "mode": "read", "rows": [9]}]}]},
            "accesses.0.rows",
        ),
        ({"arrays": [{"name": "x"}]}, "at arrays.0: array 'x' has both nbytes and shape, or neither"),
        ({"arrays": [{"name": "x", "nbytes": 1, "shape": [1]}]}, "both nbytes and shape"),
        ({"arrays": [{"name": "x", "nbytes": 1 << 60}]}, "at arrays.0.nbytes"),
        ({"arrays": [{"name": "x", "shape": [1 << 40, 1 << 40]}]}, "too large"),
        ({"arrays": [{"name": "x", "shape": [1], "dtype": "object"}]}, "at arrays.0.dtype"),
        ({"arrays": [{"name": "x", "nbytes": 1}, {"name": "x", "nbytes": 1}]}, "at arrays.1: the name 'x' is taken"),
        ({"format": "syclsched-graph/9"}, "expected 'syclsched-graph/1'"),
        ({"tasks": None}, "at tasks"),
    ],
)
def test_errors_name_their_place(change: dict[str, Any], expected: str) -> None:
    document = {**copy.deepcopy(GRAPH_FILE), **change}
    assert expected in refused(document, "g.json")


def test_deep_nesting_is_refused() -> None:
    assert "g.json" in refused("[" * 100_000, "g.json")
    assert "g.json" in refused('{"format": ' + '{"a":' * 5_000 + "1" + "}" * 5_001, "g.json")


MODES = st.sampled_from(list(AccessMode))
SECONDS = st.floats(0, 1e12)


@st.composite
def some_rows(draw: st.DrawFn, array: LogicalArray) -> LogicalArray | ArrayRows:
    if not array.shape or not array.shape[0] or draw(st.booleans()):
        return array
    start = draw(st.integers(0, array.shape[0] - 1))
    return array[start : draw(st.integers(start + 1, array.shape[0]))]


@st.composite
def cost_graphs(draw: st.DrawFn) -> TaskGraph:
    graph = TaskGraph(draw(st.text(min_size=1, max_size=8).filter(lambda t: t.isprintable())))
    shapes, dtypes = st.sampled_from([(0,), (7,), (3, 4), ()]), st.sampled_from(["uint8", "float64"])
    arrays = [
        graph.array(f"x{i}", draw(shapes), draw(dtypes), temporary=draw(st.booleans()))
        for i in range(draw(st.integers(0, 4)))
    ]
    for i in range(draw(st.integers(0, 6))):
        if draw(st.integers(0, 5)) == 0:
            graph.barrier(name=f"t{i}")
            continue
        chosen = draw(st.lists(st.sampled_from(arrays), unique_by=lambda a: a.name)) if arrays else []
        on = draw(st.dictionaries(st.sampled_from(["cpu", "gpu", "max1550"]), SECONDS, max_size=2))
        seconds = draw(SECONDS) if not on or draw(st.booleans()) else None
        cost = StatedCost(seconds, on, draw(st.floats(1, 1e6)))
        accesses = [(draw(some_rows(array)), draw(MODES)) for array in chosen]
        add_cost_only(
            graph, f"t{i}", cost, accesses, family=draw(st.sampled_from("fg")), priority=draw(st.integers(-9, 9))
        )
        if i and draw(st.booleans()):
            graph.edge(f"t{draw(st.integers(0, i - 1))}", f"t{i}")
    return graph


@given(cost_graphs())
def test_written_graphs_are_read_back(graph: TaskGraph) -> None:
    again = parse_graph(graph_text(graph).encode(), where="g.json")
    assert again.fingerprint() == graph.fingerprint()
    assert [(t.rows, t.signature) for t in again.tasks] == [(t.rows, t.signature) for t in graph.tasks]
    assert again.name == graph.name
    assert [t.priority for t in again.tasks] == [t.priority for t in graph.tasks]
    assert graph_text(again) == graph_text(graph)


def test_files(tmp_path: Path) -> None:
    graph = parse_graph(json.dumps(GRAPH_FILE).encode(), where="g.json")
    write_graph(graph, tmp_path / "g.json")
    assert read_graph(tmp_path / "g.json").fingerprint() == graph.fingerprint()
    with pytest.raises(StorageError, match="cannot be written"):
        write_graph(graph, tmp_path / "no" / "g.json")


def test_a_task_with_code_cannot_be_written(tmp_path: Path) -> None:
    graph = TaskGraph()
    x = graph.array("x", (3,))
    graph.host(lambda x: None, x=x.read(), name="look")
    with pytest.raises(GraphError, match="'look'"):
        write_graph(graph, tmp_path / "g.json")
    assert not (tmp_path / "g.json").exists()
