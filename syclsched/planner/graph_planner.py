# SPDX-License-Identifier: Apache-2.0
"""Planning of a graph for a platform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from syclsched.costs import CostModel, History
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.planner.attempt import PlanTarget
from syclsched.planner.rewrite_choice import NONE, check_rewrite, plan_rewritten
from syclsched.planner.search_budget import SearchBudget, SearchOptions, budget_of
from syclsched.progress import Progress, StepCounter
from syclsched.scheduling.objectives import Constraint
from syclsched.scheduling.objectives import minimize as aim_at
from syclsched.scheduling.registry import AUTO

if TYPE_CHECKING:
    from typing_extensions import Unpack


def plan_graph(
    graph: TaskGraph,
    platform: Platform,
    *,
    policy: str = AUTO,
    history: History | None = None,
    steps: int | None = None,
    minimize: str = "makespan",
    subject_to: Sequence[str | Constraint] = (),
    rewrite: str = AUTO,
    stay: Sequence[tuple[str, str]] = (),
    progress: Progress | None = None,
    **search: Unpack[SearchOptions],
) -> Plan:
    """Plan a graph for a platform.

    ``auto`` runs every policy on the whole platform and on subsets of it. It builds plans of the best few timetables
    and of each single device, refines the best by search, and returns the best plan by simulation: it is never
    predicted slower than the best single device. ``plan.candidates`` says of each candidate whether it was simulated,
    only ranked by the scheduler's model, or refused. A plan in which devices share cores must be clearly better than
    others.

    Where tasks are so small that submitting them takes longer than running them, or so large that other devices would
    idle, ``auto`` also plans the rewritten graph (`syclsched.rewrites.rewrite`) and keeps the better plan. Such a plan
    carries its recipe and runs with the original graph.

    ``stay`` has pairs of a task and a device: the task runs there, or on the host if it has such an implementation. The
    graph is then not rewritten.
    """
    aim = aim_at(minimize).subject_to(*subject_to)
    target = PlanTarget(platform, CostModel(platform, history), policy, aim, StepCounter(progress), stay=dict(stay))
    (best,) = _plans(graph, target, budget_of(steps, **search), rewrite)
    return best


def plan_contenders(
    graph: TaskGraph,
    platform: Platform,
    *,
    policy: str = AUTO,
    history: History | None = None,
    minimize: str = "makespan",
    subject_to: Sequence[str | Constraint] = (),
    rewrite: str = AUTO,
    stay: Sequence[tuple[str, str]] = (),
    progress: Progress | None = None,
    most: int = 1,
    **search: Unpack[SearchOptions],
) -> tuple[Plan, ...]:
    """Plan a graph as `plan_graph` does; also return further plans that may be faster than the best, at most ``most``.

    These are plans of ``auto`` for the makespan whose predictions lie within the uncertainty; see
    `syclsched.planner.contest`. They are not verified yet.
    """
    aim = aim_at(minimize).subject_to(*subject_to)
    target = PlanTarget(
        platform, CostModel(platform, history), policy, aim, StepCounter(progress), most, stay=dict(stay)
    )
    return _plans(graph, target, budget_of(None, **search), rewrite)


def _plans(graph: TaskGraph, target: PlanTarget, budget: SearchBudget, rewrite: str) -> tuple[Plan, ...]:
    check_rewrite(rewrite)
    graph.validate()
    return plan_rewritten(graph, target, budget, NONE if target.stay else rewrite)
