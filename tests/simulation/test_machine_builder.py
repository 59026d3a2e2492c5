# SPDX-License-Identifier: Apache-2.0
"""Simulation input from plans: refusals of invalid plans, and overheads of the host."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.plans import launch, plan_on, platform_of

from syclsched.errors import IncompletePlanError
from syclsched.model.platform import HOST, Interference, Platform
from syclsched.simulation import makespan_s, time_machine, time_plan
from syclsched.simulation.event_engine import run_machine
from syclsched.simulation.machine_builder import flatten
from syclsched.simulation.overheads import DISPATCH_S, HANDOFF_S, Overheads, host_overheads


def test_a_number_used_twice_is_named() -> None:
    with pytest.raises(IncompletePlanError, match="instruction 3 is there twice"):
        time_plan(plan_on(platform_of("a", "b"), a__0=[launch(3, 1.0)], b__0=[launch(1, 1.0), launch(3, 1.0)]))


def test_a_wait_for_a_missing_instruction_is_named_with_its_lane() -> None:
    with pytest.raises(IncompletePlanError, match="lane 'b:0': instruction 2 never starts"):
        time_plan(plan_on(platform_of("a", "b"), a__0=[launch(0, 1.0)], b__0=[launch(1, 1.0), launch(2, 1.0, 9)]))


def test_a_plan_without_instructions_takes_no_time() -> None:
    assert time_plan(plan_on(platform_of("a"))) == {}
    assert makespan_s(plan_on(platform_of("a"))) == 0.0


def test_a_flattened_plan_can_be_run_again_and_again() -> None:
    plan = plan_on(platform_of("a"), a__0=[launch(0, 1.0), launch(1, 2.0)])
    machine = flatten(plan)
    assert time_machine(plan, machine)["finish_s"].max() == makespan_s(plan) == 3.0
    first = run_machine(machine)
    assert first["finish_s"].tolist() == run_machine(machine)["finish_s"].tolist() == [1.0, 3.0]
    assert machine.steps["finish_s"].tolist() == [0.0, 0.0, 0.0]


def host(**numbers: float) -> Platform:
    return replace(platform_of("a"), **numbers)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        (host(), Overheads(0.0, 0.0)),
        (host(submission_s=5e-6), Overheads(5e-6 + DISPATCH_S, HANDOFF_S)),
        (host(submission_s=5e-6, dispatch_s=2e-5), Overheads(2e-5, HANDOFF_S)),
        (host(submission_s=5e-6, handoff_s=3e-5), Overheads(5e-6 + DISPATCH_S, 3e-5)),
    ],
)
def test_host_overheads_are_measured_or_assumed(platform: Platform, expected: Overheads) -> None:
    assert host_overheads(platform) == pytest.approx(expected)


def test_work_after_a_host_function_starts_a_hand_off_later() -> None:
    platform = host(submission_s=1e-6, dispatch_s=1e-6, handoff_s=0.5)
    times = time_plan(plan_on(platform, host__0=[launch(0, 1.0)], a__0=[launch(1, 1.0, 0), launch(2, 1.0)]))
    assert times[1].start_s == pytest.approx(1.5)
    assert times[2].start_s == pytest.approx(2.5)


def test_interference_with_missing_devices_is_ignored() -> None:
    platform = replace(platform_of("a"), interferences=(Interference("a", "gone", 1.0), Interference("a", HOST, 1.0)))
    platform = replace(platform, devices=(replace(platform.devices[0], processor="p"),))
    assert makespan_s(plan_on(platform, a__0=[launch(0, 1.0)])) == 1.0
