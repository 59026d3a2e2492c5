# SPDX-License-Identifier: Apache-2.0
"""Durations of a run's tasks, by kind of task, for the history."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

from syclsched.costs.history import HistoryKey, history_key
from syclsched.execution.core.execution_records import Record, Times, record_seconds
from syclsched.execution.core.history_feed import FEED, HistoryFeed
from syclsched.execution.dispatch.prepared import PreparedPlan
from syclsched.execution.handle.engine import Engine, EngineRecorder
from syclsched.execution.handle.trace_merging import EngineTrace
from syclsched.execution.replay.replay import Replay
from syclsched.execution.runner.plan_makespans import PlanMakespans
from syclsched.model.recovery import Recovery

#: The first runs of a plan are measured, then one in ``_ONE_IN``, and at most one in ``_INTERVAL_S``.
_FIRST_RUNS: Final = 5
_ONE_IN, _INTERVAL_S = 64, 2.0

#: Where n instances of a stream overlap, one in n times so many runs alone, to be measured. While it runs, and the last
#: before it ends, up to 2 n others do not begin: at most a hundredth of the throughput.
_ALONE_ONE_IN: Final = 200

#: A task whose predicted duration is at most this multiple of that on an idle machine shares its cores with no other.
_UNSHARED: Final = 1.05


#: Key, predicted slow-down by other tasks, and whether it is host work, by instruction number.
_Kinds = dict[int, tuple[HistoryKey, float, bool]]


class DurationRecorder:
    """Passes the task durations of a plan's runs on to the history: an `EngineRecorder` of runs that run alone."""

    def __init__(
        self,
        prepared: PreparedPlan,
        feed: HistoryFeed = FEED,
        makespans: PlanMakespans | None = None,
    ) -> None:
        self._prepared, self._feed = prepared, feed
        self._makespans = makespans
        self._runs = 0
        self._next_s = 0.0
        feed.begin()

    def add(
        self,
        engine: Engine,
        generation: int = 0,
        before: tuple[EngineTrace, ...] = (),
        recoveries: tuple[Recovery, ...] = (),
    ) -> None:
        """Queue the durations of a run that has ended, unless enough were measured lately."""
        self.add_run(engine, recoveries, overlaps=False)

    def add_run(self, engine: Engine, recoveries: tuple[Recovery, ...], *, overlaps: bool, due: bool = False) -> None:
        """Queue the durations of a run that has ended, and its makespan unless it overlapped with others."""
        ended_ns = time.perf_counter_ns()
        failed = engine.error is not None or not engine.failures.none or bool(recoveries)
        if self._makespans is not None and not engine.cancelled and (engine.error is not None or recoveries):
            self._feed.add(None, self._makespans.failed())
        if failed or not engine.recording or (overlaps and self.is_concurrent) or not (due or self._is_due()):
            return
        times: Times | Mapping[int, Record] | None = None
        skipped = self._library_calls
        if isinstance(engine, Replay):
            times = engine.times
            skipped = frozenset() if engine.times_each_call else skipped
        is_first = not due and self._runs == 1
        makespan = None if self._makespans is None or overlaps else self._makespans.of_run(engine, ended_ns)
        self._feed.add(partial(self._durations, times or engine.records, skipped, is_first=is_first), makespan)

    def add_call(self, seconds: float) -> bool:
        """Queue the makespan of a run that was one call of compiled code; return whether more are wanted."""
        if self._makespans is None or self._runs >= _FIRST_RUNS:
            return False
        self._runs += 1
        self._feed.add(None, self._makespans.of_call(seconds))
        return True

    def _is_due(self) -> bool:
        self._runs += 1
        if self._runs <= _FIRST_RUNS:
            return True
        if self._runs % _ONE_IN or time.monotonic() < self._next_s:
            return False
        self._next_s = time.monotonic() + _INTERVAL_S
        return True

    @cached_property
    def is_concurrent(self) -> bool:
        """Whether several lanes compute: then overlapping runs slow each other down in ways that no plan predicts."""
        return sum(lane.kind != "copy" and bool(lane.instructions) for lane in self._prepared.plan.lanes) > 1

    @cached_property
    def _library_calls(self) -> frozenset[int]:
        """Instructions whose recorded times are shares of the time of several calls."""
        derived = self._prepared.program.derived
        if "library calls" not in derived:
            work = self._prepared.work.items()
            found = frozenset(number for number, piece in work if piece.implementation.kind == "library")
            derived["library calls"] = found
        calls: frozenset[int] = derived["library calls"]
        return calls

    @cached_property
    def _kinds(self) -> _Kinds:
        """The kinds of the instructions with a task; found by the first run of a plan."""
        derived, lanes = self._prepared.program.derived, self._prepared.plan.lanes
        known: tuple[object, _Kinds] | None = derived.get("kinds")
        if known is None or known[0] is not lanes:
            known = derived["kinds"] = lanes, self._find_kinds()
        return known[1]

    def _find_kinds(self) -> _Kinds:
        found: _Kinds = {}
        # By identity of operation, signature and implementation, which many tasks share, and device.
        keys: dict[tuple[int, int, int, str], HistoryKey] = {}
        work = self._prepared.work
        for lane in self._prepared.plan.lanes:
            for instruction in lane.instructions:
                piece = work.get(instruction.id)
                if piece is None or piece.writes_nothing or instruction.duration_s <= 0.0:
                    continue
                kind = id(piece.operation), id(piece.signature), id(piece.implementation), lane.device
                key = keys.get(kind)
                if key is None:
                    device_key = self._prepared.plan.platform.device(lane.device).timing_key
                    key = history_key(device_key, piece.operation, piece.implementation, piece.signature)
                    keys[kind] = key
                slowed = (instruction.finish_s - instruction.start_s) / instruction.duration_s
                found[instruction.id] = key, max(slowed, 1.0), instruction.kind == "host"
        return found

    def _durations(
        self, times: Times | Mapping[int, Record], skipped: frozenset[int], *, is_first: bool
    ) -> Sequence[tuple[HistoryKey, float]]:
        """Return the median duration of each kind of task, as if it had the machine to itself."""
        kinds = self._kinds
        each: dict[HistoryKey, list[tuple[float, float]]] = {}
        first: set[HistoryKey] = set()
        seconds = times.seconds() if isinstance(times, Times) else record_seconds(times)
        # Instructions of one kind share their key, which takes long to hash.
        known: dict[int, list[tuple[float, float]]] = {}
        for number, duration_s in sorted(seconds.items()):
            if number not in kinds or number in skipped:
                continue
            key, slowed, on_host = kinds[number]
            if is_first and on_host and key not in first:
                first.add(key)  # the first call of a host function may import modules
                continue
            measured = known.get(id(key))
            if measured is None:
                measured = known[id(key)] = each.setdefault(key, [])
            measured.append((slowed, duration_s))
        return [(key, _alone(measured)) for key, measured in each.items()]


class GenerationDurations:
    """Choice of a stream's generations that are measured: now and then one that runs alone."""

    def __init__(self, durations: DurationRecorder, in_flight: int) -> None:
        self._durations = durations
        self._overlap = in_flight > 1
        self._distance = _ALONE_ONE_IN * in_flight
        self._begun, self._next = 0, self._distance
        self._next_s = time.monotonic() + _INTERVAL_S

    @property
    def wants_alone(self) -> bool:
        """Whether the next generation is to begin when no other is in flight, and end before another begins."""
        due = self._overlap and self._durations.is_concurrent and self._begun >= self._next
        return due and time.monotonic() >= self._next_s

    def of_next(self, *, alone: bool) -> EngineRecorder:
        """Return the recorder of the next generation, which runs alone or may overlap with others."""
        self._begun += 1
        if alone:
            self._next = self._begun + self._distance
            self._next_s = time.monotonic() + _INTERVAL_S
        return self._durations if not self._overlap else _GenerationRecorder(self._durations, alone)


@dataclass(frozen=True, slots=True)
class _GenerationRecorder:
    """Passes the durations of one generation on: of one that ran alone, or where generations cannot slow each other."""

    durations: DurationRecorder
    alone: bool

    def add(
        self,
        engine: Engine,
        generation: int = 0,
        before: tuple[EngineTrace, ...] = (),
        recoveries: tuple[Recovery, ...] = (),
    ) -> None:
        """Queue the durations of a generation that has ended."""
        self.durations.add_run(engine, recoveries, overlaps=not self.alone, due=self.alone)


def _alone(measured: Sequence[tuple[float, float]]) -> float:
    """Return the median duration from pairs of predicted slow-down and duration, unshared ones if there are any."""
    unshared = [seconds for slowed, seconds in measured if slowed <= _UNSHARED]
    return statistics.median(unshared or [seconds / slowed for slowed, seconds in measured])
