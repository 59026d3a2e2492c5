# SPDX-License-Identifier: Apache-2.0
"""Baseline policies: one device, round-robin, and random placement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from syclsched.errors import PolicyError, did_you_mean
from syclsched.scheduling.core.list_schedulers import by_rank, in_order, mean_upward_ranks
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import Ints
from syclsched.scheduling.timetable import Timetable

PREFIX = "single"
#: Most devices of which each is a candidate alone.
_MOST_ALONE: Final = 16


@dataclass(frozen=True, slots=True)
class Single:
    """Run all tasks on one device; tasks that it cannot run, such as host functions, go where they finish first."""

    device: str  # name of the device
    max_tasks: int | None = None  # in larger problems ``auto`` leaves this policy out

    @property
    def name(self) -> str:
        """Name of the policy, with the device's name."""
        return f"{PREFIX}:{self.device}"

    def check_device(self, names: Sequence[str]) -> None:
        """Raise `PolicyError` if the device is none of these."""
        if self.device not in names:
            raise PolicyError(
                f"no device {self.device!r}",
                where=f"policy {self.name!r}",
                hint=f"{did_you_mean(self.device, names)}The platform has {', '.join(names)}",
            )

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        self.check_device(problem.devices)
        pinned = np.full(len(problem), problem.devices.index(self.device), np.int64)
        return in_order(problem, by_rank(problem, mean_upward_ranks(problem)), pinned=pinned)


@dataclass(frozen=True, slots=True)
class SingleDevices:
    """The family of policies that place everything on one device."""

    prefix: str = PREFIX
    argument: str = "device"

    def members(self, problem: Problem) -> tuple[str, ...]:
        """Return one name for each device that can run more than barriers, or each of another speed of very many."""
        seconds = problem.tables.seconds
        real = (problem.implementation >= 0).any(axis=1)
        relevant = seconds[real] if real.any() else seconds
        able = np.isfinite(relevant).any(axis=0).tolist()
        found = [number for number, is_able in enumerate(able) if is_able]
        if len(found) > _MOST_ALONE:  # one of those that are equally fast
            found = sorted({relevant[:, number].tobytes(): number for number in reversed(found)}.values())
        return tuple(f"{self.prefix}:{problem.devices[number]}" for number in found)

    def make(self, argument: str) -> Single:
        """Return the policy for the device called ``argument``."""
        return Single(argument)


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Place tasks by priority and submission, each on the device of the next processor in turn that can run it.

    A device has one turn per lane; the task takes the lane that is free first. A task whose data cannot reach its
    device goes where it finishes first.
    """

    name: str = "round-robin"  # name that users type
    max_tasks: int | None = None  # in larger problems ``auto`` leaves this policy out

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        order = by_rank(problem)
        return in_order(problem, order, pinned=_cyclic_devices(problem, order))


def _cyclic_devices(problem: Problem, order: Ints) -> Ints:
    tables = problem.tables
    device = tables.processor_device
    pinned = np.zeros(len(problem), np.int64)
    left, position = order, np.arange(len(order)) % len(device)
    for _ in device:
        candidate = device[position]
        able = np.isfinite(tables.seconds[tables.kind[left], candidate])
        pinned[left[able]] = candidate[able]
        left, position = left[~able], (position[~able] + 1) % len(device)
    return pinned


@dataclass(frozen=True, slots=True)
class Random:
    """Place tasks in a random topological order, each on a random device that can run it.

    Equal problems and seeds give equal timetables. A task whose data cannot reach its device goes where it finishes
    first.
    """

    name: str = "random"  # name that users type
    max_tasks: int | None = 1_000_000  # in larger problems ``auto`` leaves this policy out
    seed: int = 0  # of the random numbers

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy."""
        generator = np.random.default_rng(self.seed)
        order = by_rank(problem, generator.random(len(problem)))
        able = np.isfinite(problem.tables.task_seconds())
        lots = np.where(able, generator.random(able.shape), -1.0)
        return in_order(problem, order, pinned=lots.argmax(axis=1) if len(problem) else order)
