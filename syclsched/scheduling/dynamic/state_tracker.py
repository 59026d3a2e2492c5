# SPDX-License-Identifier: Apache-2.0
"""State tracker: updates the state that policies see when tasks become ready, are bound, start or end.

Used by the virtual clock and by live engines: it reads no clock, all times are passed in.
"""

from __future__ import annotations

import math
from bisect import insort

import numpy as np

from syclsched.scheduling.dynamic.drift import new_drift, record_duration
from syclsched.scheduling.dynamic.policy_state import Decision, LaneState, PolicyState, StaticInfo
from syclsched.scheduling.dynamic.static_info import rows
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING


class StateTracker:
    """State of a run, with one method for every change."""

    def __init__(self, problem: Problem, known: StaticInfo, sorts_queues: bool) -> None:
        tables = problem.tables
        tasks, devices, items = len(problem), len(problem.devices), len(known.nbytes)
        self.state = PolicyState(
            known=known,
            now_s=0.0,
            ready=[],
            ready_on=[0] * devices,
            lanes=[LaneState(NOTHING, 0.0, [], 0.0, []) for _ in known.device_of],
            where=[{} for _ in range(items)],
            origin=[NOTHING] * items,
            released_by=[NOTHING] * tasks,
            drift=[1.0] * devices,
            deviation=0.0,
            correction=[[0.0] * devices for _ in range(max(known.kind, default=0) + 1)],
        )
        self.able: tuple[frozenset[int], ...] = tuple(
            [frozenset([d for d, s in enumerate(row) if s < math.inf]) for row in known.seconds]
        )
        self._problem, self._sorts_queues = problem, sorts_queues
        self._successors = rows(tables.succ_start, tables.succ_task)
        self._waiting: list[int] = np.diff(tables.pred_start).tolist()
        self._bound = [NOTHING] * tasks
        self.drift = new_drift(
            np.array(known.seconds, dtype=np.float64).reshape(tasks, devices), max(known.kind, default=0) + 1
        )
        if known.planned is not None:
            for task in sorted(range(tasks), key=known.level.__getitem__):
                self.state.lanes[known.planned[task]].ahead.append(task)

    def sources(self) -> list[int]:
        """Return the tasks without predecessors."""
        return [task for task, count in enumerate(self._waiting) if count == 0]

    def bound(self, task: int) -> int:
        """Return the lane in whose queue a task is; `NOTHING` if it is in none."""
        return self._bound[task]

    def fault_of(self, decision: Decision) -> str | None:
        """Return why a decision cannot be carried out, which is a defect of the policy; None if it can."""
        task, processor, _ = decision
        if not 0 <= processor < len(self.state.lanes):
            fault = f" on processor {processor}, which does not exist"
        elif self._bound[task] == NOTHING and task not in self.state.ready:
            fault = ", which is not ready or has been started"
        elif (device := self.state.known.device_of[processor]) not in self.able[task]:
            fault = f" on {self._problem.devices[device]!r}, which cannot run it"
        else:
            return None
        return f"wants task {self._problem.names[task]!r}{fault}"

    def arrive(self, task: int) -> None:
        """Add a task to the ready tasks."""
        insort(self.state.ready, task, key=self.state.known.level.__getitem__)
        for device in self.able[task]:
            self.state.ready_on[device] += 1

    def bind(self, task: int, processor: int) -> None:
        """Move a task into a lane's queue, from the ready tasks or another queue."""
        self.remove(task)
        state = self.state
        lane = state.lanes[processor]
        self._bound[task] = processor
        lane.queued_s += state.known.seconds[task][state.known.device_of[processor]]
        if self._sorts_queues:
            insort(lane.queue, task, key=state.known.level.__getitem__)
        else:
            lane.queue.append(task)

    def begin(self, task: int, processor: int, start_s: float) -> None:
        """Record that a task starts on an idle lane, and when."""
        self.remove(task)
        state = self.state
        if state.known.planned is not None:
            state.lanes[state.known.planned[task]].ahead.remove(task)
        lane = state.lanes[processor]
        lane.running = task
        lane.until_s = start_s + state.seconds(task, state.known.device_of[processor])

    def interrupt(self, task: int, processor: int) -> None:
        """Record that a task was stopped on its lane; it is ready again."""
        state = self.state
        state.lanes[processor].running, state.lanes[processor].until_s = NOTHING, 0.0
        if state.known.planned is not None:
            insort(state.lanes[state.known.planned[task]].ahead, task, key=state.known.level.__getitem__)
        self.arrive(task)

    def unbind(self, task: int) -> None:
        """Move a task from a lane's queue back to the ready tasks."""
        self.remove(task)
        self.arrive(task)

    def fail(self, device: int) -> None:
        """Record that a device has failed, after its running tasks were interrupted: unbind the queues of its lanes."""
        state = self.state
        state.gone.add(device)
        state.ready_on[device] = 0
        self.able = tuple([devices - {device} for devices in self.able])
        for processor, lane in enumerate(state.lanes):
            if state.known.device_of[processor] == device:
                for task in tuple(lane.queue):
                    self.unbind(task)

    def end(self, task: int, processor: int, measured_s: float) -> list[int]:
        """Record the end and duration of a task; return the tasks that are ready because of it."""
        lane = self.state.lanes[processor]
        lane.running, lane.until_s = NOTHING, 0.0
        self.measure(task, processor, measured_s)
        return self.release(task, processor)

    def measure(self, task: int, processor: int, measured_s: float) -> None:
        """Record the duration of a task."""
        state = self.state
        known, device = state.known, state.known.device_of[processor]
        kind = known.kind[task]
        state.deviation = record_duration(self.drift, kind, device, measured_s, known.seconds[task][device])
        state.drift[device] = float(self.drift.of_device[device])
        state.correction[kind][device] = float(self.drift.of_kind[kind, device])

    def release(self, task: int, processor: int) -> list[int]:
        """Record that successors need not wait for a task; return those that had no other predecessor left.

        On the virtual clock the task has ended. In a live run it was submitted to an in-order queue that orders its
        successors after it.
        """
        state = self.state
        released = []
        for successor in self._successors[task]:
            self._waiting[successor] -= 1
            if self._waiting[successor] == 0:
                state.released_by[successor] = processor
                released.append(successor)
        return released

    def ahead(self, processor: int, until_s: float, task: int) -> None:
        """Record for a live run when a lane's submitted work should end, and whether the lane can take more."""
        lane = self.state.lanes[processor]
        lane.until_s, lane.running = until_s, task

    def remove(self, task: int) -> None:
        """Remove a task from the ready tasks or from a lane's queue."""
        state, source = self.state, self._bound[task]
        self._bound[task] = NOTHING
        if source == NOTHING:
            state.ready.remove(task)
            for device in self.able[task]:
                state.ready_on[device] -= 1
            return
        lane = state.lanes[source]
        lane.queue.remove(task)
        lane.queued_s -= state.known.seconds[task][state.known.device_of[source]]
        if not lane.queue:
            lane.queued_s = 0.0  # drop the rounding errors of many sums
