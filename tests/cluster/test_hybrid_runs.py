# SPDX-License-Identifier: Apache-2.0
"""Hybrid runs on a cluster with slow machines and new workers: remaining work moves; later plans use all machines."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cluster_plans import fixed
from support.opened import until

from syclsched.cluster import connect
from syclsched.model.graph import TaskGraph
from syclsched.model.trace import Trace

pytestmark = pytest.mark.sycl

distributed = pytest.importorskip("distributed", reason="the package distributed is not installed")

TASKS = 60


def nap(slow_process: Path, x: Any) -> None:
    """Add 1; take ten times as long in the worker process whose identifier the file ``slow_process`` has."""
    time.sleep(0.5 if slow_process.read_text() == str(os.getpid()) else 0.05)
    x += 1


def add_one(x: Any) -> None:
    x += 1


def wait_for_others(first: int, moved: Path, x: Any) -> None:
    """Add 1; on the first worker wait, with a limit, until another worker has a task."""
    if os.getpid() != first:
        moved.touch()
    end = time.monotonic() + 1.0
    while not moved.exists() and time.monotonic() < end:
        time.sleep(1e-3)
    x += 1


def naps(function: Any) -> TaskGraph:
    graph = TaskGraph("naps")
    for number in range(TASKS):
        x = graph.array(f"x{number}", (10,), data=np.zeros(10))
        graph.host(function, name=f"nap{number}", x=x.update())
    return graph


def machines_of(trace: Trace) -> dict[str, str]:
    return {s.task or "": s.device.split("/")[0] for s in trace.spans if s.kind == "host" and s.outcome == "done"}


def test_remaining_work_moves_from_a_very_slow_machine(tmp_path: Path) -> None:
    slow_process = tmp_path / "slow"
    graph = naps(partial(nap, slow_process))
    with connect(workers=2) as cluster:
        slow_process.write_text(str(cluster.describe()["node1"].process))
        plan = fixed(cluster, graph, lambda name: f"node{int(name[3:]) % 2}/host")
        with cluster.bind(graph, plan=plan, policy="hybrid") as runner:
            run = runner.run()
            assert all((run.result(f"x{n}", timeout=120) == 1.0).all() for n in range(TASKS))
            trace = run.trace()
    ran = machines_of(trace)
    assert len(ran) == TASKS  # each once
    assert sum(machine == "node0" for machine in ran.values()) > TASKS // 2
    assert {each.reason for each in trace.recoveries} == {"late"}
    assert run.recoveries == ()
    assert all(each.redone == () and each.moved for each in trace.recoveries)


def test_a_worker_that_joins_in_the_middle_is_used(tmp_path: Path) -> None:
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, memory_limit=0, dashboard_address=None, silence_logs=50
    ) as machines, connect(machines) as cluster:  # fmt: skip
        graph = naps(partial(wait_for_others, cluster.describe()["node0"].process, tmp_path / "moved"))
        with cluster.bind(graph, policy="hybrid:heft") as runner:
            run = runner.run()
            machines.scale(2)
            assert all((run.result(f"x{n}", timeout=300) == 1.0).all() for n in range(TASKS))
            trace = run.trace()
    assert set(machines_of(trace).values()) == {"node0", "node1"}
    assert "joined" in {each.reason for each in trace.recoveries}


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("given", [False, True])
def test_the_next_run_uses_a_worker_that_has_joined(given: bool) -> None:
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, memory_limit=0, dashboard_address=None, silence_logs=50
    ) as machines, connect(machines) as cluster:  # fmt: skip
        graph = naps(add_one)
        plan = cluster.plan(graph, policy="heft") if given else None
        with cluster.bind(graph, policy="heft", plan=plan) as runner:
            runner()
            machines.scale(2)
            cluster.client.wait_for_workers(2, timeout=60)
            until(lambda: len(runner.names_there()) == 2)
            assert all((value == 1.0).all() for value in runner().values())
            used = {each.device.split("/")[0] for each in runner.plan.schedule.assignments}
    assert used == ({"node0"} if given else {"node0", "node1"})
