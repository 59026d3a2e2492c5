# SPDX-License-Identifier: Apache-2.0
"""``syclsched plan``: plan a graph, print and explain the plan, and write it as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syclsched.cli import options as opt
from syclsched.cli.completion import LOSSES, choices
from syclsched.cli.documents import print_document
from syclsched.cli.output_files import check_outputs, write_pictures, write_text
from syclsched.cli.requests.graph_loading import check_tasks, check_without, load_graph
from syclsched.cli.requests.graph_planning import plan_and_open, target_platform
from syclsched.cli.terminal import notices, output
from syclsched.cli.views.pareto_front import show_front
from syclsched.cli.views.plan_document import plan_document
from syclsched.cli.views.speedup_summary import speedup_lines

if TYPE_CHECKING:
    from syclsched.cli.requests.training_steps import PlannedStep
    from syclsched.model.plan import Plan


def plan_command(
    context: typer.Context,
    graph: opt.GraphName,
    *,
    ready: opt.ReadyOptions,
    seed: opt.Seed = None,
    without: opt.Without = None,
    file: opt.FileOptions,
    how: opt.PlanOptions,
    where: opt.PlatformOptions,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate/--no-calibrate",
            help="Measure tasks that were never timed on these devices before planning.",
        ),
    ] = True,
    train: Annotated[
        str | None,
        typer.Option(
            "--train",
            autocompletion=choices(LOSSES),
            metavar="LOSS",
            help="Plan a training step of the model with this loss, such as cross_entropy, and Adam.",
        ),
    ] = None,
    micro_batches: opt.MicroBatches = None,
    split: opt.Split = "auto",
    activations: opt.Activations = "float32",
    explain: Annotated[
        list[str] | None,
        typer.Option("--explain", metavar="TASK", help="Explain the placement of a task; may be repeated."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the plan as JSON.")] = None,
    front_file: Annotated[
        Path | None,
        typer.Option(
            "--front",
            metavar="FILE",
            help="Compute the Pareto front of two metrics instead of one plan, and draw it (.png, .svg, .pdf).",
        ),
    ] = None,
    front_metrics: Annotated[
        str,
        typer.Option("--front-metrics", metavar="METRICS", help="Two metrics of the front, as makespan,energy."),
    ] = "makespan,memory",
    gantt_file: opt.PlanGantt = None,
    report_file: opt.PlanReport = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print a summary of the plan as JSON.")] = False,
) -> None:
    """Plan a ready graph, a model, or a graph from a file, without running it, and print the plan.

    [bold]syclsched plan cholesky --n 2048 --tile 256 --out plan.json --explain "gemm(5,4,3)"[/bold]

    Predict the gain of a model from a GPU that is not installed:

    [bold]syclsched plan resnet50.onnx --platform cpu,max1550 --gantt plan.svg[/bold]

    Or the gain of training from it, with batches of 64:

    [bold]syclsched plan cnn.onnx --train cross_entropy --shape batch=64 --platform cpu,max1550[/bold]

    [bold]syclsched plan workflow.json --platform xeon-8480,max1550 --policy heft --gantt plan.png[/bold]
    """
    from syclsched.simulation import simulate

    console = notices()
    check_outputs(out, report_file, pictures=(front_file, gantt_file))
    given = load_graph(graph, ready.given(seed), file)
    step: PlannedStep | None = None
    if train is None:
        opt.tell_unused(context, ("micro_batches", "split", "activations"), "without --train")
    else:
        from syclsched.cli.requests.training_steps import training_step

        platform = target_platform(where, console, how.policy)
        step = training_step(
            given.model, train, platform, how.policy, micro_batches=micro_batches, split=split, activations=activations
        )
        given = replace(given, graph=step.graph)
    check_tasks(explain or (), given.graph)
    check_without(without, is_model=given.model is not None)
    if where.platform is not None:
        opt.tell_unused(context, opt.LOCAL_OPTIONS, "with --platform, whose devices are described, not opened")
    if front_file is None:
        opt.tell_unused(context, ("front_metrics",), "without --front")
    else:
        unused = ("policy", "minimize", "subject_to", "budget", "reuse", "explain", "out", "gantt_file", "without")
        opt.tell_unused(context, unused, "with --front, which makes several plans")
    if front_file is not None:
        show_front(given.graph, front_metrics, front_file, where, how.rewrite, console, json_output=json_output)
        return
    with plan_and_open(
        given.graph,
        how,
        where,
        console,
        calibrate=calibrate and not given.from_file,
        needs_devices=False,
        model=given.model,
        without=without or (),
        stay=() if step is None else step.stay,
    ) as planned:
        plan = planned.plan
    if json_output:
        print_document(plan_document(plan, explain or ()))
    else:
        if step is not None and step.explanation:
            print(step.explanation)
        _show(plan, explain or (), with_speedup=given.model is not None)
    if out is not None:
        write_text(out, plan.to_json())
        console.print(f"plan written to {out}")
    write_pictures(simulate(plan), None, None, gantt_file, console, plan=plan, report_file=report_file)


def _show(plan: Plan, explained: Iterable[str], *, with_speedup: bool) -> None:
    """Print a plan and the explanations of tasks."""
    print(plan)
    if with_speedup:
        output().print("\n".join(speedup_lines(plan)))
    for task in explained:
        print()
        print(plan.explain(task))
