# SPDX-License-Identifier: Apache-2.0
"""One graph planned as it is, by one policy or by `auto`, for an aim under its constraints."""

from __future__ import annotations

from dataclasses import dataclass, replace

from syclsched.costs import CostModel
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Candidate, Plan
from syclsched.model.platform import Platform
from syclsched.planner.aimed import Aimed, rank
from syclsched.planner.auto import Auto, worth_s
from syclsched.planner.budget import Budget
from syclsched.planner.builder import Builder, with_metrics
from syclsched.planning import verify
from syclsched.planning.measures import measure
from syclsched.scheduling.bounds import plan_bound_s
from syclsched.scheduling.objectives import Aim, Metrics, excess, nothing_found, resolve
from syclsched.scheduling.objectives.infeasible import check_working_sets
from syclsched.scheduling.portfolio import ROUNDING, ask
from syclsched.scheduling.registry import AUTO


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for, whatever graph it is tried with."""

    platform: Platform  # live or described
    costs: CostModel  # of the platform
    policy: str  # A registered one, or ``auto``
    aim: Aim  # as typed


@dataclass(frozen=True, slots=True)
class Attempt:
    """The best plan of one graph, with what is needed to compare it with that of another, and to finish it."""

    builder: Builder  # of the graph
    aim: Aim  # on this platform
    plan: Plan  # simulated; within the constraints
    metrics: Metrics  # measured on it

    def better_than(self, other: Attempt) -> bool:
        """Return whether this is better by the aim; of equals that of fewer tasks: not all that a task costs is known.

        Of a makespan without constraints it must be so also when devices that share cores are counted as `auto` does.
        """
        mine, theirs = self._worth(), other._worth()
        if all(a < b * (1.0 - ROUNDING) for a, b in zip(mine, theirs, strict=True)):
            return True
        equal = all(a <= b * (1.0 + ROUNDING) for a, b in zip(mine, theirs, strict=True))
        return equal and len(self.plan.tasks) < len(other.plan.tasks)

    def _worth(self) -> tuple[float, ...]:
        """Return all by which one plan must be better than another; each is within the constraints."""
        value = rank(self.aim, self.metrics)[1]
        return (value, worth_s(self.plan)) if self.aim.plain else (value,)

    def finished(self) -> Plan:
        """Return the plan with all it carries, verified."""
        builder, platform = self.builder, self.builder.platform
        bound_s = plan_bound_s(builder.problem())
        plan = replace(
            with_metrics(self.plan, self.metrics, bound_s),
            platform=platform.without_profiles(),
            options=builder.options(),
            aim=str(self.aim),
        )
        verify(plan, builder.graph)
        return plan


def attempt(graph: TaskGraph, request: Request, budget: Budget) -> Attempt:
    """Plan a graph as it is."""
    builder = Builder(graph, request.platform, request.costs)
    aim = resolve(builder.problem(), request.aim)
    check_working_sets(builder.problem(), aim.constraints)
    builder.limit(aim)
    if request.policy != AUTO:
        entry = ask(builder.problem(), request.policy)
        plan = builder.build(entry)
        plan = replace(plan, candidates=(Candidate(request.policy, plan.makespan_s, None, entry.makespan_s),))
    elif aim.plain:
        plan = Auto(builder, budget).best()
    else:
        plan = Aimed(builder, budget, aim).best()
    metrics = measure(plan, request.platform)
    if excess(metrics, aim.constraints):
        raise nothing_found([metrics], aim)
    return Attempt(builder, aim, plan, metrics)
