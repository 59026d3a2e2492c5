# SPDX-License-Identifier: Apache-2.0
"""Which plans can be submitted at once, and why others cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from running import DTYPE, MIX, plan_by, plan_on

from syclsched.execution.program import Program
from syclsched.execution.straight import allocations, why_not_straight
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform


def device(name: str, space: str, lanes: int = 1) -> Device:
    host = space == HOST
    kind, backend = ("host", "host") if host else ("gpu", "opencl")
    return Device(name, name, kind, backend, name, space=space, reaches=(space,), lanes=lanes, dtypes=(DTYPE,))


PLATFORM = Platform(
    "two",
    devices=(device("a", "a", 2), device("b", "b"), device("host", HOST)),
    spaces=(MemorySpace("a", 10_000), MemorySpace("b", 10_000), MemorySpace(HOST, 10**9, host_accessible=True)),
    links=tuple(Link(one, other, 1e-6, 1e9) for one in ("a", "b", HOST) for other in ("a", "b", HOST) if one != other),
)


def chain(length: int = 3, size: int = 100) -> TaskGraph:
    graph = TaskGraph("chain")
    x, y = graph.array("x", data=np.zeros(size, DTYPE)), graph.array("y", data=np.zeros(size, DTYPE))
    for i in range(length):
        graph.kernel(MIX, name=f"mix{i}", x=x, y=y, a=i)
    return graph


def why(plan: Plan) -> str | None:
    return why_not_straight(Program(plan), {})


def test_kernels_on_lanes_of_one_device() -> None:
    plan = plan_by(chain(), PLATFORM, lambda name: ("a", int(name[-1]) % 2, "opencl-c"))
    assert why(plan) is None
    assert allocations(plan) == {("x", "a"): 800, ("y", "a"): 800}


def test_a_task_on_the_host() -> None:
    graph = chain()
    graph.host(lambda y: None, name="look", y=graph.arrays["y"].read())
    assert str(why(plan_on(graph, PLATFORM, "a"))).endswith("is done by the host")


def test_two_contexts() -> None:
    plan = plan_by(chain(), PLATFORM, lambda name: ("ab"[int(name[-1]) % 2], 0, "opencl-c"))
    assert "another SYCL context" in str(why(plan)) or "done by the host" in str(why(plan))


def test_more_buffers_than_memory() -> None:
    plan = plan_by(chain(size=400), PLATFORM, lambda name: ("a", 0, "opencl-c"))
    assert why(plan) is None
    small = tuple(replace(s, capacity_bytes=6_000) if s.name == "a" else s for s in PLATFORM.spaces)
    squeezed = replace(plan, platform=replace(plan.platform, spaces=small))
    assert "must be used again during a run" in str(why(squeezed))
