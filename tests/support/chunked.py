# SPDX-License-Identifier: Apache-2.0
"""Two GPUs with memory of their own, and a plan that works through chunks on one of them."""

from __future__ import annotations

from support.strategies import touching
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning import build_plan, verify
from syclsched.simulation import predict


def two_gpus(link_s: float, left_bytes: int = 0) -> Platform:
    names = ("left", "right")
    devices = [Device(n, n, "gpu", "level_zero", "", n, (n,), dtypes=("float64",)) for n in names]
    devices.append(Device(HOST, HOST, HOST, HOST, "", HOST, (HOST,)))
    spaces = (MemorySpace("left", left_bytes), MemorySpace("right", 0), MemorySpace(HOST, 0, True))
    pairs = [("left", "right"), ("right", "left"), *((HOST, n) for n in names), *((n, HOST) for n in names)]
    return Platform("two", tuple(devices), spaces, tuple(Link(a, b, link_s, 1e12) for a, b in pairs))


def plan_of_chunks(count: int, left_bytes: int = 0) -> Plan:
    """Return a plan of 8,000-byte chunks: 1 s to a GPU, 8 s of work, 1 s back, and the host's work."""
    graph = TaskGraph("chunks")
    assigned: list[Assignment] = []
    durations: dict[str, float] = {}
    for i in range(count):
        x, y = graph.array(f"x{i}", (1000,)), graph.array(f"y{i}", (1000,), temporary=True)
        graph.kernel(touching((AccessMode.READ, AccessMode.WRITE)), name=f"work{i}", p0=x, p1=y)
        graph.host(lambda y: None, name=f"take{i}", y=y.read())
        assigned += [
            Assignment(f"work{i}", "left", 0, "kernel", i, i + 0.9),
            Assignment(f"take{i}", HOST, 0, HOST, i + 0.9, i + 1.0),
        ]
        durations |= {f"work{i}": 8.0, f"take{i}": 0.1}
    plan = predict(build_plan(graph, two_gpus(1.0, left_bytes), Schedule("by hand", tuple(assigned)), durations))
    verify(plan, graph)
    return plan
