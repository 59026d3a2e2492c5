# SPDX-License-Identifier: Apache-2.0
"""``syclsched plan``: plan a ready graph, print the plan, explain tasks, write it as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from syclsched.cli import options as opt
from syclsched.cli.output import write_pictures, write_text
from syclsched.cli.planning import plan_workload


def plan_command(
    graph: opt.WorkloadName,
    n: opt.N = None,
    tile: opt.Tile = None,
    steps: opt.Steps = None,
    batch: opt.Batch = None,
    chunks: opt.Chunks = None,
    sizes: opt.Sizes = None,
    softmax: opt.Softmax = None,
    weights: opt.Weights = None,
    input_file: opt.Input = None,
    dtype: opt.Dtype = None,
    seed: opt.Seed = None,
    policy: opt.PolicyName = "auto",
    devices: opt.Devices = None,
    sub_devices: opt.SubDevices = None,
    lanes: opt.Lanes = None,
    one_core_lanes: opt.OneCoreLanes = False,
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
    gantt_file: Annotated[
        Path | None, typer.Option("--gantt", metavar="FILE", help="Draw the predicted Gantt chart (.png, .svg, .pdf).")
    ] = None,
) -> None:
    """Plan a ready graph without running it, and print the plan.

    [bold]syclsched plan cholesky --n 2048 --tile 256 --out plan.json --explain "gemm(5,4,3)"[/bold]
    """
    from rich.console import Console

    from syclsched.simulation import simulate

    console = Console(highlight=False)
    workload = opt.build_workload(
        graph, n=n, tile=tile, steps=steps, batch=batch, chunks=chunks, sizes=sizes, softmax=softmax, weights=weights,
        input=input_file, dtype=dtype, seed=seed,
    )  # fmt: skip
    with plan_workload(
        workload, policy=policy, devices=devices, sub_devices=sub_devices, lanes=lanes, one_core_lanes=one_core_lanes,
        described=platform, given=None, calibrate=calibrate, needs_devices=False, console=console,
    ) as planned:  # fmt: skip
        plan = planned.plan
    print(plan)
    for task in explain or ():
        print()
        print(plan.explain(task))
    if out is not None:
        write_text(out, plan.to_json())
        console.print(f"plan written to {out}")
    write_pictures(simulate(plan), None, None, gantt_file, console)
