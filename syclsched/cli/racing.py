# SPDX-License-Identifier: Apache-2.0
"""A model's plan by a library, or with kernels for some of its tasks: whichever runs faster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.cli.models import GivenModel
    from syclsched.devices import LiveDevices
    from syclsched.execution import Runner
    from syclsched.model.graph import TaskGraph
    from syclsched.model.plan import Plan
    from syclsched.model.platform import Platform
    from syclsched.onnx.kept import Bound
    from syclsched.profiling import HistoryStore


def with_kernels(
    model: GivenModel,
    graph: TaskGraph,
    offered: TaskGraph,
    planned: Plan,
    platform: Platform,
    live: LiveDevices,
    history: HistoryStore,
    asked: Mapping[str, Any],
    console: Console,
) -> Plan:
    """Return a model's plan, or the one with kernels for some of the library's tasks, if it runs faster."""
    from rich.markup import escape

    from syclsched.api import plan
    from syclsched.execution import bind
    from syclsched.onnx.kept import Bound
    from syclsched.onnx.racing import Track, faster_of_both
    from syclsched.profiling import calibrate

    def tell(what: str) -> None:
        status.update(escape(f"{what} ..."))

    def timed(done: int, total: int, what: str) -> None:
        tell(f"timing {done} of {total}: {what}")

    def bound(graph: TaskGraph, planned: Plan) -> Bound:
        tell("building kernels and binding the plan")
        return Bound(replace(model.specialised, graph=graph), planned, bind(planned, graph, live))

    def made(graph: TaskGraph) -> Bound:
        calibrate(graph, platform, live, history, progress=timed, choices_only=True)
        tell("planning")
        return bound(graph, plan(graph, platform, history=history, **asked))

    def again(tried: Bound, trace: int | Literal["exact"]) -> Runner:
        return bind(tried.plan, tried.specialised.graph, live, trace=trace)

    with console.status("building kernels ...") as status:
        by_library = bound(offered, planned)
        best = faster_of_both(by_library, graph, model.values, Track(platform, history, made, again, tell))
        best.runner.close()
    return best.plan


def is_mixed(platform: Platform, asked: Mapping[str, Any], *, is_limited: bool) -> bool:
    """Return whether kernels may do some of what a library does of a model."""
    from syclsched.onnx.mixing import is_worth_mixing

    return is_worth_mixing(platform, minimize=asked["minimize"], rewrite=asked["rewrite"], is_limited=is_limited)
