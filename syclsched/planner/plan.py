# SPDX-License-Identifier: Apache-2.0
"""From a graph and a platform to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from syclsched.costs import CostModel, History
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Candidate, Plan
from syclsched.model.platform import Platform
from syclsched.planner.aimed import Aimed
from syclsched.planner.auto import Auto
from syclsched.planner.budget import Budget, end_of
from syclsched.planner.builder import Builder, with_metrics
from syclsched.planning import verify
from syclsched.planning.measures import measure
from syclsched.scheduling.bounds import lower_bound
from syclsched.scheduling.objectives import (
    Constraint,
    excess,
    nothing_found,
    resolve,
)
from syclsched.scheduling.objectives import minimize as aim_at
from syclsched.scheduling.objectives.infeasible import check_working_sets
from syclsched.scheduling.portfolio import ask
from syclsched.scheduling.refine.meter import Clock
from syclsched.scheduling.registry import AUTO


def plan_graph(
    graph: TaskGraph,
    platform: Platform,
    *,
    policy: str = AUTO,
    history: History | None = None,
    steps: int | None = None,
    budget_s: float | None = None,
    clock: Clock | None = None,
    seed: int = 0,
    minimize: str = "makespan",
    subject_to: Sequence[str | Constraint] = (),
) -> Plan:
    """Plan a graph for a platform.

    ``auto`` asks every policy, on the whole platform and on parts of it, for a timetable; makes plans of the best few,
    and of everything-on-one-device for every device; searches on from the best; and returns the best of all by
    simulation: no plan of it is predicted slower than the best single device. ``plan.candidates`` says of each whether
    it was simulated, ranked by the scheduler's model only, or refused. A plan in which devices share the same cores
    must be clearly better than others.

    Parameters
    ----------
    graph : TaskGraph
        What to run.
    platform : Platform
        Live or described.
    policy : str, optional
        A registered policy (``heft``), ``single:DEVICE``, or ``auto``.
    history : History, optional
        Measured task times; without it, or where it has none, the profile's roofline is used.
    steps : int, optional
        For ``auto``: moves that the search may try, 0 for no search; by the number of tasks if not given. The plan for
        a number of steps is always the same.
    budget_s : float, optional
        For ``auto``: seconds, by ``clock``, after which the search ends.
    clock : callable, optional
        Returns seconds, as `time.perf_counter`; needed with ``budget_s``.
    seed : int, optional
        Of the search's random numbers.
    minimize : str, optional
        What ``auto`` makes as small as it can: ``makespan``, ``throughput`` (the interval between runs), ``energy`` or
        ``memory``; a named policy has its own mind, and its plan is only held to the constraints.
    subject_to : sequence of str or Constraint, optional
        What the plan must keep to, such as ``memory[gpu] <= 1GiB``. Limits of memory are limits for planning, too:
        what does not fit is evicted and brought back.

    Returns
    -------
    Plan
        Verified, with predicted times.

    Raises
    ------
    CapabilityError
        If some task cannot run on any device; names what each device lacks.
    PolicyError
        If there is no such policy.
    PlanError
        If every candidate was refused, for instance for lack of memory.
    InfeasibleError, MemoryLimitError
        If no plan that keeps to the constraints was found; names those that bind.
    """
    aim = aim_at(minimize).subject_to(*subject_to)
    end_s = end_of(budget_s, clock)
    graph.validate()
    costs = CostModel(platform, history)
    builder = Builder(graph, platform, costs)
    aim = resolve(builder.problem(), aim)
    check_working_sets(builder.problem(), aim.constraints)
    builder.limit(aim)
    budget = Budget(steps, end_s, clock, seed)
    if policy != AUTO:
        entry = ask(builder.problem(), policy)
        plan = builder.build(entry)
        plan = replace(plan, candidates=(Candidate(policy, plan.makespan_s, None, entry.makespan_s),))
    elif aim.plain:
        plan = Auto(builder, budget).best()
    else:
        plan = Aimed(builder, budget, aim).best()
    metrics = measure(plan, platform)
    if excess(metrics, aim.constraints):
        raise nothing_found([metrics], aim)
    plan = with_metrics(plan, metrics, lower_bound(builder.problem(), lp=False).best_s)
    plan = replace(plan, platform=platform.without_profiles(), options=builder.options(), aim=str(aim))
    verify(plan, graph)
    return plan
