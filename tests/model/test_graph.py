# SPDX-License-Identifier: Apache-2.0
"""Construction of task graphs, and refusals of invalid ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from support.strategies import graphs, touching

from syclsched.errors import ArgumentError, CycleError, GraphError, UnknownArrayError
from syclsched.model.access import Access, AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.graph_parts.argument_validation import check_data
from syclsched.model.graph_parts.naming import MAX_NAME_LENGTH
from syclsched.model.operation import Implementation, Operation, Parameter, Work
from syclsched.model.task import LogicalArray

R, W, U, A = AccessMode.READ, AccessMode.WRITE, AccessMode.UPDATE, AccessMode.REDUCE
UPDATE = touching((U,))

SCALE = Operation(
    name="scale",
    parameters=(
        Parameter("y", W, ndim=2, dtypes=("float32", "float64")),
        Parameter("x", R, ndim=2, like="y"),
        Parameter("factor", like="y"),
    ),
    implementations=(Implementation("host", "host", load=lambda _: print),),
    work=lambda _: Work(1.0, 1.0),
    check=lambda s: None if s.shapes["x"] == s.shapes["y"] else "x and y differ in shape",
)


@pytest.fixture
def graph() -> TaskGraph:
    graph = TaskGraph("tried")
    for name in ("x", "y"):
        graph.array(name, (2, 3), "float32")
    graph.array("flat", (6,), "float32")
    graph.array("wide", (2, 3), "float64")
    graph.array("whole", (2, 3), "int64")
    graph.array("long", (4, 3), "float32")
    return graph


def test_a_task_has_its_accesses_and_signature(graph: TaskGraph) -> None:
    x, y = graph.arrays["x"], graph.arrays["y"]
    task = graph.kernel(SCALE, y=y, x=x.read(), factor=np.float32(2.5), priority=4)
    assert (task.name, task.kind, task.family, task.priority) == ("scale_0", "kernel", "scale", 4)
    assert task.accesses == (Access("y", W), Access("x", R))
    assert task.arguments == {"y": "y", "x": "x"}
    assert task.signature is not None
    assert task.signature.shapes == {"y": (2, 3), "x": (2, 3)}
    assert task.signature.dtypes == {"y": "float32", "x": "float32"}
    assert task.signature.scalars == {"factor": 2.5}
    assert graph.find_task("scale_0") is task
    assert len(graph) == 1
    assert "1 task," in repr(graph)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"y": "y", "x": "x"}, "argument 'factor' is missing"),
        ({"y": "y", "x": "x", "factor": 1, "z": "x"}, "unknown argument 'z'.*It takes factor, x, y"),
        ({"y": "flat", "x": "x", "factor": 1}, r"'y' must have 2 dimensions, its shape is \(6,\)"),
        ({"y": "whole", "x": "x", "factor": 1}, "'y' must be float32 or float64, it is int64"),
        ({"y": "y", "x": "wide", "factor": 1}, r"'x' must have the dtype of 'y' \(float32\), it is float64"),
        ({"y": "y", "x": "long", "factor": 1}, "x and y differ in shape"),
        ({"y": "y", "x": "y", "factor": 1}, "array 'y' is passed twice, and one of the two is written"),
        ({"y": "y", "x": "x", "factor": "much"}, "'factor' must be a number, not 'much'"),
        ({"y": "y", "x": "x", "factor": None}, "'factor' must be a number"),
        ({"y": "y", "x": 3.0, "factor": 1}, "'x' must be an array of the graph, not 3.0"),
        ({"y": Access("y", R), "x": "x", "factor": 1}, "'y' is a write of the operation, not a read"),
        ({"y": "y", "x": Access("x", U), "factor": 1}, "'x' is a read of the operation, not a update"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(graph: TaskGraph, arguments: dict[str, Any], said: str) -> None:
    given_ = {k: graph.arrays[v] if isinstance(v, str) and v in graph.arrays else v for k, v in arguments.items()}
    with pytest.raises(ArgumentError, match=said) as caught:
        graph.kernel(SCALE, name="wrong", **given_)
    assert "task 'wrong' (scale)" in str(caught.value)
    assert len(graph) == 0  # a refused task changes nothing


def test_scalars_become_python_numbers(graph: TaskGraph) -> None:
    x, y = graph.arrays["x"], graph.arrays["y"]
    for value, kind in ((np.int32(3), int), (True, int), (np.float64(3), float), (3, int)):
        task = graph.kernel(SCALE, y=y, x=x, factor=value)
        assert task.signature is not None
        assert type(task.signature.scalars["factor"]) is kind


def test_one_array_may_be_read_twice(graph: TaskGraph) -> None:
    x = graph.arrays["x"]
    assert graph.kernel(touching((R, R)), p0=x, p1=x).accesses == (Access("x", R),)


def test_arrays_not_of_this_graph(graph: TaskGraph) -> None:
    with pytest.raises(UnknownArrayError, match="'z' is not declared in graph 'tried'"):
        graph.kernel(UPDATE, p0=LogicalArray("z", (2,), "float64"))
    with pytest.raises(UnknownArrayError, match="'x' belongs to another graph"):
        graph.kernel(UPDATE, p0=LogicalArray("x", (9,), "float32"))
    with pytest.raises(UnknownArrayError, match="'z'"):
        graph.host(lambda x: None, x=Access("z", R))
    with pytest.raises(UnknownArrayError, match="'z'"):
        graph.free("z")


def test_every_change_of_a_graph_changes_its_fingerprint() -> None:
    graph = TaskGraph()
    found = [graph.fingerprint()]
    x = graph.array("x", (9,), "float64")
    found.append(graph.fingerprint())
    graph.kernel(UPDATE, name="first", p0=x)
    found.append(graph.fingerprint())
    graph.kernel(UPDATE, name="second", p0=x)
    found.append(graph.fingerprint())
    graph.edge("first", "second")
    found.append(graph.fingerprint())
    graph.free("x")
    found.append(graph.fingerprint())
    assert len(set(found)) == len(found)
    assert graph.fingerprint() == found[-1]


def test_a_freed_array_is_gone_and_temporary(graph: TaskGraph) -> None:
    graph.kernel(UPDATE, name="last", p0=graph.arrays["x"])
    before = graph.fingerprint()
    graph.free("x")
    assert graph.arrays["x"].temporary
    assert graph.fingerprint() != before
    with pytest.raises(UnknownArrayError, match=r"task 'late' \(touch_u\): array 'x' was freed before"):
        graph.kernel(UPDATE, name="late", p0=graph.arrays["x"])
    with pytest.raises(UnknownArrayError, match="freed before"):
        graph.free("x")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "neither shape nor data"),
        ({"shape": (2, -1)}, "cannot lie in device memory"),
        ({"shape": (2,), "dtype": object}, "cannot lie in device memory"),
        ({"shape": 3}, "is not one"),
        ({"shape": ("a",)}, "is not one"),
        ({"shape": (2,), "dtype": "float99"}, "is not one"),
        ({"shape": (2,), "data": np.zeros(3)}, r"data of shape \(3,\)"),
        ({"shape": (3,), "dtype": "float32", "data": np.zeros(3)}, "dtype float64 is given"),
        ({"data": [object()]}, "cannot lie"),
    ],
)
def test_impossible_arrays_are_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said) as caught:
        TaskGraph().array("a", **arguments)
    assert "array 'a'" in str(caught.value)


def test_arrays_take_shape_and_dtype_from_data() -> None:
    graph = TaskGraph()
    array = graph.array("a", data=[[1, 2], [3, 4]])
    assert (array.shape, array.dtype, array.nbytes) == ((2, 2), "int64", 32)
    assert graph.array("b", (3,)).dtype == "float64"
    assert graph.array("c", (), "int8").nbytes == 1
    assert graph.array("d", (0, 5)).nbytes == 0
    assert graph.data.keys() == {"a"}


@pytest.mark.parametrize("name", ["", None, 3])
def test_names_are_words(name: Any) -> None:
    with pytest.raises(GraphError, match="non-empty string"):
        TaskGraph().array(name, (1,))


def test_names_fit_into_plans() -> None:
    graph, longest = TaskGraph(), "x" * MAX_NAME_LENGTH
    x = graph.array(longest, (1,))
    task = graph.kernel(touching((AccessMode.UPDATE,)), name=longest, p0=x)
    for add in (
        lambda name: graph.array(name, (1,)),
        lambda name: graph.kernel(touching((AccessMode.UPDATE,)), name=name, p0=x),
        lambda name: graph.barrier(name=name),
        lambda name: graph.insert(replace(task, name=name)),
    ):
        with pytest.raises(ArgumentError, match=r"'x+'\.\.\.: the name has 401 characters, at most 400 fit into plans"):
            add(longest + "x")
    assert (len(graph.arrays), len(graph.tasks)) == (1, 1)


def test_names_are_unique(graph: TaskGraph) -> None:
    with pytest.raises(GraphError, match="'x' is taken"):
        graph.array("x", (1,))
    graph.barrier(name="b")
    for add in (lambda: graph.barrier(name="b"), lambda: graph.host(print, name="b")):
        with pytest.raises(GraphError, match="'b' is taken"):
            add()
    graph.barrier(name="barrier_2")
    assert graph.barrier().name == "barrier_3"  # a generated name never clashes


def test_host_tasks_must_declare_their_accesses(graph: TaskGraph) -> None:
    with pytest.raises(ArgumentError, match=r"'x' does not say how .*Write x=x.read\(\)"):
        graph.host(lambda x: None, x=graph.arrays["x"])
    task = graph.host(lambda x, n: None, x=graph.arrays["x"].reduce(), n=2, flops=7.0)
    assert task.accesses == (Access("x", A),)
    assert task.operation is not None and task.signature is not None
    assert task.operation.work(task.signature).flops == 7.0
    assert task.operation.work(task.signature).bytes == 24


def test_copies_need_one_shape_and_dtype(graph: TaskGraph) -> None:
    task = graph.copy(graph.arrays["x"], graph.arrays["y"], name="c")
    assert task.accesses == (Access("x", R), Access("y", W))
    with pytest.raises(ArgumentError, match=r"cannot copy shape \(2, 3\) into shape \(6,\)"):
        graph.copy(graph.arrays["x"], graph.arrays["flat"])
    with pytest.raises(ArgumentError, match="dtype"):
        graph.copy(graph.arrays["x"], graph.arrays["wide"])
    with pytest.raises(ArgumentError, match="passed twice"):
        graph.copy(graph.arrays["x"], graph.arrays["x"])


def test_a_cycle_of_explicit_edges_is_reported(graph: TaskGraph) -> None:
    for name in ("s", "t", "u", "v"):
        graph.kernel(UPDATE, name=name, p0=graph.arrays["x"])
    graph.edge("t", "s")  # s -> t follows from x
    with pytest.raises(
        CycleError, match=r"graph 'tried': the edges close a cycle: .*Remove an explicit edge"
    ) as caught:
        graph.validate()
    assert caught.value.what.split(": ")[1] in ("s -> t -> s", "t -> s -> t")
    with pytest.raises(CycleError):
        graph.inputs()


def test_edges_with_unknown_tasks_are_refused(graph: TaskGraph) -> None:
    task = graph.barrier(name="b")
    for pair in ((task, "c"), ("c", task)):
        with pytest.raises(GraphError, match="no task 'c'"):
            graph.edge(*pair)
    with pytest.raises(GraphError, match="graph 'tried': no task 'c'"):
        graph.find_task("c")
    graph.edge(task, task)
    with pytest.raises(CycleError, match="b -> b"):
        graph.validate()


def test_inputs_are_arrays_read_before_they_are_written(graph: TaskGraph) -> None:
    a = graph.arrays
    graph.kernel(touching((R, W)), p0=a["x"], p1=a["y"])
    graph.kernel(touching((R, A)), p0=a["y"], p1=a["flat"])
    assert graph.inputs() == ("x", "flat")


def test_an_explicit_edge_can_reorder_independent_tasks(graph: TaskGraph) -> None:
    graph.kernel(touching((W,)), name="writer", p0=graph.arrays["y"])
    graph.kernel(touching((R,)), name="reader", p0=graph.arrays["x"])
    graph.edge("reader", "writer")
    assert graph.order() == ("reader", "writer")


@given(graphs())
def test_an_order_respects_every_dependency(graph: TaskGraph) -> None:
    place = {name: i for i, name in enumerate(graph.order())}
    assert place.keys() == {t.name for t in graph.tasks}
    assert all(place[d.before] < place[d.after] for d in graph.dependencies())


@given(graphs())
def test_the_fingerprint_is_of_the_graph_not_the_data(graph: TaskGraph) -> None:
    before = graph.fingerprint()
    assert graph.fingerprint() == before
    graph.barrier(name="one more")
    assert graph.fingerprint() != before
    with_data, without = TaskGraph(), TaskGraph()
    with_data.array("a", data=np.ones(3))
    without.array("a", (3,))
    assert with_data.fingerprint() == without.fingerprint()


def test_changes_of_returned_mappings_leave_the_graph_unchanged(graph: TaskGraph) -> None:
    graph.data["x"] = 1  # type: ignore[index]
    graph.arrays.pop("x")  # type: ignore[attr-defined]
    assert "x" not in graph.data
    assert "x" in graph.arrays


def test_access_modes() -> None:
    assert [m for m in AccessMode if m.reads] == [R, U, A]
    assert [m for m in AccessMode if m.writes] == [W, U, A]
    assert R.merged(R) is R
    assert R.merged(W) is U
    assert A.merged(A) is A


def test_data_is_checked_when_it_is_given_late() -> None:
    array = LogicalArray("a", (2,), "float32")
    check_data(array, np.zeros(2, "float32"))
    check_data(array, np.zeros(2, ">f4"))  # in any byte order
    with pytest.raises(ArgumentError, match=r"array 'a': data of shape \(2, 1\)"):
        check_data(array, np.zeros((2, 1), "float32"))
