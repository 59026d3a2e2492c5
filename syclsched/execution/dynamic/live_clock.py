# SPDX-License-Identifier: Apache-2.0
"""Clock of a live run that is decided in Python: it polls completions, and starts tasks by submitting them."""

from __future__ import annotations

import math
from collections.abc import Callable

from syclsched.backoff import backoff
from syclsched.errors import PolicyError
from syclsched.execution.core.clock import now_ns
from syclsched.execution.dynamic.data.submission_lookahead import SubmissionLookahead
from syclsched.execution.dynamic.run_turns import RunTurns
from syclsched.execution.dynamic.submission.dynamic_executor import DynamicExecutor
from syclsched.scheduling.dynamic.state_tracker import StateTracker
from syclsched.scheduling.tables import NOTHING

#: Idle back-off of the thread, shortest and longest.
POLL_INTERVALS_S = 20e-6, 500e-6


class LiveClock:
    """Clock of one run; implements `syclsched.scheduling.dynamic.run_loop.Clock`."""

    def __init__(
        self,
        tracker: StateTracker,
        executor: DynamicExecutor,
        lookahead: SubmissionLookahead,
        policy: str,
        receive: Callable[[float], bool],
        ending: Callable[[], bool],
        turns: RunTurns | None = None,
    ) -> None:
        """Set up; ``receive`` waits this long for a message from another thread; ``ending`` reports the end."""
        self._tracker, self._state, self._executor, self._lookahead = tracker, tracker.state, executor, lookahead
        self._policy, self._receive, self._ending, self._turns = policy, receive, ending, turns
        self._hosts = executor.hosts
        #: Tasks that could not be submitted yet, with their lanes.
        self._held: list[tuple[int, int]] = []
        #: Number of tasks whose successors still wait for them.
        self.left = len(self._state.released_by)
        self._waited_s = 0.0
        self._progressed = True
        self.began_ns = now_ns()

    # --- implements `Clock` -----------------------------------------------------------------------

    def advance(self, progressed: bool) -> bool:
        """Submit gathered commands, handle a message or wait, and poll; return False at the end of the run."""
        executor = self._executor
        executor.flush()
        if not self._receive(0.0):
            if progressed or self._progressed:
                self._waited_s = 0.0
            elif self.left and executor.idle() and not self._held:
                raise PolicyError(
                    f"{self.left} tasks are left undone: no device that can run them can get their data",
                    where=f"policy {self._policy!r}",
                )
            else:
                pause_s = backoff(self._waited_s, *POLL_INTERVALS_S, share=1.0)
                self._waited_s = 0.0 if self._receive(pause_s) else self._waited_s + pause_s
        if self._ending() or not (self.left or not executor.idle()):
            return False
        self._progressed = self.poll()
        self._progressed |= self._retry()
        return True

    def accepts_tasks(self) -> bool:
        """Return False at the end of the run, or while a held task lacks memory, which others must not take."""
        return not (self._ending() or self._lacks_memory())

    def bind(self, task: int, processor: int) -> None:
        """Put a task into a lane's queue."""
        self._tracker.bind(task, processor)

    def start(self, task: int, processor: int) -> None:
        """Submit a task to a lane, or hold it until that is possible."""
        self._tracker.begin(task, processor, self._state.now_s)
        if self._lacks_memory() or not self._submit(task, processor):
            self._held.append((task, processor))
        self.report_lookahead(processor)

    # --- changes of the state ---------------------------------------------------------------------

    def poll(self) -> bool:
        """Record completed tasks, their durations and the successors they release; return whether there were any."""
        ended = self._executor.poll()
        self._state.now_s = (now_ns() - self.began_ns) * 1e-9
        for each in ended:
            if self._turns is not None:
                self._turns.ended(each.task, each.processor, each.seconds)
            if each.seconds is not None:
                self._tracker.measure(each.task, each.processor, each.seconds)
            if each.processor in self._hosts:
                self._release(each.task, each.processor)
        for processor in {each.processor for each in ended}:
            self.report_lookahead(processor)
        return bool(ended)

    def submitted(self, task: int, processor: int) -> None:
        """Record a submission; successors of a task on a device queue are released without waiting for its end."""
        if processor not in self._hosts:
            self._release(task, processor)

    def report_lookahead(self, processor: int) -> None:
        """Report to the policy when a lane's submitted work ends, and whether its lookahead is full."""
        state = self._state
        held = [task for task, lane in self._held if lane == processor] if self._held else []
        in_flight = self._executor.in_flight[processor]
        seconds, count = in_flight.seconds, len(in_flight) + len(held)
        if held:
            device = state.known.device_of[processor]
            seconds += sum(s for task in held if (s := state.seconds(task, device)) < math.inf)
        if not count:
            self._tracker.ahead(processor, 0.0, NOTHING)
            return
        last = held[-1] if held else in_flight.items[-1][0].task
        lookahead = self._lookahead if self._turns is None else self._turns.lookahead(processor)
        enough = lookahead.enough(count, seconds)
        self._tracker.ahead(processor, state.now_s + seconds, last if enough else NOTHING)

    def _submit(self, task: int, processor: int) -> bool:
        """Submit a task; return False if it must wait for its turn, for memory or for another task."""
        if self._turns is not None and not self._ending():
            seconds = self._state.seconds(task, self._state.known.device_of[processor])
            if not self._turns.may_start(task, processor, seconds):
                return False
        return self._executor.attempt(task, processor)

    def _release(self, task: int, processor: int) -> None:
        self.left -= 1
        for successor in self._tracker.release(task, processor):
            self._tracker.arrive(successor)

    def _lacks_memory(self) -> bool:
        return bool(self._held) and self._executor.data_manager.lacks_memory

    def _retry(self) -> bool:
        """Retry held tasks in order, up to the first that lacks memory; return whether any was submitted."""
        if not self._held:
            return False
        held, self._held = self._held, []
        self._executor.data_manager.lacks_memory = False
        for number, (task, processor) in enumerate(held):
            if self._submit(task, processor):
                self.report_lookahead(processor)
                continue
            self._held.append((task, processor))
            if self._executor.data_manager.lacks_memory:
                self._held += held[number + 1 :]
                break
        return len(self._held) < len(held)
