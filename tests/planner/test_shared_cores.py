# SPDX-License-Identifier: Apache-2.0
"""The policy `auto` on devices with common cores."""

from __future__ import annotations

from dataclasses import replace

import pytest

import syclsched
from syclsched.costs import MemoryHistory
from syclsched.costs.history import history_key
from syclsched.model.access import AccessMode
from syclsched.model.cost_only import StatedCost, add_cost_only
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Operation, Parameter, Work
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Device, MemorySpace, Platform
from syclsched.model.profile import Quantity

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


LIBRARY = Operation(
    "library",
    (Parameter("x", AccessMode.UPDATE),),
    (Implementation("blas", "host", lambda _: lambda *, x: None),),
    work=lambda _: Work(1e6, 0.0),
)


def library_calls(*, beside: bool) -> TaskGraph:
    graph = graph_of(1 if beside else 0, cpu=1.0)
    for n in range(3):
        graph.kernel(LIBRARY, name=f"call{n}", x=graph.array(f"y{n}", (8,)))
    return graph


@pytest.mark.parametrize("policy", ["auto", "heft"])
def test_host_libraries_have_one_thread_beside_cpu_kernels(policy: str) -> None:
    history = MemoryHistory()
    signature = library_calls(beside=False).find_task("call0").signature
    assert signature is not None
    single = PLATFORM.with_single_threads()
    assert single.host.library_threads == 1
    for host, seconds in ((THE_HOST, 1.0), (single.host, 1.5)):
        history[history_key(host.timing_key, LIBRARY, LIBRARY.implementations[0], signature)] = Quantity(seconds)
    durations: dict[bool, float] = {}
    for beside in (False, True):
        graph = library_calls(beside=beside)
        plan = syclsched.plan(graph, PLATFORM, policy=policy, history=history)
        syclsched.verify(plan, graph)
        assert plan.platform.host.library_threads == (1 if beside else 2)
        assert Plan.from_json(plan.to_json()) == plan
        durations[beside] = next(i.duration_s for _, i in plan.instructions() if i.task == "call0")
        assert [o.seconds for o in plan.options if o.task == "call0"] == [durations[beside]]
    assert durations == {False: 1.0, True: 1.5}


def test_host_libraries_keep_threads_beside_other_devices() -> None:
    assert PLATFORM.with_single_threads([HOST]) is PLATFORM
    assert PLATFORM.with_single_threads(["cpu"]) is PLATFORM
    apart = replace(PLATFORM, devices=tuple(replace(d, processor=None) for d in PLATFORM.devices))
    assert apart.with_single_threads() is apart
    assert replace(PLATFORM, devices=(CPU,)).with_single_threads().devices == (CPU,)
