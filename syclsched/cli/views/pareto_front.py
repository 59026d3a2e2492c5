# SPDX-License-Identifier: Apache-2.0
"""Pareto front of a graph's plans, as a table and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from syclsched.cli.documents import FrontDocument, FrontEntry, print_document
from syclsched.cli.options import PlatformOptions
from syclsched.cli.requests.graph_planning import target_platform
from syclsched.cli.terminal import output
from syclsched.cli.wait_notice import notice_if_slow
from syclsched.errors import ArgumentError
from syclsched.model.text.units import format_seconds

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.model.graph import TaskGraph
    from syclsched.planner.pareto_plans import FrontPlan
    from syclsched.scheduling.objectives.aims import Aim


def show_front(
    graph: TaskGraph,
    metrics: str,
    path: Path,
    where: PlatformOptions,
    rewrite: str,
    console: Console,
    *,
    json_output: bool = False,
) -> None:
    """Compute the Pareto front of two metrics, print it and draw it."""
    from rich.table import Table

    from syclsched.model.text.quantities import format_quantity
    from syclsched.planner import plan_front
    from syclsched.profiling import HistoryStore
    from syclsched.scheduling.objectives.aims import METRICS, minimize
    from syclsched.tracing.charts.pareto import draw_front

    names = tuple(name.strip() for name in metrics.split(",") if name.strip())
    if len(names) != 2:
        raise ArgumentError(f"{metrics!r} is not two metrics", where="--front-metrics", hint="As makespan,energy")
    aims = [minimize(name) for name in names]
    platform = target_platform(where, console)
    with HistoryStore() as history, console.status("computing the front ..."), notice_if_slow(console):
        found = plan_front(graph, platform, metrics=names, history=history, rewrite=rewrite)
    dimensions = [METRICS[aim.metric] for aim in aims]
    if json_output:
        print_document(_document(graph.name, aims, found))
    table = Table(title=f"Pareto front of {graph.name}", title_justify="left")
    # The gap refers to the makespan, which therefore gets a column if it is not one of the metrics.
    more = () if "makespan" in {aim.metric for aim in aims} else ("makespan",)
    for heading in ("plan", aims[0].label, aims[1].label, *more, "gap"):
        table.add_column(heading, justify="left" if heading == "plan" else "right")
    for point in found:
        if not point.dominated:
            shown = [format_quantity(v, d) for v, d in zip(point.values, dimensions, strict=True)]
            gap = "-" if point.plan.gap is None else f"{100 * point.plan.gap:.1f} %"
            name = f"{point.plan.policy}, rewritten" if point.plan.recipe else point.plan.policy
            table.add_row(name, *shown, *(format_seconds(point.plan.makespan_s) for _ in more), gap)
    if not json_output:
        output().print(table)
    scales = [_SCALES[dimension] for dimension in dimensions]
    values = [
        (point.values[0] / scales[0][0], point.values[1] / scales[1][0], point.plan.policy, point.dominated)
        for point in found
    ]
    labels = (f"{aims[0].label} [{scales[0][1]}]", f"{aims[1].label} [{scales[1][1]}]")
    draw_front(
        [(x, y, name) for x, y, name, dominated in values if not dominated],
        [(x, y) for x, y, _, dominated in values if dominated],
        labels,
        f"{graph.name}: {aims[0].label} and {aims[1].label}",
        path,
    )
    console.print(f"front written to {path}")


def _document(graph: str, aims: Sequence[Aim], found: Sequence[FrontPlan]) -> FrontDocument:
    from syclsched.scheduling.objectives.aims import METRICS

    keys = [f"{aim.label}_{_UNITS[METRICS[aim.metric]]}" for aim in aims]
    points = [
        FrontEntry(
            point.plan.policy, dict(zip(keys, point.values, strict=True)), point.plan.makespan_s, point.plan.gap,
            str(point.plan.recipe) or None, point.dominated,
        )
        for point in found
    ]  # fmt: skip
    return FrontDocument(graph, keys, points)


#: Unit in the name of a metric, by dimension.
_UNITS = {"time": "s", "bytes": "bytes", "energy": "j", "rate": "runs_per_s"}

#: Scale and symbol of an axis, by dimension.
_SCALES = {"time": (1e-3, "ms"), "bytes": (2.0**20, "MiB"), "energy": (1.0, "J"), "rate": (1.0, "runs/s")}
