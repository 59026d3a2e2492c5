# SPDX-License-Identifier: Apache-2.0
"""Everything on one device: what every other plan has to beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from syclsched.errors import PolicyError
from syclsched.scheduling.core.placing import by_rank, in_order, mean_upward_ranks
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable

PREFIX = "single"


@dataclass(frozen=True, slots=True)
class Single:
    """One device runs all it can; what it cannot, host functions among it, goes where it finishes first."""

    device: str  # name of the device
    max_tasks: int | None = None  # larger problems are left to other policies by ``auto``

    @property
    def name(self) -> str:
        """The policy's name, with the device's in it."""
        return f"{PREFIX}:{self.device}"

    def schedule(self, problem: Problem) -> Timetable:
        """Return the schedule."""
        if self.device not in problem.devices:
            raise PolicyError(
                f"no device {self.device!r}",
                where=f"policy {self.name!r}",
                hint=f"The platform has {', '.join(problem.devices)}",
            )
        pinned = np.full(len(problem), problem.devices.index(self.device), np.int64)
        return in_order(problem, by_rank(problem, mean_upward_ranks(problem)), pinned=pinned)


@dataclass(frozen=True, slots=True)
class SingleDevices:
    """The family of policies that put everything on one device."""

    prefix: str = PREFIX
    argument: str = "device"

    def members(self, problem: Problem) -> tuple[str, ...]:
        """Return one name per device that can run more than barriers."""
        seconds = problem.tables.seconds
        real = (problem.implementation >= 0).any(axis=1)
        weighty = seconds[real] if real.any() else seconds
        able = np.isfinite(weighty).any(axis=0).tolist()
        return tuple(f"{self.prefix}:{device}" for device, can in zip(problem.devices, able, strict=True) if can)

    def make(self, argument: str) -> Single:
        """Return the policy for the device called ``argument``."""
        return Single(argument)
