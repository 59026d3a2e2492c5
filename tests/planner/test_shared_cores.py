# SPDX-License-Identifier: Apache-2.0
"""The policy `auto` on devices that compute on the same cores."""

from __future__ import annotations

from dataclasses import replace

import pytest

import syclsched
from syclsched.costs import MemoryHistory
from syclsched.model.access import AccessMode
from syclsched.model.cost_only import StatedCost, add_cost_only
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Device, MemorySpace, Platform

CPU = Device("cpu", "c", "cpu", "opencl", "", "cpu", ("cpu",), compute_units=2, processor="p")
EMULATOR = replace(CPU, name="accelerator", key="a", kind="accelerator")
THE_HOST = Device(HOST, HOST, HOST, HOST, "", HOST, (HOST, "cpu"), compute_units=2, processor="p")
PLATFORM = Platform("two cores", (CPU, EMULATOR, THE_HOST), (MemorySpace("cpu", 0, True), MemorySpace(HOST, 0, True)))


def graph_of(tasks: int, **on: float) -> TaskGraph:
    graph = TaskGraph("independent")
    for n in range(tasks):
        x = graph.array(f"x{n}", (8,), "uint8")
        add_cost_only(graph, f"t{n}", StatedCost(on=on), [(x, AccessMode.WRITE)])
    return graph


@pytest.mark.parametrize("emulator_s", [1.0, 1.5])
def test_nothing_is_gained_beside_a_device_that_has_all_cores(emulator_s: float) -> None:
    graph = graph_of(6, cpu=1.0, accelerator=emulator_s)
    plan = syclsched.plan(graph, PLATFORM, history=MemoryHistory())
    assert plan.makespan_s == pytest.approx(6.0)
    assert {a.device for a in plan.schedule.assignments} == {"cpu"}
    apart = replace(PLATFORM, devices=tuple(replace(d, processor=None) for d in PLATFORM.devices))
    assert syclsched.plan(graph, apart, history=MemoryHistory()).makespan_s < 5.0


def test_a_plan_that_uses_both_is_predicted_as_slow_as_it_is() -> None:
    graph = graph_of(6, cpu=1.0, accelerator=1.0)
    mixed = syclsched.plan(graph, PLATFORM, policy="heft", history=MemoryHistory())
    assert {a.device for a in mixed.schedule.assignments} == {"cpu", "accelerator"}
    assert mixed.makespan_s == pytest.approx(6.0)  # three rounds of two that take twice as long
    assert "cpu, accelerator compute on the same 2 cores" in str(mixed)
