# SPDX-License-Identifier: Apache-2.0
"""Exact solver: the scheduling problem as a constraint programme for CP-SAT of OR-tools (extra ``exact``).

The whole model: spaces, items, in-place updates, lanes, releases, wanted results, and copies on channels, where each
device reaches one space. A copy lane is a channel: an in-order queue whose order is chosen.
CP-SAT also improves by large-neighbourhood search while it proves, so it is useful within a time limit as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from syclsched.errors import PolicyError
from syclsched.scheduling.core.orders import time_order
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.search.incremental.decode import read_in
from syclsched.scheduling.search.incremental.evaluator import IncrementalEvaluator
from syclsched.scheduling.tables import Floats, Ints
from syclsched.scheduling.timetable import Copies, Timetable

#: Integer time units in the makespan of the start solution.
TICKS = 1_000_000


@dataclass(frozen=True, slots=True)
class _ExactResult:
    """Result of the exact solver."""

    timetable: Timetable  # never worse than the start solution
    makespan_s: float  # of the timetable
    bound_s: float  # lower bound on the makespan, proved by CP-SAT
    optimal: bool  # whether makespan and bound are equal, up to the rounding of times to `TICKS`


def solve(problem: Problem, start: Timetable, *, limit_s: float = 60.0) -> _ExactResult:
    """Solve a problem with CP-SAT within a time limit, from a start timetable."""
    cp_model = _cp_model()
    if problem.has_channels and (np.diff(problem.tables.reach_start) > 1).any():
        raise PolicyError(
            "copies wait for each other on channels, and a device reaches several memory spaces",
            where="exact",
            hint="Schedule without contention, or use another policy",
        )
    start_s = makespan_s(problem, start)
    if start_s <= 0.0:
        return _ExactResult(start, start_s, start_s, True)
    programme = _Programme(cp_model, problem, start, start_s)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limit_s
    solver.parameters.num_workers = 1  # with several, results depend on their speed
    solver.parameters.random_seed = 0
    status = solver.solve(programme.model)
    # All times are rounded down, so the bound of the programme holds for the problem.
    bound_s = min(start_s, max(0.0, solver.best_objective_bound) * programme.tick_s)
    best, best_s = start, start_s
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        found = programme.timetable(solver)
        if makespan_s(problem, found) < best_s:
            best, best_s = found, makespan_s(problem, found)
    # Each task and copy of the longest chain may lose a tick by rounding.
    rounding_s = (2 * len(problem) + len(programme.copies) + 2) * programme.tick_s
    return _ExactResult(best, best_s, bound_s, status == cp_model.OPTIMAL and best_s <= bound_s + rounding_s)


def _cp_model() -> Any:
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise PolicyError(
            "OR-tools is not installed", where="exact", hint='Install it with pip install "syclsched[exact]"'
        ) from error
    return cp_model


class _Programme:
    """The constraint programme of a problem."""

    def __init__(self, cp_model: Any, problem: Problem, start: Timetable, start_s: float) -> None:
        self.problem = problem
        self.tick_s = start_s / TICKS
        self.model = cp_model.CpModel()
        self._evaluator = IncrementalEvaluator(problem.tables, 0)
        tables = problem.tables
        count = len(problem)
        self.begin = [self._time() for _ in range(count)]
        self.end = [self._time() for _ in range(count)]
        self.on: list[dict[int, Any]] = []
        self.makespan = self._time()
        self._place_tasks(start)
        for task in range(count):
            for before in tables.pred_task[tables.pred_start[task] : tables.pred_start[task + 1]].tolist():
                self.model.add(self.begin[task] >= self.end[before])
            self.model.add(self.makespan >= self.end[task])
        self.lies = self._origins()
        #: By item, origin and destination: whether a copy on a channel is made, its begin and its end.
        self.copies: dict[tuple[int, int, int], tuple[Any, Any, Any]] = {}
        self._channels: dict[int, list[Any]] = {}
        self._copies()
        self._constrain_results()
        for intervals in self._channels.values():
            self.model.add_no_overlap(intervals)
        self._hint_copies(start)
        self.model.add_hint(self.makespan, TICKS)
        self.model.minimize(self.makespan)

    def _time(self) -> Any:
        return self.model.new_int_var(0, TICKS + 1, "")

    def _ticks(self, seconds: float) -> int:
        return math.floor(seconds / self.tick_s)

    def _place_tasks(self, start: Timetable) -> None:
        tables, model, costs = self.problem.tables, self.model, self._evaluator.state.costs
        chosen = tables.processor_device[start.processor]
        running: list[list[Any]] = [[] for _ in self.problem.devices]
        for task in range(len(self.problem)):
            on: dict[int, Any] = {}
            for device in range(len(self.problem.devices)):
                cost = costs[task, device]
                if not math.isfinite(cost["seconds"] + cost["fixed_s"]) or cost["seconds"] > TICKS * self.tick_s:
                    continue
                is_here = model.new_bool_var("")
                takes = self._ticks(cost["seconds"])
                running[device].append(
                    model.new_optional_interval_var(self.begin[task], takes, self.end[task], is_here, "")
                )
                model.add(self.begin[task] >= self._ticks(cost["fixed_s"])).only_enforce_if(is_here)
                model.add_hint(is_here, int(chosen[task] == device))
                on[device] = is_here
            model.add_exactly_one(on.values())
            model.add_hint(self.begin[task], self._ticks(float(start.start_s[task])))
            self.on.append(on)
        for device, intervals in enumerate(running):
            lanes = int(tables.device_start[device + 1] - tables.device_start[device])
            if lanes == 1:
                model.add_no_overlap(intervals)
            else:
                model.add_cumulative(intervals, [1] * len(intervals), lanes)

    def _origins(self) -> dict[int, dict[int, Any]]:
        """Return, for each made item and space, the literal that is true if the item is in the space when made."""
        tables, model, homes = self.problem.tables, self.model, self._evaluator.state.homes
        lies: dict[int, dict[int, Any]] = {}
        for task in range(len(self.problem)):
            for k in range(int(tables.make_start[task]), int(tables.make_start[task + 1])):
                item, replaced = int(tables.make_item[k]), int(tables.make_replaces[k])
                where: dict[int, list[Any]] = {}
                for device, is_here in self.on[task].items():
                    if replaced < 0:
                        where.setdefault(int(homes[device]), []).append(is_here)
                        continue
                    for origin, was_there in self._origin_of(lies, replaced).items():
                        both = model.new_bool_var("")
                        model.add_bool_and([is_here, was_there]).only_enforce_if(both)
                        model.add_bool_or([is_here.Not(), was_there.Not(), both])
                        space = self._read_in(float(tables.item_bytes[replaced]), origin, device)
                        where.setdefault(space, []).append(both)
                lies[item] = {space: self._any_of(literals) for space, literals in where.items()}
        return lies

    def _origin_of(self, lies: dict[int, dict[int, Any]], item: int) -> dict[int, Any]:
        tables = self.problem.tables
        if tables.item_producer[item] >= 0:
            return lies[item]
        return {int(tables.item_space[item]): self.model.new_constant(1)}

    def _any_of(self, literals: list[Any]) -> Any:
        if len(literals) == 1:
            return literals[0]
        some = self.model.new_bool_var("")
        # At most one of them holds: a task is on one device and an item has one origin.
        self.model.add(sum(literals) == some)
        return some

    def _read_in(self, nbytes: float, origin: int, device: int) -> int:
        return int(read_in(self._evaluator.state.lines, nbytes, origin, device))

    def _copies(self) -> None:
        tables, lines = self.problem.tables, self._evaluator.state.lines
        for task in range(len(self.problem)):
            for k in range(int(tables.read_start[task]), int(tables.read_start[task + 1])):
                item = int(tables.read_item[k])
                maker, nbytes = int(tables.item_producer[item]), float(tables.item_bytes[item])
                if nbytes == 0.0 or (maker < 0 and not self.problem.has_channels):
                    continue
                for origin, lies in self._origin_of(self.lies, item).items():
                    for device, is_here in self.on[task].items():
                        ways = lines[origin, device]
                        seconds = float((ways["latency_s"] + nbytes * ways["s_per_byte"]).min())
                        if seconds > TICKS * self.tick_s:
                            self.model.add_bool_or([lies.Not(), is_here.Not()])
                        elif seconds > 0.0 and self.problem.has_channels:
                            made, end = self._copy(item, origin, int(self._evaluator.state.homes[device]), seconds)
                            self.model.add_bool_or([lies.Not(), is_here.Not(), made])
                            self.model.add(self.begin[task] >= end).only_enforce_if([lies, is_here])
                        elif seconds > 0.0:
                            after = self.begin[task] >= self.end[maker] + self._ticks(seconds)
                            self.model.add(after).only_enforce_if([lies, is_here])

    def _constrain_results(self) -> None:
        tables, want_s = self.problem.tables, self._evaluator.state.want_s
        for k, item in enumerate(tables.want_item.tolist()):
            for origin, lies in self._origin_of(self.lies, item).items():
                seconds, maker = float(want_s[k, origin]), int(tables.item_producer[item])
                made = self.end[maker] if maker >= 0 else 0
                if seconds > TICKS * self.tick_s:
                    self.model.add_bool_and([lies.Not()])
                elif seconds > 0.0 and self.problem.has_channels:
                    copied, end = self._copy(item, origin, int(tables.want_space[k]), seconds)
                    self.model.add_implication(lies, copied)
                    self.model.add(self.makespan >= end).only_enforce_if(lies)
                else:
                    self.model.add(self.makespan >= made + self._ticks(seconds)).only_enforce_if(lies)

    def _copy(self, item: int, origin: int, destination: int, seconds: float) -> tuple[Any, Any]:
        """Return whether a copy is made, and its end; it occupies its channels."""
        key = (item, origin, destination)
        if key not in self.copies:
            model, tables = self.model, self.problem.tables
            made = model.new_bool_var("")
            begin, end = self._time(), self._time()
            interval = model.new_optional_interval_var(begin, self._ticks(seconds), end, made, "")
            if tables.item_producer[item] >= 0:
                model.add(begin >= self.end[int(tables.item_producer[item])]).only_enforce_if(made)
            for channel in {int(c) for c in tables.channel[origin, destination] if c >= 0}:
                self._channels.setdefault(channel, []).append(interval)
            self.copies[key] = made, begin, end
        made, _, end = self.copies[key]
        return made, end

    def _hint_copies(self, start: Timetable) -> None:
        """Suggest the copies of the start solution."""
        if start.copies is not None:
            known = zip(*(column.tolist() for column in start.copies[:4]), strict=True)
            starts_s = {(item, source, space): start_s for item, source, space, start_s in known}
            for key, (made, begin, _) in self.copies.items():
                self.model.add_hint(made, int(key in starts_s))
                if key in starts_s:
                    self.model.add_hint(begin, self._ticks(starts_s[key]))

    def timetable(self, solver: Any) -> Timetable:
        """Return the solution with exact times: its order and placement, decoded by the engine."""
        if self.problem.has_channels:
            return self._with_copies(solver)
        begin: Floats = np.array([float(solver.value(b)) for b in self.begin])
        end: Floats = np.array([float(solver.value(e)) for e in self.end])
        order = time_order(self.problem.tables, begin, end)
        self._evaluator.load(order, self._lanes(solver, order, end))
        return self._evaluator.timetable()

    def _lanes(self, solver: Any, order: Ints, end: Floats) -> Ints:
        """Return processors: each task on the lane of its device that has been idle longest."""
        tables = self.problem.tables
        free = np.full(len(tables.processor_device), -1.0)
        processor = np.zeros(len(order), np.int64)
        for task in order.tolist():
            device = next(d for d, is_here in self.on[task].items() if solver.boolean_value(is_here))
            first, last = int(tables.device_start[device]), int(tables.device_start[device + 1])
            lane = first + int(free[first:last].argmin())
            processor[task], free[lane] = lane, end[task]
        return processor

    def _with_copies(self, solver: Any) -> Timetable:
        """Return the solution with exact times: tasks and copies in its order, each as early as that allows."""
        tables, problem = self.problem.tables, self.problem
        # Of equal begins, producers come before consumers: tasks are numbered in a topological order.
        steps: list[tuple[int, int, tuple[int, int, int] | None]] = []
        steps += [(solver.value(begin), 2 * task, None) for task, begin in enumerate(self.begin)]
        for key, (made, begin, _) in self.copies.items():
            maker = int(tables.item_producer[key[0]])
            if solver.boolean_value(made) and (maker < 0 or solver.boolean_value(self.lies[key[0]][key[1]])):
                steps.append((solver.value(begin), 2 * maker + 1, key))
        processor = np.zeros(len(problem), np.int64)
        start, finish = np.zeros(len(problem)), np.zeros(len(problem))
        free, channel_free = np.zeros(len(tables.processor_device)), dict.fromkeys(self._channels, 0.0)
        arrival: dict[tuple[int, int], float] = {}
        made_copies: list[tuple[int, int, int, float, float]] = []
        for _, number, copy in sorted(steps, key=lambda step: step[:2]):
            if copy is not None:
                item, origin, space = copy
                maker = int(tables.item_producer[item])
                channels = [int(c) for c in tables.channel[origin, space] if c >= 0]
                at = max([finish[maker] if maker >= 0 else 0.0, *(channel_free[c] for c in channels)])
                end = at + problem.copy_seconds(float(tables.item_bytes[item]), origin, space)
                arrival[item, space] = end
                channel_free.update(dict.fromkeys(channels, end))
                made_copies.append((item, origin, space, at, end))
                continue
            task = number // 2
            device = next(d for d, is_here in self.on[task].items() if solver.boolean_value(is_here))
            home = int(self._evaluator.state.homes[device])
            first, last = int(tables.device_start[device]), int(tables.device_start[device + 1])
            lane = first + int(free[first:last].argmin())
            before = tables.pred_task[tables.pred_start[task] : tables.pred_start[task + 1]]
            reads = tables.read_item[tables.read_start[task] : tables.read_start[task + 1]].tolist()
            arrived = [arrival.get((item, home), 0.0) for item in reads]
            start[task] = max([float(tables.release_s[task]), free[lane], *finish[before].tolist(), *arrived])
            finish[task] = free[lane] = start[task] + tables.seconds[tables.kind[task], device]
            processor[task] = lane
        what = np.array([each[:3] for each in made_copies], np.int64).reshape(-1, 3).T
        when_s = np.array([each[3:] for each in made_copies], np.float64).reshape(-1, 2).T
        return Timetable(processor, start, finish, Copies(*what, *when_s))
