# SPDX-License-Identifier: Apache-2.0
"""Simulation of a dynamic policy on a virtual clock: it sees estimates, while tasks take their true time.

Inputs are fetched when a task is bound to a lane (or started, if it never was in a queue), and with a plan as soon as
they are made; always from their origin, over channels in the order of these requests. A started task occupies its lane
while it waits for data.

Devices may slow down or fail at a given time. A task that ends exactly then has finished. All other tasks running on
the failed device are stopped, and so are tasks elsewhere whose data was to come from its memory. That memory is lost,
unless it is the home of other devices or of the host. A stopped task can start again on another device if copies of all
its inputs exist; later copies start where an item has been longest. An array that was being updated in place is lost
there.
Finished tasks are never repeated. Requested copies on channels keep their times.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np

from syclsched.errors import PolicyError
from syclsched.model.platform import HOST
from syclsched.scheduling.dynamic.item_fetcher import Fetcher
from syclsched.scheduling.dynamic.outcome import DynamicRun, InterruptedTask, LoggedDecision, Reason, UnfinishedTask
from syclsched.scheduling.dynamic.policy_state import DynamicPolicy
from syclsched.scheduling.dynamic.run_loop import run_policy
from syclsched.scheduling.dynamic.state_tracker import StateTracker
from syclsched.scheduling.dynamic.static_info import rows
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
    """Run a problem under a dynamic policy on the virtual clock."""
    for event in events:
        check_event(event, problem.devices)
    estimated = problem
    if estimated_s is not None:
        if not np.array_equal(np.isinf(estimated_s), np.isinf(problem.tables.task_seconds())):
            raise PolicyError("estimates must be finite just where a task can run", where=f"policy {policy.name!r}")
        estimated = problem.with_task_seconds(estimated_s)
    return _VirtualClock(problem, estimated, policy, copy_factor, events).run()


#: Kinds of clock events, in their order at equal times.
_END, _RELEASE, _DISTURBANCE = 0, 1, 2


class _VirtualClock:
    """Virtual clock of one run: its events in order of time."""

    def __init__(
        self,
        problem: Problem,
        estimated: Problem,
        policy: DynamicPolicy,
        copy_factor: Floats | None,
        disturbances: Sequence[Event],
    ) -> None:
        self._problem, self._policy = problem, policy
        self._disturbances = sorted(disturbances, key=lambda event: event.at_s)
        self._true_s = problem.tables.task_seconds().tolist()
        self._release_s = problem.tables.release_s.tolist()
        self._tracker = StateTracker(problem, policy.prepare(estimated), policy.sorts_queues)
        self._state = self._tracker.state
        self._follows_results = bool(disturbances) or copy_factor is not None
        self._fetcher = Fetcher(
            problem, self._state, copy_factor=copy_factor, follows_results=self._follows_results
        )  # fmt: skip
        self._start_s = [math.nan] * len(problem)
        self._finish_s = [math.nan] * len(problem)
        self._takes_s = [math.nan] * len(problem)
        self._processor = [NOTHING] * len(problem)
        self._n_unfinished = len(problem)
        self._slowdown = [1.0] * len(problem.devices)
        #: Time, kind, task or disturbance number, and for ends the task's number of reschedules.
        self._events: list[tuple[float, int, int, int]] = []
        self._n_reschedules = [0] * len(problem)
        self._log: list[LoggedDecision] = []
        self._interrupted: list[InterruptedTask] = []

    def run(self) -> DynamicRun:
        """Run to the end."""
        self._fetcher.begin()
        for task in self._tracker.sources():
            heapq.heappush(self._events, (self._release_s[task], _RELEASE, task, 0))
        for n, event in enumerate(self._disturbances):
            heapq.heappush(self._events, (event.at_s, _DISTURBANCE, n, 0))
        run_policy(self._policy, self._tracker, self)
        return self._outcome()

    # --- implements `Clock` ---

    def advance(self, progressed: bool) -> bool:
        """Process the events of the next time; return False if there are none."""
        if not self._has_events():
            return False
        now_s = self._state.now_s = self._events[0][0]
        while self._has_events() and self._events[0][0] <= now_s:
            _, kind, number, _ = heapq.heappop(self._events)
            if kind == _END:
                self._end(number)
            elif kind == _RELEASE:
                self._make_ready(number)
            else:
                self._apply_disturbance(self._disturbances[number])
        return True

    def accepts_tasks(self) -> bool:
        """Return True: each lane has its own busy state."""
        return True

    def bind(self, task: int, processor: int) -> None:
        """Put a task into a lane's queue, and fetch its inputs."""
        self._fetch(task, processor, start=False)
        self._tracker.bind(task, processor)

    def start(self, task: int, processor: int) -> None:
        """Start a task on an idle lane, as soon as its inputs have been fetched."""
        if self._state.lanes[processor].running != NOTHING:
            raise self._refusal(f"wants to start task {self._problem.names[task]!r} on a lane that is busy")
        device = self._fetch(task, processor, start=True)
        start_s = self._fetcher.ready_s(task, device)
        if start_s == math.inf:
            raise self._refusal(f"wants {self._problem.names[task]!r} where its data cannot be brought")
        self._tracker.begin(task, processor, start_s)
        self._processor[task], self._start_s[task] = processor, start_s
        takes_s = self._true_s[task][device] * self._slowdown[device]
        self._schedule_end(task, start_s + takes_s, takes_s)

    def _fetch(self, task: int, processor: int, *, start: bool) -> int:
        """Log a decision and fetch the inputs of its task; return the device."""
        device = self._state.known.device_of[processor]
        self._log.append(LoggedDecision(self._state.now_s, task, processor, start, self._tracker.bound(task)))
        self._fetcher.fetch(task, device)
        return device

    def _has_events(self) -> bool:
        """Return whether events remain, after dropping outdated ends."""
        while (
            self._events
            and self._events[0][1] == _END
            and self._events[0][3] != self._n_reschedules[self._events[0][2]]
        ):
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

    def _reasons(self) -> tuple[UnfinishedTask, ...]:
        """Return the tasks that did not finish, with the reasons."""
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
            elif not any(self._state.can_run(task, device) for device in self._tracker.able[task]):
                reason = "device"
            found.append(UnfinishedTask(task, reason))
        return tuple(found)

    def _make_ready(self, task: int) -> None:
        """Make a task ready, unless one of its inputs is lost."""
        if not self._fetcher.is_lost(task):
            self._tracker.arrive(task)

    def _end(self, task: int) -> None:
        """End a task: free its lane, record its items, release its successors."""
        processor = self._processor[task]
        device = self._state.known.device_of[processor]
        self._n_unfinished -= 1
        released = self._tracker.end(task, processor, self._takes_s[task])
        self._fetcher.made_by(task, device)
        for after in released:
            if self._release_s[after] <= self._state.now_s:
                self._make_ready(after)
            else:
                heapq.heappush(self._events, (self._release_s[after], _RELEASE, after, 0))

    def _schedule_end(self, task: int, finish_s: float, takes_s: float) -> None:
        """Set the end of a task, replacing an earlier one."""
        self._finish_s[task], self._takes_s[task] = finish_s, takes_s
        self._n_reschedules[task] += 1
        heapq.heappush(self._events, (finish_s, _END, task, self._n_reschedules[task]))

    # --- disturbances ---

    def _apply_disturbance(self, event: Event) -> None:
        """Slow a device down or fail it, unless the run is over."""
        if self._n_unfinished == 0 and self._fetcher.results_s() <= self._state.now_s:
            return
        device = self._problem.devices.index(event.device)
        if device in self._state.gone:
            return
        if isinstance(event, SlowDown):
            self._slow_down(device, event.factor)
        else:
            self._fail(device)

    def _slow_down(self, device: int, factor: float) -> None:
        """Make tasks of a device take ``factor`` times as long from now on."""
        now_s, before = self._state.now_s, self._slowdown[device]
        self._slowdown[device] = factor
        for processor, lane in enumerate(self._state.lanes):
            task = lane.running
            if task == NOTHING or self._state.known.device_of[processor] != device:
                continue
            start_s = self._start_s[task]
            if start_s < now_s:
                finish_s = now_s + (self._finish_s[task] - now_s) / before * factor
                self._schedule_end(task, finish_s, finish_s - start_s)
            else:
                takes_s = self._true_s[task][device] * factor
                self._schedule_end(task, start_s + takes_s, takes_s)

    def _fail(self, device: int) -> None:
        """Fail a device, and lose its memory if no other device shares it."""
        state, reaches = self._state, self._state.known.reaches
        own = self._problem.devices[device] != HOST and all(
            home[0] != reaches[device][0] for other, home in enumerate(reaches) if other != device
        )
        for processor, lane in enumerate(state.lanes):
            if lane.running != NOTHING and state.known.device_of[processor] == device:
                self._interrupt(lane.running, processor)
        self._tracker.fail(device)
        if own and self._problem.spaces[reaches[device][0]] != HOST:
            self._fetcher.lose(reaches[device][0])
        for processor, lane in enumerate(state.lanes):
            on = state.known.device_of[processor]
            if lane.running != NOTHING and self._fetcher.available_s(lane.running, on) > self._start_s[lane.running]:
                self._interrupt(lane.running, processor)
        for processor, lane in enumerate(state.lanes):
            for task in tuple(lane.queue):
                if self._fetcher.is_lost(task) or not state.can_run(task, state.known.device_of[processor]):
                    self._tracker.unbind(task)
        for task in tuple(state.ready):
            if self._fetcher.is_lost(task):
                self._tracker.remove(task)

    def _interrupt(self, task: int, processor: int) -> None:
        """Stop a running task; arrays that it was updating in place are lost."""
        start_s, now_s = self._start_s[task], self._state.now_s
        if start_s < now_s:
            self._fetcher.lose_updates(task, self._state.known.device_of[processor])
        self._interrupted.append(InterruptedTask(task, processor, start_s, now_s))
        self._start_s[task] = self._finish_s[task] = self._takes_s[task] = math.nan
        self._processor[task] = NOTHING
        self._n_reschedules[task] += 1
        self._tracker.interrupt(task, processor)

    def _refusal(self, message: str) -> PolicyError:
        return PolicyError(message, where=f"policy {self._policy.name!r}")
