# SPDX-License-Identifier: Apache-2.0
"""Plans of a Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syclsched.costs import CostModel, History
from syclsched.errors import PlanError, PolicyError, SyclschedError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.planner.auto import SIMULATED
from syclsched.planner.plan_builder import PlanBuilder, with_metrics
from syclsched.planner.rewrite_choice import check_rewrite, graph_variants, with_recipe
from syclsched.planning import verify
from syclsched.planning.measures import measure
from syclsched.scheduling import candidates as policy_candidates
from syclsched.scheduling.bounds import plan_bound_s
from syclsched.scheduling.objectives import (
    front,
    resolve,
)
from syclsched.scheduling.objectives import minimize as aim_at
from syclsched.scheduling.objectives.front import dominates, equal
from syclsched.scheduling.portfolio import PolicyResult, distinct, run_policies
from syclsched.scheduling.registry import AUTO


def plan_front(
    graph: TaskGraph,
    platform: Platform,
    *,
    metrics: Sequence[str] = ("makespan", "memory"),
    history: History | None = None,
    points: int = 8,
    steps: int | None = None,
    seed: int = 0,
    rewrite: str = AUTO,
) -> tuple[FrontPlan, ...]:
    """Return plans of the Pareto front: none is better in one metric without being worse in another.

    Parameters
    ----------
    graph : TaskGraph
        The graph to plan.
    platform : Platform
        Discovered or loaded from profiles.
    metrics : sequence of str, optional
        Two or more different metrics, as for ``minimize`` of `plan_graph`.
    history : History, optional
        Measured task times.
    points, steps, seed
        As in `syclsched.scheduling.objectives.front`; they apply to each graph variant.
    rewrite : str, optional
        As in `plan_graph`; with ``auto`` the plans of the original and of the rewritten graph are ranked together.

    Returns
    -------
    tuple of FrontPlan
        The front by the first metric, ascending; then the dominated plans, marked as such.

    Raises
    ------
    PolicyError
        If a metric or the rewrite does not exist, fewer than two different metrics are given, or power is not known.
    PlanError
        If every plan was refused.

    Examples
    --------
    >>> import syclsched
    >>> from syclsched.kernels import get
    >>> graph = syclsched.TaskGraph()
    >>> for name in "xyz":
    ...     task = graph.kernel(get("scale"), name=f"double {name}", x=graph.array(name, (1 << 20,)), alpha=2.0)
    >>> front = syclsched.plan_front(graph, syclsched.describe("max1550"), points=2, steps=10)
    >>> best = [each for each in front if not each.dominated]
    >>> makespan_s, memory_bytes = best[0].values
    >>> makespan_s == min(each.values[0] for each in front)
    True
    """
    check_rewrite(rewrite)
    graph.validate()
    costs = CostModel(platform, history)
    made: list[tuple[Plan, tuple[float, ...]]] = []
    refused: list[SyclschedError] = []
    for found in graph_variants(graph, platform, costs, rewrite):
        try:
            plans, refusals = _plans(PlanBuilder(found.graph, platform, costs), metrics, points, steps, seed)
        except PlanError as error:
            refused.append(error)
            continue
        made += [(with_recipe(plan, graph, found), values) for plan, values in plans]
        refused += refusals
    if not made:
        raise refused[0]
    return _ranked(made)


def _plans(
    builder: PlanBuilder, metrics: Sequence[str], points: int, steps: int | None, seed: int
) -> tuple[list[tuple[Plan, tuple[float, ...]]], list[SyclschedError]]:
    """Return verified plans of one graph with their metrics, and the errors of refused ones."""
    problem = builder.problem()
    aims = [resolve(problem, aim_at(metric)) for metric in metrics]
    entries, refusals = run_policies(problem, policy_candidates(problem))
    if not entries:
        return [], [refusal.error for refusal in refusals]
    begin = distinct(entries)
    found = front(
        problem, metrics, timetables=[e.timetable for e in begin], points=points, steps=steps, seed=seed
    )  # fmt: skip
    tried = [
        PolicyResult(f"front {k + 1}", "", problem, p.timetable, p.metrics.makespan_s) for k, p in enumerate(found)
    ]
    bound_s = plan_bound_s(problem)
    made: list[tuple[Plan, tuple[float, ...]]] = []
    refused: list[SyclschedError] = []
    for entry in [*begin[:SIMULATED], *(e for e in begin[SIMULATED:] if e.policy.startswith("single:")), *tried]:
        try:
            plan = builder.build(entry)
        except (PlanError, PolicyError) as error:
            refused.append(error)
            continue
        measured = measure(plan, builder.platform)
        if measured.energy_j is None and any(aim.metric == "energy" for aim in aims):
            continue
        plan = with_metrics(plan, measured, bound_s)
        verify(plan, builder.graph)
        made.append((plan, tuple(measured.value(aim.metric, aim.space) for aim in aims)))
    return made, refused


@dataclass(frozen=True, slots=True)
class FrontPlan:
    """A plan on a Pareto front, or one that was simulated but is dominated."""

    plan: Plan  # with predicted times
    values: tuple[float, ...]  # its metrics, in the order requested
    dominated: bool  # whether another plan is better in one metric and worse in none


def _ranked(made: Sequence[tuple[Plan, tuple[float, ...]]]) -> tuple[FrontPlan, ...]:
    """Return plans sorted by whether they are dominated, then by value; of equal ones only the first."""
    first: list[tuple[Plan, tuple[float, ...]]] = []
    for plan, values in made:
        if not any(equal(values, other) for _, other in first):
            first.append((plan, values))
    plans = [FrontPlan(plan, values, any(dominates(other, values) for _, other in first)) for plan, values in first]
    return tuple(sorted(plans, key=lambda p: (p.dominated, p.values)))
