# SPDX-License-Identifier: Apache-2.0
"""Calibration and planning with one request, platform and history, shared by the API, models and the command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.planner import PlanRequest, graph_to_time, plan_graph
from syclsched.profiling import calibrate
from syclsched.profiling.calibration import Calibration, RecordingHistory
from syclsched.progress import Progress

if TYPE_CHECKING:
    from syclsched.devices import OpenDevices


@dataclass(frozen=True, slots=True)
class PlanningSession:
    """Calibrates and plans graphs for a platform."""

    request: PlanRequest
    platform: Platform
    history: RecordingHistory  # stores the measured task times that plans are based on
    progress: Progress | None = None  # told of each measurement, and of each step of planning
    choices_only: bool = False  # whether to time only tasks with several implementations

    def calibrate(self, graph: TaskGraph, live: OpenDevices) -> tuple[Calibration, ...]:
        """Measure the tasks of a graph, and of its chunks if tasks may be split."""

        def measure(timed: TaskGraph) -> Calibration:
            return calibrate(
                timed, self.platform, live, self.history, progress=self.progress, choices_only=self.choices_only
            )

        policy, rewrite = self.request.policy, self.request.rewrite
        found = measure(graph)
        chunks = graph_to_time(graph, self.platform, policy=policy, rewrite=rewrite, history=self.history)
        return (found,) if chunks is None else (found, measure(chunks))

    def plan(self, graph: TaskGraph) -> Plan:
        """Plan a graph."""
        clock = None if self.request.budget_s is None else perf_counter
        return plan_graph(
            graph, self.platform, history=self.history, clock=clock, progress=self.progress, **asdict(self.request)
        )
