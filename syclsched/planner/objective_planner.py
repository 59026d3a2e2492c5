# SPDX-License-Identifier: Apache-2.0
"""Policy `auto` for objectives other than the makespan alone, and under constraints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from syclsched.errors import InfeasibleError, PlanError, PolicyError, SyclschedError
from syclsched.model.plan import Candidate, Plan
from syclsched.planner.auto import SIMULATED
from syclsched.planner.plan_builder import PlanBuilder
from syclsched.planner.search_budget import SearchBudget
from syclsched.planning.initiation_interval import stream_interval_s
from syclsched.planning.measures import measure
from syclsched.scheduling import Problem, Timetable, validate
from syclsched.scheduling import candidates as policy_candidates
from syclsched.scheduling.objectives import (
    Aim,
    Metrics,
    evaluate,
    excess,
    infeasible_error,
    stages,
)
from syclsched.scheduling.portfolio import PolicyResult, distinct, run_policies
from syclsched.scheduling.registry import AUTO

#: Names of two candidates: the result of the search, and the graph cut into pipeline stages.
SEARCHED, STAGES = "searched", "stages"


@dataclass(slots=True)
class ObjectivePlanner:
    """Finds the best plan for an objective among those that satisfy its constraints."""

    builder: PlanBuilder
    budget: SearchBudget
    aim: Aim
    plans: list[tuple[Plan, Metrics]] = field(default_factory=list)
    considered: dict[str, Candidate] = field(default_factory=dict)
    refusals: list[SyclschedError] = field(default_factory=list)

    def best(self) -> Plan:
        """Return the best plan by simulation, with all candidates."""
        problem = self.builder.problem()
        names = policy_candidates(problem)
        self.builder.steps.expect(len(names))
        entries, refusals = run_policies(problem, names, steps=self.builder.steps)
        for entry in entries:
            self.considered[entry.label] = Candidate(entry.label, None, None, entry.makespan_s)
        for refusal in refusals:
            self.considered[refusal.label] = Candidate(refusal.label, None, str(refusal.error))
            self.refusals.append(refusal.error)
        different = distinct(entries)
        ranked = sorted(different, key=lambda entry: rank(self.aim, evaluate(problem, entry.timetable)))
        # The fastest are simulated, too: a plan that evicts arrays to fit into memory may still be good.
        singles = [entry for entry in ranked if entry.policy.startswith("single:")]
        for label in dict.fromkeys(e.label for e in [*ranked[:SIMULATED], *different[:SIMULATED], *singles]):
            self._simulate(next(entry for entry in ranked if entry.label == label))
        if self.budget.steps != 0:
            self._search(problem, [entry.timetable for entry in ranked])
        if self.aim.metric == "interval":
            self._cut(problem)
        if not self.plans:
            raise self.refusals[0]
        feasible = [pair for pair in self.plans if not excess(pair[1], self.aim.constraints)]
        if not feasible:
            raise infeasible_error([metrics for _, metrics in self.plans], self.aim)
        plan, _ = min(feasible, key=lambda pair: self._worth(*pair))
        return replace(plan, candidates=tuple(self.considered.values()))

    def _search(self, problem: Problem, timetables: Sequence[Timetable]) -> None:
        """Add the result of the constrained search; it may fail where plans with evictions would be feasible."""
        self.builder.steps.expect(1)
        self.builder.steps.begin("search")
        try:
            found = self.budget.search(problem, self.aim, timetables)
        except InfeasibleError as error:
            self.considered[SEARCHED] = Candidate(SEARCHED, None, str(error))
            self.refusals.append(error)
            return
        validate(problem, found.timetable, policy=SEARCHED)
        entry = PolicyResult(SEARCHED, "", problem, found.timetable, found.metrics.makespan_s)
        self.considered[SEARCHED] = Candidate(SEARCHED, None, None, entry.makespan_s)
        self._simulate(entry)

    def _cut(self, problem: Problem) -> None:
        """Add the plan of pipeline stages: with equal loads, other plans may alternate between in-order lanes."""
        timetable = stages(problem)
        if timetable is not None:
            validate(problem, timetable, policy=STAGES)
            entry = PolicyResult(STAGES, "", problem, timetable, evaluate(problem, timetable).makespan_s)
            self.considered[STAGES] = Candidate(STAGES, None, None, entry.makespan_s)
            self._simulate(entry)

    def _worth(self, plan: Plan, metrics: Metrics) -> tuple[float, ...]:
        """Return the ranking key; for the objective ``interval`` it includes that of the plan's streams."""
        ranked = rank(self.aim, metrics)
        return (ranked[0], stream_interval_s(plan), *ranked[1:]) if self.aim.metric == "interval" else ranked

    def _simulate(self, entry: PolicyResult) -> None:
        candidate = self.considered[entry.label]
        try:
            plan = self.builder.build(entry)
        except (PlanError, PolicyError) as error:
            self.considered[entry.label] = replace(candidate, refused=str(error))
            self.refusals.append(error)
            return
        self.considered[entry.label] = replace(candidate, makespan_s=plan.makespan_s)
        metrics = measure(plan, self.builder.platform)
        self.plans.append((replace(plan, policy=f"{AUTO}: {entry.label}"), metrics))


def rank(aim: Aim, metrics: Metrics) -> tuple[float, float, float]:
    """Return the ranking key (constraint violation, objective, makespan); less is better."""
    unknown = aim.metric == "energy" and metrics.energy_j is None
    worth = math.inf if unknown else metrics.value(aim.metric, aim.space)
    return excess(metrics, aim.constraints), worth, metrics.makespan_s
