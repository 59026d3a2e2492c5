# SPDX-License-Identifier: Apache-2.0
"""Calibration and planning with one request, platform and history, shared by the API, models and the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from syclsched.errors import SyclschedError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.planner import AUTO, PlanRequest, graph_to_time, plan_graph
from syclsched.planner.reuse import ReadTimes, are_same, plan_key
from syclsched.planning import verify
from syclsched.profiling.storage.plan_store import PlanStore
from syclsched.progress import Progress

if TYPE_CHECKING:
    from syclsched.costs import History
    from syclsched.devices import OpenDevices
    from syclsched.profiling.calibration import Calibration, RecordingHistory

#: Plans that took less time, or have more tasks, are not kept: reading their file takes as long, or much space.
_KEPT_FROM_S, _MOST_TASKS = 0.5, 5_000


@dataclass(frozen=True, slots=True)
class PlanningSession:
    """Calibrates and plans graphs for a platform."""

    request: PlanRequest
    platform: Platform
    history: RecordingHistory  # stores the measured task times that plans are based on
    progress: Progress | None = None  # told of each measurement, and of each step of planning
    choices_only: bool = False  # whether to time only tasks with several implementations
    plans: PlanStore | None = None  # keeps plans of the policy ``auto``, to be used again
    tell: Callable[[str], None] | None = None  # called with a line about a plan that is used again
    again: bool = False  # whether to time again what is known

    def calibrate(self, graph: TaskGraph, live: OpenDevices) -> tuple[Calibration, ...]:
        """Measure the tasks of a graph, and of its chunks if tasks may be split."""
        from syclsched.profiling.calibration import calibrate  # it needs the packages of devices, planning does not

        def measure(timed: TaskGraph) -> Calibration:
            return calibrate(
                timed,
                self.platform,
                live,
                self.history,
                progress=self.progress,
                again=self.again,
                choices_only=self.choices_only,
            )

        policy, rewrite = self.request.policy, self.request.rewrite
        found = measure(graph)
        chunks = graph_to_time(graph, self.platform, policy=policy, rewrite=rewrite, history=self.history)
        return (found,) if chunks is None else (found, measure(chunks))

    def plan(self, graph: TaskGraph) -> Plan:
        """Plan a graph, or return the kept plan of an equal graph, platform, request and history."""
        store, key = self.plans, None
        if store is not None and self.request.policy == AUTO and len(graph.tasks) <= _MOST_TASKS:
            key = plan_key(graph, self.platform, self.request, self.history, _version())
        if store is None or key is None:
            return self._plan(graph, self.history)
        kept = store.find(key, self.history, are_same)
        if kept is not None and _is_sound(kept, graph):
            if self.tell is not None:
                self.tell(f"the plan of {graph.name} was made by an earlier run and is used again")
            return kept
        begun_s, read = perf_counter(), ReadTimes(self.history)
        plan = self._plan(graph, read)
        if perf_counter() - begun_s >= _KEPT_FROM_S:
            store.keep(key, plan, read.times)
        return plan

    def _plan(self, graph: TaskGraph, history: History) -> Plan:
        clock = None if self.request.budget_s is None else perf_counter
        return plan_graph(
            graph, self.platform, history=history, clock=clock, progress=self.progress, **asdict(self.request)
        )


def _is_sound(plan: Plan, graph: TaskGraph) -> bool:
    """Return whether a kept plan is one of this graph, and complete."""
    try:
        verify(plan, graph)
    except SyclschedError:
        return False
    return True


@cache
def _version() -> str:
    """Return what tells apart two states of the package: kept plans of another one are not used."""
    package = str(Path(__file__).parent)
    found = [
        (each.path.removeprefix(package), each.stat().st_size, each.stat().st_mtime_ns) for each in _sources(package)
    ]
    return repr(sorted(found))


def _sources(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield the Python files of a folder and of those in it."""
    with os.scandir(folder) as entries:
        for each in entries:
            if each.is_dir(follow_symlinks=False):
                yield from _sources(each.path)
            elif each.name.endswith(".py"):
                yield each
