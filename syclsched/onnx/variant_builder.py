# SPDX-License-Identifier: Apache-2.0
"""Calibration, planning and binding of variants of a model's graph, which differ in their tasks' implementations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.onnx.lru_cache import BoundModel
from syclsched.onnx.specialised import Specialised

if TYPE_CHECKING:
    from syclsched.devices import OpenDevices
    from syclsched.execution import Runner
    from syclsched.planning_session import PlanningSession


@dataclass(frozen=True, slots=True)
class VariantBuilder:
    """Calibrates, plans and binds variants of a model's graph on open devices."""

    session: PlanningSession
    live: OpenDevices
    specialised: Specialised
    report_progress: Callable[[str], None]  # called with the next step
    trace: bool | int = False  # whether the variants' own runners record traces

    def plan_and_bind(self, graph: TaskGraph, *, calibrate: bool = True) -> BoundModel:
        """Time the implementations of a variant's tasks, plan it and bind it."""
        if calibrate:
            self.report_progress("timing implementations")
            self.session.calibrate(graph, self.live)
        self.report_progress("planning")
        return self.bind(graph, self.session.plan(graph))

    def bind(self, graph: TaskGraph, plan: Plan) -> BoundModel:
        """Bind a plan of a variant."""
        from syclsched.execution import bind

        self.report_progress("building kernels and binding the plan")
        runner = bind(plan, graph, self.live, trace=self.trace, recover=True)
        return BoundModel(replace(self.specialised, graph=graph), plan, runner)

    def rebind(self, bound: BoundModel, trace: int | Literal["exact"]) -> Runner:
        """Bind a variant's plan again; see the function `rebind`."""
        return rebind(bound, self.live, trace)


def rebind(bound: BoundModel, live: OpenDevices, trace: int | Literal["exact"]) -> Runner:
    """Bind a model's plan again, with traces of the last ``trace`` runs, or exact ones."""
    from syclsched.execution import bind

    return bind(bound.plan, bound.specialised.graph, live, trace=trace)
