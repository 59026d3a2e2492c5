# SPDX-License-Identifier: Apache-2.0
"""Plans that can be submitted at once, and the reasons why others cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from support.running import DTYPE, MIX, TWO_DEVICES, plan_by, plan_on

from syclsched.execution.core.program import Program
from syclsched.execution.runner.plan_binding import why_delayed, why_dispatcher_needed
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan


def chain(length: int = 3, size: int = 100) -> TaskGraph:
    graph = TaskGraph("chain")
    x, y = graph.array("x", data=np.zeros(size, DTYPE)), graph.array("y", data=np.zeros(size, DTYPE))
    for i in range(length):
        graph.kernel(MIX, name=f"mix{i}", x=x, y=y, a=i)
    return graph


def why(plan: Plan) -> str | None:
    return why_dispatcher_needed(Program(plan), {})


def test_kernels_on_lanes_of_one_device() -> None:
    plan = plan_by(chain(), TWO_DEVICES, lambda name: ("a", int(name[-1]) % 2, "opencl-c"))
    assert why(plan) is None


def test_a_task_on_the_host_does_not_matter() -> None:
    graph = chain()
    graph.host(lambda y: None, name="look", y=graph.arrays["y"].read())
    assert why(plan_on(graph, TWO_DEVICES, "a")) is None


def test_several_lanes_of_the_host() -> None:
    graph = TaskGraph("two at once")
    for name in "xy":
        graph.host(lambda a: None, name=name, a=graph.array(name, data=np.zeros(4, DTYPE)).update())
    platform = replace(TWO_DEVICES, devices=tuple(replace(d, lanes=2) if d.is_host else d for d in TWO_DEVICES.devices))
    plan = plan_by(graph, platform, lambda name: ("host", "xy".index(name), "function"))
    assert why(plan) is None


def test_kernels_behind_functions_on_several_lanes_of_the_host() -> None:
    def why_with(*arrays: str) -> str | None:
        """Return the reason for a kernel that reads and writes two arrays and waits for a number of host functions."""
        graph = TaskGraph("behind")
        x, y = (graph.array(name, data=np.zeros(4, DTYPE)) for name in "xy")
        for n, name in enumerate(arrays):
            graph.host(
                lambda a: None, name=f"h{n}", a=graph.arrays.get(name, graph.array(f"{name}{n}", (4,), DTYPE)).write()
            )
        graph.kernel(MIX, name="kernel", x=x, y=y, a=1)
        platform = TWO_DEVICES.with_host_lanes(2)
        return why_delayed(
            Program(
                plan_by(
                    graph,
                    platform,
                    lambda n: ("a", 0, "opencl-c") if n == "kernel" else ("host", int(n[1]), "function"),
                )
            )
        )

    assert why_with("x", "y") is None
    assert why_with("x") is None  # one lane only
    assert "wait for more of them than it needs" in str(why_with("other", "y"))


def test_two_contexts() -> None:
    plan = plan_by(chain(), TWO_DEVICES, lambda name: ("ab"[int(name[-1]) % 2], 0, "opencl-c"))
    assert why(plan) is None
