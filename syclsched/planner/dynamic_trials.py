# SPDX-License-Identifier: Apache-2.0
"""Dynamic and hybrid policies simulated under disturbances.

Such a policy decides while tasks run, so it has no plan before the run. It runs on the scheduler's clock
(`syclsched.scheduling.dynamic`), which ignores submission costs, hand-offs and interference. Its decisions then become
a plan that is simulated under the same disturbance, so that its makespan is comparable to that of static plans. After a
device failure there is no such plan, as some tasks ran twice or not at all: the makespan is then that of the
scheduler's clock, plus the time that simulation added to the same policy's undisturbed run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from syclsched.costs import CostModel, History
from syclsched.costs.capability import platform_for_all
from syclsched.errors import PolicyError, did_you_mean
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.planner.plan_builder import PlanBuilder, with_metrics
from syclsched.planning import verify
from syclsched.planning.measures import measure
from syclsched.scheduling import Problem, Timetable, get
from syclsched.scheduling.bounds import plan_bound_s
from syclsched.scheduling.dynamic import DYNAMIC_POLICIES, DynamicPolicy, DynamicRun, Hybrid, run_dynamic
from syclsched.scheduling.portfolio import PolicyResult
from syclsched.scheduling.tables import NOTHING
from syclsched.simulation import Disturbance, Failure, Trial, Trials, repeat
from syclsched.simulation.noise import copy_factors, task_factors

#: Follows the plan of another policy (HEFT by default) and deviates from it by rules.
HYBRID = "hybrid"

#: Names of the policies that decide while tasks run; the last may also be ``hybrid:POLICY``.
DYNAMIC_POLICY_NAMES: tuple[str, ...] = (*(policy.name for policy in DYNAMIC_POLICIES), HYBRID)


def is_dynamic_policy(name: str) -> bool:
    """Return whether a policy of this name decides while tasks run."""
    return name in DYNAMIC_POLICY_NAMES or name.startswith(f"{HYBRID}:")


def dynamic_policy_of(name: str, problem: Problem) -> DynamicPolicy:
    """Return the dynamic or hybrid policy of this name."""
    for policy in DYNAMIC_POLICIES:
        if policy.name == name:
            return policy
    hybrid, _, base = name.partition(":")
    if hybrid != HYBRID:
        raise PolicyError(
            f"no dynamic policy {name!r}",
            hint=did_you_mean(name, DYNAMIC_POLICY_NAMES) + f"There are {', '.join(DYNAMIC_POLICY_NAMES)}",
        )
    return Hybrid(get(base or "heft").schedule(problem))


def simulate_dynamic_policy(
    graph: TaskGraph,
    platform: Platform,
    policy: str,
    *,
    disturbance: Disturbance | None = None,
    seeds: Iterable[int] = (0,),
    history: History | None = None,
) -> tuple[Plan, Trials | None]:
    """Simulate a graph under a dynamic or hybrid policy; return its undisturbed plan and its disturbed runs."""
    graph.validate()
    platform = platform_for_all(graph, platform)
    builder = PlanBuilder(graph, platform, CostModel(platform, history))
    problem = builder.problem()
    decider = dynamic_policy_of(policy, problem)
    calm = run_dynamic(problem, decider)
    plan = _plan(builder, policy, calm.timetable)
    verify(plan, graph)
    added_s = max(0.0, plan.makespan_s - calm.makespan_s)
    carried = with_metrics(plan, measure(plan, platform), plan_bound_s(problem))
    if disturbance is None:
        return carried, None
    runs = []
    for seed in seeds:
        run = _disturbed(problem, decider, plan, disturbance, seed)
        if any(isinstance(event, Failure) for event in disturbance.events):
            runs.append(_as_trial(problem, run, added_s))
        else:
            runs += repeat(_plan(builder, policy, run.timetable), disturbance, [seed]).runs
    return carried, Trials(tuple(runs))


def _plan(builder: PlanBuilder, policy: str, timetable: Timetable) -> Plan:
    """Return the simulated plan of a policy's decisions, with the durations the policy assumed."""
    plan = builder.build(PolicyResult(policy, "", builder.problem(), timetable, timetable.makespan_s))
    return replace(plan, platform=builder.of_plan(plan).platform.without_profiles())


def _disturbed(problem: Problem, policy: DynamicPolicy, plan: Plan, disturbance: Disturbance, seed: int) -> DynamicRun:
    """Run a policy that assumes planned durations, while true durations are those of any plan with this seed."""
    noise, tables = disturbance.noise, problem.tables
    by_name = dict(zip((task.name for task in plan.tasks), task_factors(plan.tasks, noise, seed).tolist(), strict=True))
    factors = np.array([by_name[name] for name in problem.names])
    estimated_s = tables.task_seconds()
    return run_dynamic(
        problem.with_task_seconds(estimated_s * factors[:, None]),
        policy,
        estimated_s=estimated_s,
        copy_factor=copy_factors(plan.tasks, len(tables.item_bytes), noise, seed),
        events=disturbance.events,
    )


def _as_trial(problem: Problem, run: DynamicRun, added_s: float) -> Trial:
    undone = tuple(problem.names[each.task] for each in run.undone)
    arrays = ((problem.item_array[item], item) for item in run.lost_items)
    lost = tuple(dict.fromkeys(problem.item_name(i) if a == NOTHING else problem.arrays[a] for a, i in arrays))
    return Trial(run.makespan_s + added_s, undone, lost)
