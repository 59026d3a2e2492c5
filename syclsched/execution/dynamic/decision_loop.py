# SPDX-License-Identifier: Apache-2.0
"""Decision loop of the dynamic engine in Python, for runs that compiled code cannot decide."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from syclsched.execution.dynamic.data.submission_lookahead import SubmissionLookahead
from syclsched.execution.dynamic.submission.dynamic_executor import DynamicExecutor
from syclsched.scheduling.dynamic.policy_state import DynamicPolicy
from syclsched.scheduling.dynamic.state_tracker import StateTracker
from syclsched.scheduling.tables import NOTHING


class DecisionLoop:
    """Asks the policy of one run for decisions and carries them out."""

    def __init__(
        self,
        policy: DynamicPolicy,
        book: StateTracker,
        lookahead: SubmissionLookahead,
        hosts: Collection[int],
        tasks: int,
        ending: Callable[[], bool],
    ) -> None:
        self._policy, self._book, self._state, self._lookahead = policy, book, book.state, lookahead
        self._hosts, self._ending = hosts, ending
        self.held: list[tuple[int, int]] = []
        self.left = tasks

    def poll(self, executor: DynamicExecutor, now_s: Callable[[], float]) -> bool:
        """Record completed tasks, their durations and the successors they release; return whether there were any."""
        ended = executor.poll()
        self._state.now_s = now_s()
        for each in ended:
            if each.seconds is not None:
                self._book.measure(each.task, each.processor, each.seconds)
            if each.processor in self._hosts:
                self._release(each.task, each.processor)
        for processor in {each.processor for each in ended}:
            self.report_lookahead(executor, processor)
        return bool(ended)

    def submitted(self, task: int, processor: int) -> None:
        """Record a submission; successors of a task on a device queue are released without waiting for its end."""
        if processor not in self._hosts:
            self._release(task, processor)

    def _release(self, task: int, processor: int) -> None:
        self.left -= 1
        for successor in self._book.release(task, processor):
            self._book.arrive(successor)

    def decide(self, executor: DynamicExecutor) -> bool:
        """Carry out decisions of the policy until it makes none; return whether it made any."""
        progress = False
        while not (self._ending() or self._lacks_memory(executor)) and (decisions := self._policy.decide(self._state)):
            progress = True
            for task, processor, start in decisions:
                if not start:
                    self._book.bind(task, processor)
                    continue
                self._book.begin(task, processor, self._state.now_s)
                if self._lacks_memory(executor) or not executor.attempt(task, processor):
                    self.held.append((task, processor))
                self.report_lookahead(executor, processor)
        return progress

    def _lacks_memory(self, executor: DynamicExecutor) -> bool:
        """Return whether a deferred task lacks memory; other tasks must not take that memory meanwhile."""
        return bool(self.held) and executor.data_manager.lacks_memory

    def retry(self, executor: DynamicExecutor) -> bool:
        """Retry deferred tasks in order, up to the first that lacks memory; return whether any was submitted."""
        if not self.held:
            return False
        held, self.held = self.held, []
        executor.data_manager.lacks_memory = False
        for number, (task, processor) in enumerate(held):
            if executor.attempt(task, processor):
                self.report_lookahead(executor, processor)
                continue
            self.held.append((task, processor))
            if executor.data_manager.lacks_memory:
                self.held += held[number + 1 :]
                break
        return len(self.held) < len(held)

    def report_lookahead(self, executor: DynamicExecutor, processor: int) -> None:
        """Report to the policy when a lane's submitted work ends, and whether its lookahead is full."""
        state = self._state
        held = [task for task, lane in self.held if lane == processor] if self.held else []
        in_flight = executor.in_flight[processor]
        seconds, count = in_flight.seconds, len(in_flight) + len(held)
        if held:
            device = state.known.device_of[processor]
            seconds += sum(s for task in held if (s := state.seconds(task, device)) < math.inf)
        if not count:
            self._book.ahead(processor, 0.0, NOTHING)
            return
        last = held[-1] if held else in_flight.items[-1][0].task
        enough = self._lookahead.enough(count, seconds)
        self._book.ahead(processor, state.now_s + seconds, last if enough else NOTHING)
