# SPDX-License-Identifier: Apache-2.0
"""From a graph and a platform to a plan."""

from __future__ import annotations

from collections.abc import Sequence

from syclsched.costs import CostModel, History
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.planner.attempt import Request
from syclsched.planner.budget import Budget, end_of
from syclsched.planner.rewriting import check_rewrite, plan_rewritten
from syclsched.scheduling.objectives import Constraint
from syclsched.scheduling.objectives import minimize as aim_at
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
    rewrite: str = AUTO,
) -> Plan:
    """Plan a graph for a platform.

    ``auto`` asks every policy, on the whole platform and on parts of it, for a timetable; makes plans of the best few,
    and of everything-on-one-device for every device; searches on from the best; and returns the best of all by
    simulation: no plan of it is predicted slower than the best single device. ``plan.candidates`` says of each whether
    it was simulated, ranked by the scheduler's model only, or refused. A plan in which devices share the same cores
    must be clearly better than others.

    Where tasks are so small that submitting them takes longer than doing them, or so large that other devices would
    wait, ``auto`` plans the graph rewritten (`syclsched.rewrites.rewrite`), too, and keeps the better plan. Such a plan
    carries its recipe and runs with the original graph.

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
    rewrite : str, optional
        ``none`` plans the graph as it is; ``coarsen`` merges tiny tasks first, ``split`` cuts large ones, ``both`` does
        both, where there is anything to gain by the rewrites' own rules. ``auto`` plans as it is and with both, and
        keeps the better plan by what is minimised, of equals that of fewer tasks; with a named policy it is ``none``.

    Returns
    -------
    Plan
        Verified, with predicted times.

    Raises
    ------
    CapabilityError
        If some task cannot run on any device; names what each device lacks.
    PolicyError
        If there is no such policy, metric or rewrite.
    PlanError
        If every candidate was refused, for instance for lack of memory.
    InfeasibleError, MemoryLimitError
        If no plan that keeps to the constraints was found; names those that bind.
    """
    check_rewrite(rewrite)
    request = Request(platform, CostModel(platform, history), policy, aim_at(minimize).subject_to(*subject_to))
    budget = Budget(steps, end_of(budget_s, clock), clock, seed)
    graph.validate()
    return plan_rewritten(graph, request, budget, rewrite)
