# SPDX-License-Identifier: Apache-2.0
"""Repeated simulation of a plan under one disturbance, and its statistics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from syclsched.errors import PlanError
from syclsched.model.plan import Plan
from syclsched.simulation.disturbances import Event
from syclsched.simulation.machine import DONE, NEVER, WORK, Ints
from syclsched.simulation.machine_builder import flatten
from syclsched.simulation.noise import Noise
from syclsched.simulation.timing import time_machine


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Deviations from a plan: noise and events."""

    noise: Noise = field(default_factory=Noise)  # deviations of durations
    events: tuple[Event, ...] = ()  # slow-downs and failures

    @property
    def none(self) -> bool:
        """Whether everything runs as planned."""
        return not self.events and self.noise == Noise()


@dataclass(frozen=True, slots=True)
class Trial:
    """One disturbed run."""

    makespan_s: float  # end of the last instruction that ran
    undone: tuple[str, ...] = ()  # tasks that did not finish
    lost: tuple[str, ...] = ()  # arrays whose final value is missing, or not where it should be

    @property
    def complete(self) -> bool:
        """Whether the run finished all tasks and produced all arrays."""
        return not self.undone and not self.lost


@dataclass(frozen=True, slots=True)
class Trials:
    """Disturbed runs with different seeds."""

    runs: tuple[Trial, ...]  # in the order of their seeds; at least one

    @property
    def makespans_s(self) -> tuple[float, ...]:
        """The makespans of the complete runs."""
        return tuple(run.makespan_s for run in self.runs if run.complete)

    @property
    def incomplete(self) -> int:
        """The number of incomplete runs."""
        return len(self.runs) - len(self.makespans_s)

    @property
    def median_s(self) -> float | None:
        """Median makespan of the complete runs; None if there is none."""
        return median(self.makespans_s) if self.makespans_s else None

    @property
    def mad_s(self) -> float | None:
        """Median absolute deviation from the median."""
        middle_s = self.median_s
        return None if middle_s is None else median(abs(s - middle_s) for s in self.makespans_s)

    @property
    def worst_s(self) -> float | None:
        """Longest makespan of the complete runs; None if there is none."""
        return max(self.makespans_s, default=None)


def repeat(plan: Plan, disturbance: Disturbance, seeds: Iterable[int]) -> Trials:
    """Simulate a plan once for each seed."""
    machine = flatten(plan)
    found = []
    for seed in seeds:
        steps = time_machine(plan, machine, noise=disturbance.noise, events=disturbance.events, seed=seed)
        ended = (steps["outcome"] != NEVER) & (steps["kind"] >= WORK)
        left = np.flatnonzero(steps["outcome"] != DONE)
        missing = _undone(plan, left) if len(left) else ((), ())
        found.append(Trial(float(steps["finish_s"][ended].max(initial=0.0)), *missing))
    if not found:
        raise PlanError("there is none", where="seeds", hint="One for each run, as range(20)")
    return Trials(tuple(found))


def _undone(plan: Plan, left: Ints) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the unfinished tasks, and the arrays that were not written or not copied to their destination.

    Copies for an unfinished task are not counted as lost arrays.
    """
    every = [i for lane in plan.lanes for i in lane.instructions]
    rest = [every[n] for n in left.tolist()]
    tasks = {i.task for i in rest if i.kind in ("launch", "host", "barrier")}
    undone = [task for task in plan.tasks if task.name in tasks]
    lasting = {array.name for array in plan.arrays if not array.temporary}
    written = {a.array for task in undone for a in task.accesses if a.mode.writes}
    touched = {a.array for task in undone for a in task.accesses}
    stranded = {use.array for i in rest if i.kind == "copy" for use in i.uses if use.array not in touched}
    return tuple(task.name for task in undone), tuple(sorted((written & lasting) | stranded))
