# SPDX-License-Identifier: Apache-2.0
"""Choice between a model's library plan and one that uses kernels for some tasks, by measuring both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.cli.requests.onnx_models import ModelWithInputs
    from syclsched.devices import OpenDevices
    from syclsched.execution import Runner
    from syclsched.model.graph import TaskGraph
    from syclsched.model.plan import Plan
    from syclsched.model.platform import Platform
    from syclsched.onnx.lru_cache import BoundModel
    from syclsched.planner import PlanRequest
    from syclsched.profiling import HistoryStore


def faster_plan(
    model: ModelWithInputs,
    graphs: tuple[TaskGraph, TaskGraph],
    planned: Plan,
    platform: Platform,
    live: OpenDevices,
    history: HistoryStore,
    request: PlanRequest,
    console: Console,
) -> Plan:
    """Return a model's plan with kernels for some of the library's tasks if it runs faster, else the library plan."""
    from rich.markup import escape

    from syclsched.api import plan
    from syclsched.execution import bind
    from syclsched.onnx.autotune import AutotuneContext, faster_variant
    from syclsched.onnx.lru_cache import BoundModel
    from syclsched.profiling import calibrate

    graph, offered = graphs

    def show_status(text: str) -> None:
        status.update(escape(f"{text} ..."))

    def show_timing(done: int, total: int, label: str) -> None:
        show_status(f"timing {done} of {total}: {label}")

    def bind_plan(graph: TaskGraph, planned: Plan) -> BoundModel:
        show_status("building kernels and binding the plan")
        return BoundModel(replace(model.specialised, graph=graph), planned, bind(planned, graph, live))

    def plan_and_bind(graph: TaskGraph) -> BoundModel:
        calibrate(graph, platform, live, history, progress=show_timing, choices_only=True)
        show_status("planning")
        return bind_plan(graph, plan(graph, platform, history=history, **request.options()))

    def rebind(candidate: BoundModel, trace: int | Literal["exact"]) -> Runner:
        return bind(candidate.plan, candidate.specialised.graph, live, trace=trace)

    with console.status("building kernels ...") as status:
        by_library = bind_plan(offered, planned)
        track = AutotuneContext(platform, history, plan_and_bind, rebind, show_status)
        best = faster_variant(by_library, graph, model.values, track)
        best.runner.close()
    return best.plan
