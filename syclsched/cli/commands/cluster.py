# SPDX-License-Identifier: Apache-2.0
"""``syclsched cluster``: the state of a Dask cluster's machines, and plans for them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from syclsched.cli import options as opt
from syclsched.cli.documents import ClusterDocument, PartEntry, WorkerEntry, print_document
from syclsched.cli.option_groups import with_option_groups
from syclsched.cli.output_files import check_outputs, write_pictures, write_text
from syclsched.cli.requests.cluster_connection import connected, plan_for_cluster
from syclsched.cli.requests.graph_loading import load_graph
from syclsched.cli.terminal import notices
from syclsched.cli.views.plan_document import plan_document
from syclsched.progress import terminal_bar

cluster_app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich")


@cluster_app.callback()
def _cluster() -> None:
    """Show the machines of a Dask cluster, and plan graphs for all of them.

    [bold]syclsched run GRAPH --cluster ADDRESS[/bold] runs a graph there.
    """


@cluster_app.command("status")
@with_option_groups
def status_command(
    machines: opt.ClusterOptions,
    json_output: Annotated[bool, typer.Option("--json", help="Print the state as JSON.")] = False,
) -> None:
    """Show each worker: its devices, memory, signs of life, and the graphs that clients have bound and run there.

    [bold]syclsched cluster status --cluster tcp://host:8786[/bold]
    """
    with connected(machines, notices()) as cluster:
        status = cluster.status()
    if not json_output:
        print(status)
        return
    workers = [
        WorkerEntry(
            name=each.worker.name,
            address=each.worker.address,
            host=each.host_name,
            state=each.state,
            cores=each.cores,
            devices=list(each.devices),
            memory_bytes=each.memory_bytes,
            used_bytes=each.used_bytes,
            problem=each.problem or None,
            parts=[PartEntry(**asdict(part)) for part in each.parts],
        )
        for each in status.workers
    ]
    print_document(ClusterDocument(scheduler=status.scheduler, dashboard=status.dashboard, workers=workers))


@cluster_app.command("profile")
@with_option_groups
def profile_command(
    machines: opt.ClusterOptions,
    quick: Annotated[bool, typer.Option("--quick", help="In a third of the time, with wider spreads.")] = False,
) -> None:
    """Measure one machine of each kind, and store the profiles on all machines of that kind.

    [bold]syclsched cluster profile --cluster tcp://host:8786[/bold]
    """
    console = notices()
    with connected(machines, console) as cluster:
        with terminal_bar("measuring", console) as bar:
            found = cluster.profile(quick=quick, progress=bar)
        for each in found:
            names, on = ", ".join(each.devices) or "no device", ", ".join(each.machines)
            print(f"measured on {each.measured_on}, stored on {on}: {names}")
            for note in each.notes:
                print(f"  {note}")


@cluster_app.command("plan")
@with_option_groups
def plan_command(
    graph: opt.GraphName,
    *,
    ready: opt.ReadyOptions,
    seed: opt.Seed = None,
    file: opt.FileOptions,
    machines: opt.ClusterOptions,
    how: opt.ClusterPlanOptions,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate/--no-calibrate",
            help="Measure tasks that were never timed, on one machine of each kind, before planning.",
        ),
    ] = True,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the plan as JSON, for `syclsched run --plan`.")
    ] = None,
    gantt_file: opt.PlanGantt = None,
    report_file: opt.PlanReport = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print a summary of the plan as JSON.")] = False,
) -> None:
    """Plan a graph for all machines, without running it, and print the plan.

    [bold]syclsched cluster plan cholesky --n 4096 --cluster tcp://host:8786 --out plan.json[/bold]
    """
    from syclsched.simulation import simulate

    console = notices()
    check_outputs(out, report_file, pictures=(gantt_file,))
    given = load_graph(graph, ready.given(seed), file)
    with connected(machines, console) as cluster:
        plan = plan_for_cluster(cluster, given.graph, how, console, calibrate=calibrate and not given.from_file)
    if json_output:
        print_document(plan_document(plan, ()))
    else:
        print(plan)
    if out is not None:
        write_text(out, plan.to_json())
        console.print(f"plan written to {out}")
    write_pictures(simulate(plan), None, None, gantt_file, console, plan=plan, report_file=report_file)
