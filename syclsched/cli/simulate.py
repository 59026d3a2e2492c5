# SPDX-License-Identifier: Apache-2.0
"""``syclsched simulate``: run a plan file on the virtual clock."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from syclsched.cli.output import read_text, write_pictures


def simulate_command(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan, as written by `syclsched plan --out`.")],
    trace_file: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Write a trace for Perfetto.")
    ] = None,
    gantt_file: Annotated[
        Path | None, typer.Option("--gantt", metavar="FILE", help="Draw a Gantt chart (.png, .svg, .pdf).")
    ] = None,
) -> None:
    """Verify a plan and run it on a virtual clock; needs no device.

    [bold]syclsched simulate plan.json --gantt plan.png[/bold]
    """
    from rich.console import Console

    from syclsched.model.plan import Plan
    from syclsched.planning import verify
    from syclsched.simulation import predict, simulate
    from syclsched.tracing import make_report, render_report

    console = Console(highlight=False)
    plan = Plan.from_json(read_text(plan_file), where=str(plan_file))
    verify(plan)
    plan = predict(plan)
    trace = simulate(plan)
    render_report(make_report(trace, plan), console)
    write_pictures(trace, None, trace_file, gantt_file, console)
