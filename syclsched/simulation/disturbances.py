# SPDX-License-Identifier: Apache-2.0
"""What may go differently than planned: noise, wrong cost models, devices that slow down or fail."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from syclsched.errors import DeviceNotFoundError, PlanError
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Platform
from syclsched.simulation.machine import COPY, EVENT, IMMEDIATE, Floats, Machine, records


@dataclass(frozen=True, slots=True)
class Noise:
    """How true durations differ from planned ones; each is a factor on the planned duration.

    Parameters
    ----------
    sigma : float, optional
        Of the logarithm of a lognormal factor with mean 1, drawn for each task and each copy.
    families : Mapping[str, float], optional
        Systematic errors: the factor of all tasks of a family; ``copy`` for copies.
    family_sigma : float, optional
        Of the logarithm of a lognormal factor with mean 1, drawn once for each family that ``families`` does not name.

    Raises
    ------
    PlanError
        If a sigma is negative or a factor is not positive and finite.
    """

    sigma: float = 0.0
    families: Mapping[str, float] = field(default_factory=dict)
    family_sigma: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("sigma", self.sigma), ("family_sigma", self.family_sigma)):
            if not 0.0 <= value < math.inf:
                raise PlanError(f"{name} is {value!r}", where="noise", hint="It is a finite number of zero or more")
        for family, factor in self.families.items():
            if not 0.0 < factor < math.inf:
                raise PlanError(f"the factor is {factor!r}", where=f"noise of {family!r}", hint="It must be positive")


@dataclass(frozen=True, slots=True)
class SlowDown:
    """From a time on, kernels and host functions of a device take longer; a later one of the device replaces it.

    Parameters
    ----------
    device : str
        Which.
    at_s : float
        From when.
    factor : float
        How many times as long as planned; 1 is back to normal.
    """

    device: str
    at_s: float
    factor: float


@dataclass(frozen=True, slots=True)
class Failure:
    """At a time, a device is gone: nothing on its lanes finishes after it, nor does anything that touches its memory.

    Its memory is its space, unless that is the home of other devices or of the host.

    Parameters
    ----------
    device : str
        Which.
    at_s : float
        When. What ends just then has finished.
    """

    device: str
    at_s: float


Event = SlowDown | Failure


def with_events(plan: Plan, machine: Machine, events: Sequence[Event]) -> Machine:
    """Return a machine on which something goes wrong.

    Parameters
    ----------
    plan : Plan
        What is run.
    machine : Machine
        The same for the engine.
    events : sequence of SlowDown or Failure
        In any order; of several slow-downs of a device at one time the last in this order holds.

    Returns
    -------
    Machine
        Events of devices that have no lane are checked and otherwise without effect.

    Raises
    ------
    DeviceNotFoundError
        If an event names a device that is not on the platform.
    PlanError
        If a time or factor is impossible.
    """
    steps = machine.steps.copy()
    known = {name: n for n, name in enumerate(dict.fromkeys(lane.device for lane in plan.lanes))}
    rows: list[tuple[float, int, float]] = []
    for event in sorted(events, key=lambda e: e.at_s):
        _check(event, plan.platform)
        if isinstance(event, Failure):
            _lose(plan, event, steps["lost_s"])
            rows.append((event.at_s, -1, 1.0))
        elif event.device in known:
            rows.append((event.at_s, known[event.device], event.factor))
    at_s, device, factor = zip(*rows, strict=True) if rows else ((), (), ())
    return machine._replace(steps=steps, events=records(EVENT, len(rows), at_s=at_s, device=device, factor=factor))


def _check(event: Event, platform: Platform) -> None:
    where = f"{'failure' if isinstance(event, Failure) else 'slow-down'} of {event.device!r}"
    if all(device.name != event.device for device in platform.devices):
        names = ", ".join(device.name for device in platform.devices)
        raise DeviceNotFoundError("the platform has no such device", where=where, hint=f"It has {names}")
    if not 0.0 <= event.at_s < math.inf:
        raise PlanError(f"the time is {event.at_s!r}", where=where, hint="It is a finite number of seconds from 0 on")
    if isinstance(event, SlowDown) and not 0.0 < event.factor < math.inf:
        raise PlanError(f"the factor is {event.factor!r}", where=where, hint="It must be positive and finite")


def _lose(plan: Plan, failure: Failure, lost_s: Floats) -> None:
    """Note what cannot finish after a failure."""
    space = plan.platform.device(failure.device).space
    homes = [device.name for device in plan.platform.devices if device.space == space]
    memory = {space} if homes == [failure.device] and space != HOST else set()
    position = 0
    for lane in plan.lanes:
        for instruction in lane.instructions:
            if lane.device == failure.device or any(use.space in memory for use in instruction.uses):
                lost_s[position] = min(lost_s[position], failure.at_s)
            position += 1


def with_noise(plan: Plan, machine: Machine, noise: Noise, seed: int) -> Machine:
    """Return a machine on which durations are off.

    Parameters
    ----------
    plan : Plan
        What is run.
    machine : Machine
        The same for the engine.
    noise : Noise
        How far off.
    seed : int
        Equal seeds give equal factors: to a task of a graph the same one in every plan of it, to families too.

    Returns
    -------
    Machine
        With other ``duration_s`` and ``latency_s``.
    """
    tasks = {task.name: n for n, task in enumerate(plan.tasks)}
    families = [*(task.family for task in plan.tasks), "copy"]
    systematic = _family_factors(sorted(set(families)), noise, seed)
    # By task, then that of copies, then that of what the plan lists no task for.
    by_task = np.array([*(systematic[family] for family in families), 1.0])
    by_task[: len(tasks)] *= _lognormal(noise.sigma, len(tasks), seed, 1)
    copy, other = len(tasks), len(tasks) + 1
    factor = by_task[
        [copy if i.kind == "copy" else tasks.get(i.task or "", other) for n in plan.lanes for i in n.instructions]
    ]
    steps = machine.steps.copy()
    real = steps[:-1]
    factor[real["kind"] == IMMEDIATE] = 1.0
    copies = np.flatnonzero(real["kind"] == COPY)
    copies = copies[np.argsort(real["order"][copies])]
    factor[copies] *= _lognormal(noise.sigma, len(copies), seed, 2)
    real["duration_s"] *= factor
    real["latency_s"] *= factor
    return machine._replace(steps=steps)


def _family_factors(families: Sequence[str], noise: Noise, seed: int) -> dict[str, float]:
    drawn = _lognormal(noise.family_sigma, len(families), seed, 0)
    return {name: noise.families.get(name, float(factor)) for name, factor in zip(families, drawn, strict=True)}


def _lognormal(sigma: float, count: int, seed: int, stream: int) -> Floats:
    generator = np.random.default_rng([seed, stream])
    factors: Floats = np.exp(generator.normal(-0.5 * sigma * sigma, sigma, count))
    return factors
