# SPDX-License-Identifier: Apache-2.0
"""Arrays passed to tasks with another shape."""

import pytest

from syclsched import TaskGraph
from syclsched.errors import ArgumentError
from syclsched.kernels.elementwise import AXPY


@pytest.fixture
def graph():
    return TaskGraph()


def test_the_shape_is_worked_out(graph):
    x = graph.array("x", (2, 3, 4), "float32")
    assert x.reshaped((6, -1)).shape == (6, 4)
    assert x.reshaped(-1).shape == (24,)
    assert x.reshaped((6, 4)).reshaped((4, 6)).shape == (4, 6)
    assert graph.array("s", (), "float32").reshaped((1, 1)).shape == (1, 1)
    assert graph.array("e", (0, 3), "float32").reshaped((3, 0)).shape == (3, 0)
    assert x.reshaped((6, 4)).name == "x"
    assert x.reshaped((6, 4)).nbytes == x.nbytes


@pytest.mark.parametrize("shape", [(5, -1), (-1, -1), (23,), (-2, -12), "ab", (1.5,), (0, -1)])
def test_shapes_of_another_element_count_are_refused(graph, shape):
    with pytest.raises(ArgumentError, match="array 'x'"):
        graph.array("x", (2, 3, 4), "float32").reshaped(shape)


def test_rows_and_other_shapes_do_not_go_together(graph):
    x = graph.array("x", (4, 3))
    with pytest.raises(ArgumentError, match="rows"):
        x[0:2].reshaped((6,))
    with pytest.raises(ArgumentError, match="rows"):
        x.reshaped((2, 6))[0:1]


def test_a_task_depends_on_others_as_if_it_had_the_array(graph):
    x, y = graph.array("x", (2, 6), "float64"), graph.array("y", (12,), "float64")
    graph.kernel(AXPY, x=x.reshaped(-1), y=y, alpha=1.0, name="first")
    graph.kernel(AXPY, x=y.reshaped((3, 4)), y=x.reshaped((3, 4)), alpha=1.0, name="second")
    second = graph.find_task("second")
    assert second.reshaped == {"x", "y"}
    assert second.signature.shapes == {"x": (3, 4), "y": (3, 4)}
    assert {(d.before, d.after) for d in graph.dependencies()} == {("first", "second")}


def test_the_same_shape_is_no_other(graph):
    x = graph.array("x", (4,), "float64")
    y = graph.array("y", (4,), "float64")
    assert graph.kernel(AXPY, x=x.reshaped(4).read(), y=y, alpha=1.0).reshaped == frozenset()


def test_the_fingerprint_depends_on_shapes():
    def made(shape):
        graph = TaskGraph()
        x, y = graph.array("x", (2, 6), "float64"), graph.array("y", (2, 6), "float64")
        graph.kernel(AXPY, x=x.reshaped(shape), y=y.reshaped(shape), alpha=1.0)
        return graph.fingerprint()

    assert len({made((12,)), made((3, 4)), made((2, 6))}) == 3
