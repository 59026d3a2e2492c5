# SPDX-License-Identifier: Apache-2.0
"""Dask's futures and arrays as inputs and results of runs, kept on the workers that hold them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from syclsched.cluster import Cluster, connect, dask_data
from syclsched.errors import ArgumentError, ClusterError, SyclschedError, UnknownArrayError
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning import build_plan
from syclsched.simulation import predict

pytestmark = pytest.mark.sycl

pytest.importorskip("distributed", reason="the package distributed is not installed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with connect(workers=2) as made:
        yield made


@pytest.fixture(scope="module")
def bound(cluster: Cluster) -> Iterator[Any]:
    """Bind a graph that doubles x on the first machine, rows 0 to 4 of z there, and rows 4 to 10 on the second."""
    graph = TaskGraph("halves")
    x, y = graph.array("x", (10, 3)), graph.array("y", (10, 3))
    z = graph.array("z", (10, 3), data=np.ones((10, 3)))
    graph.kernel(get("copy"), name="copy", y=y, x=x)
    graph.kernel(get("scale"), name="first", x=z[0:4], alpha=2.0)
    graph.kernel(get("scale"), name="second", x=z[4:10], alpha=3.0)
    placed = {"copy": "node0", "first": "node0", "second": "node1"}
    with cluster.bind(graph, plan=plan_on(cluster, graph, placed)) as runner:
        yield runner


def plan_on(cluster: Cluster, graph: TaskGraph, placed: dict[str, str]) -> Plan:
    assignments = tuple(
        Assignment(task, f"{machine}/cpu", 0, "opencl-c", float(n), n + 1.0)
        for n, (task, machine) in enumerate(placed.items())
    )
    durations = dict.fromkeys(placed, 1e-4)
    return predict(build_plan(graph, cluster.platform(), Schedule("by hand", assignments), durations))


@pytest.mark.parametrize("kind", ["future", "array", "numpy"])
def test_inputs_of_every_kind(cluster: Cluster, bound: Any, kind: str) -> None:
    import dask.array

    value = np.arange(30.0).reshape(10, 3)
    given = {
        "future": lambda: cluster.client.scatter(value, workers=[cluster.worker("node1").address]),
        "array": lambda: dask.array.from_array(value, chunks=(5, 3)),
        "numpy": lambda: value,
    }[kind]()
    for _ in range(2):
        np.testing.assert_array_equal(bound({"x": given})["y"], value)


def test_results_stay_on_their_workers(cluster: Cluster, bound: Any) -> None:
    value = np.arange(30.0).reshape(10, 3)
    run = bound.run({"x": value})
    future, halves = run.future("y"), run.dask_array("z")
    wanted = np.repeat([2.0, 3.0], (4, 6))[:, None] * np.ones(3)
    assert halves.chunks == ((4, 6), (3,)) and halves.dtype == "float64"
    (address,) = cluster.client.who_has(future)[future.key]
    assert address == cluster.worker("node0").address
    bound.run({"x": np.zeros((10, 3))}).wait()  # in the same memory
    np.testing.assert_array_equal(future.result(), value)
    np.testing.assert_array_equal(cluster.client.compute(halves).result(), wanted)
    assert cluster.client.compute((halves + 1).sum()).result() == (wanted + 1).sum()
    np.testing.assert_array_equal(run.future("x").result(), value)  # no task writes it
    np.testing.assert_array_equal(bound({"x": future})["y"], value)  # a result is the next run's input


def test_pieces_of_a_result_are_one_future(bound: Any) -> None:
    run = bound.run({"x": np.zeros((10, 3))})
    assert run.future("z").result().sum() == 3 * (4 * 2 + 6 * 3)


def test_unsuitable_futures_are_refused(cluster: Cluster, bound: Any) -> None:
    wrong = cluster.client.scatter(np.zeros(7))
    with pytest.raises(SyclschedError, match="x"):
        bound({"x": wrong})
    with pytest.raises(UnknownArrayError, match="w"):
        bound({"x": np.zeros((10, 3)), "w": wrong})
    with pytest.raises(ArgumentError, match="no value is given for x"):
        bound({})
    with pytest.raises(UnknownArrayError, match="no result 'w'"):
        bound.run({"x": np.zeros((10, 3))}).future("w")
    early = bound.run({"x": np.zeros((10, 3))})
    bound.run({"x": np.zeros((10, 3))}).wait()
    with pytest.raises(SyclschedError, match="a later run has begun"):
        early.future("y")


def test_data_that_dask_does_not_move_is_an_error_in_the_end(
    cluster: Cluster, bound: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_data, "WAIT_S", 0.2)
    never = cluster.client.submit(abs, -1, workers=["tcp://127.0.0.1:1"], pure=False)
    with pytest.raises(ClusterError, match="Dask has not moved the data"):
        bound({"x": never})
