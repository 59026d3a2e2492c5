# SPDX-License-Identifier: Apache-2.0
"""Planning of one graph as it is, by one policy or by `auto`, for an objective under constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from syclsched.costs import CostModel
from syclsched.errors import PlanError, PolicyError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Candidate, Plan
from syclsched.model.platform import Platform
from syclsched.model.text.units import plural
from syclsched.planner.auto import CROWDED, LARGE, AutoPlanner, penalised_makespan_s
from syclsched.planner.contest import Rivals
from syclsched.planner.plan_builder import PlanBuilder, with_metrics
from syclsched.planner.search_budget import SearchBudget
from syclsched.planning import verify
from syclsched.planning.measures import measure
from syclsched.progress import StepCounter
from syclsched.scheduling.bounds import plan_bound_s
from syclsched.scheduling.objectives import Aim, Metrics, excess, infeasible_error, resolve
from syclsched.scheduling.objectives.infeasible import check_working_sets
from syclsched.scheduling.portfolio import ROUNDING, run_policy
from syclsched.scheduling.registry import AUTO

#: Share of a time limit for planning with the host's usual lanes, and of the default steps for its most lanes.
_USUAL_LANES, _WIDE_STEPS = 0.7, 0.25


@dataclass(frozen=True, slots=True)
class PlanTarget:
    """Platform, policy and objective to plan for, independent of the graph."""

    platform: Platform
    costs: CostModel  # of the platform
    policy: str  # a registered policy, or ``auto``
    aim: Aim  # as given by the user
    steps: StepCounter = field(default_factory=StepCounter)  # called with every step
    most: int = 1  # plans to return: the best, and further ones that may turn out to be faster
    bounded: bool = True  # whether plans carry their lower bound
    stay: Mapping[str, str] = field(default_factory=dict)  # devices of the tasks that may run on one only


@dataclass(frozen=True, slots=True)
class Attempt:
    """Best plan of one graph, with the data to compare it with another graph's plan and to finish it."""

    builder: PlanBuilder  # of the graph
    aim: Aim  # resolved for this platform
    plan: Plan  # simulated; satisfies the constraints
    metrics: Metrics  # of the plan
    request: PlanTarget
    rivals: Rivals  # further plans, if they are wanted

    def better_than(self, other: Attempt) -> bool:
        """Return whether this plan is better by the objective; on a tie, whether it has fewer tasks.

        For the makespan without constraints, it must also be better by `penalised_makespan_s`, which penalises devices
        that share cores. The tie-break is for costs per task that the model does not know.
        """
        mine, theirs = self._worth(), other._worth()
        if all(a < b * (1.0 - ROUNDING) for a, b in zip(mine, theirs, strict=True)):
            return True
        equal = all(a <= b * (1.0 + ROUNDING) for a, b in zip(mine, theirs, strict=True))
        return equal and len(self.plan.tasks) < len(other.plan.tasks)

    def _worth(self) -> tuple[float, ...]:
        """Return all values by which a plan must be better than another; each satisfies the constraints."""
        from syclsched.planner.objective_planner import rank

        value = rank(self.aim, self.metrics)[1]
        return (value, penalised_makespan_s(self.plan)) if self.aim.plain else (value,)

    def with_candidate(self, candidate: Candidate) -> Attempt:
        """Return this attempt with one more candidate."""
        return replace(self, plan=replace(self.plan, candidates=(*self.plan.candidates, candidate)))

    def finished(self) -> Plan:
        """Return the plan with its metadata, verified."""
        builder = self.builder.of_plan(self.plan)
        builder.steps.begin("verification")
        bound_s = plan_bound_s(self.builder.problem()) if self.request.bounded else 0.0
        plan = replace(
            with_metrics(self.plan, self.metrics, bound_s),
            platform=builder.platform.without_profiles(),
            options=builder.options(),
            refusals=builder.refusals(),
            aim=str(self.aim),
        )
        verify(plan, builder.graph)
        builder.steps.end()
        return plan

    def finished_rival(self, plan: Plan, finished: Plan | None = None) -> Plan:
        """Return another plan of the graph with its metadata; ``finished``: the best plan, which shares some of them.

        It is verified before it runs, not here: most are never run.
        """
        builder = self.builder.of_plan(plan)
        bound_s = plan_bound_s(self.builder.problem()) if finished is None else finished.lower_bound_s
        shared = finished if finished is not None and builder is self.builder.of_plan(finished) else None
        return replace(
            with_metrics(plan, measure(plan, builder.platform), bound_s),
            platform=builder.platform.without_profiles(),
            candidates=self.plan.candidates,
            options=builder.options() if shared is None else shared.options,
            refusals=builder.refusals() if shared is None else shared.refusals,
            aim=str(self.aim),
        )


def attempt(graph: TaskGraph, request: PlanTarget, budget: SearchBudget) -> Attempt:
    """Plan a graph as it is; by ``auto`` also with several lanes of the host, if it may have them."""
    wide = request.platform.with_most_host_lanes() if request.policy == AUTO and request.aim.plain else None
    if wide is None:
        return _attempt(graph, request, budget)
    wider = replace(request, platform=wide, costs=request.costs.on(wide))
    if not _may_need_host_lanes(graph, wider):
        return _attempt(graph, request, budget)
    found = _attempt(graph, request, budget.part(_USUAL_LANES))
    try:
        other = _attempt(graph, wider, budget.reduced(_WIDE_STEPS))
    except (PlanError, PolicyError) as error:
        return found.with_candidate(Candidate(_lanes_text(wide), None, str(error)))
    if other.plan.makespan_s * (1.0 + CROWDED) < found.plan.makespan_s and other.better_than(found):
        return other.with_candidate(
            Candidate(f"{_lanes_text(request.platform)}, {found.plan.policy}", found.plan.makespan_s)
        )
    return found.with_candidate(Candidate(f"{_lanes_text(wide)}, {other.plan.policy}", other.plan.makespan_s))


def _may_need_host_lanes(graph: TaskGraph, wider: PlanTarget) -> bool:
    """Return whether several tasks can run on the host; of a large graph, whether only the host can run most tasks.

    Without times that were measured on one of several lanes, nothing is known to be gained, except by functions that
    only runs call: these are taken to use one core until a run has measured them.
    """
    host = wider.platform.host
    others = [device for device in wider.platform.devices if device is not host]
    able = only = 0
    for task in graph.tasks:
        best = None if task.operation is None else wider.costs.best(task, host)
        if (
            best is not None
            and task.operation is not None
            and (best[1].origin == "measured" or (not task.operation.pure and best[0].kind == "host"))
        ):
            able += 1
            only += all(wider.costs.best(task, device) is None for device in others)
    return able > 1 if len(graph) <= LARGE else 2 * only > len(graph)


def _lanes_text(platform: Platform) -> str:
    return f"host as {plural(platform.host.lanes, 'lane')}"


def _attempt(graph: TaskGraph, request: PlanTarget, budget: SearchBudget) -> Attempt:
    builder = PlanBuilder(graph, request.platform, request.costs, steps=request.steps, stay=request.stay)
    builder.steps.expect(2)  # costs, and verification
    builder.steps.begin(f"costs of {len(graph):,} tasks")
    rivals = Rivals(request.most)
    aim = resolve(builder.problem(), request.aim)
    check_working_sets(builder.problem(), aim.constraints)
    builder.limit(aim)
    if request.policy != AUTO:
        builder.steps.expect(2)
        builder.steps.begin(f"policy {request.policy}")
        entry = run_policy(builder.problem(), request.policy)
        plan = builder.build(entry)
        plan = replace(plan, candidates=(Candidate(request.policy, plan.makespan_s, None, entry.makespan_s),))
    elif aim.plain:
        plan = AutoPlanner(builder, budget, rivals).best()
    else:
        from syclsched.planner.objective_planner import ObjectivePlanner

        plan = ObjectivePlanner(builder, budget, aim).best()
    metrics = measure(plan, request.platform)
    if excess(metrics, aim.constraints):
        raise infeasible_error([metrics], aim)
    return Attempt(builder, aim, plan, metrics, request, rivals)
