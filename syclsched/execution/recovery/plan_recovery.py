# SPDX-License-Identifier: Apache-2.0
"""Recovery of a bound plan outside its runs: after failed allocations, and without excluded devices."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from syclsched.errors import MemoryLimitError, SyclschedError
from syclsched.execution.dispatch.prepared import PreparedPlan
from syclsched.execution.recovery.degraded import devices_in, replan_without
from syclsched.execution.recovery.health import DeviceHealth
from syclsched.execution.recovery.recovery_planner import MOST_RECOVERIES
from syclsched.model.plan import Plan
from syclsched.model.recovery import Recovery

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices

Made = TypeVar("Made")


class PlanRecovery:
    """The health of a plan's devices, and the plan's replacements without those that were excluded."""

    def __init__(self, first: PreparedPlan, devices: OpenDevices, *, enabled: bool) -> None:
        self._first, self._devices = first, devices
        self.plan: Plan = first.plan  # in use, or about to be
        self.enabled = enabled
        self.health = DeviceHealth(devices)
        self._no_plan_without: tuple[str, ...] = ()
        self._unreported: tuple[Recovery, ...] = ()

    @property
    def outdated(self) -> bool:
        """Whether the plan uses devices that have been excluded, and a plan without them may exist."""
        out = self.health.left_out
        return bool(out) and out != self._no_plan_without and any(lane.device in out for lane in self.plan.lanes)

    def replanned(self) -> PreparedPlan | None:
        """Return a plan without devices that have been excluded; None if it is not needed or does not exist."""
        if not self.outdated:
            return None
        out = self.health.left_out
        try:
            return replan_without(self._first, self._devices, out)
        except SyclschedError:  # the run will fail with the reason
            self._no_plan_without = out
            return None

    def retrying(self, attempt: Callable[[int], Made]) -> Made:
        """Call a function with the number of failed attempts, again after failed allocations; return its result."""
        failed = 0
        while True:
            try:
                return attempt(failed)
            except MemoryLimitError as error:
                failed += 1
                devices = devices_in(self.plan, error.space)
                if not self.enabled or error.space is None or failed > (MOST_RECOVERIES if devices else 1):
                    raise
                self._unreported += (self._recover_memory(error, devices),)

    def _recover_memory(self, error: MemoryLimitError, devices: tuple[str, ...]) -> Recovery:
        """Record the failed allocation as a failure of its space's devices, and free unused memory."""
        begun_s, before = time.perf_counter(), self.health.lost
        self.health.record_failures(devices)
        self._devices.trim_memory()
        return Recovery(
            reason="memory",
            what=str(error),
            device=devices[0] if devices else None,
            lost=tuple(device for device in self.health.lost if device not in before),
            left_out=self.health.left_out,
            planned=len(self.plan.tasks) if self.outdated else 0,
            took_s=time.perf_counter() - begun_s,
        )

    def take_unreported(self) -> tuple[Recovery, ...]:
        """Return the recoveries that no run has reported yet: the next run reports them."""
        found, self._unreported = self._unreported, ()
        return found
