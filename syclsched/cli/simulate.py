# SPDX-License-Identifier: Apache-2.0
"""``syclsched simulate``: run a plan on the virtual clock, or a graph on several described platforms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syclsched.cli import options as opt
from syclsched.cli.compare import draw, refuse_if_nothing
from syclsched.cli.graphs import Given, load_graph
from syclsched.cli.output import read_text, write_pictures
from syclsched.errors import ArgumentError, FormatError
from syclsched.model.units import plural

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.model.plan import Plan

_SHOWN = "What is shown and written"


def simulate_command(
    graph: Annotated[
        str,
        typer.Argument(
            metavar="GRAPH",
            help="A plan, as written by `syclsched plan --out`; or, with --platform, a ready graph or a graph file.",
        ),
    ],
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
    format: opt.Format = None,
    max_tasks: opt.MaxTasks = None,
    max_edges: opt.MaxEdges = None,
    max_file_mib: opt.MaxFileMib = None,
    time_unit: opt.TimeUnit = None,
    communication_unit: opt.CommunicationUnit = None,
    same_speed: opt.SameSpeed = False,
    platform: Annotated[
        list[str] | None,
        typer.Option(
            "--platform",
            metavar="NAMES",
            help="What if: shipped profiles or profile files. 'cpu,max1550,a770' compares each of the three alone and "
            "all together; given more than once, each time is one platform.",
            rich_help_panel="Where it runs",
        ),
    ] = None,
    lanes: opt.Lanes = None,
    policies: opt.Policies = "heft,auto",
    minimize: opt.Minimize = "makespan",
    subject_to: opt.SubjectTo = None,
    trace_file: Annotated[
        Path | None,
        typer.Option(
            "--trace", metavar="FILE", help="Write a trace for Perfetto (of the fastest).", rich_help_panel=_SHOWN
        ),
    ] = None,
    gantt_file: Annotated[
        Path | None,
        typer.Option(
            "--gantt",
            metavar="FILE",
            help="Draw a Gantt chart (of the fastest; .png, .svg, .pdf).",
            rich_help_panel=_SHOWN,
        ),
    ] = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print the what-if table as JSON.", rich_help_panel=_SHOWN)
    ] = False,
    chart_file: Annotated[
        Path | None,
        typer.Option(
            "--chart", metavar="FILE", help="Draw the what-if makespans (.png, .svg, .pdf).", rich_help_panel=_SHOWN
        ),
    ] = None,
) -> None:
    """Verify a plan and run it on a virtual clock; or ask what a graph would take on other hardware. Needs no device.

    [bold]syclsched simulate plan.json --gantt plan.png[/bold]

    [bold]syclsched simulate cholesky --n 4096 --platform xeon-8480,max1550,a770 --chart what-if.png[/bold]
    """
    from rich.console import Console

    console = Console(stderr=json_output, highlight=False)
    if not platform:
        _simulate_plan(graph, trace_file, gantt_file, console)
        return
    given = load_graph(
        graph,
        ready={
            "n": n, "tile": tile, "steps": steps, "batch": batch, "chunks": chunks, "sizes": sizes, "softmax": softmax,
            "weights": weights, "input": input_file, "dtype": dtype, "seed": seed,
        },
        format=format, max_tasks=max_tasks, max_edges=max_edges, max_file_mib=max_file_mib, time_unit=time_unit,
        communication_unit=communication_unit, same_speed=same_speed,
    )  # fmt: skip
    best = _what_if(
        given, platforms_of(platform), lanes, policies, json_output, chart_file, console,
        minimize=minimize, subject_to=subject_to or (),
    )  # fmt: skip
    if trace_file is not None or gantt_file is not None:
        from syclsched.simulation import simulate

        write_pictures(simulate(best), None, trace_file, gantt_file, console)


def platforms_of(given: list[str]) -> tuple[str, ...]:
    """Return the platforms to compare, as lists of profiles joined by commas.

    Parameters
    ----------
    given : list of str
        What was typed, once for each ``--platform``.

    Returns
    -------
    tuple of str
        One platform for each time; for a single one of several devices, each of them and all.
    """
    if len(given) > 1:
        return tuple(dict.fromkeys(given))
    names = [name.strip() for name in given[0].split(",") if name.strip()]
    return tuple(dict.fromkeys([*names, ",".join(names)]))


def _simulate_plan(path: str, trace_file: Path | None, gantt_file: Path | None, console: Console) -> None:
    from syclsched import workloads
    from syclsched.model.plan import Plan
    from syclsched.planning import verify
    from syclsched.simulation import predict, simulate
    from syclsched.tracing import make_report, render_report

    if path in workloads.names():
        raise ArgumentError(
            "it is a graph and no plan", where=path, hint="Say for what hardware: --platform cpu,max1550,a770"
        )
    try:
        plan = Plan.from_json(read_text(Path(path)), where=path)
    except FormatError as error:
        raise FormatError(
            error.what,
            where=error.where,
            hint=f"{error.hint}; for a graph, say for what hardware: --platform cpu,max1550,a770",
        ) from None
    verify(plan)
    plan = predict(plan)
    trace = simulate(plan)
    render_report(make_report(trace, plan), console)
    write_pictures(trace, None, trace_file, gantt_file, console)


def _what_if(
    given: Given,
    platforms: tuple[str, ...],
    lanes: str | None,
    policies: str,
    json_output: bool,
    chart_file: Path | None,
    console: Console,
    *,
    minimize: str,
    subject_to: Sequence[str],
) -> Plan:
    """Plan on every platform with every policy, show it, and return the fastest plan."""
    from rich.text import Text

    from syclsched.cli.comparing import compare, document, policy_names, show
    from syclsched.cli.planning import described_platform
    from syclsched.profiling import HistoryStore

    graph = given.graph
    found = []
    with HistoryStore() as history, console.status("planning ...") as status:
        for names in platforms:
            platform = described_platform(names, lanes, of_many=len(platforms) > 1)
            status.update(Text(f"planning for {names} ..."))
            chosen = policy_names(policies, graph, platform)
            found += compare(
                graph, platform, chosen, label=names, history=history, minimize=minimize, subject_to=subject_to
            )
    rows = [row for row, _ in found]
    if json_output:
        print(json.dumps(document(graph, rows), indent=1))
    else:
        show(rows, f"{graph.name}: {plural(len(graph), 'task')}", console, platforms=True)
    refuse_if_nothing(rows)
    if chart_file is not None:
        draw(rows, graph.name, chart_file, console)
    best, _ = min(
        ((plan, row.makespan_s) for row, plan in found if plan is not None and row.makespan_s is not None),
        key=lambda pair: pair[1],
    )
    return best
