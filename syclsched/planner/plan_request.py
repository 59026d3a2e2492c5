# SPDX-License-Identifier: Apache-2.0
"""Options of planning, shared by the API, compiled models and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypedDict

from syclsched.costs import History
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.planner.rewrite_choice import graph_to_time
from syclsched.scheduling.registry import AUTO


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A policy with its objective, limits, rewrite and search budget; see `syclsched.plan`."""

    policy: str = AUTO
    minimize: str = "makespan"
    subject_to: tuple[str, ...] = ()
    rewrite: str = AUTO
    budget_s: float | None = None

    def options(self) -> dict[str, Any]:
        """Return the fields as keyword arguments of `syclsched.plan`."""
        return {name: getattr(self, name) for name in self.__slots__}

    def calibrate(
        self, graph: TaskGraph, platform: Platform, history: History, measure: Callable[[TaskGraph], object]
    ) -> None:
        """Measure the tasks of a graph, and of its chunks if tasks may be split."""
        measure(graph)
        chunks = graph_to_time(graph, platform, policy=self.policy, rewrite=self.rewrite, history=history)
        if chunks is not None:
            measure(chunks)


class ModelPlanOptions(TypedDict, total=False):
    """The planning options of `syclsched.compile`."""

    policy: str
    minimize: str
    subject_to: Iterable[str]
    rewrite: str | None
