# SPDX-License-Identifier: Apache-2.0
"""``syclsched plan``: plan a graph, print the plan, explain tasks, write it as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from syclsched.cli import options as opt
from syclsched.cli.gains import gains
from syclsched.cli.graphs import check_tasks, check_without, load_graph
from syclsched.cli.output import check_outputs, write_pictures, write_text
from syclsched.cli.planning import plan_for


def plan_command(
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
    without: opt.Without = None,
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
    policy: opt.PolicyName = "auto",
    minimize: opt.Minimize = "makespan",
    subject_to: opt.SubjectTo = None,
    rewrite: opt.Rewrite = "auto",
    budget: opt.Budget = None,
    devices: opt.Devices = None,
    sub_devices: opt.SubDevices = None,
    lanes: opt.Lanes = None,
    one_core_lanes: opt.OneCoreLanes = False,
    memory_limit: opt.MemoryLimit = None,
    platform: opt.PlatformNames = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate/--no-calibrate",
            help="Time work that was never timed before on these devices, so that the plan fits.",
        ),
    ] = True,
    explain: Annotated[
        list[str] | None,
        typer.Option("--explain", metavar="TASK", help="Say why a task runs where it does; may be repeated."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the plan as JSON.")] = None,
    front_file: Annotated[
        Path | None,
        typer.Option(
            "--front",
            metavar="FILE",
            help="Look for the Pareto front of two metrics instead of one plan, and draw it (.png, .svg, .pdf).",
        ),
    ] = None,
    front_metrics: Annotated[
        str,
        typer.Option("--front-metrics", metavar="METRICS", help="Two metrics of the front, as makespan,energy."),
    ] = "makespan,memory",
    gantt_file: Annotated[
        Path | None, typer.Option("--gantt", metavar="FILE", help="Draw the predicted Gantt chart (.png, .svg, .pdf).")
    ] = None,
) -> None:
    """Plan a ready graph, a model, or a graph from a file, without running it, and print the plan.

    [bold]syclsched plan cholesky --n 2048 --tile 256 --out plan.json --explain "gemm(5,4,3)"[/bold]

    What would a model gain from a GPU that is not here?

    [bold]syclsched plan resnet50.onnx --platform cpu,max1550 --gantt plan.svg[/bold]

    [bold]syclsched plan workflow.json --platform xeon-8480,max1550 --policy heft --gantt plan.png[/bold]
    """
    from rich.console import Console

    from syclsched.simulation import simulate

    console = Console(highlight=False)
    check_outputs(out, pictures=(front_file, gantt_file))
    given = load_graph(
        graph,
        ready={
            "n": n, "tile": tile, "steps": steps, "batch": batch, "chunks": chunks, "sizes": sizes, "softmax": softmax,
            "weights": weights, "input": input_file, "shape": shape, "dtype": dtype, "seed": seed,
        },
        format=format, max_tasks=max_tasks, max_edges=max_edges, max_file_mib=max_file_mib, time_unit=time_unit,
        communication_unit=communication_unit, same_speed=same_speed, task_cost=task_cost, edge_cost=edge_cost,
    )  # fmt: skip
    check_tasks(explain or (), given.graph)
    check_without(without, is_model=given.model is not None)
    if front_file is not None:
        from syclsched.cli.fronts import show_front

        show_front(
            given.graph, front_metrics, front_file, platform=platform, devices=devices, sub_devices=sub_devices,
            lanes=lanes, one_core_lanes=one_core_lanes, memory_limit=memory_limit, rewrite=rewrite, console=console,
        )  # fmt: skip
        return
    with plan_for(
        given.graph, policy=policy, devices=devices, sub_devices=sub_devices, lanes=lanes,
        one_core_lanes=one_core_lanes, described=platform, given=None, calibrate=calibrate and not given.from_file,
        needs_devices=False, console=console, minimize=minimize, subject_to=subject_to or (),
        rewrite=rewrite, budget_s=budget, memory_limit=memory_limit, model=given.model,
        without=without or (),
    ) as planned:  # fmt: skip
        plan = planned.plan
    print(plan)
    if given.model is not None:
        console.print("\n".join(gains(plan)), soft_wrap=True)
    for task in explain or ():
        print()
        print(plan.explain(task))
    if out is not None:
        write_text(out, plan.to_json())
        console.print(f"plan written to {out}")
    write_pictures(simulate(plan), None, None, gantt_file, console)
