# SPDX-License-Identifier: Apache-2.0
"""Runs that lose workers: results of one machine, and no repetition of work whose results are left."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cluster_plans import fixed
from support.opened import until

import syclsched
from syclsched.cluster import connect
from syclsched.errors import ClusterError
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph

pytestmark = pytest.mark.sycl

distributed = pytest.importorskip("distributed", reason="the package distributed is not installed")

MOMENTS, TASKS = 20, 200


def slowly_halve(y: Any) -> None:
    time.sleep(2e-3)
    y *= 0.5


def random_updates() -> TaskGraph:
    """Return a graph of kernels and host functions on eight arrays, in which each task depends on one or two others."""
    drawn = random.Random(0)
    graph = TaskGraph("random_updates")
    arrays = [graph.array(f"x{n}", (5000,), data=np.arange(5000.0) + n) for n in range(8)]
    for number in range(TASKS):
        x, y = drawn.sample(arrays, 2)
        if number % 4:
            graph.kernel(get("axpy"), name=f"axpy{number}", y=y, x=x, alpha=0.25)
        else:
            graph.host(slowly_halve, name=f"halve{number}", y=y.update())
    return graph


def alternately(name: str) -> str:
    """Place every second task on each machine."""
    number = int("".join(filter(str.isdigit, name)))
    return f"node{number // 4 % 2}/host" if name.startswith("halve") else f"node{number % 2}/cpu"


@pytest.fixture(scope="module")
def wanted() -> dict[str, Any]:
    graph = random_updates()
    with syclsched.bind(graph, syclsched.discover("cpu"), policy="single:cpu", calibrate=False) as alone:
        return alone()


@pytest.mark.one_case_in(40)
@pytest.mark.parametrize("moment", range(2 * MOMENTS))
def test_a_worker_that_is_killed_at_any_moment_changes_no_bit(wanted: dict[str, Any], moment: int) -> None:
    graph = random_updates()
    with (
        connect(workers=2) as cluster,
        cluster.bind(graph, plan=fixed(cluster, graph, alternately), policy="heft") as runner,
    ):
        victim = cluster.describe()[f"node{moment % 2}"].process
        begun_s = time.monotonic()
        found = runner()
        took_s = time.monotonic() - begun_s
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value)
        timer = threading.Timer(took_s * (moment // 2 + 0.5) / MOMENTS, os.kill, (victim, signal.SIGKILL))
        timer.start()
        found = runner()
        timer.join()
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value)


def test_full_disks_change_no_result_and_end_no_run() -> None:
    graph = TaskGraph("short")
    x, y = graph.array("x", data=np.arange(2000.0)), graph.array("y", data=np.ones(2000))
    for number in range(6):
        graph.kernel(get("axpy"), name=f"axpy{number}", y=y, x=x, alpha=0.5)
    with connect(workers=2) as cluster:
        for worker in cluster.workers:
            cluster.call(worker.name, "support.cluster_functions:fill_disk")
        with cluster.bind(graph, policy="heft") as runner:  # tasks are timed there, and the times cannot be kept
            for _ in range(2):
                np.testing.assert_array_equal(runner()["y"], 1 + 3 * np.arange(2000.0))


def add_one(calls: Path, name: str, x: Any) -> None:
    """Add 1, and record the call."""
    with (calls / name).open("a") as file:
        file.write("called\n")
    x += 1


def die_once(calls: Path, name: str, after: tuple[str, ...], y: Any) -> None:
    """Kill the worker, once and after other tasks have been called; else add 1."""
    while not all((calls / each).exists() for each in after):
        time.sleep(1e-3)
    killed = not (calls / name).exists()
    add_one(calls, name, y)
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)


def total(x: Any, y: Any, z: Any) -> None:
    z[...] = x + y


def called(calls: Path) -> dict[str, int]:
    return {each.name: len(each.read_text().splitlines()) for each in calls.iterdir()}


def on_node(name: str) -> str:
    """Return the machine whose number the name of the task ends with."""
    return f"node{name[-1]}/host"


def test_work_of_surviving_machines_is_not_repeated(tmp_path: Path) -> None:
    graph = TaskGraph("counted")
    x, y, z = (graph.array(name, (100,), data=np.zeros(100)) for name in "xyz")
    steps = [f"x{n}-0" for n in range(4)]
    for name in steps:
        graph.host(partial(add_one, tmp_path, name), name=name, x=x.update())
    graph.host(partial(add_one, tmp_path, "y-1"), name="y-1", x=y.update())
    graph.host(partial(die_once, tmp_path, "die-1", tuple(steps)), name="die-1", y=y.update())
    graph.host(total, name="total-1", x=x.read(), y=y.read(), z=z.write())
    with connect(workers=2) as cluster, cluster.bind(graph, plan=fixed(cluster, graph, on_node)) as runner:
        run = runner.run()
        assert [float(run.result(name, timeout=120)[0]) for name in "xyz"] == [4.0, 2.0, 6.0]
        assert called(tmp_path) == {**dict.fromkeys(steps, 1), "y-1": 2, "die-1": 2}
        trace, text = run.trace(), str(run)
        (recovery,) = trace.recoveries
        assert (recovery.planned, recovery.redone) == (3, ())  # it is unknown whether y-1 had finished
        assert run.recoveries == recovery.left_out and run.recoveries[0].startswith("node1")
        assert "3 tasks planned anew" in text
        ran = sorted(s.task or "" for s in trace.spans if s.kind == "host" and s.outcome == "done")
        assert ran == sorted([*steps, "y-1", "die-1", "total-1"])  # tasks on the lost worker are unknown
        assert sum(device.tasks for part in run.parts for device in part.devices) == len(ran)
        again = runner()  # a plan of the whole graph
        assert [float(again[name][0]) for name in "xyz"] == [4.0, 2.0, 6.0]


def test_only_results_lost_after_the_end_are_recomputed(tmp_path: Path) -> None:
    graph = TaskGraph("ended")
    x, y = (graph.array(name, (100,), data=np.zeros(100)) for name in "xy")
    graph.host(partial(add_one, tmp_path, "x-0"), name="x-0", x=x.update())
    graph.host(partial(add_one, tmp_path, "y-1"), name="y-1", x=y.update())
    with connect(workers=2) as cluster, cluster.bind(graph, plan=fixed(cluster, graph, on_node)) as runner:
        run = runner.run()
        run.wait(120)
        os.kill(cluster.describe()["node1"].process, signal.SIGKILL)
        assert (float(run.result("y")[0]), float(run.result("x")[0])) == (1.0, 1.0)
        assert called(tmp_path) == {"x-0": 1, "y-1": 2}


def test_a_restarted_worker_gets_its_part_again(tmp_path: Path) -> None:
    """Dask starts a killed worker again under its name; before, calls went to it and failed."""
    graph = TaskGraph("restarted")
    x, y = (graph.array(name, (100,), data=np.zeros(100)) for name in "xy")
    graph.host(partial(add_one, tmp_path, "x-0"), name="x-0", x=x.update())
    graph.host(partial(add_one, tmp_path, "y-1"), name="y-1", x=y.update())
    with connect(workers=2) as cluster, cluster.bind(graph, plan=fixed(cluster, graph, on_node)) as runner:
        run = runner.run()
        run.wait(120)
        for ask in (lambda: run.result("y"), lambda: runner()["y"]):
            restart(cluster, "node1")
            assert float(ask()[0]) == 1.0


def restart(cluster: syclsched.cluster.Cluster, name: str) -> None:
    """Kill a worker, and wait until Dask has started it again."""
    before = cluster.describe()[name].process
    os.kill(before, signal.SIGKILL)

    def is_new() -> bool:
        with suppress(ClusterError):  # while the worker is away
            now = cluster.describe(refresh=True).get(name)
            return now is not None and now.process != before
        return False

    until(is_new)


def test_a_second_loss_while_the_rest_runs_changes_no_bit(tmp_path: Path) -> None:
    graph = TaskGraph("twice")
    x, y, z = (graph.array(name, (100,), data=np.zeros(100)) for name in "xyz")
    graph.host(partial(add_one, tmp_path, "x-0"), name="x-0", x=x.update())
    graph.host(partial(die_once, tmp_path, "die-1", ("x-0",)), name="die-1", y=y.update())
    graph.host(total, name="total-2", x=x.read(), y=y.read(), z=z.write())
    graph.host(partial(die_once, tmp_path, "again-2", ()), name="again-2", y=z.update())
    with connect(workers=3) as cluster, cluster.bind(graph, plan=fixed(cluster, graph, on_node)) as runner:
        run = runner.run()
        assert [float(run.result(name, timeout=120)[0]) for name in "xyz"] == [1.0, 1.0, 3.0]
        assert len(run.recoveries) == len(run.trace().recoveries) == 2
