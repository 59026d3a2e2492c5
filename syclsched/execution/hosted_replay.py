# SPDX-License-Identifier: Apache-2.0
"""A replay of a plan with tasks on the host: its submissions are made level by level, with a Python call in between.

A thread of the runner's makes the calls, and submits what each of them lets go. What waits for none of them is
submitted at the start, so that devices go on meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from syclsched.execution.failures import Failures, Reason, note_device_failures, task_failed
from syclsched.execution.host_thread import HostThread
from syclsched.execution.levels import Levels
from syclsched.execution.program import Node
from syclsched.execution.records import Record
from syclsched.execution.replay import Replay
from syclsched.execution.stream_replay import StagedReplay
from syclsched.execution.stream_wake import Alarm
from syclsched.execution.stuck import Position, Positions
from syclsched.execution.waiting import Flag, wait_flag

#: Does a step; it may raise.
Call = Callable[[], object]


class HostedReplay(Replay):
    """A replay with steps of the host's.

    `host`, `levels`, `ends`, `calls` and `retried` are set by whoever makes it.
    """

    host: HostThread
    levels: Levels
    #: How many commands there are up to each level.
    ends: Sequence[int]
    #: By number of a step.
    calls: Mapping[int, Call]
    #: Tasks whose functions were called again.
    retried: list[str]

    #: Whether the host's thread has it, and which thread is to see to that.
    _taken = False
    _starter: int | None = None
    _concluded = False
    #: How many levels have been asked for, and how many have been submitted.
    _asked = _levels = 0
    #: How many submissions have been looked at, and whether they are now made one by one.
    _reached = 0
    _singly = False
    _done_steps = 0
    #: The step that is being done.
    _running: int | None = None
    _rung_for = -1

    # --- as any replay ----------------------------------------------------------------------------

    def start(self) -> None:
        """Submit what waits for nothing of the host's, unless that takes as long as the run, and have it gone on."""
        self.begun = True
        self._commands.begin()
        self.retried.clear()
        self._loop.time_calls(self.recording and self.exact)
        self._go()

    def cancel(self) -> None:
        """Begin nothing more; what was begun ends. Returns at once."""
        with self._lock:
            if not self._taken or self._ended:
                super().cancel()
            else:
                self.cancelled = True
                self._loop.stop()
        if not self._taken and self._starter in (None, threading.get_ident()):
            self._hand_over()  # its start was interrupted, or will find it ended
        else:
            self.host.wake()

    def wait_submitted(self, number: int, timeout_s: float | None) -> bool:
        """Wait until an instruction has been submitted or, on the host, done; or the run has ended."""
        if self._is_handed_on(number):
            return True
        flag = self._watched.setdefault(number, Flag())
        # Looked at again because it may have come to pass between the two lines.
        return self._is_handed_on(number) or wait_flag(flag, timeout_s)

    def passed(self, number: int) -> bool:
        """Return whether an instruction has been submitted or, on the host, done or cancelled."""
        return self._through or number in self._done_there if number in self._steps else super().passed(number)

    def is_complete(self, number: int) -> bool:
        """Return whether an instruction has completed or was cancelled."""
        return self._over or number in self._done_there if number in self._steps else super().is_complete(number)

    def is_step(self, number: int) -> bool:
        """Return whether an instruction is done by the host."""
        return number in self._steps

    def is_running(self, number: int) -> bool:
        """Return whether a step is being done."""
        return self._running == number

    # --- for the host's thread --------------------------------------------------------------------

    @property
    def position(self) -> int:
        """How many of its steps have been done."""
        return self._done_steps

    @property
    def stepped(self) -> bool:
        """Whether all its steps have been done, and nothing more is to be submitted behind them."""
        return self._ended

    def advance(self, most: int) -> bool:
        """Do the next step if its time has come and it is not one past so many; return whether anything was done."""
        if self._asked == 0:
            self._ask()
            return True
        at = self._done_steps
        if self._ended or self._levels < self._asked or at == len(self.levels.steps) or at >= most:
            return False
        step = self.levels.steps[at]
        if not self._ending and any(self._loop.is_pending(number) for number in step.events):
            return False
        if step.node is not None:
            self._do(step.node)
        self._done_steps += 1
        self._tell()
        self._ask()
        return True

    def wait_directly(self) -> bool:
        """Wait for what the next step waits for, if nothing else is on its way; return whether that was so.

        Devices on the host's cores are lent the thread meanwhile. It would come back late if they had something else.
        """
        at = self._done_steps
        if self._levels < self._asked or not self._alone[at] or self._ending:
            return False
        self._loop.wait_for_slots(self.levels.steps[at].events)
        return True

    def rings_at(self, alarm: Alarm) -> bool:
        """Have an alarm rung when something that the next step waits for is done; return whether it will be."""
        if self._levels < self._asked:
            return True  # whoever submits it rings
        at = self._done_steps
        if self._rung_for < at:
            pending = [n for n in self.levels.steps[at].events if self._loop.is_pending(n)]
            if alarm.fd is None or not all(self._loop.wake_at(number, alarm.fd) for number in pending):
                return False
            self._rung_for = at
            if not pending:  # it was a moment ago
                alarm.ring()
        return True

    def broken(self, error: BaseException) -> None:
        """Be told that the thread cannot go on with it."""
        self.error = self._ended_by(error)
        with self._lock:
            self.cancelled = True
            self._end()

    def conclude(self) -> None:
        """End the run, once all has ended."""
        if self._concluded:
            return
        self._concluded = True
        if self._is_posted:
            self._worker.post(self._finish)
        else:
            self._finish()

    # --- inside -----------------------------------------------------------------------------------

    @cached_property
    def _steps(self) -> Mapping[int, int]:
        return {node.id: position for position, node in enumerate(self.levels.nodes)}

    @cached_property
    def _done_there(self) -> set[int]:
        return set()

    @cached_property
    def _watched(self) -> dict[int, Flag]:
        return {}

    @cached_property
    def _positions(self) -> Positions:
        return _HostedPositions(self)

    @property
    def _alone(self) -> Sequence[bool]:
        return self.levels.alone

    @property
    def _ending(self) -> bool:
        return self.cancelled or self.failures.halted

    @property
    def _is_posted(self) -> bool:
        """Whether another thread submits: it is held up, and functions must not be."""
        return self._loop.blocks and not all(self._alone)

    @property
    def _is_lent(self) -> bool:
        """Whether another thread waits for what is submitted, as the host's cannot always."""
        return not self._loop.blocks and not all(self._alone)

    def _go(self) -> None:
        self._starter = threading.get_ident()
        try:
            if not self._loop.blocks:
                self._ask()
        except BaseException:
            with self._lock:
                self.cancelled = True
                self._end()
            raise
        finally:
            self._hand_over()

    def _hand_over(self) -> None:
        self.host.take(self)
        self._taken = True

    def _ask(self) -> None:
        """Have the next level submitted."""
        self._asked += 1
        if self._is_posted:
            self._worker.post(self._submit_level)
        else:
            self._submit_level()

    def _submit_level(self) -> None:
        level, last = self._levels, len(self.levels.steps)
        try:
            if level == last or self.ends[level] > (self.ends[level - 1] if level else 0):
                Replay.submit_until(self, self.ends[level])
                if level < last and self._is_lent and not self._alone[level]:
                    self._lend()
        except BaseException as error:
            if not self._taken:  # on the caller's thread
                raise
            self.error = self._ended_by(error)
        finally:
            self._levels += 1
            self._tell()
            if self._is_posted:
                self.host.wake()

    def _submit_to(self, end: int) -> bool:
        """Submit the next level; return whether it is the last."""
        self._note_overdue()
        if self._singly or self._ending or not self.failures.none:
            self._singly = True
            left = self._commands.from_submission(self._reached, end)
            self._submit_apart(each for joint in left for each in joint.apart())
        else:
            done = self._commands.submit(end)
            self._all = done == len(self._commands)
            if done < end:
                self._singly = True
                self._submit_rest(done, end)
        self._reached = end
        return self._levels == len(self.levels.steps)

    def _await_end(self) -> None:
        """Do nothing: the host's thread does, once it has done with it."""

    def _is_handed_on(self, number: int) -> bool:
        if self.finished.is_set() or self._ended:
            return True
        return number in self._done_there if number in self._steps else self._levels > self.levels.of[number]

    def _tell(self) -> None:
        for number, flag in list(self._watched.items()):
            if self._is_handed_on(number):
                flag.set()

    def _do(self, node: Node) -> None:
        """Do a step, or leave it out."""
        self._note_overdue()
        record = Record(time.perf_counter_ns())
        if self._ending or self.failures.cancels(node.instruction) or self._is_spoilt(node):
            self._leave_out(node, record)
        else:
            self._perform(node, record)
            self._note(node, record)

    def _perform(self, node: Node, record: Record) -> None:
        instruction = node.instruction
        failed: BaseException | None = None
        self._running = node.id
        record.start_ns = time.perf_counter_ns()
        try:
            self.calls[node.id]()
        except BaseException as error:  # whatever a user's function raises must reach the caller, not end the thread
            failed = error
        record.finish_ns = time.perf_counter_ns()
        self._running = None
        self._note_overdue()
        if node.id in self._overdue:
            record.outcome = "failed"
        elif failed is None:
            self.failures.done(instruction)
        else:
            reason: Reason = "raised" if instruction.kind == "host" else "copy"
            record.outcome = self.outcomes[node.id] = "failed"
            self.failures.record(instruction, task_failed(instruction, failed, "raised"), reason)
            self.failures.lost(instruction, begun=True)

    def _is_spoilt(self, node: Node) -> bool:
        """Return whether what a step reads was to be made by something that failed on its device."""
        if not self._loop.any_failed(node.events):
            return False
        so_far = Failures(self.program.tasks)
        so_far.left_out, so_far.spoilt = set(self.failures.left_out), set(self.failures.spoilt)
        return node.id in note_device_failures(so_far, self.program.plan, self._loop.failed())

    def _finish(self) -> None:
        for node in self.levels.nodes:
            if node.id not in self._done_there:
                self._leave_out(node, Record(time.perf_counter_ns()))
        self.counts.retried = list(self.retried)
        super()._finish()

    def _record(self, submitted: list[int]) -> None:
        for number, record in self.host_records.items():  # what it read may have turned out to be no good
            record.outcome = self.outcomes.get(number, record.outcome)
        super()._record(submitted)

    def _leave_out(self, node: Node, record: Record) -> None:
        record.outcome = self.outcomes[node.id] = "cancelled"
        self.failures.lost(node.instruction)
        self._note(node, record)

    def _note(self, node: Node, record: Record) -> None:
        if self.recording:
            self.host_records[node.id] = record
        self._done_there.add(node.id)


class StagedHostedReplay(HostedReplay, StagedReplay):
    """A generation of a stream with steps of the host's: what waits for none of them is submitted at once."""

    def start(self) -> None:
        """Submit nothing yet."""
        self.retried.clear()
        StagedReplay.start(self)

    def submit_until(self, count: int) -> None:
        """Submit some of what waits for nothing of the host's; with the last of that have it gone on."""
        if count < self.ends[0]:
            Replay.submit_until(self, count)
        elif not self._taken:
            self._go()

    def conclude(self) -> None:
        """Do nothing: whoever looks after the stream ends it."""

    @property
    def _alone(self) -> Sequence[bool]:
        return (False,) * len(self.levels.steps)  # the lanes have other generations' work, too

    def _await_end(self) -> None:
        StagedReplay._await_end(self)


class _HostedPositions(Positions):
    """Positions of lanes, of which the host's runs only what it is at."""

    def __init__(self, replay: HostedReplay) -> None:
        super().__init__(replay.program, replay.is_complete, replay.passed)
        self._replay = replay

    def now(self) -> list[Position]:
        """Return the positions of the lanes that are not done."""
        replay = self._replay
        return [replace(p, begun=replay.is_running(p.number)) if replay.is_step(p.number) else p for p in super().now()]
