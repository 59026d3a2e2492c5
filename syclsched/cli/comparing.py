# SPDX-License-Identifier: Apache-2.0
"""Plans of one graph side by side: what several policies make of it on several platforms."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from syclsched.errors import PolicyError, SyclschedError
from syclsched.model.units import format_bytes, format_ratio, format_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from syclsched.costs import History
    from syclsched.model.graph import TaskGraph
    from syclsched.model.plan import Plan
    from syclsched.model.platform import Platform

#: What users type for every policy there is.
ALL = "all"


@dataclass(frozen=True, slots=True)
class Row:
    """What one policy makes of the graph on one platform.

    Parameters
    ----------
    platform, policy : str
        Which.
    makespan_s : float or None
        Predicted by simulation; None if there is no plan.
    bound_s : float or None
        No schedule of the graph on the platform is shorter; None if it was not worked out.
    utilisation : float or None
        Busy time of the compute lanes over their number times the makespan.
    copied_bytes : int or None
        Bytes moved between memory spaces.
    planning_s : float
        How long planning took.
    refused : str or None
        Why there is no plan.
    """

    platform: str
    policy: str
    makespan_s: float | None
    bound_s: float | None
    utilisation: float | None
    copied_bytes: int | None
    planning_s: float
    refused: str | None = None

    @property
    def gap(self) -> float | None:
        """How far the makespan is above the bound, as a share of the bound."""
        if self.makespan_s is None or self.bound_s is None or self.bound_s <= 0.0:
            return None
        return self.makespan_s / self.bound_s - 1.0


def policy_names(text: str, graph: TaskGraph, platform: Platform) -> tuple[str, ...]:
    """Return the policies that were asked for.

    Parameters
    ----------
    text : str
        Names joined by commas, or ``all``: every policy that makes sense for the graph on the platform, and ``auto``.
    graph : TaskGraph
        What is to be planned.
    platform : Platform
        For what.

    Returns
    -------
    tuple of str
        Without repetitions.

    Raises
    ------
    PolicyError
        If there is none of a name.
    """
    from syclsched.costs import CostModel
    from syclsched.scheduling import build_problem, candidates, get
    from syclsched.scheduling.registry import AUTO

    if text.strip() == ALL:
        return (AUTO, *candidates(build_problem(graph, platform, CostModel(platform))))
    names = tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
    if not names:
        raise PolicyError("no policy is named", where="--policies", hint="As heft,cpop, or 'all'")
    for name in names:
        if name != AUTO:
            get(name)
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
) -> list[tuple[Row, Plan | None]]:
    """Plan a graph with several policies.

    Parameters
    ----------
    graph : TaskGraph
        The graph.
    platform : Platform
        For what.
    policies : iterable of str
        Names.
    label : str, optional
        What to call the platform; its name by default.
    history : History, optional
        Measured task times.
    progress : callable, optional
        Called with each policy's name before it is tried.
    minimize, subject_to
        As `syclsched.planner.plan_graph` takes them.

    Returns
    -------
    list of (Row, Plan or None)
        The shortest makespan first; what was refused last. Among equals those that took less time to plan come first.
    """
    from syclsched.planner import plan_graph

    name = label or platform.name
    bound_s = _bound_s(graph, platform, history)
    found: list[tuple[Row, Plan | None]] = []
    for policy in policies:
        if progress is not None:
            progress(policy)
        started = time.perf_counter()
        try:
            plan = plan_graph(
                graph, platform, policy=policy, history=history, minimize=minimize, subject_to=tuple(subject_to)
            )
        except SyclschedError as error:
            took_s = time.perf_counter() - started
            found.append((Row(name, policy, None, bound_s, None, None, took_s, str(error)), None))
            continue
        took_s = time.perf_counter() - started
        utilisation = _utilisation(plan)
        row = Row(name, policy, plan.makespan_s, bound_s, utilisation, plan.counters.copied_bytes, took_s)
        found.append((row, plan))
    return sorted(found, key=lambda pair: _rank(pair[0]))


def table(rows: Sequence[Row], *, platforms: bool) -> Table:
    """Return the rows as a table.

    Parameters
    ----------
    rows : sequence of Row
        In the order they are shown.
    platforms : bool
        Whether to show which platform a row is of.

    Returns
    -------
    rich.table.Table
        Columns that have nothing in them are left out.
    """
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False)
    bounds = any(row.gap is not None for row in rows)
    for heading in (["platform"] if platforms else []) + ["policy"]:
        made.add_column(heading, overflow="fold")
    for heading in ["makespan", *(["gap"] if bounds else []), "utilisation", "moved", "planning"]:
        made.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        names = [*([row.platform] if platforms else []), row.policy]
        numbers = [
            "refused" if row.makespan_s is None else format_seconds(row.makespan_s),
            *([_shown(row.gap, format_ratio)] if bounds else []),
            _shown(row.utilisation, format_ratio),
            _shown(row.copied_bytes, format_bytes),
            format_seconds(row.planning_s),
        ]
        made.add_row(*(Text(text) for text in (*names, *numbers)))
    return made


def notes(rows: Sequence[Row], *, platforms: bool) -> list[str]:
    """Return what the table has no room for: the bound, and why plans were refused."""
    lines = []
    for label, bound_s in dict.fromkeys((row.platform, row.bound_s) for row in rows):
        if bound_s is not None:
            of = f" on {label}" if platforms else ""
            lines.append(f"no schedule{of} is shorter than {format_seconds(bound_s)}")
    for row in rows:
        if row.refused is not None:
            of = f"{row.platform}, " if platforms else ""
            lines.append(f"{of}{row.policy}: {row.refused}")
    return lines


def show(rows: Sequence[Row], title: str, console: Console, *, platforms: bool) -> None:
    """Print a title, the table, and what it has no room for.

    Parameters
    ----------
    rows : sequence of Row
        In the order they are shown.
    title : str
        What was planned.
    console : rich.console.Console
        Where to.
    platforms : bool
        Whether there are several platforms.
    """
    from rich.text import Text

    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table(rows, platforms=platforms))
    for line in notes(rows, platforms=platforms):
        console.print(Text(line), soft_wrap=True)


def document(graph: TaskGraph, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the rows as JSON data."""
    return {
        "graph": graph.name,
        "tasks": len(graph),
        "rows": [{**asdict(row), "gap": row.gap} for row in rows],
    }


# --- inside ---------------------------------------------------------------------------------------


def _rank(row: Row) -> tuple[bool, float, float]:
    return row.makespan_s is None, row.makespan_s or 0.0, row.planning_s


def _shown(value: Any, form: Callable[[Any], str]) -> str:
    return "-" if value is None else form(value)


def _utilisation(plan: Plan) -> float:
    """Return the busy time of all compute lanes there are over what they could have been busy."""
    from syclsched.simulation import simulate
    from syclsched.tracing import make_report

    used = {lane.device for lane in plan.lanes if lane.kind == "compute"}
    lanes = sum(device.lanes for device in plan.platform.compute_devices)
    busy_s = sum(row.busy_s for row in make_report(simulate(plan), plan).devices if row.device in used)
    return busy_s / (lanes * plan.makespan_s) if plan.makespan_s > 0.0 and lanes else 0.0


def _bound_s(graph: TaskGraph, platform: Platform, history: History | None) -> float | None:
    """Return the best lower bound of the makespan; None if the graph cannot be planned at all."""
    from syclsched.costs import CostModel
    from syclsched.scheduling import build_problem
    from syclsched.scheduling.bounds import lower_bound

    try:
        problem = build_problem(graph, platform, CostModel(platform, history))
    except SyclschedError:  # each policy will say why
        return None
    return lower_bound(problem).best_s
