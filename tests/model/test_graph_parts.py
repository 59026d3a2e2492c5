# SPDX-License-Identifier: Apache-2.0
"""Tasks copied from other graphs, and arrays that are divided into parts."""

from __future__ import annotations

import pytest

from syclsched.errors import ArgumentError, GraphError, UnknownArrayError
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph


def one_task() -> TaskGraph:
    graph = TaskGraph()
    graph.kernel(get("scale"), name="s", x=graph.array("x", (4, 2)), alpha=2.0)
    return graph


def test_an_inserted_task_is_the_same_and_makes_dependencies() -> None:
    graph, new = one_task(), TaskGraph()
    x = new.array("x", (4, 2))
    new.kernel(get("fill"), name="f", x=x, value=1.0)
    assert new.insert(graph.find_task("s")) is graph.find_task("s")
    assert [(d.before, d.after, d.kind) for d in new.dependencies()] == [("f", "s", "RAW")]


def test_a_task_that_does_not_fit_is_not_inserted() -> None:
    task, new = one_task().find_task("s"), TaskGraph()
    with pytest.raises(UnknownArrayError, match="'x' is not declared"):
        new.insert(task)
    new.array("x", (4, 3))
    with pytest.raises(ArgumentError, match="array 'x' is not what its argument 'x' takes"):
        new.insert(task)
    assert len(new) == 0
    same = one_task()
    with pytest.raises(GraphError, match="'s' is taken"):
        same.insert(task)


def test_parts_make_up_a_whole() -> None:
    graph = TaskGraph()
    parts = [graph.array(f"x{i}", (i + 1, 3), "float32") for i in range(3)]
    graph.join("x", parts)
    (joined,) = graph.joined["x"]
    assert (joined.whole.name, joined.whole.shape, joined.whole.dtype) == ("x", (6, 3), "float32")
    assert joined.parts == ("x0", "x1", "x2")
    graph.join("x", [graph.array("y0", (4, 3), "float32"), graph.array("y1", (2, 3), "float32")])
    assert len(graph.joined["x"]) == 2


def test_incompatible_parts_are_refused() -> None:
    graph = TaskGraph()
    a, b = graph.array("a", (2, 3)), graph.array("b", (2, 4))
    with pytest.raises(GraphError, match="differ in more than their extent along axis 0"):
        graph.join("x", [a, b])
    with pytest.raises(GraphError, match="differ in more"):
        graph.join("x", [])
    with pytest.raises(GraphError, match="differ in more"):
        graph.join("x", [graph.array("number", ())])
    graph.array("x", (5, 3))
    with pytest.raises(GraphError, match=r"make up \(4, 3\), not \(5, 3\)"):
        graph.join("x", [a, graph.array("c", (2, 3))])
    with pytest.raises(UnknownArrayError, match="'z' is not declared"):
        graph.join("x", [TaskGraph().array("z", (5, 3))])
