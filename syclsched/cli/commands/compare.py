# SPDX-License-Identifier: Apache-2.0
"""``syclsched compare``: plan one graph with several policies and print a comparison table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syclsched.cli import options as opt
from syclsched.cli.output_files import check_outputs
from syclsched.cli.requests.graph_loading import load_graph
from syclsched.cli.wait_notice import notice_if_slow
from syclsched.errors import PlanError
from syclsched.model.text.units import plural

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.cli.views.comparison import ComparisonRow


def compare_command(
    graph: opt.GraphName,
    *,
    ready: opt.ReadyOptions,
    seed: opt.Seed = None,
    file: opt.FileOptions,
    policies: opt.Policies = None,
    rewrite: opt.Rewrite = "auto",
    where: opt.PlatformOptions,
    json_output: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
    chart_file: Annotated[
        Path | None, typer.Option("--chart", metavar="FILE", help="Draw the makespans (.png, .svg, .pdf).")
    ] = None,
) -> None:
    """Plan a graph with several policies and compare the plans in one table, fastest first.

    [bold]syclsched compare workflow.json --platform xeon-8480,max1550 --policies all --chart policies.png[/bold]
    """
    from rich.console import Console

    from syclsched.cli.requests.graph_planning import target_platform
    from syclsched.cli.views.comparison import compare, document, policy_names, show
    from syclsched.profiling import HistoryStore

    console = Console(stderr=json_output, highlight=False)
    check_outputs(pictures=[chart_file])
    given = load_graph(graph, ready.given(seed), file)
    platform = target_platform(where, console)
    names = policy_names(policies or ["all"], given.graph, platform)
    with HistoryStore() as history, console.status("planning ...") as status, notice_if_slow(console):
        found = compare(
            given.graph, platform, names, history=history, progress=lambda name: status.update(f"planning: {name} ..."),
            rewrite=rewrite,
        )  # fmt: skip
    rows = [row for row, _ in found]
    if json_output:
        print(json.dumps(document(given.graph.name, len(given.graph), rows), indent=1))
    else:
        title = f"{given.graph.name}: {plural(len(given.graph), 'task')} on {platform.name}"
        show(rows, title, console, platforms=False)
    require_any_plan(rows)
    if chart_file is not None:
        draw(rows, given.graph.name, chart_file, console)


def draw(rows: list[ComparisonRow], name: str, path: Path, console: Console, disturbed: str = "") -> None:
    """Draw makespans as a bar chart and print its path; print a note instead if no row has a makespan."""
    from syclsched.tracing.bars import ChartBar, draw_bars

    runs = max(row.runs for row in rows)
    shown = [(row, row.ranking_s) for row in rows]
    # Lower bounds hold for undisturbed costs only.
    bars = [
        ChartBar(
            row.platform, row.policy, seconds, None if runs else row.bound_s, row.worst_s if row.runs > 1 else None
        )
        for row, seconds in shown
        if seconds is not None
    ]
    if not bars:
        console.print(f"no chart written to {path}: no row has a makespan", markup=False)
        return
    what = "predicted makespan" if not runs else "makespan, disturbed"
    what = what if runs <= 1 else f"median of {runs} runs, line to the worst"
    draw_bars(bars, f"{name}: {what}{f' ({disturbed})' if disturbed else ''}", path)
    n_omitted = sum(seconds is None for _, seconds in shown)
    note = f" ({n_omitted} of {len(rows)} have no makespan and are not in it)" if n_omitted else ""
    console.print(f"chart written to {path}{note}", markup=False)


def require_any_plan(rows: list[ComparisonRow]) -> None:
    """Raise `PlanError` if all policies were refused."""
    if all(row.makespan_s is None for row in rows):
        first = next((row.refused for row in rows if row.refused), "there is nothing to compare")
        raise PlanError(f"no policy made a plan; the first says: {first}")
