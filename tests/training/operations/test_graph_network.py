# SPDX-License-Identifier: Apache-2.0
"""Networks of task graphs: rows, reshaped arrays, constants, and arrays that are written several times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.host_evaluation import evaluate
from support.training_steps import check_graph

import syclsched
from syclsched.errors import GraphError
from syclsched.kernels import get
from syclsched.training.operations.graph_network import graph_network


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def test_an_array_written_twice_has_two_values() -> None:
    graph = syclsched.TaskGraph("twice")
    w, v = graph.array("w", data=numbers(3, 3)), graph.array("v", data=numbers(3, 3, seed=1))
    t, y = graph.array("t", (3, 3)), graph.array("y", (3, 3))
    graph.kernel(get("gemm"), c=t, a=w, b=v)
    graph.kernel(get("gemm"), c=y, a=t, b=w)
    graph.kernel(get("gemm"), c=t, a=v, b=y)  # the first value is still what y depends on
    graph.kernel(get("axpy"), y=y, x=t, alpha=0.5)
    graph.kernel(get("scale"), x=y, alpha=2.0)
    check_graph(graph)


def test_rows_reshaped_arrays_and_constants() -> None:
    graph = syclsched.TaskGraph("rows")
    w, y, z = graph.array("w", data=numbers(4, 3)), graph.array("y", (4, 3)), graph.array("z", (2, 2, 3))
    graph.kernel(get("add"), z=y[2:4], x=w[0:2], y=w[1:3])
    graph.kernel(get("scale"), x=y[3:4], alpha=3.0)
    graph.kernel(get("copy"), y=y[0:2], x=w[2:4])
    graph.kernel(get("add"), z=z.reshaped((4, 3)), x=y, y=syclsched.constant(numbers(4, 3, seed=1)))
    graph.copy(z.reshaped((4, 3)), y)
    graph.kernel(get("softmax"), y=z.reshaped((4, 3)), x=y)
    check_graph(graph, output="z")


def test_rows_that_nothing_has_written_are_refused() -> None:
    graph = syclsched.TaskGraph("open")
    w, y, z = graph.array("w", data=numbers(4, 3)), graph.array("y", (4, 3)), graph.array("z", (4, 3))
    graph.kernel(get("copy"), y=y[0:2], x=w[0:2])
    graph.kernel(get("copy"), y=z, x=y)
    assert graph.inputs() == ("w", "y")
    graph_network(graph, ("y",), ("z",))
    with pytest.raises(GraphError, match="nothing has written array 'y'"):
        graph_network(graph, (), ("z",))


@settings(max_examples=examples(120), deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 5)] * 4, st.sampled_from(["copy", "axpy", "scale"])), min_size=1, max_size=12)
)
def test_random_graphs_of_rows_compute_what_a_sequential_program_does(
    tasks: list[tuple[int, int, int, int, str]],
) -> None:
    graph = syclsched.TaskGraph("random")
    held = {name: numbers(6, 2, seed=seed) for seed, name in enumerate("ab")}
    arrays = {name: graph.array(name, data=value) for name, value in held.items()}
    wanted = {name: value.copy() for name, value in held.items()}
    for first, second, count, which, kind in tasks:
        source, target = ("ab", "ba")[which % 2]
        n = 1 + count % (6 - max(first, second))
        rows, others = slice(first, first + n), slice(second, second + n)
        if kind == "copy":
            graph.kernel(get("copy"), y=arrays[target][rows], x=arrays[source][others])
            wanted[target][rows] = wanted[source][others]
        elif kind == "axpy":
            graph.kernel(get("axpy"), y=arrays[target][rows], x=arrays[source][others], alpha=0.5)
            wanted[target][rows] += 0.5 * wanted[source][others]
        else:
            graph.kernel(get("scale"), x=arrays[target][rows], alpha=-1.5)
            wanted[target][rows] *= -1.5
    found = evaluate(graph_network(graph, ("a", "b"), ("a", "b")), held)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[f"new {name}"], value, rtol=1e-12)
