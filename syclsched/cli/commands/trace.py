# SPDX-License-Identifier: Apache-2.0
"""``syclsched trace``: analyse a recorded run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syclsched.cli.documents import print_document
from syclsched.cli.output_files import check_outputs, read_text, write_pictures
from syclsched.cli.terminal import notices, output
from syclsched.cli.views.trace_document import trace_document
from syclsched.errors import ArgumentError

if TYPE_CHECKING:
    from syclsched.model.plan import Plan
    from syclsched.model.trace import Trace


def trace_command(
    record: Annotated[Path, typer.Argument(metavar="RECORD", help="A run, as written by `syclsched run --record`.")],
    story: Annotated[
        str | None,
        typer.Option("--story", metavar="TASK", help="Show only the history of one task."),
    ] = None,
    plan_file: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="The executed plan (`syclsched run --save-plan`): adds the names of links, distinguishes waits for "
            "memory from waits for data, and estimates the effect of more lanes.",
        ),
    ] = None,
    trace_file: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Write a trace for Perfetto.")
    ] = None,
    gantt_file: Annotated[
        Path | None, typer.Option("--gantt", metavar="FILE", help="Draw a Gantt chart (.png, .svg, .pdf).")
    ] = None,
    report_file: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write an HTML page about the run, to open in a browser."),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the analysis as JSON.")] = False,
) -> None:
    """Analyse a recorded run: time by activity, reasons for idle lanes, and changes that would shorten it; draw it.

    The report includes the actual critical path (through dependencies, lanes, copies and the host's submissions) and
    the share of copying that was overlapped by kernels.

    [bold]syclsched run cholesky --record run-record.json --save-plan plan.json[/bold]

    [bold]syclsched trace run-record.json --plan plan.json --gantt run.png[/bold]

    [bold]syclsched trace run-record.json --story gemm_3_2[/bold] shows what one task waited for and delayed.
    """
    from syclsched.model.plan import Plan
    from syclsched.tracing import make_report, render_report
    from syclsched.tracing.analysis.task_history import describe_task
    from syclsched.tracing.trace_reader import read_trace

    check_outputs(trace_file, report_file, pictures=[gantt_file])
    trace = read_trace(read_text(record), where=str(record))
    plan = None if plan_file is None else Plan.from_json(read_text(plan_file), where=str(plan_file))
    if plan is not None and plan.name != trace.name:
        raise ArgumentError(f"the run is of {trace.name!r}, the plan of {plan.name!r}", where=str(plan_file))
    if plan is not None and not _matches(plan, trace):
        raise ArgumentError(
            "the recorded run does not match the plan",
            where=str(plan_file),
            hint="Take the plan that was saved with the record: `syclsched run --record FILE --save-plan FILE`",
        )
    told = None if story is None else describe_task(trace, story)
    if json_output:
        print_document(trace_document(make_report(trace, plan), told))
    elif told is not None:
        output().print(told, markup=False, soft_wrap=True)
    else:
        render_report(make_report(trace, plan), output())
    write_pictures(trace, None, trace_file, gantt_file, notices(), plan=plan, report_file=report_file)


def _matches(plan: Plan, trace: Trace) -> bool:
    """Return whether a trace matches a plan by lanes and tasks; True after recoveries, when it cannot be decided."""
    if trace.recoveries:
        return True
    planned = {i.id: (lane.name, i.kind, i.task) for lane, i in plan.instructions()}
    step = 1 + max(planned, default=0)  # offset between the instruction numbers of a stream's runs
    return all(planned.get(s.instruction % step) == (s.lane, s.kind, s.task) for s in trace.spans)
