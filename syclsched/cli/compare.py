# SPDX-License-Identifier: Apache-2.0
"""``syclsched compare``: plan one graph with several policies and show the plans side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syclsched.cli import options as opt
from syclsched.cli.graphs import load_graph
from syclsched.cli.output import check_outputs
from syclsched.cli.patience import patience
from syclsched.errors import PlanError
from syclsched.model.units import plural

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.cli.comparing import Row


def compare_command(
    graph: opt.GraphName,
    n: opt.N = None,
    tile: opt.Tile = None,
    steps: opt.Steps = None,
    batch: opt.Batch = None,
    chunks: opt.Chunks = None,
    sizes: opt.Sizes = None,
    softmax: opt.Softmax = None,
    weights: opt.Weights = None,
    input_file: opt.Input = None,
    shape: opt.Shape = None,
    dtype: opt.Dtype = None,
    seed: opt.Seed = None,
    format: opt.Format = None,
    max_tasks: opt.MaxTasks = None,
    max_edges: opt.MaxEdges = None,
    max_file_mib: opt.MaxFileMib = None,
    time_unit: opt.TimeUnit = None,
    communication_unit: opt.CommunicationUnit = None,
    same_speed: opt.SameSpeed = False,
    task_cost: opt.TaskCost = None,
    edge_cost: opt.EdgeCost = None,
    policies: opt.Policies = None,
    rewrite: opt.Rewrite = "auto",
    devices: opt.Devices = None,
    sub_devices: opt.SubDevices = None,
    lanes: opt.Lanes = None,
    one_core_lanes: opt.OneCoreLanes = False,
    memory_limit: opt.MemoryLimit = None,
    platform: opt.PlatformNames = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
    chart_file: Annotated[
        Path | None, typer.Option("--chart", metavar="FILE", help="Draw the makespans (.png, .svg, .pdf).")
    ] = None,
) -> None:
    """Plan a graph with several policies and show the plans in one table, the fastest first.

    [bold]syclsched compare workflow.json --platform xeon-8480,max1550 --policies all --chart policies.png[/bold]
    """
    from rich.console import Console

    from syclsched.cli.comparing import compare, document, policy_names, show
    from syclsched.cli.planning import platform_to_plan_for
    from syclsched.profiling import HistoryStore

    console = Console(stderr=json_output, highlight=False)
    check_outputs(pictures=[chart_file])
    given = load_graph(
        graph,
        ready={
            "n": n, "tile": tile, "steps": steps, "batch": batch, "chunks": chunks, "sizes": sizes, "softmax": softmax,
            "weights": weights, "input": input_file, "shape": shape, "dtype": dtype, "seed": seed,
        },
        format=format, max_tasks=max_tasks, max_edges=max_edges, max_file_mib=max_file_mib, time_unit=time_unit,
        communication_unit=communication_unit, same_speed=same_speed, task_cost=task_cost, edge_cost=edge_cost,
    )  # fmt: skip
    where = platform_to_plan_for(
        platform, devices=devices, sub_devices=sub_devices, lanes=lanes, one_core_lanes=one_core_lanes,
        memory_limit=memory_limit, console=console,
    )  # fmt: skip
    names = policy_names(policies or ["all"], given.graph, where)
    with HistoryStore() as history, console.status("planning ...") as status, patience(console):
        found = compare(
            given.graph, where, names, history=history, progress=lambda name: status.update(f"planning: {name} ..."),
            rewrite=rewrite,
        )  # fmt: skip
    rows = [row for row, _ in found]
    if json_output:
        print(json.dumps(document(given.graph.name, len(given.graph), rows), indent=1))
    else:
        title = f"{given.graph.name}: {plural(len(given.graph), 'task')} on {where.name}"
        show(rows, title, console, platforms=False)
    refuse_if_nothing(rows)
    if chart_file is not None:
        draw(rows, given.graph.name, chart_file, console)


def draw(rows: list[Row], name: str, path: Path, console: Console, disturbed: str = "") -> None:
    """Draw makespans as bars and say where; or say that there is none to draw, and write nothing."""
    from syclsched.tracing.bars import Bar, draw_bars

    runs = max(row.runs for row in rows)
    shown = [(row, row.counts_s) for row in rows]
    # Bounds are those of the costs as planned.
    bars = [
        Bar(row.platform, row.policy, seconds, None if runs else row.bound_s, row.worst_s if row.runs > 1 else None)
        for row, seconds in shown
        if seconds is not None
    ]
    if not bars:
        console.print(f"no chart written to {path}: nothing has a makespan to draw", markup=False)
        return
    what = "predicted makespan" if not runs else "makespan, disturbed"
    what = what if runs <= 1 else f"median of {runs} runs, line to the worst"
    draw_bars(bars, f"{name}: {what}{f' ({disturbed})' if disturbed else ''}", path)
    left = sum(seconds is None for _, seconds in shown)
    note = f" ({left} of {len(rows)} have no makespan and are not in it)" if left else ""
    console.print(f"chart written to {path}{note}", markup=False)


def refuse_if_nothing(rows: list[Row]) -> None:
    """Raise `PlanError` if every policy was refused."""
    if all(row.makespan_s is None for row in rows):
        first = next((row.refused for row in rows if row.refused), "there is nothing to compare")
        raise PlanError(f"no policy made a plan; the first says: {first}")
