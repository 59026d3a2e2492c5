# SPDX-License-Identifier: Apache-2.0
"""Policy `auto`: run every policy, simulate the best few plans, search for better ones, keep the best plan."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations

import numpy as np

from syclsched.errors import CapabilityError, PlanError, PolicyError, SyclschedError
from syclsched.model.plan import Candidate, Plan
from syclsched.model.platform import HOST
from syclsched.model.platform_parts.machines import machine_of
from syclsched.model.tables.lazy_objects import lane_table
from syclsched.model.text.units import plural
from syclsched.planner.contest import Rivals
from syclsched.planner.plan_builder import PlanBuilder
from syclsched.planner.plan_search import searched_timetables
from syclsched.planner.search_budget import SearchBudget
from syclsched.planning.transfers.prefetch import UNLESS_LONGER, WORTH
from syclsched.scheduling import Problem, Timetable, makespan_s, validate
from syclsched.scheduling import candidates as policy_candidates
from syclsched.scheduling.bounds import quick_bound_s
from syclsched.scheduling.portfolio import ROUNDING, PolicyRefusal, PolicyResult, distinct, run_policies
from syclsched.scheduling.registry import AUTO
from syclsched.scheduling.tables import NOTHING, Floats

#: Names of the policy that searches in the contention-free model, and of the candidate of auto's own search.
REFINE, REFINED = "refine", "refined"

#: With more devices than this, `auto` tries leaving out one device at a time instead of all subsets.
_ALL_SUBSETS = 4

#: With more devices than this, no subset is tried, and single devices are simulated only if they may win: leaving out
#: one of so many changes little, and trying them all would dominate the planning time.
_MANY_DEVICES = 16

#: Most timetables of the whole platform, and of subsets of it, that are simulated; of large graphs fewer.
SIMULATED, _SIMULATED_PARTS = 4, 4
_SIMULATED_LARGE, _SIMULATED_PARTS_LARGE = 2, 1

#: Relative margin by which a plan whose devices share cores must be better: its prediction is the least certain, and it
#: must not be slower than one device alone.
CROWDED = 0.1

#: Number of policies, the best on the whole platform, that are tried on its subsets.
_ASKED_OF_PARTS = 3

#: For graphs of up to this many tasks, all timetables of the whole platform are simulated, which takes milliseconds:
#: one that the model ranks lower may be the better plan.
_FEW = 64

#: For graphs of up to this many tasks the search models the copy lanes of plans; every step then costs time for all
#: tasks, so that larger graphs are searched without them.
_SEARCHED_WITH_LANES = 256

#: Graphs of more tasks are large: single devices whose work alone takes longer than the best plan are not simulated.
LARGE = 2_000

#: On platforms of more machines, plans on this many are tried, too.
_FEWER_MACHINES = (8, 32)

#: Problems with more tasks times devices are not searched: a search has a table of them.
_SEARCHED_WORK = 4_000_000

#: No subsets of the devices are tried if tasks times devices squared exceed this.
_PART_WORK = 1_000_000


@dataclass(slots=True)
class AutoPlanner:
    """Finds the best plan by makespan, and records the outcome of every candidate."""

    builder: PlanBuilder
    budget: SearchBudget
    rivals: Rivals = field(default_factory=Rivals)  # further plans that may turn out to be faster
    plan: Plan | None = None
    considered: dict[str, Candidate] = field(default_factory=dict)
    refusals: list[SyclschedError] = field(default_factory=list)

    def best(self) -> Plan:
        """Return the best plan by simulation, with all candidates."""
        names = policy_candidates(self.builder.problem())
        if len(set(self.builder.stay.values())) > 1:  # no device is alone then
            names = tuple(name for name in names if not name.startswith("single:"))
        singles = self._ask([name for name in names if name.startswith("single:")], None)
        if self._has_single_lane():
            self._simulate(singles, len(singles))
            if self.plan is not None and not repeats_copies_or_tasks(self.plan) and not _has_copy_lane(self.plan):
                return replace(self.plan, candidates=tuple(self.considered.values()))
        together = self._ask([name for name in names if not name.startswith("single:")], None)
        optimal = self._optimal_plan(singles, together)
        if optimal is not None:
            return replace(optimal, candidates=tuple(self.considered.values()))
        large = len(self.builder.graph) > LARGE or len(singles) > _MANY_DEVICES
        asked = 1 if len(singles) > _MANY_DEVICES else _ASKED_OF_PARTS
        policies = [e.policy for e in sorted(together, key=lambda e: e.makespan_s)[:asked]]
        refined = self._ask_refine() if self._may_search() else []
        together += refined
        ranked = distinct(together)
        parts = [self._ask(policies, devices) for devices in self._parts()]
        best_parts = [entry for answers in parts for entry in distinct(answers)[:1]]
        if not large:
            self._simulate(singles, len(singles))
        all_of_them = not large and len(self.builder.graph) <= _FEW
        self._simulate(ranked, len(ranked) if all_of_them else _SIMULATED_LARGE if large else SIMULATED)
        others = [entry for entry in distinct([*ranked, *best_parts]) if entry not in ranked]
        self._simulate(others, _SIMULATED_PARTS_LARGE if large else _SIMULATED_PARTS)
        self._simulate([*refined, *(e for e in singles if self._may_be_best(e))], len(singles) + 1)
        if self._may_search():
            self._search([*singles, *together, *chain.from_iterable(parts)])
        if self.plan is None:
            raise self.refusals[0]
        return replace(self.plan, candidates=tuple(self.considered.values()))

    def _optimal_plan(self, singles: Sequence[PolicyResult], together: Sequence[PolicyResult]) -> Plan | None:
        """Return the plan of the only device that can run the tasks, if it takes no longer than any plan must."""
        problem = self.builder.problem()
        if len(self._used_devices()) != 1:
            return None
        bound_s = quick_bound_s(problem) * (1.0 + ROUNDING)
        self._simulate([entry for entry in [*singles, *together] if entry.makespan_s <= bound_s], 1)
        return self.plan if self.plan is not None and self.plan.makespan_s <= bound_s else None

    def _used_devices(self) -> list[int]:
        """Return the indices of the devices that can run some task."""
        problem = self.builder.problem()
        works = problem.implementation[(problem.implementation != NOTHING).any(axis=1)] != NOTHING
        return [int(device) for device in np.flatnonzero(works.any(axis=0))]

    def _has_single_lane(self) -> bool:
        """Return whether one lane of a CPU or the host must run everything, so that policies only differ in the order.

        The order changes nothing unless memory is short or there are copies on another lane: a CPU copies with its
        computing cores, so no order hides copies.
        """
        problem, used = self.builder.problem(), self._used_devices()
        if len(used) != 1:
            return False
        device = self.builder.platform.device(problem.devices[used[0]])
        return device.kind in ("cpu", "host") and int(np.diff(problem.tables.device_start)[used[0]]) == 1

    def _ask(self, policies: Sequence[str], devices: tuple[str, ...] | None) -> list[PolicyResult]:
        suffix = "" if devices is None else f"[{_named(devices) or HOST}]"
        self.builder.steps.expect(len(policies))
        try:
            entries, refusals = run_policies(self.builder.problem(devices), policies, suffix, self.builder.steps)
        except CapabilityError as error:
            entries, refusals = [], [PolicyRefusal(name, suffix, error) for name in policies]
        for entry in entries:
            self.considered[entry.label] = Candidate(entry.label, None, None, entry.makespan_s)
        for refusal in refusals:
            self.considered[refusal.label] = Candidate(refusal.label, None, str(refusal.error))
            self.refusals.append(refusal.error)
        return entries

    def _may_search(self) -> bool:
        """Return whether any of the search's budget is left, and the problem is not too large for it."""
        if len(self.builder.graph) * len(self.builder.platform.devices) > _SEARCHED_WORK:
            return False
        left_s = self.budget.left_s()
        return self.budget.steps != 0 and (left_s is None or left_s > 0.0)

    def _ask_refine(self) -> list[PolicyResult]:
        """Return the timetable of the policy `refine`, or its best one when the budget ends."""
        problem = self.builder.problem()
        try:
            timetable = self.budget.refine_by_policy(problem)
        except (CapabilityError, PolicyError) as error:
            self.considered[REFINE] = Candidate(REFINE, None, str(error))
            self.refusals.append(error)
            return []
        validate(problem, timetable, policy=REFINE)
        return [self._consider(REFINE, "", problem, timetable)]

    def _consider(self, policy: str, suffix: str, problem: Problem, timetable: Timetable) -> PolicyResult:
        """Return a timetable as a candidate that is not simulated yet."""
        entry = PolicyResult(policy, suffix, problem, timetable, makespan_s(problem, timetable))
        self.considered[entry.label] = Candidate(entry.label, None, None, entry.makespan_s)
        return entry

    def _simulate(self, entries: Sequence[PolicyResult], count: int) -> None:
        """Build and simulate plans of the first ``count`` entries that have none yet."""
        for entry in entries:
            candidate = self.considered[entry.label]
            if count == 0:
                return
            if candidate.makespan_s is not None or candidate.refused is not None:
                continue
            try:
                # The search takes it that copies are early.
                plan = self.builder.build(entry, UNLESS_LONGER if entry.policy == REFINED else WORTH)
            except (PlanError, PolicyError) as error:
                self.considered[entry.label] = replace(candidate, refused=str(error))
                self.refusals.append(error)
                continue
            count -= 1
            self.considered[entry.label] = replace(candidate, makespan_s=plan.makespan_s)
            self.rivals.add(replace(plan, policy=f"{AUTO}: {entry.label}"), penalised_makespan_s(plan))
            # On a tie up to rounding, the simpler candidate, which comes first, is kept.
            if self.plan is None or penalised_makespan_s(plan) < penalised_makespan_s(self.plan) * (1.0 - ROUNDING):
                self.plan = replace(plan, policy=f"{AUTO}: {entry.label}")

    def _search(self, entries: Sequence[PolicyResult]) -> None:
        """Search from the timetables of the device set that did best in simulation."""
        simulated = [(s, n) for n, e in enumerate(entries) if (s := self.considered[e.label].makespan_s) is not None]
        if not simulated:
            return
        self.builder.steps.expect(1)
        self.builder.steps.begin("search")
        ranked = [entries[n] for _, n in sorted(simulated)]
        problem, suffix = ranked[0].problem, ranked[0].suffix
        if len(problem) > _SEARCHED_WITH_LANES or len(problem.devices) > _MANY_DEVICES:
            begin = distinct([e for e in entries if e.problem is problem])
            timetable = self.budget.refine(problem, [e.timetable for e in begin])
            validate(problem, timetable, policy=REFINED)
            entry = self._consider(REFINED, suffix, problem, timetable)
            if any(entry.equals_schedule(other) for other in begin):
                del self.considered[entry.label]  # nothing better was found
            else:
                self._simulate([entry], 1)
            return
        if not any(pair.factor > 0.0 for pair in self.builder.platform.interferences):
            problem, suffix = self.builder.problem(), ""  # devices that the best set leaves out slow nothing down
        starts = [start for e in ranked if (start := e.timetable_for(problem)) is not None]
        best: Candidate | None = None
        for timetable in searched_timetables(problem, self.builder.platform, starts, self.budget):
            entry = self._consider(REFINED, suffix, problem, timetable)
            self._simulate([entry], 1)
            found = self.considered[entry.label]
            if best is None or (found.makespan_s or math.inf) < (best.makespan_s or math.inf):
                best = found
        if best is not None:
            self.considered[best.policy] = best

    def _fewer_machines(self) -> Iterator[tuple[str, ...]]:
        """Yield the devices of the fastest machines, if the platform has more."""
        problem = self.builder.problem()
        starts = problem.tables.machine_start
        fastest = np.argsort(-_machine_rates(problem), kind="stable")
        for count in _FEWER_MACHINES:
            if count < len(fastest):
                kept = sorted(fastest[:count].tolist())
                yield tuple([name for m in kept for name in problem.devices[starts[m] : starts[m + 1]]])

    def _may_be_best(self, single: PolicyResult) -> bool:
        """Return whether a single device's work alone takes less time than the best plan."""
        if self.plan is None:
            return True
        tables, timetable = single.problem.tables, single.timetable
        device = tables.processor_device[timetable.processor]
        work_s = np.bincount(device, timetable.finish_s - timetable.start_s, len(single.problem.devices))
        return bool((work_s / np.diff(tables.device_start)).max() < self.plan.makespan_s)

    def _parts(self) -> Iterator[tuple[str, ...]]:
        """Yield subsets of the devices: all, or those that leave out one device, or none, by their number.

        The empty one leaves all to the host, if it has several lanes: policies know of no shared cores. Of many
        machines, the subsets are the fastest ones: on fewer machines less data travels.
        """
        devices = [d.name for d in self.builder.platform.compute_devices]
        count = len(devices)
        yield from self._fewer_machines()
        if count > _MANY_DEVICES or len(self.builder.graph) * count**2 > _PART_WORK:
            return
        if any(d.is_host and d.lanes > 1 and d.processor is not None for d in self.builder.platform.devices):
            yield ()
        sizes = range(1, count) if count <= _ALL_SUBSETS else range(count - 1, count)
        for size in sizes:
            yield from combinations(devices, size)


def _named(devices: Sequence[str]) -> str:
    """Return the names of devices; of many the number of their machines."""
    return ",".join(devices) if len(devices) < _MANY_DEVICES else plural(len(set(map(machine_of, devices))), "machine")


def _machine_rates(problem: Problem) -> Floats:
    """Return the work of each machine in a second; the work of a task is its time on the fastest device."""
    tables = problem.tables
    work_s = np.bincount(tables.kind, minlength=len(tables.seconds)) * tables.seconds.min(axis=1)
    works = np.isfinite(tables.seconds) & (tables.seconds > 0.0)
    rates = np.divide(work_s[:, None], tables.seconds, out=np.zeros(tables.seconds.shape), where=works).sum(axis=0)
    return np.add.reduceat(rates * np.diff(tables.device_start), tables.machine_start[:-1])


def repeats_copies_or_tasks(plan: Plan) -> bool:
    """Return whether a plan copies an array twice or runs a task twice, as plans do where memory is short."""
    copied: list[object] = []
    for table in map(lane_table, plan.lanes):
        if table.again.any():
            return True
        copies = np.flatnonzero(table.kind.numbered({"copy": 1}) == 1)
        arrays = table.use_array.index[table.use_starts[copies]]
        copied += map(table.use_array.values.__getitem__, arrays.tolist())
    return len(set(copied)) < len(copied)


def _has_copy_lane(plan: Plan) -> bool:
    """Return whether a plan has a lane of copies only."""
    return any(lane.kind == "copy" for lane in plan.lanes)


def penalised_makespan_s(plan: Plan) -> float:
    """Return the makespan, with a margin added if devices that slow each other down are used together."""
    together = {frozenset((i.first, i.second)) for i in plan.platform.interferences if i.factor > 0.0}
    if not together:
        return plan.makespan_s
    barriers = {task.name for task in plan.tasks if task.kind == "barrier"}
    used = {a.device for a in plan.schedule.assignments if a.task not in barriers}
    crowded = any(frozenset(pair) in together for pair in combinations(sorted(used), 2))
    return plan.makespan_s * (1.0 + CROWDED) if crowded else plan.makespan_s
