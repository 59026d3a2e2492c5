# SPDX-License-Identifier: Apache-2.0
"""Comparison of plans of one graph: several policies on several platforms, as a table, a chart or JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from syclsched.cli.documents import ComparisonDocument, ComparisonEntry, entry_of
from syclsched.errors import PlanError, PolicyError, SyclschedError
from syclsched.model.text.units import format_bytes, format_excess, format_ratio, format_seconds, listed, plural

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table

    from syclsched.costs import History
    from syclsched.model.graph import TaskGraph
    from syclsched.model.plan import Plan
    from syclsched.model.platform import Platform
    from syclsched.simulation import Disturbance, Trials
    from syclsched.tracing.report_content import ReportTable

#: Keyword for all policies.
ALL = "all"
#: Unfinished tasks and lost arrays named in a note; the others are counted.
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """Result of one policy on one platform."""

    platform: str
    policy: str
    makespan_s: float | None  # predicted by simulation; None if there is no plan
    bound_s: float | None  # lower bound of any schedule on the platform; None if it was not computed
    utilisation: float | None  # mean busy share of the compute lanes
    copied_bytes: int | None  # bytes moved between memory spaces
    planning_s: float  # duration of planning
    refused: str | None = None  # why there is no plan
    #: Rewrites of the graph before planning; the bound is then that of the rewritten graph.
    rewritten: str | None = None
    runs: int = 0  # number of simulations with disturbances
    #: Makespans of the complete disturbed runs: median, median absolute deviation, maximum; None if there are none.
    median_s: float | None = None
    mad_s: float | None = None
    worst_s: float | None = None
    incomplete: int = 0  # number of runs that did not finish all tasks
    #: Unfinished tasks and lost arrays of the first incomplete run.
    undone: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def ranking_s(self) -> float | None:
        """Seconds used for ranking and charts: the median of disturbed runs if there are any, else the makespan.

        None without a plan or if a run was incomplete.
        """
        if not self.runs:
            return self.makespan_s
        return None if self.incomplete else self.median_s

    @property
    def gap(self) -> float | None:
        """Relative distance of the makespan from the lower bound."""
        if self.makespan_s is None or self.bound_s is None or self.bound_s <= 0.0:
            return None
        return max(0.0, self.makespan_s / self.bound_s - 1.0)


def policy_names(
    given: Sequence[str], graph: TaskGraph, platform: Platform, *, in_loop: bool = False
) -> tuple[str, ...]:
    """Return the names of the requested policies; raise `PolicyError` for unknown ones."""
    from syclsched.costs import CostModel
    from syclsched.planner.dynamic_trials import DYNAMIC_POLICY_NAMES
    from syclsched.scheduling import build_problem, candidates
    from syclsched.scheduling.dynamic import DynamicPolicies
    from syclsched.scheduling.registry import AUTO

    text = ",".join(given)
    if text.strip() == ALL:
        planned = candidates(build_problem(graph, platform, CostModel(platform)))
        if not in_loop:
            return (AUTO, *planned)
        # Dynamic policies are then simulated in the loop, so their static plans are left out.
        static_plans = {f"{DynamicPolicies().prefix}:{name}" for name in DYNAMIC_POLICY_NAMES}
        return (AUTO, *(name for name in planned if name not in static_plans), *DYNAMIC_POLICY_NAMES)
    names = tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
    if not names:
        raise PolicyError("no policy is named", where="--policies", hint="As heft,cpop, or 'all'")
    for name in names:
        _check_policy(name)
    return names


def compare(
    graph: TaskGraph,
    platform: Platform,
    policies: Iterable[str],
    *,
    label: str | None = None,
    history: History | None = None,
    progress: Callable[[str], None] | None = None,
    minimize: str = "makespan",
    subject_to: Sequence[str] = (),
    rewrite: str = "auto",
    disturbance: Disturbance | None = None,
    seeds: Sequence[int] = (0,),
) -> list[tuple[ComparisonRow, Plan | None]]:
    """Plan a graph with several policies, simulate the plans under a disturbance if one is given, and rank them."""
    from syclsched.planner import plan_graph
    from syclsched.planner.dynamic_trials import is_dynamic_policy, simulate_dynamic_policy
    from syclsched.planner.rewrite_choice import check_rewrite
    from syclsched.simulation import repeat

    def plan_and_try(policy: str) -> tuple[Plan, Trials | None]:
        if is_dynamic_policy(policy):
            _refuse_objectives(policy, minimize, subject_to, rewrite)
            return simulate_dynamic_policy(
                graph, platform, policy, disturbance=disturbance, seeds=seeds, history=history
            )  # fmt: skip
        plan = plan_graph(
            graph, platform, policy=policy, history=history, minimize=minimize, subject_to=tuple(subject_to),
            rewrite=rewrite,
        )  # fmt: skip
        return plan, None if disturbance is None else repeat(plan, disturbance, seeds)

    name = label or platform.name
    policies = tuple(policies)
    check_rewrite(rewrite)
    if policies and all(map(is_dynamic_policy, policies)):
        _refuse_objectives(policies[0], minimize, subject_to, rewrite)
    found: list[tuple[ComparisonRow, Plan | None]] = []
    for policy in policies:
        if progress is not None:
            progress(policy)
        started = time.perf_counter()
        try:
            plan, trials = plan_and_try(policy)
        except SyclschedError as error:
            took_s = time.perf_counter() - started
            found.append((ComparisonRow(name, policy, None, None, None, None, took_s, str(error)), None))
            continue
        found.append((row_of(plan, trials, name, policy, time.perf_counter() - started), plan))
    return sorted(found, key=lambda pair: _rank(pair[0]))


def row_of(plan: Plan, trials: Trials | None, platform: str, policy: str, planning_s: float) -> ComparisonRow:
    """Return the table row of a plan."""
    row = ComparisonRow(
        platform, policy, plan.makespan_s, plan.lower_bound_s or None, _utilisation(plan), plan.counters.copied_bytes,
        planning_s, rewritten=str(plan.recipe) if plan.recipe else None,
    )  # fmt: skip
    if trials is None:
        return row
    first = next((run for run in trials.runs if not run.complete), trials.runs[0])
    return replace(
        row, runs=len(trials.runs), median_s=trials.median_s, mad_s=trials.mad_s, worst_s=trials.worst_s,
        incomplete=trials.incomplete, undone=first.undone, lost=first.lost,
    )  # fmt: skip


def table_content(rows: Sequence[ComparisonRow], *, platforms: bool) -> ReportTable:
    """Return the cells of the table of the rows."""
    from syclsched.tracing.report_content import ReportTable, TableRow

    bounds = any(row.gap is not None for row in rows)
    disturbed = _disturbed_columns(rows)
    # The width suffices for either the columns of disturbed runs or those of utilisation.
    usage = [] if disturbed else ["utilisation", "moved", "planning"]
    found = []
    for row in rows:
        cells = [
            *([row.platform] if platforms else []),
            row.policy,
            "refused" if row.makespan_s is None else format_seconds(row.makespan_s),
            *([_shown(row.gap, format_excess)] if bounds else []),
            *(form(row) for form in disturbed.values()),
            *([] if disturbed else _usage(row)),
        ]
        found.append(TableRow(tuple(cells)))
    names = ("platform", "policy") if platforms else ("policy",)
    numbers = ("makespan", *(["gap"] if bounds else []), *disturbed, *usage)
    return ReportTable("", names, numbers, tuple(found), "plan")


def table(rows: Sequence[ComparisonRow], *, platforms: bool) -> Table:
    """Return the rows as a rich table."""
    from rich.table import Table
    from rich.text import Text

    content = table_content(rows, platforms=platforms)
    made = Table(box=None, pad_edge=False)
    for heading in content.texts:
        made.add_column(heading, overflow="fold")
    for heading in content.numbers:
        made.add_column(heading, justify="right", no_wrap=True)
    for row in content.rows:
        made.add_row(*map(Text, row.cells))
    return made


def _usage(row: ComparisonRow) -> list[str]:
    return [
        _shown(row.utilisation, format_ratio), _shown(row.copied_bytes, format_bytes), format_seconds(row.planning_s)
    ]  # fmt: skip


def _disturbed_columns(rows: Sequence[ComparisonRow]) -> dict[str, Callable[[ComparisonRow], str]]:
    """Return the columns of disturbed runs with their formatting functions; empty if there are no such runs."""
    if not any(row.runs for row in rows):
        return {}

    def median(row: ComparisonRow) -> str:
        return "incomplete" if row.runs and row.median_s is None else _shown(row.median_s, format_seconds)

    if all(row.runs <= 1 for row in rows):
        return {"disturbed": median}
    columns: dict[str, Callable[[ComparisonRow], str]] = {
        "median": median,
        "MAD": lambda row: _shown(row.mad_s, format_seconds),
        "worst": lambda row: _shown(row.worst_s, format_seconds),
    }
    if any(row.incomplete for row in rows):
        columns["incomplete"] = lambda row: f"{row.incomplete}/{row.runs}" if row.runs else "-"
    return columns


def notes(rows: Sequence[ComparisonRow], *, platforms: bool) -> list[str]:
    """Return the lines below the table: lower bounds, rewrites, incomplete runs and reasons of refusals."""
    lines = []
    for label, bound_s in dict.fromkeys((row.platform, row.bound_s) for row in rows if row.rewritten is None):
        if bound_s is not None:
            of = f" on {label}" if platforms else ""
            lines.append(f"no schedule{of} is shorter than {format_seconds(bound_s)}")
    named = [(f"{row.platform}, {row.policy}" if platforms else row.policy, row) for row in rows]
    for name, row in named:
        if row.rewritten is not None:
            least = "" if row.bound_s is None else f"; so no schedule is shorter than {format_seconds(row.bound_s)}"
            lines.append(f"{name}: rewritten, {row.rewritten}{least}")
    lines += [f"{name}: {_incomplete_text(row)}" for name, row in named if row.incomplete]
    lines += [f"{name}: {row.refused}" for name, row in named if row.refused is not None]
    return lines


def show(rows: Sequence[ComparisonRow], title: str, console: Console, *, platforms: bool) -> None:
    """Print a title, the table and the notes."""
    from rich.text import Text

    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table(rows, platforms=platforms))
    for line in notes(rows, platforms=platforms):
        console.print(Text(line), soft_wrap=True)


def draw(rows: list[ComparisonRow], name: str, path: Path, console: Console, disturbed: str = "") -> None:
    """Draw makespans as a bar chart and print its path; print a note instead if no row has a makespan."""
    from syclsched.tracing.charts.bars import ChartBar, draw_bars

    runs = max(row.runs for row in rows)
    shown = [(row, row.ranking_s) for row in rows]
    # Lower bounds hold for undisturbed costs only.
    bars = [
        ChartBar(
            row.platform, row.policy, seconds, None if runs else row.bound_s, row.worst_s if row.runs > 1 else None
        )
        for row, seconds in shown
        if seconds is not None
    ]
    if not bars:
        console.print(f"no chart written to {path}: no row has a makespan", markup=False)
        return
    what = "predicted makespan" if not runs else "makespan, disturbed"
    what = what if runs <= 1 else f"median of {runs} runs, line to the worst"
    draw_bars(bars, f"{name}: {what}{f' ({disturbed})' if disturbed else ''}", path)
    n_omitted = sum(seconds is None for _, seconds in shown)
    note = f" ({n_omitted} of {len(rows)} have no makespan and are not in it)" if n_omitted else ""
    console.print(f"chart written to {path}{note}", markup=False)


def write_comparison(
    found: Sequence[tuple[ComparisonRow, Plan | None]], title: str, path: Path, console: Console
) -> None:
    """Write an HTML page with all rows, and the two best plans simulated on one time axis."""
    from syclsched.simulation import simulate
    from syclsched.tracing import save_comparison

    rows = [row for row, _ in found]
    best = [(row.policy, plan) for row, plan in found if plan is not None][:2]
    runs = {policy: (simulate(plan), plan) for policy, plan in best}
    save_comparison(runs, path, title, [table_content(rows, platforms=False)], notes(rows, platforms=False))
    console.print(f"report written to {path} (open it in a browser)", markup=False)


def require_any_plan(rows: list[ComparisonRow]) -> None:
    """Raise `PlanError` if all policies were refused."""
    if all(row.makespan_s is None for row in rows):
        first = next((row.refused for row in rows if row.refused), "there is nothing to compare")
        raise PlanError(f"no policy made a plan; the first says: {first}")


def document(name: str, tasks: int, rows: Sequence[ComparisonRow], **scenario: Any) -> ComparisonDocument:
    """Return the rows as a document, with the graph's name, its number of tasks and the scenario."""
    return ComparisonDocument(name, tasks, [entry_of(ComparisonEntry, row) for row in rows], **scenario)


# --- inside ---------------------------------------------------------------------------------------


def _check_policy(name: str) -> None:
    """Raise `PolicyError` if a policy does not exist, or if a hybrid one names no static policy to follow."""
    from syclsched.planner.dynamic_trials import DYNAMIC_POLICY_NAMES, HYBRID, is_dynamic_policy
    from syclsched.scheduling import get
    from syclsched.scheduling.registry import AUTO

    hybrid, colon, followed = name.partition(":")
    if hybrid == HYBRID and colon:
        where, hint = f"policy {name!r}", f"Name a policy that plans, as {HYBRID}:peft; {HYBRID} alone follows heft"
        if not followed or followed == AUTO or is_dynamic_policy(followed):
            what = "it names no plan to follow" if not followed else f"{followed!r} makes no plan that it could follow"
            raise PolicyError(what, where=where, hint=hint)
        try:
            get(followed)
        except PolicyError as error:
            raise PolicyError(error.what, where=where, hint=f"{hint}. {error.hint}") from None
        return
    if name == AUTO or is_dynamic_policy(name):
        return
    try:
        get(name)
    except PolicyError as error:
        if not (error.hint or "").startswith("There are"):  # a plug-in's policy that cannot be loaded
            raise
        hint = f"{error.hint}, {', '.join(DYNAMIC_POLICY_NAMES)}, {HYBRID}:<POLICY>"
        raise PolicyError(error.what, where=error.where, hint=hint) from None


def _rank(row: ComparisonRow) -> tuple[int, float]:
    counts_s = row.ranking_s
    group = 2 if row.makespan_s is None else 1 if counts_s is None else 0
    return group, counts_s or row.makespan_s or 0.0


def _shown(value: Any, form: Callable[[Any], str]) -> str:
    return "-" if value is None else form(value)


def _utilisation(plan: Plan) -> float:
    """Return the busy time of the compute lanes of all used devices, divided by lanes times makespan."""
    from syclsched.simulation import simulate
    from syclsched.tracing import make_report

    used = {lane.device for lane in plan.lanes if lane.kind == "compute"}
    lanes = sum(device.lanes for device in plan.platform.compute_devices)
    busy_s = sum(row.busy_s for row in make_report(simulate(plan), plan).devices if row.device in used)
    return busy_s / (lanes * plan.makespan_s) if plan.makespan_s > 0.0 and lanes else 0.0


def _incomplete_text(row: ComparisonRow) -> str:
    """Return the unfinished tasks and lost arrays of an incomplete run as text."""
    parts = []
    if row.undone:
        parts.append(f"{plural(len(row.undone), 'task')} not done: {listed(row.undone, _MOST_NAMED)}")
    if row.lost:
        parts.append(f"{plural(len(row.lost), 'array')} lost: {listed(row.lost, _MOST_NAMED)}")
    of = "" if row.runs == 1 else f" in {row.incomplete} of {row.runs} runs, the first of them"
    return f"incomplete{of}: {'; '.join(parts)}"


def _refuse_objectives(policy: str, minimize: str, subject_to: Sequence[str], rewrite: str) -> None:
    """Raise `PolicyError` for objectives, constraints and rewrites, which dynamic policies do not support."""
    for option, said in (
        ("--minimize", minimize != "makespan"), ("--subject-to", bool(subject_to)),
        ("--rewrite", rewrite not in ("auto", "none")),
    ):  # fmt: skip
        if said:
            raise PolicyError(
                f"{policy!r} is a dynamic policy and does not support it", where=option, hint="Leave the option out"
            )
