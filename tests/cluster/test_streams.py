# SPDX-License-Identifier: Apache-2.0
"""Streams on several machines: results in order, overlapping runs, errors at their input, and lost workers."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest
from support.cluster_plans import fixed

from syclsched.cluster import Cluster, ClusterRunner, connect
from syclsched.errors import ArgumentError, ExecutionError, MemoryLimitError
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph

pytestmark = pytest.mark.sycl

distributed = pytest.importorskip("distributed", reason="the package distributed is not installed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with connect(workers=2) as made:
        yield made


def squared(x: Any, y: Any) -> None:
    if x[0] == 13.0:
        raise ValueError("unlucky")
    y[...] = x * x


_meeting = threading.Barrier(2)


def meet(y: Any) -> None:
    _meeting.wait(60.0)


def bound(cluster: Cluster, *, meets: bool = False) -> ClusterRunner:
    """Bind a graph whose host function runs on one machine, and whose kernel runs on the other."""
    graph = TaskGraph("to and fro")
    x, y, z = (graph.array(name, (50,)) for name in "xyz")
    graph.host(squared, name="squared0", x=x.read(), y=y.write())
    if meets:
        graph.host(meet, name="meet0", y=y.update())
    graph.kernel(get("scale"), name="scale1", x=y, alpha=2.0)
    graph.kernel(get("copy"), name="copy1", y=z, x=y)
    place = {"0": "node0/host", "1": "node1/cpu"}
    return cluster.bind(graph, plan=fixed(cluster, graph, lambda name: place[name[-1]]))


def inputs(*numbers: float) -> Iterator[dict[str, Any]]:
    for number in numbers:
        yield {"x": np.full(50, float(number))}


def test_results_are_in_the_order_of_their_inputs(cluster: Cluster) -> None:
    with bound(cluster) as runner:
        for in_flight in (1, 3):
            stream = runner.stream(inputs(*range(10)), in_flight=in_flight, results=["z"])
            found = [results["z"][0] for results in stream]
            assert found == [2.0 * n * n for n in range(10)]
            assert (stream.statistics.generations, stream.statistics.in_flight) == (10, in_flight)
        assert runner({"x": np.ones(50)})["z"][0] == 2.0


def test_runs_of_a_stream_are_in_flight_at_the_same_time(cluster: Cluster) -> None:
    with bound(cluster, meets=True) as runner:  # each function waits for the one of another run
        assert [results["z"][0] for results in runner.stream(inputs(1, 2, 3, 4))] == [2, 8, 18, 32]


def test_error_replaces_its_result(cluster: Cluster) -> None:
    with bound(cluster) as runner:
        found = list(runner.stream(inputs(1, 13, 3), return_exceptions=True, results=["z"]))
        assert isinstance(found[1], ExecutionError) and "unlucky" in str(found[1]) and "generation 1" in str(found[1])
        assert [found[0]["z"][0], found[2]["z"][0]] == [2.0, 18.0]
        wrong = runner.stream([{"x": np.ones(50)}, {"unknown": 1.0}, {"x": np.ones(50)}])
        assert next(wrong)["z"][0] == 2.0
        with pytest.raises(ExecutionError.__base__, match="unknown"):
            next(wrong)
        assert next(wrong)["z"][0] == 2.0


def test_coroutines_read_streams(cluster: Cluster) -> None:
    async def given() -> AsyncIterator[dict[str, Any]]:
        for each in inputs(1, 2, 3):
            await asyncio.sleep(0)
            yield each

    async def read(runner: ClusterRunner) -> list[float]:
        return [results["z"][0] async for results in runner.stream(given())]

    with bound(cluster) as runner:
        assert asyncio.run(read(runner)) == [2.0, 8.0, 18.0]


def test_invalid_streams_are_refused(cluster: Cluster) -> None:
    with bound(cluster) as runner:
        with pytest.raises(ArgumentError, match="in_flight is 0"):
            runner.stream([], in_flight=0)
        with pytest.raises(MemoryLimitError, match="fits"):
            runner.stream([], in_flight=10**12)
        stream = runner.stream(inputs(1, 2, 3))
        next(stream)
        with pytest.raises(ExecutionError, match="a stream of the runner is open"):
            runner.run({"x": np.ones(50)})
        stream.close()
        assert runner({"x": np.ones(50)})["z"][0] == 2.0
    with pytest.raises(ExecutionError, match="closed"):
        runner.stream([])


def test_a_stream_continues_without_a_killed_worker() -> None:
    with connect(workers=2) as cluster, bound(cluster) as runner:
        found = []
        for number, results in enumerate(runner.stream(inputs(*range(8)))):
            found.append(results["z"][0])
            if number == 2:
                os.kill(cluster.describe()["node1"].process, signal.SIGKILL)
        assert found == [2.0 * n * n for n in range(8)]
