# SPDX-License-Identifier: Apache-2.0
"""``syclsched simulate``: run a plan on a virtual clock, or compare a graph on several described platforms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from syclsched.cli import options as opt
from syclsched.cli.output_files import check_outputs
from syclsched.cli.requests import disturbance_options as dist
from syclsched.cli.requests.graph_loading import LoadedGraph, load_graph
from syclsched.cli.requests.graph_planning import apply_memory_limit, described_platform
from syclsched.cli.terminal import notices
from syclsched.cli.views.comparison import compare, policy_names
from syclsched.cli.views.simulation_output import Scenario, SimulationOutput, show_all, simulate_plan
from syclsched.cli.wait_notice import notice_if_slow
from syclsched.errors import ArgumentError
from syclsched.model.text.units import plural

#: Options that apply to a plan.
_PLAN_OPTIONS = {
    "graph", "noise", "wrong", "slow", "fail", "contention", "seed", "runs", "trace_file", "gantt_file", "report_file",
    "chart_file", "json_output", "platform", "quiet", "verbose",
}  # fmt: skip


def simulate_command(
    context: typer.Context,
    graph: Annotated[
        str,
        typer.Argument(
            metavar="GRAPH",
            help="A plan, as written by `syclsched plan --out`; or, with --platform, a ready graph or a graph file.",
        ),
    ],
    *,
    ready: opt.ReadyOptions,
    file: opt.FileOptions,
    platform: Annotated[
        list[str] | None,
        opt.plan_option(
            "--platform",
            metavar="NAMES",
            help="Platforms to compare: shipped profiles or profile files. 'cpu,max1550,a770' compares each of the "
            "three alone and all together; if repeated, each occurrence is one platform.",
        ),
    ] = None,
    lanes: opt.Lanes = None,
    memory_limit: opt.MemoryLimit = None,
    policies: Annotated[
        list[str] | None,
        opt.plan_option(
            "--policies",
            "--policy",
            metavar="NAMES",
            help="heft,cpop,...; 'all' for all policies. eager, priority, dmdas, stealing and hybrid are dynamic: they "
            "schedule during the simulated run; hybrid follows a plan (of heft, or as hybrid:peft) until times "
            "deviate too much. By default heft,auto; may be repeated.",
        ),
    ] = None,
    minimize: opt.Minimize = "makespan",
    subject_to: opt.SubjectTo = None,
    rewrite: opt.Rewrite = "auto",
    noise: dist.NoiseSigma = None,
    wrong: dist.Wrong = None,
    slow: dist.Slow = None,
    fail: dist.Fail = None,
    contention: dist.Contention = None,
    seed: dist.Seed = None,
    runs: dist.Runs = None,
    trace_file: Annotated[
        Path | None, opt.output_option("--trace", metavar="FILE", help="Write a trace for Perfetto (of the fastest).")
    ] = None,
    gantt_file: Annotated[
        Path | None,
        opt.output_option("--gantt", metavar="FILE", help="Draw a Gantt chart (of the fastest; .png, .svg, .pdf)."),
    ] = None,
    report_file: Annotated[
        Path | None,
        opt.output_option(
            "--report", metavar="FILE", help="Write an HTML page about the simulation (of the fastest), for a browser."
        ),
    ] = None,
    json_output: Annotated[bool, opt.output_option("--json", help="Print the table as JSON.")] = False,
    chart_file: Annotated[
        Path | None, opt.output_option("--chart", metavar="FILE", help="Draw the makespans (.png, .svg, .pdf).")
    ] = None,
) -> None:
    """Verify a plan and run it on a virtual clock; or predict a graph's execution on other hardware. Needs no device.

    [bold]syclsched simulate plan.json --gantt plan.png[/bold]

    [bold]syclsched simulate cholesky --n 4096 --platform xeon-8480,max1550,a770 --chart what-if.png[/bold]

    Compare policies under wrong costs, device slow-downs or failures:

    [bold]syclsched simulate cholesky --platform max1550 --policies heft,dmdas,hybrid --noise 0.3 --runs 20[/bold]

    [bold]syclsched simulate plan.json --slow max1550@2ms=4 --fail xeon-8480@5ms[/bold]
    """
    check_outputs(trace_file, report_file, pictures=(gantt_file, chart_file))
    disturbance = dist.parse_disturbance(noise, wrong, slow, fail)
    scenario = Scenario(disturbance, dist.parse_seeds(disturbance, noise, seed, runs), contention, noise)
    shown = SimulationOutput(json_output, chart_file, trace_file, gantt_file, notices(), report_file)
    if not platform:
        _refuse_options(context, graph)
        simulate_plan(graph, scenario, shown)
        return
    given = load_graph(graph, ready.given(), file)
    _compare_platforms(
        given, platforms_of(platform), lanes, memory_limit, policies or ["heft,auto"], scenario, shown,
        minimize=minimize, subject_to=subject_to or (), rewrite=rewrite,
    )  # fmt: skip


def _refuse_options(context: typer.Context, plan: str) -> None:
    """Raise `ArgumentError` for options that do not apply to a plan, which has a fixed graph, platform and policy."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE" and parameter.name not in _PLAN_OPTIONS:
            raise ArgumentError(
                f"{parameter.opts[0]} does not belong to a plan, which has its graph, hardware and policy",
                where=plan,
                hint="For a graph, name the hardware: --platform cpu,max1550,a770",
            )


def platforms_of(given: list[str]) -> tuple[str, ...]:
    """Return the platforms to compare, each as profile names joined by commas."""
    if len(given) > 1:
        return tuple(dict.fromkeys(given))
    names = [name.strip() for name in given[0].split(",") if name.strip()]
    return tuple(dict.fromkeys([*names, ",".join(names)]))


def _compare_platforms(
    given: LoadedGraph,
    names: tuple[str, ...],
    lanes: str | None,
    memory_limit: str | None,
    policies: Sequence[str],
    what: Scenario,
    shown: SimulationOutput,
    *,
    minimize: str,
    subject_to: Sequence[str],
    rewrite: str,
) -> None:
    """Plan on every platform with every policy, simulate the plans and show the results."""
    from rich.text import Text

    from syclsched.planner.rewrite_choice import check_rewrite
    from syclsched.profiling import HistoryStore

    graph = given.graph
    asked, rewrite = check_rewrite(rewrite), dist.comparable_rewrite(what.disturbance, what.sigma, rewrite)
    many = len(names) > 1
    platforms = [
        dist.with_contention(
            apply_memory_limit(described_platform(each, lanes, of_many=many), memory_limit, of_many=many),
            what.contention,
        )
        for each in names
    ]
    dist.check_disturbed_names(what.disturbance, {task.family for task in graph.tasks}, platforms)
    found, without = [], []
    if rewrite != asked:
        without.append("planned with --rewrite none, so that all plans are compared under equal random factors")
    with HistoryStore() as history, shown.console.status("planning ...") as status, notice_if_slow(shown.console):

        def tell(platform: str, policy: str) -> None:
            status.update(Text(f"planning for {platform}: {policy} ..."))

        for name, platform in zip(names, platforms, strict=True):
            chosen = policy_names(policies, graph, platform, in_loop=True)
            if given.model is not None:
                from syclsched.onnx.tuning.implementations import on_devices

                graph = on_devices(given.graph, platform)
            here, elsewhere = dist.restrict_to_platform(what.disturbance, platform)
            without += [f"{name}: has no {device}, so its events are ignored there" for device in
                        dict.fromkeys(event.device for event in elsewhere)]  # fmt: skip
            found += compare(
                graph, platform, chosen, label=name, history=history, minimize=minimize, subject_to=subject_to,
                rewrite=rewrite, disturbance=here, seeds=what.seeds,
                progress=partial(tell, name),
            )  # fmt: skip
    show_all(found, f"{graph.name}: {plural(len(graph), 'task')}", len(graph), graph.name, what, shown, without)
