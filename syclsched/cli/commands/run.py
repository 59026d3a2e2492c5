# SPDX-License-Identifier: Apache-2.0
"""``syclsched run``: plan and run a ready graph or a model on this machine, check its results and report the run."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syclsched.cli import options as opt
from syclsched.cli.compare_runtime import (
    OtherRuntime,
    check_other_runtime,
    measure_alternately,
    show_runtime_comparison,
)
from syclsched.cli.output_files import check_outputs, read_text, write_pictures, write_text
from syclsched.cli.requests.cluster_connection import ONE_MACHINE, connected, plan_for_cluster
from syclsched.cli.requests.graph_loading import check_shown, check_without, is_model, load_graph
from syclsched.cli.requests.graph_planning import GivenPlan, Planned, naming_file, plan_and_open
from syclsched.cli.result_check import ResultChecker
from syclsched.cli.run_options import OutputOptions, WatchOptions
from syclsched.cli.streaming import check_in_flight, show_statistics, stream_workload
from syclsched.cli.terminal import notices, output
from syclsched.cli.wait_notice import RUNNING_NOTICE, notice_if_slow, status_line
from syclsched.errors import ArgumentError
from syclsched.progress import terminal_bar

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.cli.documents import RunDocument
    from syclsched.cluster import ClusterRun
    from syclsched.execution import Run, Safeguards
    from syclsched.execution.runner.stream import StreamStatistics
    from syclsched.model.graph import TaskGraph
    from syclsched.model.plan import Plan
    from syclsched.model.recovery import Recovery
    from syclsched.model.trace import Trace
    from syclsched.progress import Progress
    from syclsched.workloads import CheckResult, Workload

    #: Makes the context in which runs can be started.
    _Starter = Callable[[Progress], AbstractContextManager[Callable[[], Run | ClusterRun]]]

#: Seconds for which a command waits for the writing of measured times.
_FLUSH_S = 2.0

#: Options of runs on one machine.
_ALONE = (
    "devices", "sub_devices", "lanes", "one_core_lanes", "memory_limit", "platform", "without", "in_flight",
    "recalibrate", "debug", "nan_guard", "watchdog", "deadline", "compare", "monitor",
)  # fmt: skip


def run_command(
    context: typer.Context,
    graph: opt.WorkloadName,
    *,
    ready: opt.ReadyOptions,
    seed: opt.Seed = None,
    without: opt.Without = None,
    how: opt.PlanOptions,
    where: opt.PlatformOptions,
    machines: opt.ClusterOptions,
    plan_file: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Run this plan (from `syclsched plan`); it is verified first."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Plan and simulate only.")] = False,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Number of runs; the median is reported.")] = 1,
    in_flight: Annotated[
        int | None,
        typer.Option(
            "--in-flight",
            metavar="K",
            min=1,
            help="Run as a stream: K of the --repeat runs are in flight at once, each with separate memory. Results "
            "arrive in order; the interval between them is reported.",
        ),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate/--no-calibrate", help="Measure tasks that were never timed on these devices before planning."
        ),
    ] = True,
    recalibrate: Annotated[
        bool, typer.Option("--recalibrate", help="Measure the graph's tasks again; earlier times count no longer.")
    ] = False,
    dynamic: Annotated[
        str | None,
        typer.Option(
            "--dynamic",
            metavar="NAME",
            help="Schedule at run time: 'eager', 'priority', 'dmdas' or 'stealing' (no plan), or 'hybrid', which "
            "follows the plan until task times deviate from it. Results are the same.",
        ),
    ] = None,
    watched: WatchOptions,
    shown: OutputOptions,
) -> None:
    """Run a ready graph or an ONNX model on every SYCL device of this machine (or on chosen ones), and check results.

    [bold]syclsched run cholesky --n 2048 --tile 256 --gantt run.png --trace run.json[/bold]

    [bold]syclsched run stencil --debug[/bold] checks what every task writes.

    [bold]syclsched run cholesky --repeat 50 --in-flight 3[/bold] makes 50 runs, 3 of them in flight at once.

    [bold]syclsched run cholesky --dynamic dmdas[/bold] chooses the device of each task when it becomes ready;
    [bold]--dynamic hybrid[/bold] follows a plan while task times agree with it.

    [bold]syclsched run cholesky --repeat 500 --monitor[/bold] is shown live by [bold]syclsched top[/bold] elsewhere.

    [bold]syclsched run resnet50.onnx --input photo.npy --top 5 --devices cpu --compare onnxruntime[/bold]

    [bold]syclsched run cholesky --platform xeon-8480,max1550 --dry-run[/bold] predicts the run on other hardware.

    [bold]syclsched run cholesky --cluster tcp://host:8786[/bold] runs it on the machines of a Dask cluster;
    [bold]--workers 2[/bold] on two processes of this one.
    """
    from rich.markup import escape

    from syclsched.execution.core.history_feed import FEED

    out, console = output(), notices()
    safeguards = watched.safeguards()
    if machines.named:
        opt.refuse_given(context, (*ONE_MACHINE, *_ALONE), "on several machines")
    elif safeguards.takes_turns:
        raise ArgumentError(
            "a run of this process knows no runs of others",
            where="--priority and --share",
            hint="Add --cluster: its workers know the runs of all clients. Or call syclsched.run in one process",
        )
    _tell_unused(context, with_plan=plan_file is not None, dry_run=dry_run, described=where.platform is not None)
    check_outputs(
        shown.trace_file, shown.report_file, shown.record_file, shown.save_plan, shown.output_file,
        pictures=[shown.gantt_file],
    )  # fmt: skip
    check_other_runtime(shown.compare, dry_run=dry_run, is_model=is_model(graph))
    check_without(without, is_model=is_model(graph))
    said = ready.given(seed)
    with console.status(f"reading {escape(graph)} ...") if is_model(graph) else nullcontext():
        model = load_graph(graph, said, opt.FileOptions()).model if is_model(graph) else None
    labels = check_shown(shown.output_file, shown.top, shown.labels_file, is_model=model is not None)
    workload = opt.build_workload(graph, **said) if model is None else model.workload()
    if where.platform is not None and not dry_run:
        raise ArgumentError(
            "a described platform cannot run anything",
            where="--platform",
            hint="Add --dry-run to plan and simulate, or choose devices of this machine with --devices",
        )
    if in_flight is not None:
        check_in_flight(dynamic, dry_run, repeat)
    if dynamic is not None:
        how = _check_dynamic(dynamic, how, plan_file, safeguards, dry_run, on_cluster=machines.named)
    if in_flight is not None and in_flight > repeat:
        console.print(f"note: --in-flight {in_flight} is more than --repeat {repeat}: {repeat} runs are in flight")
    if shown.labels_file is not None and not shown.top:
        opt.tell_unused(context, ("labels_file",), "without --top")
    given = None if plan_file is None else GivenPlan(_read_plan(plan_file), plan_file, _plan_command(context))
    rival = OtherRuntime(model) if model is not None and shown.compare is not None else None
    versus = None
    with (
        shown.monitoring(dry_run=dry_run),
        _planned_on(machines, workload.graph, how, console, calibrate=calibrate, given=given)
        if machines.named
        else plan_and_open(
            workload.graph,
            how,
            where,
            console,
            calibrate=calibrate,
            needs_devices=not dry_run,
            given=given,
            model=model,
            without=without or (),
            recalibrate=recalibrate,
            tries=not dry_run and dynamic is None and in_flight is None and not safeguards.stepped,
        ) as planned,
    ):
        if shown.save_plan is not None and dynamic is None:
            _write_plan(shown.save_plan, planned.plan, console)
        if dry_run:
            outcome = _simulate_outcome(planned.plan)
        elif in_flight is not None:
            streamed = stream_workload(planned, workload, repeat, in_flight, safeguards, console)
            makespans_s = (streamed.trace.makespan_s,)
            outcome = _Outcome(streamed.trace, planned.plan, streamed.check, makespans_s, streamed.statistics)
        else:
            start: _Starter = partial(_run_starter, planned, workload, safeguards, dynamic, recover=watched.recover)
            if planned.cluster is not None:
                start = partial(_cluster_starter, planned, workload, safeguards, dynamic, recover=watched.recover)
            outcome = _run_repeatedly(planned, workload, repeat, console, start, dynamic=dynamic is not None)
            FEED.flush(_FLUSH_S)  # its warnings come before the report
        if model is not None and rival is not None:
            versus = measure_alternately(planned, model, rival, repeat)
    if shown.save_plan is not None and dynamic is not None:
        _write_plan(shown.save_plan, outcome.plan, console)
    _show(outcome, outcome.plan, shown.json_output, out, None if versus is None else versus.ratio)
    if model is not None and not shown.json_output:
        from syclsched.cli.requests.onnx_models import show_operators, show_outputs

        show_operators(model, outcome.plan, outcome.trace, out)
        show_outputs(model.found, shown.top, labels, out)
    if versus is not None and not shown.json_output:
        show_runtime_comparison(versus, out)
    if model is not None and shown.output_file is not None:
        from syclsched.cli.requests.onnx_models import write_outputs

        write_outputs(shown.output_file, model.found)
        console.print(f"outputs written to {shown.output_file}")
    predicted = None if dry_run or in_flight is not None else _prediction(planned.plan)
    write_pictures(
        outcome.trace, predicted, shown.trace_file, shown.gantt_file, console, plan=outcome.plan,
        report_file=shown.report_file,
    )  # fmt: skip
    if shown.record_file is not None:
        from syclsched.model.text.json_serialisation import to_json

        write_text(shown.record_file, to_json(outcome.trace))
        console.print(f"run written to {shown.record_file}")
    if outcome.check is not None and not outcome.check.ok:
        raise typer.Exit(1)


def _tell_unused(context: typer.Context, *, with_plan: bool, dry_run: bool, described: bool) -> None:
    """Print notes for options that have no effect together with others."""
    if with_plan:
        fixed = (*(each.name for each in fields(opt.PlanOptions)), "devices", "sub_devices", "lanes", "platform",
                 "calibrate", "recalibrate", "without")  # fmt: skip
        opt.tell_unused(context, fixed, "with --plan, whose plan is run as it is")
    elif described:
        opt.tell_unused(context, opt.LOCAL_OPTIONS, "with --platform, whose devices are described, not opened")
    if dry_run:
        live = ("repeat", "watchdog", "deadline", "recover", "debug", "nan_guard", "recalibrate")
        opt.tell_unused(context, live, "with --dry-run, which runs nothing")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Outcome of all runs: trace and plan of the run with the median makespan, the check, and all recoveries."""

    trace: Trace
    plan: Plan
    check: CheckResult | None
    makespans_s: tuple[float, ...]
    stream: StreamStatistics | None = None
    recoveries: tuple[Recovery, ...] = ()


def _plan_command(context: typer.Context) -> str:
    """Return the command that plans the same graph."""
    taken = {"seed", "without", *(each.name for each in fields(opt.ReadyOptions))}
    words = ["syclsched", "plan", str(context.params["graph"])]
    for each in context.command.params:
        value = context.params.get(each.name or "")
        if each.name not in taken or value is None:
            continue
        if isinstance(value, bool):
            words.append(each.opts[0] if value else each.secondary_opts[0])
            continue
        for one in value if isinstance(value, (list, tuple)) else (value,):
            words += [each.opts[0], str(one)]
    return shlex.join([*words, "--out", str(context.params["plan_file"])])


def _read_plan(path: Path) -> Plan:
    from syclsched.model.plan import Plan

    return Plan.from_json(read_text(path), where=str(path))


def _write_plan(path: Path, plan: Plan, console: Console) -> None:
    write_text(path, plan.to_json())
    console.print(f"plan written to {path}")


def _prediction(plan: Plan) -> Trace:
    from syclsched.simulation import simulate

    return simulate(plan)


def _simulate_outcome(plan: Plan) -> _Outcome:
    trace = _prediction(plan)
    return _Outcome(trace, plan, None, (trace.makespan_s,))


def _check_dynamic(
    dynamic: str,
    how: opt.PlanOptions,
    plan_file: Path | None,
    safeguards: Safeguards,
    dry_run: bool,
    *,
    on_cluster: bool,
) -> opt.PlanOptions:
    """Return the plan options for a dynamic run.

    Its plan serves for comparison, says on a cluster which machine a task runs on, or, with hybrid, is followed.
    """
    from syclsched.execution.dynamic import check_name

    check_name(dynamic)
    if dry_run or safeguards.stepped:
        other = "--dry-run" if dry_run else "--debug and --nan-guard"
        simulated = f"`syclsched simulate --policy dynamic:{dynamic}` predicts it"
        hint = simulated if dry_run else "Leave --dynamic out, or leave them out"
        raise ArgumentError(f"{other} cannot be combined with --dynamic", where="--dynamic", hint=hint)
    if dynamic == "hybrid" or on_cluster:
        return how
    if plan_file is not None or how.policy != "auto":
        raise ArgumentError(
            f"{dynamic!r} follows no plan", where="--dynamic", hint="Leave --plan and --policy out, or use hybrid"
        )
    return replace(how, policy=f"dynamic:{dynamic}", rewrite="none")


@contextmanager
def _run_starter(
    planned: Planned,
    workload: Workload,
    safeguards: Safeguards,
    dynamic: str | None,
    progress: Progress,
    *,
    recover: bool,
) -> Iterator[Callable[[], Run]]:
    """Yield a function that starts a run of the plan, or under a dynamic policy; report compilations for it."""
    from syclsched.execution import bind

    devices = planned.live
    assert devices is not None
    if dynamic is None:
        with bind(
            planned.plan,
            workload.graph,
            devices,
            safeguards=safeguards,
            recover=recover,
            measure=True,
            makespan_key=planned.makespan_key,
            progress=progress,
        ) as runner:
            yield partial(runner.run, workload.inputs)
        return
    from syclsched.execution.dynamic import run_dynamically
    from syclsched.profiling import HistoryStore

    followed = planned.plan if dynamic == "hybrid" else None

    def start() -> Run:
        with HistoryStore() as history:
            return run_dynamically(
                workload.graph, devices, dynamic, workload.inputs,
                plan=followed, history=history, safeguards=safeguards, recover=recover, progress=progress,
            )  # fmt: skip

    yield start


@contextmanager
def _planned_on(
    machines: opt.ClusterOptions,
    graph: TaskGraph,
    how: opt.PlanOptions,
    console: Console,
    *,
    calibrate: bool,
    given: GivenPlan | None,
) -> Iterator[Planned]:
    """Plan a graph for the machines of a cluster, or use the given plan; a context manager that disconnects."""
    from syclsched.api import verify

    if given is not None:
        with naming_file(given.path, given.command):
            verify(given.plan, graph)
    with connected(machines, console) as cluster:
        plan = plan_for_cluster(cluster, graph, how, console, calibrate=calibrate) if given is None else given.plan
        yield Planned(plan, None, cluster=cluster)


@contextmanager
def _cluster_starter(
    planned: Planned,
    workload: Workload,
    safeguards: Safeguards,
    dynamic: str | None,
    progress: Progress,
    *,
    recover: bool,
) -> Iterator[Callable[[], ClusterRun]]:
    """Yield a function that starts a run on the machines of a cluster, by the plan or under a dynamic policy."""
    assert planned.cluster is not None
    with planned.cluster.bind(
        workload.graph,
        plan=planned.plan,
        recover=recover,
        priority=safeguards.priority,
        share=safeguards.share,
        dynamic=dynamic,
        progress=progress,
    ) as runner:
        yield partial(runner.run, workload.inputs, progress=progress)


def _run_repeatedly(
    planned: Planned,
    workload: Workload,
    repeat: int,
    console: Console,
    starter: _Starter,
    *,
    dynamic: bool,
) -> _Outcome:
    """Run repeatedly, fetch and check results; keep the trace and plan of the run with the median makespan."""
    traces: list[Trace] = []
    plans: list[Plan] = []
    checks = ResultChecker(workload)
    waiting = notice_if_slow(console, text=RUNNING_NOTICE) if dynamic else nullcontext()
    what = f"running {workload.name}"
    bar = terminal_bar(what, console) if planned.cluster is not None else status_line(console, what)
    with bar as tell, waiting, starter(tell) as start:
        for index in range(repeat):
            if repeat > 1:
                tell(index, repeat, "")
            with start() as run:
                run.wait()
                results: dict[str, Any] = {name: run.result(name) for name in workload.results}
                traces.append(run.trace())
                plans.append(run.plan)
            checks.add(results)
    middle = statistics.median_low([t.makespan_s for t in traces])
    index = next(number for number, trace in enumerate(traces) if trace.makespan_s == middle)
    chosen, plan = traces[index], planned.plan
    if dynamic:  # the plan is the recorded execution; predictions come from the plan made before
        known = {name: getattr(plan, name) for name in ("makespan_s", "lower_bound_s", "candidates")}
        chosen, plan = replace(chosen, predicted_makespan_s=plan.makespan_s), replace(plans[index], **known)
    recoveries = tuple(recovery for t in traces for recovery in t.recoveries)
    return _Outcome(chosen, plan, checks.verdict, tuple(t.makespan_s for t in traces), recoveries=recoveries)


def _show(outcome: _Outcome, plan: Plan, as_json: bool, console: Console, ratio: float | None = None) -> None:
    from rich.markup import escape

    from syclsched.tracing import make_report, render_report

    if as_json:
        from syclsched.cli.documents import print_document  # hundreds of keys, each with its meaning

        print_document(_document(outcome, plan, ratio))
        return
    render_report(make_report(outcome.trace, plan), console)
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


def _document(outcome: _Outcome, plan: Plan, ratio: float | None) -> RunDocument:
    from dataclasses import asdict

    from syclsched.cli.documents import RunDocument
    from syclsched.cli.views.plan_document import candidate_entries, trial_entries

    where: dict[str, dict[str, int]] = {}
    for span in outcome.trace.spans:
        if span.kind in ("launch", "host"):
            counts = where.setdefault(span.family, {})
            place = f"{span.device}/{span.implementation}"
            counts[place] = counts.get(place, 0) + 1
    return RunDocument(
        graph=plan.name,
        policy=plan.policy,
        rewritten=str(plan.recipe) or None,
        simulated=outcome.trace.simulated,
        predicted_makespan_s=plan.expected_s,
        simulated_makespan_s=plan.makespan_s,
        lower_bound_s=plan.lower_bound_s,
        gap=plan.gap,
        makespan_s=outcome.trace.makespan_s,
        makespans_s=list(outcome.makespans_s),
        stream=None if outcome.stream is None else asdict(outcome.stream),
        result=None if outcome.check is None else asdict(outcome.check),
        where=where,
        recoveries=[asdict(recovery) for recovery in outcome.recoveries],
        counters=asdict(plan.counters),
        host_waits=outcome.trace.host_waits,
        peak_bytes=dict(outcome.trace.peak_bytes),
        candidates=candidate_entries(plan),
        trials=trial_entries(plan),
        ratio=ratio,
    )
