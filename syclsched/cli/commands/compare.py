# SPDX-License-Identifier: Apache-2.0
"""``syclsched compare``: plan one graph with several policies and print a comparison table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from syclsched.cli import options as opt
from syclsched.cli.documents import print_document
from syclsched.cli.output_files import check_outputs
from syclsched.cli.requests.graph_loading import load_graph
from syclsched.cli.requests.graph_planning import target_platform, tell_needless_limit
from syclsched.cli.terminal import notices, output
from syclsched.cli.views.comparison import (
    compare,
    document,
    draw,
    policy_names,
    require_any_plan,
    show,
    write_comparison,
)
from syclsched.cli.wait_notice import notice_if_slow
from syclsched.model.text.units import plural


def compare_command(
    context: typer.Context,
    graph: opt.GraphName,
    *,
    ready: opt.ReadyOptions,
    seed: opt.Seed = None,
    file: opt.FileOptions,
    policies: opt.Policies = None,
    rewrite: opt.Rewrite = "auto",
    where: opt.PlatformOptions,
    json_output: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
    chart_file: Annotated[
        Path | None, typer.Option("--chart", metavar="FILE", help="Draw the makespans (.png, .svg, .pdf).")
    ] = None,
    report_file: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Write an HTML page with the two fastest plans on one time axis, to open in a browser.",
        ),
    ] = None,
) -> None:
    """Plan a graph with several policies and compare the plans in one table, fastest first.

    [bold]syclsched compare cholesky --policies heft,peft,auto[/bold]

    [bold]syclsched compare workflow.json --platform xeon-8480,max1550 --policies all --chart policies.png[/bold]
    """
    from syclsched.profiling import HistoryStore

    console = notices()
    check_outputs(report_file, pictures=[chart_file])
    given = load_graph(graph, ready.given(seed), file)
    if where.platform is not None:
        opt.tell_unused(context, opt.LOCAL_OPTIONS, "with --platform, whose devices are described, not opened")
    platform = target_platform(where, console, " ".join(policies or ()))
    tell_needless_limit(given.graph, platform, where.memory_limit)
    names = policy_names(policies or ["all"], given.graph, platform)
    with HistoryStore() as history, console.status("planning ...") as status, notice_if_slow(console):
        found = compare(
            given.graph, platform, names, history=history, progress=lambda name: status.update(f"planning: {name} ..."),
            rewrite=rewrite,
        )  # fmt: skip
    rows = [row for row, _ in found]
    title = f"{given.graph.name}: {plural(len(given.graph), 'task')} on {platform.name}"
    if json_output:
        print_document(document(given.graph.name, len(given.graph), rows))
    else:
        show(rows, title, output(), platforms=False)
    require_any_plan(rows)
    if chart_file is not None:
        draw(rows, given.graph.name, chart_file, console)
    if report_file is not None:
        write_comparison(found, title, report_file, console)
