# SPDX-License-Identifier: Apache-2.0
"""Simulated times of a plan's instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from syclsched.errors import IncompletePlanError
from syclsched.model.plan import Plan
from syclsched.simulation.disturbances import Event, Failure, with_events
from syclsched.simulation.event_engine import run_machine
from syclsched.simulation.machine import DONE, WORK, Machine, Records
from syclsched.simulation.machine_builder import flatten
from syclsched.simulation.noise import Noise, check_randomness, with_noise


class Timing(NamedTuple):
    """Simulated seconds of one instruction."""

    submit_s: float
    start_s: float
    finish_s: float


def time_plan(plan: Plan) -> dict[int, Timing]:
    """Return the simulated times of each instruction, by number."""
    steps = time_machine(plan, flatten(plan))
    submit_s = np.where(steps["kind"] < WORK, steps["start_s"], steps["submit_s"])
    columns = zip(submit_s.tolist(), steps["start_s"].tolist(), steps["finish_s"].tolist(), strict=True)
    return dict(zip(steps["number"].tolist(), map(Timing._make, columns), strict=True))


def makespan_s(plan: Plan) -> float:
    """Return the simulated makespan of a plan, without creating instructions as `predict` does."""
    return float(time_machine(plan, flatten(plan))["finish_s"].max(initial=0.0))


def time_machine(
    plan: Plan, machine: Machine, *, noise: Noise | None = None, events: Sequence[Event] = (), seed: int = 0
) -> Records:
    """Simulate a flattened plan, for instance many times with different seeds."""
    check_randomness(noise, seed)
    actual = machine if noise is None else with_noise(plan, machine, noise, seed)
    steps = run_machine(with_events(plan, actual, events) if events else actual)
    if (steps["outcome"] != DONE).any():
        if not any(isinstance(event, Failure) for event in events):
            raise _deadlock_error(plan, machine, steps)
        time_machine(plan, machine)  # raises if the plan does not end without failures either
    return steps


def _deadlock_error(plan: Plan, machine: Machine, steps: Records) -> IncompletePlanError:
    first = int(np.flatnonzero(steps["outcome"] != DONE)[0])
    lane = int(np.searchsorted(machine.lanes["end"], first, side="right"))
    return IncompletePlanError(
        f"instruction {steps['number'][first]} never starts", where=f"lane {plan.lanes[lane].name!r}"
    )
