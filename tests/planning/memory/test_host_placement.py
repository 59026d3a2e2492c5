# SPDX-License-Identifier: Apache-2.0
"""Placement of arrays in host memory for devices whose own memory is too small."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import symbolic
from support.examples import examples
from support.running import ASSIGN_KERNEL, DTYPE, MIX, plan_by
from support.strategies import ScheduledGraph, cases

import syclsched
from syclsched.errors import MemoryLimitError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Platform
from syclsched.planner.memory_limit import with_memory_limit
from syclsched.planning import build_plan, verify
from syclsched.planning.memory.host_placement import movable_arrays, shares_memory

SIZE = 1 << 12
NBYTES = 8 * SIZE
CPU = syclsched.describe("cpu")


def stepping(states: int) -> TaskGraph:
    """Return a graph that computes a value of each donated array, and then updates these arrays with the values."""
    graph = TaskGraph("stepping")
    x = graph.array("x", (4,), DTYPE)
    graph.kernel(ASSIGN_KERNEL, name="given", x=x, y=graph.array("z", (4,), DTYPE))
    values = []
    for n in range(states):
        state = graph.array(f"w{n}", (SIZE,), DTYPE, donated=True)
        values.append(graph.array(f"v{n}", (SIZE,), DTYPE, temporary=True))
        graph.kernel(ASSIGN_KERNEL, name=f"forward{n}", x=state, y=values[n])
    for n in reversed(range(states)):
        graph.kernel(MIX, name=f"update{n}", x=values[n], y=graph.arrays[f"w{n}"], a=3)
    return graph


def planned(graph: TaskGraph, platform: Platform, device: str = "cpu") -> Plan:
    return plan_by(graph, platform, lambda _: (device, 0, "opencl-c"))


def copies(plan: Plan) -> list[str]:
    return [i.uses[0].array for _, i in plan.instructions() if i.kind == "copy"]


@pytest.mark.parametrize("arrays", [4.5, 3.5, 2.5, 1.5, 0.5])
def test_arrays_are_not_copied_between_shared_memories(arrays: float) -> None:
    graph, whole = stepping(4), planned(stepping(4), CPU)
    plan = planned(graph, with_memory_limit(CPU, {"cpu": int(arrays * NBYTES)}))
    verify(plan, graph)
    assert plan.needed_bytes.get("cpu", 0) <= arrays * NBYTES
    assert plan.residents == dict.fromkeys(whole.residents, HOST)
    assert not set(copies(plan)) & plan.residents.keys()
    # Values that do not fit are recomputed; with less memory than one value, all are in host memory.
    assert plan.counters.recomputed == (4 - int(arrays) if arrays > 1 else 0)
    assert Plan.from_json(plan.to_json()) == plan


def test_the_plan_gives_the_reason_for_host_placement() -> None:
    plan = planned(stepping(2), with_memory_limit(CPU, {"cpu": NBYTES // 2}))
    (found,) = {(each.kind, each.context, each.why) for each in plan.memory}
    assert found == ("host", "cpu", "memory of cpu is short: used in the host's")


def test_inputs_that_the_user_owns_and_divided_arrays_do_not_move() -> None:
    graph = stepping(1)
    assert movable_arrays(graph) == {"w0", "v0", "z"}
    asked = graph.array("asked", (SIZE,), DTYPE, usm="device")
    graph.kernel(MIX, name="again", x=asked, y=graph.arrays["w0"], a=3)
    assert movable_arrays(graph) == {"w0", "v0", "z"}
    with pytest.raises(MemoryLimitError, match="at least"):
        planned(graph, with_memory_limit(CPU, {"cpu": NBYTES // 2}))


def test_a_device_must_take_memory_of_the_hosts_kind() -> None:
    (device,) = CPU.compute_devices
    assert shares_memory(device, CPU)
    able = tuple(each for each in device.aspects if each != "usm_host_allocations")
    unable = replace(CPU, devices=tuple(replace(d, aspects=able) if d is device else d for d in CPU.devices))
    assert not shares_memory(unable.compute_devices[0], unable)
    with pytest.raises(MemoryLimitError, match="at least"):
        planned(stepping(2), with_memory_limit(unable, {"cpu": NBYTES // 2}))


@settings(max_examples=examples(300))
@given(cases(donated=True), st.data(), st.randoms(use_true_random=False))
def test_plans_with_host_placement_are_right_in_every_order(
    case: ScheduledGraph, data: st.DataObject, rng: random.Random
) -> None:
    able = (*(f"usm_{kind}_allocations" for kind in ("device", "shared", "host")), "fp64")
    devices = tuple(d if d.is_host else replace(d, aspects=able) for d in case.platform.devices)
    platform = replace(case.platform, devices=devices)
    free = build_plan(case.graph, platform, case.schedule, case.durations_s)
    needed = {s.name: free.needed_bytes.get(s.name, 0) for s in platform.spaces if s.name != HOST}
    limits = {
        name: data.draw(st.integers(most // 2, most - 1), label=name) for name, most in needed.items() if most > 2
    }
    spaces = (replace(s, capacity_bytes=limits.get(s.name, 0), host_accessible=True) for s in platform.spaces)
    platform = replace(platform, spaces=tuple(spaces))
    with suppress(MemoryLimitError):  # inputs of the user stay in place, and so do divided arrays
        plan = build_plan(case.graph, platform, case.schedule, case.durations_s)
        verify(plan, case.graph)
        assert all(plan.needed_bytes.get(name, 0) <= limit for name, limit in limits.items())
        symbolic.check(plan, case.graph, rng)
