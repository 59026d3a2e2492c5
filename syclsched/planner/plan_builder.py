# SPDX-License-Identifier: Apache-2.0
"""Construction of simulated plans of one graph from timetables."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, repeat
from typing import Final

from syclsched.costs import CostModel
from syclsched.costs.model import Choice
from syclsched.errors import CapabilityError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Option, Plan, Refusal
from syclsched.model.platform import Device, Platform
from syclsched.model.platform_parts.machines import machine_of
from syclsched.model.text.bulk_objects import make_objects
from syclsched.planner.memory_limit import with_memory_limit
from syclsched.planning import build_plan
from syclsched.planning.memory.zero_copy import donated_inputs
from syclsched.planning.transfers.prefetch import WORTH
from syclsched.progress import StepCounter
from syclsched.scheduling import Problem, build_problem, to_schedule
from syclsched.scheduling.objectives import (
    Aim,
    Metrics,
)
from syclsched.scheduling.portfolio import ROUNDING, PolicyResult
from syclsched.scheduling.problem import on_devices, with_fixed_devices
from syclsched.simulation import predict

#: Plans with more task-device pairs than this carry no options; `Plan.explain` then says less.
_MAX_OPTIONS = 100_000
_OPTION_COLUMNS: Final = tuple(each.name for each in fields(Option) if each.name != "task")


@dataclass(slots=True)
class PlanBuilder:
    """Builds simulated plans of one graph."""

    graph: TaskGraph
    platform: Platform
    costs: CostModel
    problems: dict[tuple[str, ...] | None, Problem] = field(default_factory=dict)
    limited: Platform | None = None
    steps: StepCounter = field(default_factory=StepCounter)  # called for every plan that is built
    stay: Mapping[str, str] = field(default_factory=dict)  # devices of the tasks that may run on one only
    _single: PlanBuilder | None = None  # with single-threaded libraries on the host

    def limit(self, aim: Aim) -> None:
        """Limit the memory spaces to an objective's memory constraints."""
        limits: dict[str | None, float] = {}
        for c in aim.constraints:
            if c.metric == "memory":
                limits[c.space] = min(c.limit, limits.get(c.space, math.inf))
        if limits:
            everywhere = limits.get(None, math.inf)
            sizes = {s.name: min(limits.get(s.name, math.inf), everywhere) for s in self.platform.spaces}
            self.limited = with_memory_limit(
                self.platform, {name: max(1, int(size)) for name, size in sizes.items() if size < math.inf}
            )

    def problem(self, devices: tuple[str, ...] | None = None) -> Problem:
        """Return the scheduling problem on all devices, or on some and the hosts of their machines; cached."""
        if devices not in self.problems:
            if devices is None:
                is_one_machine = not any(machine_of(device.name) for device in self.platform.devices)
                resident = donated_inputs(self.graph) if is_one_machine else ()
                problem = build_problem(self.graph, self.platform, self.costs, resident=resident)
                self.problems[devices] = with_fixed_devices(problem, self.stay) if self.stay else problem
            else:
                self.problems[devices] = self._part(devices)
        return self.problems[devices]

    def _part(self, devices: tuple[str, ...]) -> Problem:
        machines = set(map(machine_of, devices or [d.name for d in self.platform.devices]))
        kept = [d for d in self.platform.devices if d.name in devices or (d.is_host and machine_of(d.name) in machines)]
        try:
            return on_devices(self.problem(), [d.name for d in kept])
        except CapabilityError:
            for task in self.graph.tasks:
                self.costs.require(task, kept)  # raises an error with the capabilities that each device lacks
            raise

    def build(self, entry: PolicyResult, prefetch_worth: float = WORTH) -> Plan:
        """Return the simulated plan of a timetable; see `build_plan`."""
        self.steps.begin(f"plan of {entry.label}")
        builder = self._for(entry.devices())
        problem = entry.problem if builder is self else builder.problem()
        timetable = entry.timetable_for(problem)
        assert timetable is not None  # the whole platform has all devices
        # Durations come from the tables: differences of the timetable's start and finish would carry rounding.
        device = problem.tables.processor_device[timetable.processor]
        seconds = problem.tables.seconds[problem.tables.kind, device]
        durations = dict(zip(problem.names, seconds.tolist(), strict=True))
        schedule = to_schedule(problem, timetable, entry.label)
        platform = builder.limited or builder.platform
        return predict(build_plan(self.graph, platform, schedule, durations, prefetch_worth=prefetch_worth))

    def of_plan(self, plan: Plan) -> PlanBuilder:
        """Return the builder with the platform and the costs of a plan: this one, or one for fewer threads."""
        return self._for({each.device for each in plan.schedule.assignments})

    def _for(self, used: Collection[str]) -> PlanBuilder:
        """Return the builder of plans that use these devices.

        Where the host works beside devices on its own cores, its libraries have one thread on each lane.
        """
        single = self.platform.with_single_threads(used)
        if single is self.platform:
            return self
        if self._single is None:
            limited = None if self.limited is None else self.limited.with_single_threads(used)
            self._single = PlanBuilder(
                self.graph, single, self.costs.on(single), limited=limited, steps=self.steps, stay=self.stay
            )
        return self._single

    def options(self) -> tuple[Option, ...]:
        """Return the cost of each task on each device that can run it."""
        if len(self.graph) * len(self.platform.devices) > _MAX_OPTIONS:
            return ()
        devices = self.platform.devices
        tasks = [task for task in self.graph.tasks if task.operation is not None]
        known: dict[tuple[int, int], dict[str, list[object]]] = {}  # by operation and signature, which tasks share
        found: list[dict[str, list[object]]] = []
        for task in tasks:
            kind = id(task.operation), id(task.signature)
            if kind not in known:
                known[kind] = _option_columns(self.costs.choices(task, devices), devices)
            found.append(known[kind])
        counts = [len(each["device"]) for each in found]
        columns: dict[str, Iterable[object]] = {
            name: chain.from_iterable([each[name] for each in found]) for name in _OPTION_COLUMNS
        }
        columns["task"] = chain.from_iterable(map(repeat, (task.name for task in tasks), counts))
        return tuple(make_objects(Option, sum(counts), columns))

    def uncertainty(self, plan: Plan) -> float:
        """Return the relative uncertainty of the seconds of a plan's tasks together, as predicted."""
        costs, devices = self.of_plan(plan).costs, self.of_plan(plan).platform.devices
        tasks = {task.name: task for task in self.graph.tasks}
        place = {device.name: number for number, device in enumerate(devices)}
        total_s = uncertain_s = 0.0
        for assignment in plan.schedule.assignments:
            task = tasks[assignment.task]
            choice = None if task.operation is None else costs.choices(task, devices)
            best = None if choice is None else choice[place[assignment.device]]
            if best is not None:
                total_s += best[1].seconds
                uncertain_s += best[1].seconds * best[1].uncertainty
        return uncertain_s / total_s if total_s > 0.0 else 0.0

    def refusals(self) -> tuple[Refusal, ...]:
        """Return the implementations of each task that devices or libraries refuse."""
        if not self.costs.has_refusals or len(self.graph) * len(self.platform.devices) > _MAX_OPTIONS:
            return ()
        return tuple(
            Refusal(task.name, device.name, implementation.name, reason)
            for task in self.graph.tasks
            for device in self.platform.devices
            for implementation, reason in self.costs.refusals(task, device)
        )


def _option_columns(choices: Sequence[Choice | None], devices: Sequence[Device]) -> dict[str, list[object]]:
    """Return the options of a task but for its name."""
    able = [(device.name, *best) for device, best in zip(devices, choices, strict=True) if best is not None]
    return {
        "device": [name for name, _, _ in able],
        "implementation": [implementation.name for _, implementation, _ in able],
        "seconds": [estimate.seconds for _, _, estimate in able],
        "origin": [estimate.origin for _, _, estimate in able],
        "uncertainty": [estimate.uncertainty for _, _, estimate in able],
    }


def with_metrics(plan: Plan, metrics: Metrics, bound_s: float) -> Plan:
    """Return a plan with its metrics and its lower bound."""
    return replace(
        plan,
        # No plan is shorter than the bound, but for rounding. A wrong bound is not shown.
        lower_bound_s=bound_s if bound_s <= plan.makespan_s * (1.0 + ROUNDING) else 0.0,
        energy_j=metrics.energy_j,
        interval_s=metrics.initiation_interval_s,
    )
