# SPDX-License-Identifier: Apache-2.0
"""Runs on several machines under dynamic policies: the results of sequential runs, whatever the policies decide."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.cluster_plans import fixed

import syclsched
from syclsched.cluster import Cluster, NetworkPath, connect, joined
from syclsched.cluster.part_runner import PartPolicy, PartRunner
from syclsched.cluster.parts import divide
from syclsched.costs import MemoryHistory
from syclsched.errors import ArgumentError, PolicyError, RunCancelledError, TaskFailedError
from syclsched.execution.core.safeguards import Safeguards
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph
from syclsched.planner.memory_limit import with_memory_limit

pytestmark = pytest.mark.sycl

distributed = pytest.importorskip("distributed", reason="the package distributed is not installed")

POLICIES = ("eager", "priority", "dmdas", "stealing", "hybrid")
SIZE = 500


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with connect(workers=2) as made:
        yield made


def random_graph(seed: int, steps: int = 16) -> tuple[TaskGraph, Callable[[str], str], dict[str, Any]]:
    """Return a graph of kernels and host functions on integers, a machine for each task, and NumPy's results."""
    chance = random.Random(seed)
    graph = TaskGraph(f"random{seed}")
    values = [np.arange(SIZE, dtype=np.int64) * n for n in range(4)]
    arrays = [graph.array(f"a{n}", data=value) for n, value in enumerate(values)]
    values = [value.copy() for value in values]
    places = {}
    for step in range(steps):
        (x, y), begin = chance.sample(range(4), 2), chance.choice([0, 0, 200])
        kind, name, rows = chance.randrange(5), f"t{step}", slice(begin, SIZE)
        if kind == 0:
            graph.host(_add, name=name, x=arrays[x][rows].read(), y=arrays[y][rows].update())
            values[y][rows] += values[x][rows]
        elif kind == 1:
            graph.kernel(get("copy"), name=name, y=arrays[y][rows], x=arrays[x][rows])
            values[y][rows] = values[x][rows]
        else:
            graph.kernel(get("axpy"), name=name, y=arrays[y][rows], x=arrays[x][rows], alpha=kind)
            values[y][rows] += kind * values[x][rows]
        places[name] = f"node{chance.randrange(2)}/" + ("host" if kind == 0 else "cpu")
    return graph, places.__getitem__, {f"a{n}": value for n, value in enumerate(values)}


def _add(x: Any, y: Any) -> None:
    y += x


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("policy", POLICIES)
def test_random_graphs_have_the_bits_of_numpy(cluster: Cluster, policy: str, seed: int) -> None:
    graph, place, wanted = random_graph(seed)
    with cluster.bind(graph, plan=fixed(cluster, graph, place), dynamic=policy, calibrate=False) as runner:
        for _ in range(2):  # the second run uses the memory of the first
            for name, value in runner().items():
                np.testing.assert_array_equal(value, wanted[name], err_msg=name)


def test_devices_are_chosen_on_each_machine(cluster: Cluster) -> None:
    """The plan has every task of node0 on its host; in the run the CPU device takes some, and the trace shows it."""
    graph = TaskGraph("wide")
    for number in range(40):
        x = graph.array(f"x{number}", data=np.full(SIZE, 1.0))
        graph.kernel(get("scale"), name=f"scale{number}", x=x, alpha=2.0)
    plan = cluster.plan(graph, policy="heft")
    with cluster.run(graph, plan=plan, dynamic="eager") as run:
        assert all((run.result(f"x{number}") == 2.0).all() for number in range(40))
        spans = [span for span in run.trace().spans if span.kind in ("launch", "host")]
        planned = {each.task: each.device for each in plan.schedule.assignments}
        for span in spans:
            assert span.device.partition("/")[0] == planned[span.task or ""].partition("/")[0]
        for part in run.parts:
            counts = {each.device: each.tasks for each in part.devices if each.tasks}
            ran = [span.device for span in spans if span.device.startswith(f"{part.machine}/")]
            assert counts == {device: ran.count(f"{part.machine}/{device}") for device in counts}
            assert sum(counts.values()) == len(ran) and not part.replayed
        assert "dispatched" in str(run)


def test_the_error_of_a_function_and_a_cancel_end_all_parts(cluster: Cluster) -> None:
    graph = TaskGraph("failing")
    x, y = graph.array("x", (3,), data=np.zeros(3)), graph.array("y", (3,), data=np.zeros(3))
    graph.host(_divide, name="first0", x=x.update())
    graph.host(_add, name="then1", x=x.read(), y=y.update())
    plan = fixed(cluster, graph, lambda name: f"node{name[-1]}/host")
    with cluster.bind(graph, plan=plan, dynamic="dmdas", calibrate=False) as runner:
        begun = time.monotonic()
        with pytest.raises(TaskFailedError, match="ZeroDivisionError"):
            runner.run().wait(60)
        np.testing.assert_array_equal(runner({"x": np.ones(3)})["y"], np.ones(3))
        run = runner.run({"x": np.full(3, 1e9)})  # the run would take long
        run.cancel()
        with pytest.raises(RunCancelledError):
            run.wait(60)
        assert time.monotonic() - begun < 30


def _divide(x: Any) -> None:
    time.sleep(min(10.0, x[0] * 1e-2))
    x[0] = 1 // int(x[0])


def test_parts_take_turns(cluster: Cluster) -> None:
    graph, place, wanted = random_graph(1)
    plan = fixed(cluster, graph, place)
    with cluster.bind(graph, plan=plan, dynamic="dmdas", calibrate=False, priority=-1, share=2) as background:
        slow = background.run()
        with cluster.bind(graph, plan=plan) as plain:
            for _ in range(3):
                plain()
        for name, value in wanted.items():
            np.testing.assert_array_equal(slow.result(name), value, err_msg=name)


def test_unknown_policies_and_dynamic_streams_are_refused(cluster: Cluster) -> None:
    graph, place, _ = random_graph(0)
    with pytest.raises(PolicyError, match="no dynamic policy 'egaer'"):
        cluster.run(graph, dynamic="egaer")
    plan = fixed(cluster, graph, place)
    with (
        cluster.bind(graph, plan=plan, dynamic="eager", calibrate=False) as runner,
        pytest.raises(ArgumentError, match="one run is in flight"),
    ):
        runner.stream([None])


def test_a_part_keeps_within_the_memory_of_its_machine() -> None:
    platform = with_memory_limit(syclsched.discover("cpu"), {"cpu": 3 * 8 * SIZE})
    graph = TaskGraph("large")
    arrays = [graph.array(f"a{n}", data=np.full(SIZE, n + 1, np.int64)) for n in range(6)]
    for step in range(12):
        x, y = arrays[step % 6], arrays[(step + 1) % 6]
        graph.kernel(get("axpy"), name=f"t{step}", y=y, x=x, alpha=2)
    paths = [NetworkPath("host", "one", 1e-6, 1e9), NetworkPath("one", "host", 1e-6, 1e9)]
    found = divide(syclsched.plan(graph, joined({"one": platform}, paths), policy="heft"), graph, print, print)
    mailbox: Any = SimpleNamespace(end=lambda run: None, cancel=lambda run, cause: None)
    policy = PartPolicy("eager", MemoryHistory())
    part = PartRunner("large", found.parts["one"], platform, mailbox, {}, 10.0, Safeguards(), policy, "tests")
    try:
        for run in ("first", "second"):
            part.run(run, {})
            trace = part.trace(run).trace
            assert 0 < trace.peak_bytes["cpu"] <= 3 * 8 * SIZE
            assert [span for span in trace.spans if span.kind == "copy"]
            value = part.result(run, "a0", None)
    finally:
        part.close()
    with syclsched.run(graph, calibrate=False) as alone:
        np.testing.assert_array_equal(value, alone.result("a0"))
