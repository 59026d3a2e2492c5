# SPDX-License-Identifier: Apache-2.0
"""A problem run under a dynamic policy on a virtual clock: the policy knows estimates, tasks take their true time.

Data is fetched for a task when it is bound to a lane (or given to it, if it never was in a queue), and to where a plan
wants it as soon as it is made; from where it was made, over channels in the order of these requests. A lane that is
given a task is occupied while it waits for data.

Devices may slow down or fail at a time. What ends just when a device fails has finished. Whatever else runs on it is
stopped, and so is a task elsewhere whose data was to come from its memory; its memory is lost, unless that is the home
of other devices or of the host. What was stopped can start again on another device if all that it reads is somewhere
still: copies are then made from where an item has been longest. An array that was being updated in place is lost there.
Nothing that is done is done again. Copies on channels that had been asked for keep their times.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from syclsched.errors import PolicyError
from syclsched.model.platform import HOST
from syclsched.scheduling.dynamic.book import Book
from syclsched.scheduling.dynamic.fetching import Fetcher
from syclsched.scheduling.dynamic.known import rows
from syclsched.scheduling.dynamic.outcome import DynamicRun, Interrupted, Logged, Reason, Undone
from syclsched.scheduling.dynamic.state import Decision, DynamicPolicy
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.tables import NOTHING, Floats
from syclsched.scheduling.timetable import Timetable
from syclsched.simulation.disturbances import Event, SlowDown, check_event


def run_dynamic(
    problem: Problem,
    policy: DynamicPolicy,
    *,
    estimated_s: Floats | None = None,
    copy_factor: Floats | None = None,
    events: Sequence[Event] = (),
) -> DynamicRun:
    """Run a problem under a dynamic policy."""
    for event in events:
        check_event(event, problem.devices)
    believed = problem
    if estimated_s is not None:
        if not np.array_equal(np.isinf(estimated_s), np.isinf(problem.tables.seconds)):
            raise PolicyError("estimates must be finite just where a task can run", where=f"policy {policy.name!r}")
        estimates = np.ascontiguousarray(estimated_s, dtype=np.float64)
        estimates.flags.writeable = False
        believed = replace(problem, tables=problem.tables._replace(seconds=estimates))
    return _Run(problem, believed, policy, copy_factor, events).run()


#: Kinds of events of the clock; at one time they come in this order.
_END, _RELEASE, _MISHAP = 0, 1, 2


class _Run:
    """One run: the state, and the clock's events."""

    def __init__(
        self,
        problem: Problem,
        believed: Problem,
        policy: DynamicPolicy,
        copy_factor: Floats | None,
        mishaps: Sequence[Event],
    ) -> None:
        self._problem, self._policy = problem, policy
        self._mishaps = sorted(mishaps, key=lambda event: event.at_s)
        self._true_s = problem.tables.seconds.tolist()
        self._release_s = problem.tables.release_s.tolist()
        self._book = Book(problem, policy.prepare(believed), policy.sorts_queues)
        self._state = self._book.state
        self._follows_results = bool(mishaps) or copy_factor is not None
        self._fetcher = Fetcher(
            problem, self._state, copy_factor=copy_factor, follows_results=self._follows_results
        )  # fmt: skip
        self._start_s = [math.nan] * len(problem)
        self._finish_s = [math.nan] * len(problem)
        self._takes_s = [math.nan] * len(problem)
        self._processor = [NOTHING] * len(problem)
        self._left = len(problem)
        self._slowed = [1.0] * len(problem.devices)
        #: Time, kind, task or mishap, and for ends how often the task's end had been put off.
        self._events: list[tuple[float, int, int, int]] = []
        self._put_off = [0] * len(problem)
        self._log: list[Logged] = []
        self._interrupted: list[Interrupted] = []

    def run(self) -> DynamicRun:
        """Run to the end."""
        self._fetcher.begin()
        for task in self._book.sources():
            heapq.heappush(self._events, (self._release_s[task], _RELEASE, task, 0))
        for n, event in enumerate(self._mishaps):
            heapq.heappush(self._events, (event.at_s, _MISHAP, n, 0))
        while self._next():
            now_s = self._state.now_s = self._events[0][0]
            while self._next() and self._events[0][0] <= now_s:
                _, kind, which, _ = heapq.heappop(self._events)
                if kind == _END:
                    self._end(which)
                elif kind == _RELEASE:
                    self._arrive(which)
                else:
                    self._suffer(self._mishaps[which])
            while decisions := self._policy.decide(self._state):
                for decision in decisions:
                    self._carry_out(decision)
        return self._outcome()

    def _next(self) -> bool:
        """Return whether an event is to come, after throwing away ends that were put off."""
        while self._events and self._events[0][1] == _END and self._events[0][3] != self._put_off[self._events[0][2]]:
            heapq.heappop(self._events)
        return bool(self._events)

    def _outcome(self) -> DynamicRun:
        reasons = self._reasons()
        if reasons and not self._state.gone:
            raise self._refusal(
                f"{len(reasons)} tasks are left undone, {self._problem.names[reasons[0].task]!r} first: "
                "no device that can run it can get its data"
            )
        timetable = Timetable(
            np.array(self._processor, dtype=np.int64),
            np.array(self._start_s, dtype=np.float64),
            np.array(self._finish_s, dtype=np.float64),
            self._fetcher.copies(),
        )
        needed = {i for undone in reasons for i in self._state.known.reads[undone.task]} & self._fetcher.lost
        lost = tuple(sorted(needed | self._fetcher.lost_results())) if self._state.gone else ()
        if self._follows_results:
            ended_s = [s for s in self._finish_s if not math.isnan(s)]
            end_s = max([0.0, *ended_s, *self._fetcher.arrivals_s()])
        else:
            end_s = makespan_s(self._problem, timetable)
        return DynamicRun(timetable, tuple(self._log), end_s, tuple(self._interrupted), reasons, lost)

    def _reasons(self) -> tuple[Undone, ...]:
        """Return the tasks that were not done, and why."""
        tables = self._problem.tables
        before, undone, found = rows(tables.pred_start, tables.pred_task), set(), []
        for task, finish_s in enumerate(self._finish_s):  # in a topological order
            if not math.isnan(finish_s):
                continue
            undone.add(task)
            reason: Reason = "policy"
            if self._fetcher.is_lost(task):
                reason = "data"
            elif any(other in undone for other in before[task]):
                reason = "after"
            elif not any(self._state.can_run(task, device) for device in self._book.able[task]):
                reason = "device"
            found.append(Undone(task, reason))
        return tuple(found)

    def _arrive(self, task: int) -> None:
        """Let a task be able to start, unless what it reads is lost."""
        if not self._fetcher.is_lost(task):
            self._book.arrive(task)

    def _end(self, task: int) -> None:
        """Let a task end: its lane is idle, its items are made, others may be able to start."""
        processor = self._processor[task]
        device = self._state.known.device_of[processor]
        self._left -= 1
        released = self._book.end(task, processor, self._takes_s[task])
        self._fetcher.made_by(task, device)
        for after in released:
            if self._release_s[after] <= self._state.now_s:
                self._arrive(after)
            else:
                heapq.heappush(self._events, (self._release_s[after], _RELEASE, after, 0))

    def _ends_at(self, task: int, finish_s: float, takes_s: float) -> None:
        """Set when a task ends, instead of whatever was set before."""
        self._finish_s[task], self._takes_s[task] = finish_s, takes_s
        self._put_off[task] += 1
        heapq.heappush(self._events, (finish_s, _END, task, self._put_off[task]))

    # --- what goes wrong ---

    def _suffer(self, event: Event) -> None:
        """Let a device slow down or fail, unless the run is over."""
        if self._left == 0 and self._fetcher.results_s() <= self._state.now_s:
            return
        device = self._problem.devices.index(event.device)
        if device in self._state.gone:
            return
        if isinstance(event, SlowDown):
            self._slow_down(device, event.factor)
        else:
            self._fail(device)

    def _slow_down(self, device: int, factor: float) -> None:
        """Let tasks of a device take ``factor`` times as long from now on."""
        now_s, before = self._state.now_s, self._slowed[device]
        self._slowed[device] = factor
        for processor, lane in enumerate(self._state.lanes):
            task = lane.running
            if task == NOTHING or self._state.known.device_of[processor] != device:
                continue
            start_s = self._start_s[task]
            if start_s < now_s:
                finish_s = now_s + (self._finish_s[task] - now_s) / before * factor
                self._ends_at(task, finish_s, finish_s - start_s)
            else:
                takes_s = self._true_s[task][device] * factor
                self._ends_at(task, start_s + takes_s, takes_s)

    def _fail(self, device: int) -> None:
        """Let a device be gone, and its memory if that is its own."""
        state, reaches = self._state, self._state.known.reaches
        own = self._problem.devices[device] != HOST and all(
            home[0] != reaches[device][0] for other, home in enumerate(reaches) if other != device
        )
        for processor, lane in enumerate(state.lanes):
            if lane.running != NOTHING and state.known.device_of[processor] == device:
                self._interrupt(lane.running, processor)
        self._book.fail(device)
        if own and self._problem.spaces[reaches[device][0]] != HOST:
            self._fetcher.lose(reaches[device][0])
        for processor, lane in enumerate(state.lanes):
            on = state.known.device_of[processor]
            if lane.running != NOTHING and self._fetcher.there_s(lane.running, on) > self._start_s[lane.running]:
                self._interrupt(lane.running, processor)
        for processor, lane in enumerate(state.lanes):
            for task in tuple(lane.queue):
                if self._fetcher.is_lost(task) or not state.can_run(task, state.known.device_of[processor]):
                    self._book.unbind(task)
        for task in tuple(state.ready):
            if self._fetcher.is_lost(task):
                self._book.withdraw(task)

    def _interrupt(self, task: int, processor: int) -> None:
        """Stop a task; what it updated in place by then is lost."""
        start_s, now_s = self._start_s[task], self._state.now_s
        if start_s < now_s:
            self._fetcher.spoil(task, self._state.known.device_of[processor])
        self._interrupted.append(Interrupted(task, processor, start_s, now_s))
        self._start_s[task] = self._finish_s[task] = self._takes_s[task] = math.nan
        self._processor[task] = NOTHING
        self._put_off[task] += 1
        self._book.interrupt(task, processor)

    # --- what the policy wants ---

    def _carry_out(self, decision: Decision) -> None:
        task, processor, start = decision
        self._check(decision)
        device = self._state.known.device_of[processor]
        self._log.append(Logged(self._state.now_s, task, processor, start, self._book.bound(task)))
        self._fetcher.fetch(task, device)
        if not start:
            self._book.bind(task, processor)
            return
        start_s = self._fetcher.ready_s(task, device)
        if start_s == math.inf:
            raise self._refusal(f"wants {self._problem.names[task]!r} where its data cannot be brought")
        self._book.begin(task, processor, start_s)
        self._processor[task] = processor
        self._start_s[task] = start_s
        takes_s = self._true_s[task][device] * self._slowed[device]
        self._ends_at(task, start_s + takes_s, takes_s)

    def _check(self, decision: Decision) -> None:
        """Refuse what cannot be done; that is a mistake of the policy."""
        task, processor, start = decision
        name = f"task {self._problem.names[task]!r}"
        if not 0 <= processor < len(self._state.lanes):
            raise self._refusal(f"wants {name} on processor {processor}, which does not exist")
        if self._book.bound(task) == NOTHING and task not in self._state.ready:
            raise self._refusal(f"wants {name}, which is not ready or has been started")
        device = self._state.known.device_of[processor]
        if device not in self._book.able[task]:
            raise self._refusal(f"wants {name} on {self._problem.devices[device]!r}, which cannot run it")
        if start and self._state.lanes[processor].running != NOTHING:
            raise self._refusal(f"wants to start {name} on a lane that is busy")

    def _refusal(self, what: str) -> PolicyError:
        return PolicyError(what, where=f"policy {self._policy.name!r}")
