# SPDX-License-Identifier: Apache-2.0
"""Networks from task graphs: rows, reshaped arrays, constants, and arrays that are written several times."""

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
from syclsched.kernels.tensor.concat import concat
from syclsched.kernels.tensor.strided_slice import slice_of
from syclsched.training.operations.graph_network import graph_network


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def test_an_array_written_twice_has_two_values() -> None:
    graph = syclsched.TaskGraph("twice")
    w, v = graph.array("w", data=numbers(3, 3)), graph.array("v", data=numbers(3, 3, seed=1))
    t, y = graph.array("t", (3, 3)), graph.array("y", (3, 3))
    graph.kernel(get("gemm"), c=t, a=w, b=v)
    graph.kernel(get("gemm"), c=y, a=t, b=w)
    graph.kernel(get("gemm"), c=t, a=v, b=y)  # y still depends on the first value
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
def test_random_graphs_of_rows_have_the_sequential_results(
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


@syclsched.operation
def bent(y: syclsched.Update, x: syclsched.Read, share: float) -> None:
    y[...] = np.tanh(y) + share * x * y


@bent.gradient
def bent(dy, y, x, share):
    return dy * (1 - np.tanh(y) ** 2 + share * x), dy * share * y


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("pasbcr"), *[st.integers(0, 2)] * 3), min_size=2, max_size=14))
def test_gradients_of_random_graphs(tasks: list[tuple[str, int, int, int]]) -> None:
    graph = syclsched.TaskGraph("random")
    weights = [graph.array(f"w{i}", data=0.5 * numbers(3, 3, seed=i)) for i in range(3)]
    arrays = [graph.array(f"a{i}", (3, 3)) for i in range(3)]
    y = graph.array("y", (3, 3))
    for weight, array in zip(weights, arrays, strict=True):
        graph.copy(weight, array)
    for kind, i, j, k in tasks:
        target, source, other = arrays[i], arrays[j if j != i else (i + 1) % 3], arrays[k if k != i else (i + 2) % 3]
        if kind == "p":
            graph.kernel(get("gemm"), c=target, a=source, b=other, beta=0.5, trans_b=bool(k % 2))
        elif kind == "a":
            graph.kernel(get("axpy"), y=target, x=source, alpha=-0.5)
        elif kind == "s":
            graph.kernel(get("softmax"), y=target, x=source)
        elif kind == "b":
            graph.kernel(bent, y=target, x=source, share=0.25)
        elif kind == "c":
            graph.kernel(get("copy"), y=target[0:2], x=source[1:3])
        else:
            graph.kernel(get("scale"), x=target.reshaped((9,)), alpha=0.5)
    graph.kernel(get("add"), z=y, x=arrays[0], y=arrays[1])
    graph.kernel(get("axpy"), y=y, x=arrays[2], alpha=1.0)
    for weight in weights:
        graph.kernel(get("axpy"), y=y, x=weight, alpha=0.1)
    check_graph(graph)


def test_a_tiled_factorisation() -> None:
    matrix = numbers(6, 6)
    matrix = matrix @ matrix.T + 6 * np.eye(6)
    graph = syclsched.TaskGraph("cholesky")
    whole, tiles = graph.array("matrix", data=matrix), {}
    for i in range(3):
        for j in range(i + 1):
            tiles[i, j] = graph.array(f"tile {i} {j}", (2, 2))
            graph.kernel(slice_of((2 * i, 2 * j), (1, 1)), y=tiles[i, j], x=whole)
    for k in range(3):
        status = graph.array(f"status {k}", (1,), "int32")
        graph.kernel(get("potrf"), a=tiles[k, k], status=status)
        for i in range(k + 1, 3):
            graph.kernel(get("trsm"), a=tiles[i, k], l=tiles[k, k])
        for i in range(k + 1, 3):
            graph.kernel(get("syrk"), c=tiles[i, i], a=tiles[i, k])
            for j in range(k + 1, i):
                graph.kernel(get("gemm"), c=tiles[i, j], a=tiles[i, k], b=tiles[j, k], alpha=-1, beta=1, trans_b=True)
    parts = {f"x{n}": tile for n, tile in enumerate(tiles.values())}
    graph.kernel(concat(0, 6), y=graph.array("tiles", (12, 2)), **parts)
    check_graph(graph, output="tiles")
