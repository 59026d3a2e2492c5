# SPDX-License-Identifier: Apache-2.0
"""The road from graph to best plan: candidates from scheduling, made executable by planning, judged by simulation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations

from syclsched.costs import CostModel, History
from syclsched.errors import CapabilityError, PlanError, PolicyError, SyclschedError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Candidate, Option, Plan
from syclsched.model.platform import Platform
from syclsched.model.schedule import Schedule
from syclsched.planning import build_plan, verify
from syclsched.scheduling import Problem, build_problem
from syclsched.scheduling import candidates as policy_candidates
from syclsched.scheduling import get as get_policy
from syclsched.simulation import predict

#: The policy that considers all others and keeps the best by simulation.
AUTO = "auto"

#: With more devices than this, `auto` tries leaving out one device at a time instead of all subsets.
_ALL_SUBSETS = 4

#: Relative difference of makespans that is no difference.
_ROUNDING = 1e-9

#: Plans with more task-device pairs than this carry no options; `Plan.explain` then says less.
_MAX_OPTIONS = 100_000


def plan_graph(graph: TaskGraph, platform: Platform, *, policy: str = AUTO, history: History | None = None) -> Plan:
    """Plan a graph for a platform.

    ``auto`` always has everything-on-one-device, for every device, among its candidates, and returns the
    best by simulation: no plan of it is predicted slower than the best single device.

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
    """
    graph.validate()
    costs = CostModel(platform, history)
    for task in graph.tasks:
        costs.require(task)
    builder = _Builder(graph, platform, costs)
    if policy != AUTO:
        plan = builder.build(policy, None)
        return _finish(plan, builder, (Candidate(policy, plan.makespan_s),))
    best: Plan | None = None
    considered: list[Candidate] = []
    refusal: SyclschedError | None = None
    for name, devices in _candidates(builder.problem(platform), platform):
        label = name if devices is None else f"{name}[{','.join(devices)}]"
        try:
            plan = builder.build(name, devices)
        except (CapabilityError, PlanError, PolicyError) as error:
            considered.append(Candidate(label, None, str(error)))
            refusal = refusal or error
            continue
        considered.append(Candidate(label, plan.makespan_s))
        # Better by more than rounding only: among equals the simpler candidate, which comes first, is kept.
        if best is None or plan.makespan_s < best.makespan_s * (1.0 - _ROUNDING):
            best = replace(plan, policy=f"{AUTO}: {label}")
    if best is None:
        assert refusal is not None
        raise refusal
    return _finish(best, builder, tuple(considered))


def _candidates(problem: Problem, platform: Platform) -> Iterator[tuple[str, tuple[str, ...] | None]]:
    """Yield policy and, for a part of the platform, device names; every single device first, as the simplest."""
    names = policy_candidates(problem)
    singles = [name for name in names if name.startswith("single:")]
    several = [name for name in names if name not in singles]
    yield from ((name, None) for name in (*singles, *several))
    devices = [d.name for d in platform.compute_devices]
    count = len(devices)
    sizes = range(1, count) if count <= _ALL_SUBSETS else range(count - 1, count)
    for size in sizes:
        for subset in combinations(devices, size):
            yield from ((name, subset) for name in several)


def _finish(plan: Plan, builder: _Builder, considered: tuple[Candidate, ...]) -> Plan:
    plan = replace(plan, candidates=considered, options=builder.options())
    verify(plan, builder.graph)
    return plan


@dataclass(slots=True)
class _Builder:
    """Makes simulated plans of one graph."""

    graph: TaskGraph
    platform: Platform
    costs: CostModel
    problems: dict[tuple[str, ...], Problem] = field(default_factory=dict)

    def problem(self, platform: Platform) -> Problem:
        """Return the graph on a platform as numbers; made once per platform."""
        names = tuple(d.name for d in platform.devices)
        if names not in self.problems:
            self.problems[names] = build_problem(self.graph, platform, self.costs)
        return self.problems[names]

    def build(self, policy: str, devices: tuple[str, ...] | None) -> Plan:
        """Return the simulated plan of a policy on some of the devices, or on all."""
        platform = self.platform if devices is None else self.platform.select(devices)
        schedule = get_policy(policy).schedule(self.problem(platform))
        durations = self._durations(schedule)
        return predict(build_plan(self.graph, self.platform, schedule, durations))

    def _durations(self, schedule: Schedule) -> dict[str, float]:
        seconds: dict[str, float] = {}
        for assignment in schedule.assignments:
            task = self.graph.task(assignment.task)
            if task.operation is None or assignment.implementation is None:
                seconds[task.name] = 0.0
                continue
            implementation = task.operation.implementation(assignment.implementation)
            device = self.platform.device(assignment.device)
            seconds[task.name] = self.costs.task_seconds(task, implementation, device).seconds
        return seconds

    def options(self) -> tuple[Option, ...]:
        """Return what each task would cost on each device that can run it."""
        if len(self.graph) * len(self.platform.devices) > _MAX_OPTIONS:
            return ()
        found = []
        for task in self.graph.tasks:
            for device in self.platform.devices:
                best = self.costs.best(task, device)
                if best is not None:
                    found.append(Option(task.name, device.name, best[0].name, best[1].seconds, best[1].origin))
        return tuple(found)
