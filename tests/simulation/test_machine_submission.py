# SPDX-License-Identifier: Apache-2.0
"""Submission on several machines: a submitting thread for each, and separate lanes for copies between hosts."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from support.running import plan_by

import syclsched
from syclsched.cluster import NetworkPath, joined
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Platform
from syclsched.simulation import predict

SUBMISSION_S, TASKS, TASK_S = 1e-3, 20, 0.05


def cluster(*machines: str) -> Platform:
    paths = [NetworkPath(*pair, 1e-4, 1e9) for pair in permutations([HOST, *machines], 2)]
    machine = replace(syclsched.describe("max1550"), submission_s=SUBMISSION_S, dispatch_s=SUBMISSION_S)
    return joined(dict.fromkeys(machines, machine), paths)


def test_machines_submit_concurrently() -> None:
    """Before, all tasks of a cluster were submitted one after another: a plan for more machines was never faster."""
    kind = next(i.name for i in get("scale").implementations if i.kind == "opencl-c")
    graph = TaskGraph("chains")
    for machine in "ab":
        x = graph.array(f"x{machine}", (8,))
        for step in range(TASKS):
            graph.kernel(get("scale"), name=f"{machine}{step}", x=x, alpha=2.0)
    apart = plan_by(graph, cluster("a", "b"), lambda name: (f"{name[0]}/max1550", 0, kind))
    together = plan_by(graph, cluster("a", "b"), lambda name: ("a/max1550", 0, kind))
    assert together.makespan_s == pytest.approx(2 * TASKS * SUBMISSION_S, rel=0.15)
    assert apart.makespan_s == pytest.approx(TASKS * SUBMISSION_S, rel=0.15)
    assert predict(apart).makespan_s == apart.makespan_s


def test_hosts_copy_to_each_other_on_their_own_lanes() -> None:
    """Before, the copies of all machines' hosts were on the lane of the last one."""
    graph = TaskGraph("hosts")
    for number in range(2):
        x = graph.array(f"x{number}", (1 << 18,))
        graph.host(lambda x: None, name=f"make{number}", x=x.write(), flops=1.0)
        graph.host(lambda x: None, name=f"read{number}", x=x.read(), flops=1.0)
    at = {"make0": "a", "read0": "b", "make1": "c", "read1": "d"}
    plan = plan_by(graph, cluster(*"abcd"), lambda name: (f"{at[name]}/host", 0, _implementation(graph, name)))
    lanes = {lane.device for lane, each in plan.instructions() if each.kind == "copy"}
    assert lanes == {"a/host", "c/host"}
    syclsched.verify(plan, graph)


def test_messages_take_cores_from_tasks() -> None:
    """Before, plans for workers of one core counted no time of it for messages, and so sent many."""
    graph = TaskGraph("beside")
    x = graph.array("x", (1 << 23,), "u1")
    graph.host(lambda x: None, name="make", x=x.write(), flops=1.0)
    graph.host(lambda x: None, name="read", x=x.read(), flops=1.0)
    y = graph.array("y", (8,))
    graph.host(lambda y: None, name="first", y=y.write(), flops=1.0)
    graph.host(lambda y: None, name="second", y=y.update(), flops=1.0)

    def end_s(cores: float, units: int) -> float:
        machine = syclsched.describe("max1550")
        host = replace(machine.host, processor="host", compute_units=units, most_threads=1)
        machine = replace(machine, devices=(*machine.devices[:-1], host))
        paths = [NetworkPath(*pair, 1e-4, 1e9, cores=cores) for pair in permutations([HOST, "a", "b"], 2)]
        at = {"make": "a", "read": "b", "first": "a", "second": "a"}
        platform = joined(dict.fromkeys("ab", machine), paths)

        def place(name: str) -> tuple[str, int, str]:
            return f"{at[name]}/host", 0, _implementation(graph, name)

        return plan_by(graph, platform, place, TASK_S).makespan_s

    moving_s = 1e-4 + (1 << 23) / 1e9
    alone_s = end_s(0.0, 1)
    assert alone_s == pytest.approx(3 * TASK_S, rel=1e-3)
    assert end_s(1.0, 1) == pytest.approx(alone_s + moving_s / 2, rel=1e-3)  # half of the core for as long
    assert end_s(1.0, 2) == pytest.approx(alone_s, rel=1e-3)  # on a core of their own


def _implementation(graph: TaskGraph, name: str) -> str:
    operation = graph.find_task(name).operation
    assert operation is not None
    return operation.implementations[0].name
