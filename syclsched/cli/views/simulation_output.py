# SPDX-License-Identifier: Apache-2.0
"""Output of simulations: table, JSON, chart, trace and Gantt chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syclsched.cli.documents import print_document
from syclsched.cli.options import PLAN_FILE, refuse_other_files
from syclsched.cli.output_files import read_text, write_pictures
from syclsched.cli.requests import disturbance_options as dist
from syclsched.cli.requests.graph_planning import naming_file
from syclsched.cli.terminal import output
from syclsched.cli.views.comparison import ComparisonRow, document, draw, require_any_plan, row_of, show
from syclsched.errors import ArgumentError, FormatError
from syclsched.model.text.units import plural

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.model.plan import Plan
    from syclsched.model.trace import Trace
    from syclsched.simulation import Disturbance


@dataclass(frozen=True, slots=True)
class Scenario:
    """The simulated scenario."""

    disturbance: Disturbance | None
    seeds: range  # seeds of the disturbed runs
    contention: str | None  # contention model of links; None for the platform's
    sigma: float | None = None  # standard deviation of the noise if given, even if 0


@dataclass(frozen=True, slots=True)
class SimulationOutput:
    """Output options: JSON or table, and the files to write."""

    json_output: bool  # print JSON instead of the table
    #: Files to write; None if not requested.
    chart_file: Path | None
    trace_file: Path | None
    gantt_file: Path | None
    console: Console  # for notices
    report_file: Path | None = None


def simulate_plan(path: str, what: Scenario, shown: SimulationOutput) -> None:
    """Verify and simulate a plan from a file, and show the results."""
    from syclsched.planning import verify
    from syclsched.simulation import predict, repeat
    from syclsched.tracing import make_report, render_report

    plan = _read(path)
    plan = replace(plan, platform=dist.with_contention(plan.platform, what.contention))
    dist.check_rewritten(what.disturbance, plan)
    dist.check_disturbed_names(what.disturbance, {task.family for task in plan.tasks}, [plan.platform])
    with naming_file(Path(path)):
        verify(plan)
    plan = predict(plan)
    trials = None if what.disturbance is None else repeat(plan, what.disturbance, what.seeds)
    row = row_of(plan, trials, plan.platform.name, plan.policy, 0.0)
    if not shown.json_output:
        render_report(make_report(_trace(plan, what), plan), output())
    if shown.json_output or trials is not None or shown.chart_file is not None:
        title = f"{plan.name}: {plural(len(plan.tasks), 'task')}"
        show_all(
            [(row, plan)],
            title,
            len(plan.tasks),
            plan.name,
            what,
            replace(shown, trace_file=None, gantt_file=None, report_file=None),
        )
    _write(plan, what, shown)


def show_all(
    found: Sequence[tuple[ComparisonRow, Plan | None]],
    title: str,
    tasks: int,
    name: str,
    what: Scenario,
    shown: SimulationOutput,
    remarks: Sequence[str] = (),
) -> None:
    """Show the rows, and write the requested chart, and trace and Gantt chart of the best row."""
    from rich.text import Text

    rows = [row for row, _ in found]
    if shown.json_output:
        print_document(document(name, tasks, rows, **_described(what)))
    else:
        show(rows, title, output(), platforms=True)
    for remark in remarks:
        shown.console.print(Text(remark))
    require_any_plan(rows)
    if shown.chart_file is not None:
        draw(rows, name, shown.chart_file, shown.console, dist.describe_disturbance(what.disturbance))
    if any(file is not None for file in (shown.trace_file, shown.gantt_file, shown.report_file)):
        _draw_best(found, what, shown)


def _draw_best(found: Sequence[tuple[ComparisonRow, Plan | None]], what: Scenario, shown: SimulationOutput) -> None:
    """Write the requested files on the best plan: of its first disturbed run, or undisturbed for dynamic policies."""
    from rich.text import Text

    from syclsched.planner.dynamic_trials import is_dynamic_policy

    row, plan = min(
        ((row, plan) for row, plan in found if plan is not None),
        key=lambda pair: (pair[0].ranking_s is None, pair[0].ranking_s or pair[0].makespan_s or 0.0),
    )
    if what.disturbance is not None and is_dynamic_policy(row.policy):
        shown.console.print(Text(f"the chart shows {row.policy} without disturbances"))
        what = replace(what, disturbance=None)
    _write(plan, what, shown)


def _write(plan: Plan, what: Scenario, shown: SimulationOutput) -> None:
    """Write the requested trace, Gantt chart and page of the first run."""
    here, _ = dist.restrict_to_platform(what.disturbance, plan.platform)
    write_pictures(
        _trace(plan, what), None, shown.trace_file, shown.gantt_file, shown.console, dist.describe_disturbance(here),
        plan, shown.report_file,
    )  # fmt: skip


def _trace(plan: Plan, what: Scenario) -> Trace:
    """Simulate the first run and return its trace."""
    from syclsched.simulation import simulate

    here, _ = dist.restrict_to_platform(what.disturbance, plan.platform)
    if here is None:
        return simulate(plan)
    return simulate(plan, noise=here.noise, events=here.events, seed=what.seeds[0])


def _described(what: Scenario) -> dict[str, Any]:
    """Return the scenario as JSON data; empty without disturbances and changed contention."""
    said: dict[str, Any] = {} if what.contention is None else {"contention": what.contention}
    if what.disturbance is None:
        return said
    from syclsched.simulation import SlowDown

    noise = what.disturbance.noise
    events = [asdict(e) | ({} if isinstance(e, SlowDown) else {"failure": True}) for e in what.disturbance.events]
    return {
        **said,
        "noise": {"sigma": noise.sigma, "families": dict(noise.families), "spread": noise.spread},
        "events": events,
        "seeds": [what.seeds[0], len(what.seeds)],
    }


def _read(path: str) -> Plan:
    from syclsched import workloads
    from syclsched.model.plan import Plan

    if path in workloads.names() or path.endswith(".onnx"):
        raise ArgumentError(
            "it is a graph, not a plan", where=path, hint="Name the hardware: --platform cpu,max1550,a770"
        )
    try:
        return Plan.from_json(read_text(Path(path)), where=path)
    except FormatError as error:
        refuse_other_files(Path(path), but=PLAN_FILE)
        raise FormatError(
            error.what,
            where=error.where,
            hint=f"{error.hint}; for a graph, name the hardware: --platform cpu,max1550,a770",
        ) from None
