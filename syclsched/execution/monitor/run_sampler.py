# SPDX-License-Identifier: Apache-2.0
"""Sampler of this process's runs: observes their begin and end, samples their lanes, and describes their state."""

from __future__ import annotations

import logging
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Final

from syclsched.devices.memory.space_pools import memory_info
from syclsched.execution.core.clock import now_ns
from syclsched.execution.core.progress import LaneCount, LaneProgress
from syclsched.execution.dispatch.turns import turn_of
from syclsched.execution.handle.engine import Engine
from syclsched.execution.handle.resources import Resources
from syclsched.execution.monitor.lane_busy import LaneBusyMeter, busy_seconds
from syclsched.execution.replay.replay import Replay
from syclsched.model.plan import Plan
from syclsched.model.profile import MAX_NAME
from syclsched.model.text.units import shortened
from syclsched.monitoring.status import EndedRun, Ending, GraphStatus, LaneStatus, MemoryStatus, RunStatus

_LOGGER = logging.getLogger("syclsched")
#: Most graphs that are described; those used last stay.
_MOST_GRAPHS: Final = 16
#: Most runs in flight of a graph that are described, and most ended ones.
_MOST_RUNS: Final = 8


@dataclass(eq=False, slots=True)
class _ObservedRun:
    """A run in flight, or one that has ended and is not counted yet."""

    sampler: RunSampler
    plan: Plan
    resources: Resources | None  # None for a run that is one call of compiled code, or has ended
    begun_ns: int
    is_call: bool = False
    ended_ns: int = 0
    ending: Ending = "done"
    is_dropped: bool = False  # whether the run is not to be counted: a call that continues as another run
    is_counted: bool = False
    was_sampled: bool = False
    is_preparing: bool = False
    recoveries: int = 0
    counted_recoveries: int = 0
    positions: Sequence[LaneProgress] = ()
    counts: Sequence[LaneCount] = ()

    def note_end(self) -> None:
        """Note the end of the run, or that it was given up; keep none of its memory, unless it is the latest one."""
        self.ended_ns = now_ns()
        resources, self.resources = self.resources, None
        if resources is not None:
            engine = resources.engine
            self.note_begin(resources)
            if resources.failure is not None:
                self.ending = "failed"
            elif resources.engines.cancelled:
                self.ending = "cancelled"
            if resources.hung is None:
                self.sampler.latest_engines[id(self.plan)] = self, engine
        self.sampler.over.append(self)

    def note_begin(self, resources: Resources) -> None:
        """Note when the run submitted something for the first time, and how often it was recovered."""
        self.recoveries = len(resources.engines.recoveries)
        submitted_ns = resources.engine.first_submission_ns
        if submitted_ns is not None and not self.recoveries:
            self.begun_ns = submitted_ns

    def end(self, *, completed: bool) -> None:
        """Note the end of a call of compiled code."""
        self.is_dropped = not completed
        self.note_end()


@dataclass(eq=False, slots=True)
class _ObservedGraph:
    """The runs of one plan, or of one graph under a dynamic policy."""

    name: str
    policy: str
    meter: LaneBusyMeter
    used: int = 0  # increases with each use of a graph
    plan: Plan | None = None  # of the latest run
    in_flight: dict[int, _ObservedRun] = field(default_factory=dict)
    endings: dict[Ending, int] = field(default_factory=lambda: {"done": 0, "failed": 0, "cancelled": 0})
    recoveries: int = 0
    ended: deque[EndedRun] = field(default_factory=partial(deque, maxlen=_MOST_RUNS))
    counts: Sequence[LaneCount] = ()  # of the last sampled run
    tasks: tuple[Plan, int] | None = None  # a plan, and how many executions of tasks it has
    predicted: tuple[Plan, dict[str, float]] | None = None  # a plan, and its busy shares by lane


class RunSampler:
    """Observes all runs of the process; implements `syclsched.execution.handle.run_observer.RunObserver`.

    Threads that start and end runs only append them to queues, without a lock: a thread that has to wait for another
    one delays a short run by more than its duration where the machine is busy. All else is done by one other thread.
    """

    def __init__(self) -> None:
        self._begun: deque[_ObservedRun] = deque()
        #: Runs that have ended and are not counted yet, and the latest of each plan with its engine.
        self.over: deque[_ObservedRun] = deque()
        self.latest_engines: dict[int, tuple[_ObservedRun, Engine]] = {}
        self._graphs: dict[tuple[str, str, str], _ObservedGraph] = {}
        self._latest: tuple[Plan, _ObservedGraph] | None = None
        self._uses = 0
        self._sampled_ns = now_ns()
        self._memory: tuple[MemoryStatus, ...] = ()

    # --- on threads that start and end runs -----------------------------------------------------------

    def began(self, resources: Resources) -> None:
        """Note a run that is about to start, or that is in flight."""
        run = _ObservedRun(self, resources.engines.plan, resources, now_ns())
        self._begun.append(run)
        resources.before_end(run.note_end)

    def call_began(self, plan: Plan) -> _ObservedRun:
        """Note a run that is one call of compiled code."""
        run = _ObservedRun(self, plan, None, now_ns(), is_call=True)
        self._begun.append(run)
        return run

    # --- on the monitor's thread ----------------------------------------------------------------------

    def sample(self) -> None:
        """Sample the lanes of the runs in flight, and the times of runs that have ended."""
        over = len(self.over)  # before the next line: a run that has ended is among those that have begun
        for _ in range(len(self._begun)):
            self._add(self._begun.popleft())
        now_s, sampled_ns = time.monotonic(), now_ns()
        engines, self.latest_engines = self.latest_engines, {}
        ended: dict[_ObservedGraph, list[_ObservedRun]] = {}
        for _ in range(over):
            run = self.over.popleft()
            graph = self._graph_of(run.plan)
            if graph.in_flight.pop(id(run), None) is not None and not run.is_dropped:
                self._count(graph, run)
                ended.setdefault(graph, []).append(run)
        for plan_id, found in engines.items():
            if not found[0].is_counted:  # it has ended since the first line: it is sampled again with its run
                self.latest_engines.setdefault(plan_id, found)
        for graph, runs in ended.items():
            plans = {id(run.plan) for run in runs}
            latest = [each for plan_id, each in engines.items() if plan_id in plans]
            self._examine(graph, runs, latest, now_s, sampled_ns)
        for graph in self._graphs.values():
            for run in list(islice(graph.in_flight.values(), _MOST_RUNS)):
                if run.resources is not None:
                    self._sample_run(graph, run, run.resources, now_s, sampled_ns)
        self._sampled_ns = sampled_ns

    def _add(self, run: _ObservedRun) -> None:
        graph = self._graph_of(run.plan)
        if run.resources is not None and any(run.resources is each.resources for each in graph.in_flight.values()):
            return  # noted twice: it began when monitoring did
        self._uses += 1
        graph.used, graph.plan = self._uses, run.plan
        graph.in_flight[id(run)] = run

    def _graph_of(self, plan: Plan) -> _ObservedGraph:
        if self._latest is not None and self._latest[0] is plan:
            return self._latest[1]
        key = plan.name, plan.policy, plan.fingerprint
        graph = self._graphs.get(key)
        if graph is None:
            if len(self._graphs) >= _MOST_GRAPHS:
                self._drop_oldest()
            meter = LaneBusyMeter(time.monotonic())
            graph = self._graphs[key] = _ObservedGraph(_shown(plan.name), _shown(plan.policy), meter)
        self._latest = plan, graph
        return graph

    def _drop_oldest(self) -> None:
        idle = [(graph.used, key) for key, graph in self._graphs.items() if not graph.in_flight]
        if idle:
            del self._graphs[min(idle)[1]]

    def _count(self, graph: _ObservedGraph, run: _ObservedRun) -> None:
        """Count a run that has ended, or was given up."""
        graph.recoveries += run.recoveries - run.counted_recoveries
        graph.endings[run.ending] += 1
        run.is_counted = True
        ago_s = (now_ns() - run.ended_ns) * 1e-9
        graph.ended.append(EndedRun(time.time() - ago_s, _seconds(run), run.ending))

    def _sample_run(
        self, graph: _ObservedGraph, run: _ObservedRun, resources: Resources, now_s: float, sampled_ns: int
    ) -> None:
        if resources.hung is not None:  # its engine may never end
            run.note_end()
            return
        engine = resources.engine
        run.note_begin(resources)
        graph.recoveries += run.recoveries - run.counted_recoveries
        run.counted_recoveries = run.recoveries
        is_compiled = isinstance(engine, Replay)  # before the run
        run.is_preparing = not is_compiled and engine.first_submission_ns is None
        try:
            run.positions, run.counts = engine.positions(), engine.lane_counts()
        except Exception:  # an error with one run must not end the monitoring of the others
            _LOGGER.debug("a run could not be sampled", exc_info=True)
            return
        run.was_sampled = True
        weight_s = max(0.0, (sampled_ns - max(self._sampled_ns, run.begun_ns)) * 1e-9)
        graph.meter.add_sample(now_s, id(run), weight_s, {p.lane for p in run.positions if p.runs})

    def _examine(
        self,
        graph: _ObservedGraph,
        runs: Sequence[_ObservedRun],
        latest: Sequence[tuple[_ObservedRun, Engine]],
        now_s: float,
        now_ns: int,
    ) -> None:
        """Have the busy shares of a graph heed runs that have ended, by the times of the latest ones."""
        busy_s: defaultdict[str, float] = defaultdict(float)
        examined_s = 0.0
        for run, engine in latest:
            try:
                found = busy_seconds(engine)
                graph.counts = engine.lane_counts()
            except Exception:  # as above
                _LOGGER.debug("the times of a run could not be read", exc_info=True)
                continue
            if found is not None:
                examined_s += _seconds(run)
                for lane, seconds in found.items():
                    busy_s[lane] += seconds
        sampled = [id(run) for run in runs if run.was_sampled]
        if examined_s > 0.0:
            scale = sum(map(_seconds, runs)) / examined_s
            begun_s = now_s - (now_ns - min(run.begun_ns for run in runs)) * 1e-9
            graph.meter.replace_samples(sampled, begun_s, now_s, {lane: s * scale for lane, s in busy_s.items()})
        elif not sampled:
            graph.meter.note_unknown(now_s)

    # --- the state --------------------------------------------------------------------------------------

    def status(self) -> tuple[GraphStatus, ...]:
        """Return the state of all graphs, those used last first."""
        graphs = sorted(self._graphs.values(), key=lambda graph: -graph.used)
        now_s, at_ns = time.monotonic(), now_ns()
        return tuple(self._status_of(graph, now_s, at_ns) for graph in graphs)

    def memory(self) -> tuple[MemoryStatus, ...]:
        """Return the process's memory by space."""
        try:
            found = memory_info()
        except RuntimeError:  # devices were opened at this moment
            return self._memory
        self._memory = tuple(
            MemoryStatus(space, info.in_use_bytes, info.reserved_bytes, info.peak_in_use_bytes, info.limit_bytes)
            for space, info in sorted(found.items())
        )
        return self._memory

    def _status_of(self, graph: _ObservedGraph, now_s: float, at_ns: int) -> GraphStatus:
        runs = list(islice(graph.in_flight.values(), _MOST_RUNS))
        predicted_s = None if graph.plan is None else graph.plan.expected_s
        return GraphStatus(
            graph.name,
            graph.policy,
            predicted_s or None,
            tuple(self._status_of_run(graph, run, at_ns) for run in runs),
            len(graph.in_flight),
            graph.endings["done"],
            graph.endings["failed"],
            graph.endings["cancelled"],
            graph.recoveries,
            tuple(graph.ended),
            _status_of_lanes(graph, runs, graph.meter.shares(now_s)),
        )

    def _status_of_run(self, graph: _ObservedGraph, run: _ObservedRun, at_ns: int) -> RunStatus:
        total, counts = _tasks(graph, run.plan), run.counts
        done = sum(count.done for count in counts)
        known = [count.tasks for count in counts if count.tasks is not None]
        if len(known) == len(counts) and counts:  # after a recovery, the engine's tasks are those that were left
            done = max(0, total - sum(known) + done)
        elapsed_s = max(0.0, (at_ns - run.begun_ns) * 1e-9)
        engine = None if run.resources is None else run.resources.engine
        turn = None if engine is None else turn_of(engine)
        status = RunStatus(elapsed_s, run.is_preparing, min(done, total), total, run.is_call)
        return status if turn is None else replace(status, priority=turn.priority, share=turn.share, waits=turn.waits)


def _seconds(run: _ObservedRun) -> float:
    return max(0.0, (run.ended_ns - run.begun_ns) * 1e-9)


def _tasks(graph: _ObservedGraph, plan: Plan) -> int:
    """Return how many executions of tasks a plan has; without instructions, how many tasks."""
    if graph.tasks is None or graph.tasks[0] is not plan:
        executed = sum(i.kind in ("launch", "host") for lane in plan.lanes for i in lane.instructions)
        graph.tasks = plan, executed or len(plan.tasks)
    return graph.tasks[1]


def _status_of_lanes(
    graph: _ObservedGraph, runs: Sequence[_ObservedRun], shares: dict[str, float] | None
) -> tuple[LaneStatus, ...]:
    """Return the state of the lanes: over all runs in flight, or after the last run if none is."""
    graph.counts = graph.counts or _plan_lanes(graph.plan)
    counted = [run.counts for run in runs if run.counts] or [graph.counts]
    lanes: dict[str, LaneCount] = {}
    for counts in counted:
        for count in counts:
            before = lanes.get(count.lane)
            lanes[count.lane] = count if before is None else _sum(before, count)
    predicted = _predicted_shares(graph)
    at: dict[str, LaneProgress] = {}
    for position in (position for run in runs for position in run.positions):
        known = at.get(position.lane)
        if known is None or (position.runs and not known.runs):
            at[position.lane] = position
    return tuple(
        LaneStatus(
            count.lane,
            count.device,
            count.kind,
            count.done,
            count.tasks,
            None if shares is None else shares.get(count.lane, 0.0),
            None if count.lane not in at else _shown(at[count.lane].name),
            None if count.lane not in at else _shown_or_none(at[count.lane].waits_for),
            predicted.get(count.lane),
        )
        for count in lanes.values()
    )


def _predicted_shares(graph: _ObservedGraph) -> dict[str, float]:
    """Return the share of the predicted makespan in which each lane executes instructions."""
    plan = graph.plan
    if plan is None or plan.makespan_s <= 0.0:
        return {}
    if graph.predicted is None or graph.predicted[0] is not plan:
        busy = {lane.name: sum(i.duration_s for i in lane.instructions) for lane in plan.lanes}
        graph.predicted = plan, {name: seconds / plan.makespan_s for name, seconds in busy.items()}
    return graph.predicted[1]


def _sum(a: LaneCount, b: LaneCount) -> LaneCount:
    tasks = None if a.tasks is None or b.tasks is None else a.tasks + b.tasks
    return LaneCount(a.lane, a.device, a.kind, a.done + b.done, tasks)


def _plan_lanes(plan: Plan | None) -> list[LaneCount]:
    """Return the lanes of a plan whose runs have not been sampled, as they are after a run."""
    found = []
    for lane in () if plan is None else plan.lanes:
        tasks = sum(i.kind in ("launch", "host") for i in lane.instructions)
        if lane.instructions:
            found.append(LaneCount(lane.name, lane.device, lane.kind, tasks, tasks))
    return found


def _shown(text: str) -> str:
    return shortened(text, MAX_NAME)


def _shown_or_none(text: str | None) -> str | None:
    return None if text is None else _shown(text)
