# SPDX-License-Identifier: Apache-2.0
"""Plans with host tasks: functions, graphs that call them, and placements."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.running import (
    DTYPE,
    MIX,
    plan_by,
)
from syclsched.execution import Runner, bind
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform

Live = tuple[Platform, Any]
SIZE = 64
LONG_S, RECOVERY_S = 60.0, 240.0


def arrays_of(graph: TaskGraph, *names: str) -> list[Any]:
    return [graph.array(name, data=np.arange(SIZE, dtype=DTYPE)) for name in names]


def plus_one(y: Any) -> None:
    y += 1


def chain(length: int, hosts: set[int]) -> TaskGraph:
    graph = TaskGraph("chain")
    x, y = graph.array("x", (SIZE,), DTYPE), graph.array("y", (SIZE,), DTYPE)
    for n in range(length):
        if n in hosts:
            graph.host(plus_one, name=f"t{n}", y=y.update(), pure=True)
        else:
            graph.kernel(MIX, name=f"t{n}", x=x, y=y, a=n)
    return graph


def bound(plan: Plan, graph: TaskGraph, devices: Any, **options: Any) -> Runner:
    runner = bind(plan, graph, devices, **options)
    assert runner.replayed, runner.why_not_replayed
    return runner


def two_lanes(graph: TaskGraph, platform: Platform, second: str) -> Plan:
    """Plan kernels on the CPU device, those with the given prefix on its second lane, and functions on the host."""

    def place(name: str) -> tuple[str, int, str | None]:
        first = graph.find_task(name).operation.implementations[0]  # type: ignore[union-attr]
        return ("host", 0, first.name) if first.kind == "host" else ("cpu", int(name.startswith(second)), first.name)

    return plan_by(graph, platform, place)


def outcomes(run: Any) -> dict[str, str]:
    return {s.task: s.outcome for s in run.trace().spans if s.kind in ("launch", "host")}
