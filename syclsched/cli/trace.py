# SPDX-License-Identifier: Apache-2.0
"""``syclsched trace``: look at a run that was recorded before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from syclsched.cli.output import check_outputs, read_text, write_pictures


def trace_command(
    record: Annotated[Path, typer.Argument(metavar="RECORD", help="A run, as written by `syclsched run --record`.")],
    story: Annotated[
        str | None,
        typer.Option("--story", metavar="TASK", help="Tell everything that happened to one task, and nothing else."),
    ] = None,
    trace_file: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Write a trace for Perfetto.")
    ] = None,
    gantt_file: Annotated[
        Path | None, typer.Option("--gantt", metavar="FILE", help="Draw a Gantt chart (.png, .svg, .pdf).")
    ] = None,
) -> None:
    """Show where time went in a recorded run, and draw it.

    [bold]syclsched trace run-record.json --gantt run.png[/bold]

    [bold]syclsched trace run-record.json --story gemm_3_2[/bold] tells what one task waited for, and what it held up.
    """
    from rich.console import Console

    from syclsched.model.serial import from_json
    from syclsched.model.trace import Trace
    from syclsched.tracing import make_report, render_report
    from syclsched.tracing.story import tell_story

    console = Console(highlight=False)
    check_outputs(trace_file, pictures=[gantt_file])
    trace = from_json(Trace, read_text(record), where=str(record))
    if story is not None:
        console.print(tell_story(trace, story), markup=False, soft_wrap=True)
    else:
        render_report(make_report(trace), console)
    write_pictures(trace, None, trace_file, gantt_file, console)
