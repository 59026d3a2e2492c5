# SPDX-License-Identifier: Apache-2.0
"""Fences in plans, as the engine submits them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.running import DTYPE, MIX, plan_by
from support.strategies import touching

from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Device, MemorySpace, Platform
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning import build_plan

READ, WRITE = AccessMode.READ, AccessMode.WRITE


def fan_in(width: int, backend: Any, *, size: int = 8, host: bool = False) -> Plan:
    """Plan ``width`` tasks, each on a lane, and one on another lane after them; the last on the host with ``host``."""
    device = Device("d", "k", "gpu", backend, "", "m", ("m",), lanes=width + 1, copy_lane=False)
    spaces = (MemorySpace("m", 0, True), MemorySpace(HOST, 0, True))
    platform = Platform("one", (device, Device(HOST, HOST, HOST, HOST, "", HOST, (HOST, "m"))), spaces)
    graph = TaskGraph("fan in")
    arrays = [graph.array(f"a{i}", (8,)) for i in range(width)]
    result = graph.array("result", (size,))
    for i, array in enumerate(arrays):
        graph.kernel(touching((WRITE,)), name=f"t{i}", p0=array)
    graph.kernel(
        touching((*[READ] * width, WRITE)), name="last", **{f"p{i}": a for i, a in enumerate((*arrays, result))}
    )
    assigned = [Assignment(f"t{i}", "d", i, "kernel", 0.0, 1.0) for i in range(width)]
    if host:
        assigned[-1] = replace(assigned[-1], device=HOST, lane=0, implementation="host")
    assigned.append(Assignment("last", "d", width, "kernel", 1.0, 2.0))
    durations = {a.task: 1.0 for a in assigned}
    return build_plan(graph, platform, Schedule("by hand", tuple(assigned)), durations)


@pytest.mark.parametrize(("backend", "width", "fences"), [
    ("opencl", 1, 1), ("opencl", 9, 1), ("level_zero", 8, 0), ("level_zero", 9, 1), ("cuda", 3, 0),
])  # fmt: skip
def test_waiting_kernels_follow_a_fence_if_the_backend_needs_it(backend: str, width: int, fences: int) -> None:
    assert fan_in(width, backend).counters.barriers == fences


def test_the_host_waits_for_host_functions_without_a_fence() -> None:
    assert fan_in(1, "opencl", host=True).counters.barriers == 0
    assert fan_in(2, "opencl", host=True).counters.barriers == 1
    assert fan_in(9, "level_zero", host=True).counters.barriers == 0


def test_tasks_without_writes_become_fences() -> None:
    assert fan_in(2, "level_zero", size=0).counters.barriers == 1
    assert fan_in(2, "opencl", size=0).counters.barriers == 2


@pytest.mark.sycl
@pytest.mark.parametrize("native", [False, True])
def test_run_makes_no_more_fences_than_planned(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from syclsched.api import with_lanes
    from syclsched.devices import discover, open_devices
    from syclsched.devices.backends import opencl
    from syclsched.execution import execute

    platform = with_lanes(discover(selector="cpu"), 2)
    graph = TaskGraph("back and forth")
    x, y = (graph.array(n, data=np.arange(1 << 20, dtype=DTYPE)) for n in ("x", "y"))
    for i in range(10):
        graph.kernel(MIX, name=f"t{i}", x=(x, y)[i % 2], y=(y, x)[i % 2], a=i)
    plan = plan_by(graph, platform, lambda name: ("cpu", int(name[1:]) % 2, "opencl-c"))
    assert plan.counters.barriers >= 9  # each after the one before it, on the other lane
    if not native:
        monkeypatch.setattr(opencl, "load_native", lambda: None)
    with open_devices(platform) as live, execute(plan, graph, live) as run:
        run.wait(60)
        made = run.trace().barriers
    assert made == 0 if native else 0 < made <= plan.counters.barriers
