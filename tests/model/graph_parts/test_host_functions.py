# SPDX-License-Identifier: Apache-2.0
"""Host functions as tasks: futures, checks of arguments when a task is added, and free choice of names."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import syclsched
from syclsched import TaskGraph, Update, Write
from syclsched.errors import ArgumentError, GraphError, SyclschedError
from syclsched.model.graph_parts.builtin_operations import revision_of


def total(x: Any) -> float:
    return float(x.sum())


def results(graph: TaskGraph, *wanted: Any) -> list[Any]:
    with syclsched.run(graph) as run:
        return [run.result(each) for each in wanted]


@pytest.mark.sycl
def test_results_are_passed_on() -> None:
    graph = TaskGraph()
    x = graph.array("x", data=np.arange(6.0))
    sums = graph.map(total, [x, x[0:3], np.ones(4)])
    both = graph.submit(lambda parts, scale=1.0: scale * sum(parts), sums, scale=2.0)
    assert [task.name for task in graph.tasks] == ["total", "total_1", "total_2", "lambda"]
    assert [each.shape for each in sums] == [()] * 3
    assert [float(each) for each in results(graph, *sums, both)] == [15.0, 3.0, 4.0, 44.0]


@pytest.mark.sycl
def test_a_decorated_function_adds_tasks() -> None:
    graph = TaskGraph()

    @graph.task
    def doubled(x: Any) -> Write[np.float32, 3]:  # type: ignore[valid-type]
        return np.float32(2) * x

    @graph.task(shape=(2, 3), dtype="float32")
    def stacked(first: Any, second: Any) -> Any:
        return np.stack([first, second])

    once = doubled(np.ones(3, "float32"))
    both = stacked(once, second=doubled(once))
    assert (once.dtype, both.shape) == ("float32", (2, 3))
    assert results(graph, both)[0].tolist() == [[2, 2, 2], [4, 4, 4]]


@pytest.mark.sycl
def test_shape_and_dtype_of_results() -> None:
    graph = TaskGraph()
    x = graph.array("x", data=np.ones((2, 2), "float32"))

    def count(x: Any) -> int:
        return int(x.size)

    assert (graph.submit(np.negative, x, like=x).shape, graph.submit(np.negative, x, like=x).dtype) == (
        (2, 2), "float32"
    )  # fmt: skip
    assert graph.submit(count, x).dtype == "int64"
    assert graph.submit(np.sum, x).dtype == "float64"
    assert graph.submit(np.ravel, x, shape=4, dtype="float32").shape == (4,)


@pytest.mark.sycl
def test_arguments_annotated_as_update_are_written_in_place() -> None:
    graph = TaskGraph()
    x = graph.array("x", data=np.zeros(3))

    def bumped(x: Update) -> float:
        x += 1
        return float(x[0])

    graph.submit(bumped, x)
    last = graph.submit(bumped, x)
    assert [np.asarray(each).tolist() for each in results(graph, x, last)] == [[2, 2, 2], 2.0]


def test_arguments_are_checked_when_a_task_is_added() -> None:
    graph = TaskGraph()
    x = graph.array("x", (3,), "float64")
    with pytest.raises(ArgumentError, match="does not take these arguments: too many"):
        graph.submit(total, x, x)
    with pytest.raises(ArgumentError, match="does not take these arguments: missing"):
        graph.submit(total)
    with pytest.raises(ArgumentError, match="does not take arguments of the names z: missing a required argument: 'x'"):
        graph.host(lambda x: None, z=x.read())
    with pytest.raises(ArgumentError, match="takes a function"):
        graph.submit(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="iterables of one length"):
        graph.map(total, [x], [])
    with pytest.raises(ArgumentError, match="does not say the shape"):

        def vague(x: Any) -> Write:
            return x

        graph.submit(vague, x)
    with pytest.raises(GraphError):
        graph.submit(total, x, name="") and None
    assert len(graph) == 0


@pytest.mark.sycl
def test_a_result_that_differs_from_the_declaration_is_reported() -> None:
    graph = TaskGraph()
    graph.submit(np.ravel, np.ones(3))
    with pytest.raises(
        SyclschedError, match=r"ravel returned float64 of shape \(3,\), declared is float64 of shape \(\)"
    ):
        results(graph, "ravel.result")


def test_names_and_partial_functions() -> None:
    graph = TaskGraph()
    graph.array("total.result", (1,))
    graph.submit(total, np.ones(1))
    graph.submit(partial(total, np.ones(2)))
    graph.map(total, [np.ones(1), np.ones(2)], name="each")
    assert [task.name for task in graph.tasks] == ["total_1", "total_2", "each_0", "each_1"]
    assert {task.operation.name for task in graph.tasks if task.operation is not None} == {"total"}


def test_a_refused_task_leaves_nothing_behind() -> None:
    graph, other = TaskGraph(), TaskGraph()
    mine, theirs = graph.array("mine", (3,)), other.array("theirs", (3,))
    with pytest.raises(SyclschedError, match="not declared"):
        graph.submit(np.stack, [mine, np.ones(3), theirs], shape=(3, 3))
    assert list(graph.arrays) == ["mine"]
    assert len(graph.data) == 0
    assert graph.submit(np.stack, [mine, np.ones(3)], shape=(2, 3)).name == "stack.result"


@pytest.mark.sycl
def test_changes_of_a_shared_argument_do_not_affect_other_tasks() -> None:
    graph = TaskGraph()
    ones = np.ones(3)

    def bumped(x: Update) -> float:
        x += 1
        return float(x[0])

    values = [graph.submit(function, ones) for function in (bumped, np.sum, bumped, np.sum)]
    assert [float(each) for each in results(graph, *values)] == [2.0, 3.0, 2.0, 3.0]
    assert ones.tolist() == [1, 1, 1]


@pytest.mark.sycl
def test_a_copy_of_a_graph_is_given_values_of_its_own() -> None:
    graph = TaskGraph()
    copied = graph.with_implementations(lambda task, implementation: True)
    value = np.ones(3)
    copied.submit(np.sum, value)
    graph.submit(np.sum, value)
    assert results(graph, "sum.result") == results(copied, "sum.result") == [3.0]


def test_one_value_is_one_array() -> None:
    graph = TaskGraph()
    shared = np.ones(3)
    graph.map(lambda x, y: x.sum() + y.sum(), [np.ones(1), np.zeros(1)], [shared, shared])
    assert sum(value is shared for value in graph.data.values()) == 1


@pytest.mark.sycl
def test_two_lambdas_are_two_operations() -> None:
    graph = TaskGraph()
    x = graph.array("x", data=np.ones(3))
    twice, thrice = lambda x: np.multiply(x, 2, out=x), lambda x: np.multiply(x, 3, out=x)
    for each in (twice, thrice):
        graph.host(each, x=x.update())
    revisions = [task.operation.implementations[0].revision for task in graph.tasks if task.operation is not None]
    assert revisions[0] != revisions[1]
    same = [revision_of(partial(total, data)) for data in (np.ones(1), np.zeros(2))]
    assert same[0] == same[1] == revision_of(total)
    assert results(graph, x)[0].tolist() == [6, 6, 6]


def test_the_old_name_of_find_task_works_with_a_warning() -> None:
    graph = TaskGraph()
    graph.submit(total, np.ones(1))
    with pytest.warns(DeprecationWarning, match="find_task"):
        assert graph.task("total") is graph.find_task("total")
