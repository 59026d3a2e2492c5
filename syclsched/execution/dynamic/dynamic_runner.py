# SPDX-License-Identifier: Apache-2.0
"""Graphs bound to devices for repeated runs under a dynamic policy, each of which is decided anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from syclsched.costs import History
from syclsched.execution.core.history_feed import FEED
from syclsched.execution.core.safeguards import Safeguards
from syclsched.execution.dynamic.dynamic_start import execute_dynamic, prepare_dynamic
from syclsched.execution.dynamic.learning import record_in_history
from syclsched.execution.handle.run import Run
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices


class DynamicRunner:
    """A plan's graph bound to devices, which it owns; one run is in flight at a time.

    Results of a run can be read until the next begins, which frees its memory.
    """

    replayed: Final = False

    def __init__(
        self, plan: Plan, graph: TaskGraph, devices: OpenDevices, name: str, history: History, safeguards: Safeguards
    ) -> None:
        self._prepared = prepare_dynamic(graph, devices.platform, name, plan=plan, history=history)
        self._devices, self._safeguards = devices, safeguards
        self._last: Run | None = None

    def run(self, inputs: Mapping[str, Any]) -> Run:
        """Start a run with new data; return at once."""
        if self._last is not None:
            self._last.close()
        FEED.begin()
        prepared = self._prepared
        self._last = execute_dynamic(
            prepared.graph,
            prepared.problem,
            self._devices,
            prepared.policy,
            inputs,
            safeguards=self._safeguards,
            learn=record_in_history,
        )
        return self._last

    def close(self) -> None:
        """Wait for the last run, and close the devices."""
        if self._last is not None:
            self._last.close()
        self._devices.close()
