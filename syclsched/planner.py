# SPDX-License-Identifier: Apache-2.0
"""The road from graph to best plan: candidates from scheduling, made executable by planning, judged by simulation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations

import numpy as np

from syclsched.costs import CostModel, History
from syclsched.errors import CapabilityError, PlanError, PolicyError, SyclschedError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Candidate, Option, Plan
from syclsched.model.platform import Platform
from syclsched.planning import build_plan, verify
from syclsched.scheduling import Problem, Timetable, build_problem, makespan_s, to_schedule, validate
from syclsched.scheduling import candidates as policy_candidates
from syclsched.scheduling.portfolio import ROUNDING, Entry, Refusal, ask, ask_all, distinct
from syclsched.scheduling.refine import refine
from syclsched.scheduling.refine.meter import Clock
from syclsched.scheduling.registry import AUTO
from syclsched.scheduling.subsets import on_devices
from syclsched.simulation import predict

#: What the search's own candidate is called.
REFINED = "refined"

#: With more devices than this, `auto` tries leaving out one device at a time instead of all subsets.
_ALL_SUBSETS = 4

#: So many timetables of the whole platform, and of parts of it, are made plans and simulated; of larger graphs fewer.
_SIMULATED, _SIMULATED_PARTS = 4, 4
_SIMULATED_LARGE, _SIMULATED_PARTS_LARGE = 2, 1

#: So many policies, the best on the whole platform, are asked about its parts.
_ASKED_OF_PARTS = 3

#: Graphs of more tasks are large: of these, no single device is simulated whose work alone takes longer than the best
#: plan, which cannot win.
_LARGE = 2_000

#: Plans with more task-device pairs than this carry no options; `Plan.explain` then says less.
_MAX_OPTIONS = 100_000


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
) -> Plan:
    """Plan a graph for a platform.

    ``auto`` asks every policy, on the whole platform and on parts of it, for a timetable; makes plans of the best few,
    and of everything-on-one-device for every device; searches on from the best; and returns the best of all by
    simulation: no plan of it is predicted slower than the best single device. ``plan.candidates`` says of each whether
    it was simulated, ranked by the scheduler's model only, or refused.

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
    end_s = _end_s(budget_s, clock)
    graph.validate()
    costs = CostModel(platform, history)
    builder = _Builder(graph, platform, costs)
    if policy == AUTO:
        plan = _Auto(builder, _Budget(steps, end_s, clock, seed)).best()
    else:
        entry = ask(builder.problem(), policy)
        plan = builder.build(entry)
        plan = replace(plan, candidates=(Candidate(policy, plan.makespan_s, None, entry.makespan_s),))
    plan = replace(plan, options=builder.options())
    verify(plan, graph)
    return plan


def _end_s(budget_s: float | None, clock: Clock | None) -> float | None:
    if budget_s is None:
        return None
    if clock is None or not budget_s >= 0.0:
        raise PolicyError(
            f"a budget of {budget_s!r} s {'without a clock' if clock is None else 'is not zero or more'}",
            where=f"policy {AUTO!r}",
            hint="Pass time.perf_counter as clock, or give steps instead",
        )
    return clock() + budget_s


@dataclass(frozen=True, slots=True)
class _Budget:
    """What the search may use."""

    steps: int | None
    end_s: float | None
    clock: Clock | None
    seed: int

    def refine(self, problem: Problem, timetables: Sequence[Timetable]) -> Timetable:
        """Return a timetable that is at least as good as the best of those given."""
        left_s = None
        if self.end_s is not None and self.clock is not None:
            left_s = max(0.0, self.end_s - self.clock())
        return refine(problem, timetables, budget_s=left_s, steps=self.steps, seed=self.seed, clock=self.clock)


@dataclass(slots=True)
class _Auto:
    """Asks, ranks, simulates, searches; keeps the best plan and what became of every candidate."""

    builder: _Builder
    budget: _Budget
    plan: Plan | None = None
    considered: dict[str, Candidate] = field(default_factory=dict)
    refusals: list[SyclschedError] = field(default_factory=list)

    def best(self) -> Plan:
        """Return the best plan by simulation, with all candidates."""
        names = policy_candidates(self.builder.problem())
        singles = self._ask([name for name in names if name.startswith("single:")], None)
        together = self._ask([name for name in names if not name.startswith("single:")], None)
        ranked = distinct(together)
        policies = [e.policy for e in sorted(together, key=lambda e: e.makespan_s)[:_ASKED_OF_PARTS]]
        parts = [self._ask(policies, devices) for devices in self._parts()]
        best_parts = [entry for answers in parts for entry in distinct(answers)[:1]]
        large = len(self.builder.graph) > _LARGE
        if not large:
            self._simulate(singles, len(singles))
        self._simulate(ranked, _SIMULATED_LARGE if large else _SIMULATED)
        others = [entry for entry in distinct([*ranked, *best_parts]) if entry not in ranked]
        self._simulate(others, _SIMULATED_PARTS_LARGE if large else _SIMULATED_PARTS)
        self._simulate([e for e in singles if self._may_win(e)], len(singles))
        if self.budget.steps != 0:
            self._search([*together, *chain.from_iterable(parts)])
        if self.plan is None:
            raise self.refusals[0]
        return replace(self.plan, candidates=tuple(self.considered.values()))

    def _ask(self, policies: Sequence[str], devices: tuple[str, ...] | None) -> list[Entry]:
        suffix = "" if devices is None else f"[{','.join(devices)}]"
        try:
            entries, refusals = ask_all(self.builder.problem(devices), policies, suffix)
        except CapabilityError as error:
            entries, refusals = [], [Refusal(name, suffix, error) for name in policies]
        for entry in entries:
            self.considered[entry.label] = Candidate(entry.label, None, None, entry.makespan_s)
        for refusal in refusals:
            self.considered[refusal.label] = Candidate(refusal.label, None, str(refusal.error))
            self.refusals.append(refusal.error)
        return entries

    def _simulate(self, entries: Sequence[Entry], count: int) -> None:
        """Make plans of the first entries that have not been, until so many are planned."""
        for entry in entries:
            candidate = self.considered[entry.label]
            if count == 0:
                return
            if candidate.makespan_s is not None or candidate.refused is not None:
                continue
            try:
                plan = self.builder.build(entry)
            except (PlanError, PolicyError) as error:
                self.considered[entry.label] = replace(candidate, refused=str(error))
                self.refusals.append(error)
                continue
            count -= 1
            self.considered[entry.label] = replace(candidate, makespan_s=plan.makespan_s)
            # Better by more than rounding only: among equals the simpler candidate, which comes first, is kept.
            if self.plan is None or plan.makespan_s < self.plan.makespan_s * (1.0 - ROUNDING):
                self.plan = replace(plan, policy=f"{AUTO}: {entry.label}")

    def _search(self, entries: Sequence[Entry]) -> None:
        """Search on from the timetables for those devices that did best in simulation."""
        simulated = [(s, e) for e in entries if (s := self.considered[e.label].makespan_s) is not None]
        if not simulated:
            return
        problem = min(simulated, key=lambda pair: pair[0])[1].problem
        begin = distinct([e for e in entries if e.problem is problem])
        timetable = self.budget.refine(problem, [e.timetable for e in begin])
        refined = Entry(REFINED, begin[0].suffix, problem, timetable, makespan_s(problem, timetable))
        if any(refined.same_as(entry) for entry in begin):
            return  # nothing better was found
        validate(problem, timetable, policy=refined.label)
        self.considered[refined.label] = Candidate(refined.label, None, None, refined.makespan_s)
        self._simulate([refined], 1)

    def _may_win(self, single: Entry) -> bool:
        """Return whether a single device is to be simulated: not if its work alone takes longer than the best plan."""
        if self.plan is None:
            return True
        tables, timetable = single.problem.tables, single.timetable
        device = tables.processor_device[timetable.processor]
        work_s = np.bincount(device, timetable.finish_s - timetable.start_s, len(single.problem.devices))
        return bool((work_s / np.diff(tables.device_start)).max() < self.plan.makespan_s)

    def _parts(self) -> Iterator[tuple[str, ...]]:
        """Yield sets of devices that leave some out: all, or if there are many those that leave out one."""
        devices = [d.name for d in self.builder.platform.compute_devices]
        count = len(devices)
        sizes = range(1, count) if count <= _ALL_SUBSETS else range(count - 1, count)
        for size in sizes:
            yield from combinations(devices, size)


@dataclass(slots=True)
class _Builder:
    """Makes simulated plans of one graph."""

    graph: TaskGraph
    platform: Platform
    costs: CostModel
    problems: dict[tuple[str, ...] | None, Problem] = field(default_factory=dict)

    def problem(self, devices: tuple[str, ...] | None = None) -> Problem:
        """Return the graph as numbers, on all devices or on some and the host; made once for each."""
        if devices not in self.problems:
            if devices is None:
                self.problems[devices] = build_problem(self.graph, self.platform, self.costs)
            else:
                self.problems[devices] = self._part(devices)
        return self.problems[devices]

    def _part(self, devices: tuple[str, ...]) -> Problem:
        kept = [d for d in self.platform.devices if d.is_host or d.name in devices]
        try:
            return on_devices(self.problem(), [d.name for d in kept])
        except CapabilityError:
            for task in self.graph.tasks:
                self.costs.require(task, kept)  # says what each of them lacks
            raise

    def build(self, entry: Entry) -> Plan:
        """Return the simulated plan of a timetable."""
        problem, timetable = entry.problem, entry.timetable
        # Times of the tables, not of the timetable: differences of times of day carry rounding.
        device = problem.tables.processor_device[timetable.processor]
        seconds = problem.tables.seconds[np.arange(len(problem)), device]
        durations = dict(zip(problem.names, seconds.tolist(), strict=True))
        schedule = to_schedule(problem, timetable, entry.label)
        return predict(build_plan(self.graph, self.platform, schedule, durations))

    def options(self) -> tuple[Option, ...]:
        """Return what each task would cost on each device that can run it."""
        if len(self.graph) * len(self.platform.devices) > _MAX_OPTIONS:
            return ()
        found = []
        for task in self.graph.tasks:
            choices = self.costs.choices(task, self.platform.devices)
            for device, best in zip(self.platform.devices, choices, strict=True):
                if best is not None and task.operation is not None:
                    found.append(Option(task.name, device.name, best[0].name, best[1].seconds, best[1].origin))
        return tuple(found)
