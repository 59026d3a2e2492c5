# SPDX-License-Identifier: Apache-2.0
"""The simulator: cases computed by hand, and properties of every simulated plan."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from support.strategies import ScheduledGraph, cases

from syclsched.errors import IncompletePlanError
from syclsched.model.plan import Instruction, Lane, Plan
from syclsched.model.platform import HOST, Device, Interference, MemorySpace, Platform
from syclsched.model.schedule import Schedule
from syclsched.planning import build_plan
from syclsched.simulation import predict, simulate, time_plan
from syclsched.simulation.overheads import DISPATCH_S


def plan_of(*lanes: list[tuple[float, tuple[int, ...]]], factor: float = 0.0, submission_s: float = 0.0) -> Plan:
    """Return a plan with lanes of launches (seconds, waits), numbered from 10 times the lane's number."""
    devices = [Device(f"d{n}", f"k{n}", "cpu", "opencl", "", f"d{n}", (f"d{n}",)) for n in range(len(lanes))]
    devices.append(Device(HOST, HOST, HOST, HOST, "", HOST, (HOST,)))
    pairs = tuple(Interference(f"d{a}", f"d{b}", factor) for a in range(len(lanes)) for b in range(a))
    platform = Platform("by hand", tuple(devices), (MemorySpace(HOST, 0),), (), pairs, submission_s)
    made = tuple(
        Lane(
            f"d{n}:0", f"d{n}", "compute",
            tuple(
                Instruction(10 * n + k, "launch", f"t{10 * n + k}", duration_s=s, waits=w)
                for k, (s, w) in enumerate(lane)
            ),
        )
        for n, lane in enumerate(lanes)
    )  # fmt: skip
    return Plan("by hand", "0", "none", platform, (), (), Schedule("none", ()), made)


def finishes(plan: Plan) -> dict[int, float]:
    return {number: timing.finish_s for number, timing in time_plan(plan).items()}


def test_a_lane_runs_in_order() -> None:
    assert finishes(plan_of([(1.0, ()), (2.0, ())])) == {0: 1.0, 1: 3.0}


def test_lanes_run_at_once_and_wait_for_each_other() -> None:
    assert finishes(plan_of([(1.0, ()), (2.0, (10,))], [(3.0, ())])) == {0: 1.0, 1: 5.0, 10: 3.0}


def test_taking_turns_doubles_the_time_while_both_run() -> None:
    # Both at half speed until the short one has done its 1 s (at 2 s); the long one then has 2 s left.
    assert finishes(plan_of([(1.0, ())], [(3.0, ())], factor=1.0)) == pytest.approx({0: 2.0, 10: 4.0})


def test_half_interference() -> None:
    assert finishes(plan_of([(2.0, ())], [(2.0, ())], factor=0.5)) == pytest.approx({0: 3.0, 10: 3.0})


def test_three_that_take_turns_share_three_ways() -> None:
    assert finishes(plan_of([(1.0, ())], [(1.0, ())], [(1.0, ())], factor=1.0)) == pytest.approx(
        {0: 3.0, 10: 3.0, 20: 3.0}
    )


def test_submission_is_sequential_on_the_host() -> None:
    times = time_plan(plan_of([(0.5, ()), (0.5, ())], [(0.5, ())], submission_s=1.0))
    each = 1.0 + DISPATCH_S
    assert [times[n].start_s for n in (0, 1, 10)] == pytest.approx([each, 2 * each, 3 * each])


def test_submitting_thread_shares_busy_cores() -> None:
    plan = plan_of([(4.0, ())], submission_s=1.0 - DISPATCH_S)
    one = replace(plan.platform.devices[0], compute_units=2)
    host = plan.platform.devices[1]
    pairs = (Interference("d0", HOST, 1.0),)
    busy = replace(plan, platform=replace(plan.platform, devices=(one, host), interferences=pairs))
    # Submitted at 1 s, when the host has no more submissions: full speed.
    assert finishes(busy)[0] == pytest.approx(5.0)
    two = replace(busy, lanes=(replace(busy.lanes[0], instructions=(
        Instruction(0, "launch", "t0", duration_s=4.0), Instruction(1, "launch", "t1", duration_s=1.0))),))  # fmt: skip
    # From 1 s to 2 s the host still submits: two threads of the kernel and one of the host on two cores, speed 2/3.
    assert finishes(two)[0] == pytest.approx(1.0 + 1.0 + (4.0 - 2 / 3))
    # A lane of one core leaves the other to the host.
    apart = replace(two.platform, interferences=(*pairs, Interference("d0", "d0", 0.0)))
    assert finishes(replace(two, platform=apart))[0] == pytest.approx(5.0)


def on_processor(plan: Plan, *lanes_and_units: tuple[int, int], factor: float = 0.0) -> Plan:
    """Return the plan with all devices on one processor; the last of these numbers are the host's."""
    devices = tuple(
        replace(device, processor="p", lanes=lanes, compute_units=units)
        for device, (lanes, units) in zip(plan.platform.devices, lanes_and_units, strict=True)
    )
    pairs = tuple(Interference(d.name, HOST, 1.0) for d in devices[:-1])
    pairs += tuple(Interference(a.name, b.name, factor) for a in devices[:-1] for b in devices[:-1] if a.name < b.name)
    return replace(plan, platform=replace(plan.platform, devices=devices, interferences=pairs))


def with_host(plan: Plan, *lanes: list[float]) -> Plan:
    """Return the plan with lanes of host functions, numbered from 100 times the lane's number plus 100."""
    made = tuple(
        Lane(
            f"host:{n}", HOST, "host",
            tuple(Instruction(100 * (n + 1) + k, "host", f"h{n}{k}", duration_s=s) for k, s in enumerate(lane)),
        )
        for n, lane in enumerate(lanes)
    )  # fmt: skip
    return replace(plan, lanes=(*plan.lanes, *made))


def test_kernels_of_all_cores_share_them() -> None:
    plan = plan_of([(1.0, ())], [(3.0, ())])
    # Four cores needed, two present: half speed until the short one ends at 2 s.
    assert finishes(on_processor(plan, (1, 2), (1, 2), (1, 2))) == pytest.approx({0: 2.0, 10: 4.0})
    # The same result if that slow-down was measured; a larger one adds to it.
    assert finishes(on_processor(plan, (1, 2), (1, 2), (1, 2), factor=1.0)) == pytest.approx({0: 2.0, 10: 4.0})
    assert finishes(on_processor(plan, (1, 2), (1, 2), (1, 2), factor=2.0)) == pytest.approx({0: 3.0, 10: 5.0})


def test_sub_devices_with_cores_of_their_own_share_none() -> None:
    plan = plan_of([(1.0, ())], [(3.0, ())])
    assert finishes(on_processor(plan, (1, 1), (1, 1), (1, 2))) == pytest.approx({0: 1.0, 10: 3.0})
    # But the runtime's threads may have been measured on the same ones.
    assert finishes(on_processor(plan, (1, 1), (1, 1), (1, 2), factor=1.0)) == pytest.approx({0: 2.0, 10: 4.0})


def test_a_host_function_and_a_kernel_displace_each_other() -> None:
    plan = with_host(plan_of([(2.0, ())]), [1.0])
    # Three cores needed, two present: three times as long until the host function ends at 3 s.
    assert finishes(on_processor(plan, (1, 2), (2, 2))) == pytest.approx({0: 4.0, 100: 3.0})
    # A kernel of one core leaves the other to the host function.
    assert finishes(on_processor(plan, (1, 1), (2, 2))) == pytest.approx({0: 2.0, 100: 1.0})


def test_host_functions_on_all_cores_slow_down_beside_a_kernel() -> None:
    assert finishes(on_processor(with_host(plan_of(), [1.0], [2.0]), (2, 2))) == pytest.approx({100: 1.0, 200: 2.0})
    plan = with_host(plan_of([(1.0, ())]), [1.0], [2.0])
    # Four needed, two present. Beside one kernel a function takes twice as long again, beside two
    # functions the kernel three times. At 4 s the first ends; kernel and second then take three times their time, and
    # the second has 2/3 s left when the kernel ends at 5 s.
    assert finishes(on_processor(plan, (1, 2), (2, 2))) == pytest.approx({0: 5.0, 100: 4.0, 200: 5.0 + 2 / 3})
    # Two needed, three present.
    few = with_host(plan_of(), [1.0], [1.0])
    assert finishes(on_processor(few, (2, 3))) == pytest.approx({100: 1.0, 200: 1.0})


def test_threaded_library_calls_and_kernels_share_cores() -> None:
    plan = with_host(plan_of([(1.0, ())]), [1.0])
    # Half speed by sharing, and half as long again.
    assert finishes(on_processor(plan, (1, 2), (1, 2))) == pytest.approx({0: 3.0, 100: 3.0})


def test_lanes_of_one_core_leave_others_to_the_submitting_thread() -> None:
    plan = plan_of([(4.0, ()), (1.0, ())], submission_s=1.0 - DISPATCH_S)
    whole = on_processor(plan, (1, 2), (1, 2))
    # From 1 s to 2 s the host still submits: two threads of the kernel and one of the host on two cores, speed 2/3.
    assert finishes(whole)[0] == pytest.approx(1.0 + 1.0 + (4.0 - 2 / 3))
    apart = on_processor(plan, (2, 2), (1, 2))
    pairs = (*apart.platform.interferences, Interference("d0", "d0", 0.0))
    assert finishes(replace(apart, platform=replace(apart.platform, interferences=pairs)))[0] == pytest.approx(5.0)


def test_a_circle_of_waits_is_an_error() -> None:
    with pytest.raises(IncompletePlanError, match="never starts"):
        time_plan(plan_of([(1.0, (10,))], [(1.0, (0,))]))


@given(cases())
def test_simulated_times_respect_lanes_waits_and_durations(case: ScheduledGraph) -> None:
    plan = predict(build_plan(case.graph, case.platform, case.schedule, case.durations_s))
    finish = {i.id: i.finish_s for _, i in plan.instructions()}
    for lane in plan.lanes:
        clock = 0.0
        for instruction in lane.instructions:
            if instruction.kind == "free":
                continue
            assert instruction.start_s >= clock - 1e-12
            assert all(instruction.start_s >= finish[w] - 1e-12 for w in instruction.waits)
            if instruction.kind != "alloc":
                assert instruction.finish_s - instruction.start_s >= instruction.duration_s - 1e-12
            clock = instruction.finish_s
    assert plan.makespan_s == max(finish.values(), default=0.0)
    apart = tuple(replace(device, processor=None) for device in plan.platform.devices)
    shared = replace(plan, platform=replace(plan.platform, interferences=()))
    alone = replace(plan, platform=replace(plan.platform, interferences=(), devices=apart))
    assert predict(alone).makespan_s <= predict(shared).makespan_s + 1e-12
    assert predict(shared).makespan_s <= plan.makespan_s + 1e-12


@given(cases())
def test_cores_enough_for_all_change_nothing(case: ScheduledGraph) -> None:
    plan = build_plan(case.graph, case.platform, case.schedule, case.durations_s)
    plan = replace(plan, platform=replace(plan.platform, interferences=()))
    units = [100 if d.is_host else 1 for d in plan.platform.devices]
    many = tuple(
        replace(d, processor="p", lanes=units[n], compute_units=units[n]) for n, d in enumerate(plan.platform.devices)
    )
    apart = tuple(replace(device, processor=None) for device in plan.platform.devices)
    assert time_plan(replace(plan, platform=replace(plan.platform, devices=many))) == time_plan(
        replace(plan, platform=replace(plan.platform, devices=apart))
    )


@given(cases())
def test_simulation_is_deterministic_and_complete(case: ScheduledGraph) -> None:
    plan = predict(build_plan(case.graph, case.platform, case.schedule, case.durations_s))
    trace = simulate(plan)
    assert trace == simulate(plan)
    assert trace.simulated
    assert trace.makespan_s == plan.makespan_s
    assert {s.task for s in trace.spans if s.kind != "copy"} == {t.name for t in case.graph.tasks}
