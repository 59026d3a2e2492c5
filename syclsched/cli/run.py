# SPDX-License-Identifier: Apache-2.0
"""``syclsched run``: plan a ready graph or a model, run it on this machine's devices, check and show what happened."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syclsched.cli import options as opt
from syclsched.cli.checking import Checks
from syclsched.cli.graphs import check_without, is_model, load_graph
from syclsched.cli.models import check_shown, show_operators, show_outputs, write_outputs
from syclsched.cli.output import check_outputs, read_text, warnings_shown, write_pictures, write_text
from syclsched.cli.patience import RUNNING, patience
from syclsched.cli.planning import Planned, plan_for
from syclsched.cli.streaming import check_in_flight, show_statistics, stream_workload
from syclsched.cli.versus import Rival, check_rival, in_turns, show_versus
from syclsched.errors import ArgumentError

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.execution import Run, Safeguards
    from syclsched.execution.stream import StreamStatistics
    from syclsched.model.plan import Plan
    from syclsched.model.recovery import Recovery
    from syclsched.model.trace import Trace
    from syclsched.workloads import CheckResult, Workload

_WATCHED = "What runs are watched for"
_SHOWN = "What is shown and written"


def run_command(
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
    shape: opt.Shape = None,
    without: opt.Without = None,
    dtype: opt.Dtype = None,
    seed: opt.Seed = None,
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
    plan_file: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Run this plan (from `syclsched plan`); it is verified first."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Plan and simulate only.")] = False,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Run this often; the median is reported.")] = 1,
    in_flight: Annotated[
        int | None,
        typer.Option(
            "--in-flight",
            metavar="K",
            min=1,
            help="Run as a stream: K of the --repeat runs are on their way at once, each with memory of its own. "
            "Results come in order; the time from one to the next is reported.",
        ),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate/--no-calibrate",
            help="Time work that was never timed before on these devices, so that the plan fits.",
        ),
    ] = True,
    trace_file: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Write a trace for Perfetto.", rich_help_panel=_SHOWN),
    ] = None,
    gantt_file: Annotated[
        Path | None,
        typer.Option("--gantt", metavar="FILE", help="Draw a Gantt chart (.png, .svg, .pdf).", rich_help_panel=_SHOWN),
    ] = None,
    record_file: Annotated[
        Path | None,
        typer.Option(
            "--record", metavar="FILE", help="Write the run as JSON, for `syclsched trace`.", rich_help_panel=_SHOWN
        ),
    ] = None,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            help="One instruction at a time; a task that changes what it does not declare to write fails.",
            rich_help_panel=_WATCHED,
        ),
    ] = False,
    nan_guard: Annotated[
        bool,
        typer.Option(
            "--nan-guard",
            help="One instruction at a time; the first task that writes a NaN or an infinity fails.",
            rich_help_panel=_WATCHED,
        ),
    ] = False,
    dynamic: Annotated[
        str | None,
        typer.Option(
            "--dynamic",
            metavar="NAME",
            help="Decide while tasks run: 'eager', 'priority', 'dmdas' or 'stealing' (no plan), or 'hybrid', which "
            "follows the plan until tasks take other times than it says. Results are the same.",
        ),
    ] = None,
    watchdog: Annotated[
        float | None,
        typer.Option(
            "--watchdog",
            metavar="SECONDS",
            help="Warn of a task that runs for longer. By default for 30 times its prediction, and at least 10 s.",
            rich_help_panel=_WATCHED,
        ),
    ] = None,
    deadline: Annotated[
        float | None,
        typer.Option(
            "--deadline",
            metavar="SECONDS",
            help="Let a run fail that takes longer, with the name of the task it is at.",
            rich_help_panel=_WATCHED,
        ),
    ] = None,
    recover: Annotated[
        bool,
        typer.Option(
            "--recover/--no-recover",
            help="When a device or its runtime fails, plan what is left anew on the devices that are left, and go on.",
            rich_help_panel=_WATCHED,
        ),
    ] = True,
    save_plan: Annotated[
        Path | None, typer.Option("--save-plan", metavar="FILE", help="Write the plan as JSON.", rich_help_panel=_SHOWN)
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            metavar="RUNTIME",
            help="Run a model in turns with 'onnxruntime', too: compares results and times.",
            rich_help_panel=_SHOWN,
        ),
    ] = None,
    output_file: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write a model's outputs (.npz).", rich_help_panel=_SHOWN),
    ] = None,
    top: Annotated[
        int,
        typer.Option("--top", min=0, help="Of a model's scores show so many of the best.", rich_help_panel=_SHOWN),
    ] = 0,
    labels_file: Annotated[
        Path | None,
        typer.Option(
            "--labels", metavar="FILE", help="Names of classes for --top, one a line.", rich_help_panel=_SHOWN
        ),
    ] = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print a summary as JSON.", rich_help_panel=_SHOWN)
    ] = False,
) -> None:
    """Run a ready graph or an ONNX model on every SYCL device of this machine (or on those chosen), and check it.

    [bold]syclsched run cholesky --n 2048 --tile 256 --gantt run.png --trace run.json[/bold]

    [bold]syclsched run stencil --debug[/bold] checks what every task writes.

    [bold]syclsched run cholesky --repeat 50 --in-flight 3[/bold] does it 50 times, 3 of them at once.

    [bold]syclsched run cholesky --dynamic dmdas[/bold] decides where each task goes as it becomes ready;
    [bold]--dynamic hybrid[/bold] follows a plan for as long as it is right.

    [bold]syclsched run resnet50.onnx --input photo.npy --top 5 --devices cpu --compare onnxruntime[/bold]

    [bold]syclsched run cholesky --platform xeon-8480,max1550 --dry-run[/bold] tells how it would go on other hardware.
    """
    from rich.console import Console
    from rich.markup import escape

    from syclsched.execution import Safeguards
    from syclsched.model.units import check_seconds

    console = Console(stderr=json_output, highlight=False)
    check_seconds(watchdog, "--watchdog")
    check_seconds(deadline, "--deadline")
    safeguards = Safeguards(debug, nan_guard, watchdog, deadline)
    check_outputs(trace_file, record_file, save_plan, output_file, pictures=[gantt_file])
    check_rival(compare, dry_run=dry_run, is_model=is_model(graph))
    check_without(without, is_model=is_model(graph))
    ready = {
        "n": n, "tile": tile, "steps": steps, "batch": batch, "chunks": chunks, "sizes": sizes, "softmax": softmax,
        "weights": weights, "input": input_file, "shape": shape, "dtype": dtype, "seed": seed,
    }  # fmt: skip
    with console.status(f"reading {escape(graph)} ...") if is_model(graph) else nullcontext():
        model = load_graph(graph, ready=ready).model if is_model(graph) else None
    labels = check_shown(model, output_file, top, labels_file)
    workload = opt.build_workload(graph, **ready) if model is None else model.workload()
    if platform is not None and not dry_run:
        raise ArgumentError(
            "a described platform cannot run anything",
            where="--platform",
            hint="Add --dry-run to plan and simulate, or choose devices of this machine with --devices",
        )
    if in_flight is not None:
        check_in_flight(dynamic, dry_run, repeat)
    if dynamic is not None:
        policy, rewrite = _check_dynamic(dynamic, policy, rewrite, plan_file, safeguards, dry_run)
    given = None if plan_file is None else _read_plan(plan_file)
    rival = Rival(model) if model is not None and compare is not None else None
    versus = None
    with plan_for(
        workload.graph, policy=policy, devices=devices, sub_devices=sub_devices, lanes=lanes,
        one_core_lanes=one_core_lanes, described=platform, given=given, calibrate=calibrate, needs_devices=not dry_run,
        console=console, minimize=minimize, subject_to=subject_to or (), rewrite=rewrite, budget_s=budget,
        memory_limit=memory_limit, model=model,
        without=without or (),
    ) as planned:  # fmt: skip
        if save_plan is not None and dynamic is None:
            _write_plan(save_plan, planned.plan, console)
        if dry_run:
            outcome = _simulated(planned.plan)
        elif in_flight is not None:
            streamed = stream_workload(planned, workload, repeat, in_flight, safeguards, console)
            makespans_s = (streamed.trace.makespan_s,)
            outcome = _Outcome(streamed.trace, planned.plan, streamed.check, makespans_s, streamed.statistics)
        else:
            with warnings_shown(console):
                start = _starter(planned, workload, safeguards, dynamic, recover=recover)
                outcome = _measured(planned, workload, repeat, console, start, dynamic=dynamic is not None)
        if model is not None and rival is not None:
            versus = in_turns(planned, model, rival, repeat)
    if save_plan is not None and dynamic is not None:
        _write_plan(save_plan, outcome.plan, console)
    _show(outcome, outcome.plan, json_output, console, None if versus is None else versus.ratio)
    if model is not None and not json_output:
        show_operators(model, outcome.plan, outcome.trace, console)
        show_outputs(model.found, top, labels, console)
    if versus is not None and not json_output:
        show_versus(versus, console)
    if model is not None and output_file is not None:
        write_outputs(output_file, model.found)
        console.print(f"outputs written to {output_file}")
    predicted = None if dry_run or in_flight is not None else _prediction(planned.plan)
    write_pictures(outcome.trace, predicted, trace_file, gantt_file, console, plan=outcome.plan)
    if record_file is not None:
        from syclsched.model.serial import to_json

        write_text(record_file, to_json(outcome.trace))
        console.print(f"run written to {record_file}")
    if outcome.check is not None and not outcome.check.ok:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came out: the run whose makespan is the median, its plan and check, and what broke in all runs."""

    trace: Trace
    plan: Plan
    check: CheckResult | None
    makespans_s: tuple[float, ...]
    stream: StreamStatistics | None = None
    recoveries: tuple[Recovery, ...] = ()


def _read_plan(path: Path) -> Plan:
    from syclsched.model.plan import Plan

    return Plan.from_json(read_text(path), where=str(path))


def _write_plan(path: Path, plan: Plan, console: Console) -> None:
    write_text(path, plan.to_json())
    console.print(f"plan written to {path}")


def _prediction(plan: Plan) -> Trace:
    from syclsched.simulation import simulate

    return simulate(plan)


def _simulated(plan: Plan) -> _Outcome:
    trace = _prediction(plan)
    return _Outcome(trace, plan, None, (trace.makespan_s,))


def _check_dynamic(
    dynamic: str, policy: str, rewrite: str, plan_file: Path | None, safeguards: Safeguards, dry_run: bool
) -> tuple[str, str]:
    """Return policy and rewrite for the plan that a dynamic run is compared with, or follows."""
    from syclsched.execution.live import check_name

    check_name(dynamic)
    if dry_run or safeguards.stepped:
        other = "--dry-run" if dry_run else "--debug and --nan-guard"
        simulated = f"`syclsched simulate --policy dynamic:{dynamic}` tells how it would go"
        hint = simulated if dry_run else "Leave --dynamic out, or do without them"
        raise ArgumentError(f"{other} cannot be had with --dynamic", where="--dynamic", hint=hint)
    if dynamic == "hybrid":
        return policy, rewrite
    if plan_file is not None or policy != "auto":
        raise ArgumentError(
            f"{dynamic!r} follows no plan", where="--dynamic", hint="Leave --plan and --policy out, or use hybrid"
        )
    return f"dynamic:{dynamic}", "none"


@contextmanager
def _starter(
    planned: Planned, workload: Workload, safeguards: Safeguards, dynamic: str | None, *, recover: bool
) -> Iterator[Callable[[], Run]]:
    """Yield what starts a run, again and again: of the plan, or under a dynamic policy."""
    from syclsched.execution import bind

    if dynamic is None:
        with bind(planned.plan, workload.graph, planned.live, safeguards=safeguards, recover=recover) as runner:
            yield partial(runner.run, workload.inputs)
        return
    from syclsched.execution.live import run_dynamically
    from syclsched.profiling import HistoryStore

    followed = planned.plan if dynamic == "hybrid" else None

    def start() -> Run:
        with HistoryStore() as history:
            return run_dynamically(
                workload.graph, planned.live, dynamic, workload.inputs,
                plan=followed, history=history, safeguards=safeguards, recover=recover,
            )  # fmt: skip

    yield start


def _measured(
    planned: Planned,
    workload: Workload,
    repeat: int,
    console: Console,
    starter: AbstractContextManager[Callable[[], Run]],
    *,
    dynamic: bool,
) -> _Outcome:
    """Run, fetch and check; of several runs keep the one in the middle."""
    traces: list[Trace] = []
    plans: list[Plan] = []
    checks = Checks(workload)
    assert planned.live is not None
    waiting = patience(console, text=RUNNING) if dynamic else nullcontext()
    with console.status(f"running {workload.name} ...") as status, waiting, starter as start:
        for index in range(repeat):
            if repeat > 1:
                status.update(f"running {workload.name}, {index + 1} of {repeat} ...")
            with start() as run:
                run.wait()
                results: dict[str, Any] = {name: run.result(name) for name in workload.results}
                traces.append(run.trace())
                plans.append(run.plan)
            checks.add(results)
    middle = statistics.median_low([t.makespan_s for t in traces])
    at = next(number for number, trace in enumerate(traces) if trace.makespan_s == middle)
    chosen, plan = traces[at], planned.plan
    if dynamic:  # what happened is the plan of its trace, and what was planned says how long that was to take
        known = {name: getattr(plan, name) for name in ("makespan_s", "lower_bound_s", "candidates")}
        chosen, plan = replace(chosen, predicted_makespan_s=plan.makespan_s), replace(plans[at], **known)
    recoveries = tuple(recovery for t in traces for recovery in t.recoveries)
    return _Outcome(chosen, plan, checks.verdict, tuple(t.makespan_s for t in traces), recoveries=recoveries)


def _show(outcome: _Outcome, plan: Plan, as_json: bool, console: Console, ratio: float | None = None) -> None:
    from rich.markup import escape

    from syclsched.tracing import make_report, render_report

    report = make_report(outcome.trace, plan)
    if as_json:
        print(json.dumps({**_summary(outcome, plan), "ratio": ratio}, indent=1))
        return
    render_report(report, console)
    if len(outcome.makespans_s) > 1:
        low, high = min(outcome.makespans_s), max(outcome.makespans_s)
        console.print(
            f"{len(outcome.makespans_s)} runs: median {outcome.trace.makespan_s * 1e3:.2f} ms, "
            f"from {low * 1e3:.2f} to {high * 1e3:.2f} ms"
        )
    if outcome.stream is not None:
        show_statistics(outcome.stream, console)
    for recovery in outcome.recoveries:
        console.print(f"[yellow]recovered[/yellow]: {escape(str(recovery))}")
    if outcome.check is not None:
        mark = "[green]right[/green]" if outcome.check.ok else "[bold red]WRONG[/bold red]"
        console.print(f"result: {mark}, {outcome.check.text}")


def _summary(outcome: _Outcome, plan: Plan) -> dict[str, Any]:
    from dataclasses import asdict

    where: dict[str, dict[str, int]] = {}
    for span in outcome.trace.spans:
        if span.kind in ("launch", "host"):
            counts = where.setdefault(span.family, {})
            place = f"{span.device}/{span.implementation}"
            counts[place] = counts.get(place, 0) + 1
    return {
        "graph": plan.name,
        "policy": plan.policy,
        "rewritten": str(plan.recipe) or None,
        "simulated": outcome.trace.simulated,
        "predicted_makespan_s": plan.makespan_s,
        "lower_bound_s": plan.lower_bound_s,
        "gap": plan.gap,
        "makespan_s": outcome.trace.makespan_s,
        "makespans_s": outcome.makespans_s,
        "stream": None if outcome.stream is None else asdict(outcome.stream),
        "result": None if outcome.check is None else asdict(outcome.check),
        "where": where,
        "recoveries": [asdict(recovery) for recovery in outcome.recoveries],
        "counters": asdict(plan.counters),
        "host_waits": outcome.trace.host_waits,
        "peak_bytes": outcome.trace.peak_bytes,
        "candidates": [asdict(c) for c in plan.candidates],
    }
