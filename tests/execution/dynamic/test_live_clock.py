# SPDX-License-Identifier: Apache-2.0
"""The clock of a dynamic run: its end, and turns beside other runs; on a virtual clock."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from syclsched.errors import PolicyError
from syclsched.execution.dispatch.turns import HELD_S, LINGER_S, QUANTUM_S, Turn, Turns
from syclsched.execution.dynamic.data.submission_lookahead import InFlightQueue, SubmissionLookahead
from syclsched.execution.dynamic.live_clock import LiveClock
from syclsched.execution.dynamic.run_turns import RunTurns
from syclsched.execution.dynamic.submission.in_flight import CompletedTask
from syclsched.scheduling import problem_from_matrices
from syclsched.scheduling.dynamic import Eager
from syclsched.scheduling.dynamic.run_loop import run_policy
from syclsched.scheduling.dynamic.state_tracker import StateTracker


def clock_of(polls_in_flight: int) -> tuple[StateTracker, LiveClock]:
    """The clock of a run of one task, and an executor with copies in flight until it was polled so often."""
    problem = problem_from_matrices([[1.0]], {})
    tracker = StateTracker(problem, Eager().prepare(problem), sorts_queues=False)
    polls = []
    executor: Any = SimpleNamespace(
        hosts={},
        flush=lambda: None,
        poll=lambda: polls.append(1) or [],
        idle=lambda: len(polls) >= polls_in_flight,
        data_manager=SimpleNamespace(lacks_memory=False),
    )
    return tracker, LiveClock(tracker, executor, SubmissionLookahead(), "eager", lambda _: False, lambda: False)


def test_a_run_ends_when_its_last_copy_has_ended() -> None:
    tracker, clock = clock_of(polls_in_flight=3)
    clock.left = 0
    run_policy(Eager(), tracker, clock)


def test_tasks_that_are_never_started_are_counted() -> None:
    tracker, clock = clock_of(polls_in_flight=3)  # no task has become ready
    with pytest.raises(PolicyError, match="1 tasks are left undone"):
        run_policy(Eager(), tracker, clock)


class Shared:
    """A run of equal tasks on one lane that takes turns beside another run; time passes while it waits."""

    def __init__(self, tasks: int, seconds: float, other_until_s: float) -> None:
        problem = problem_from_matrices([[seconds]] * tasks, {})
        self.now_s, self.seconds, self.starts_s = 0.0, seconds, list[float]()
        self._other_until_s = other_until_s
        self.turns = Turns(lambda: self.now_s, threaded=False)
        self.other = self.turns.join(0, 1.0, frozenset({"cpu"}), lambda: True)
        self.mine = self.turns.join(-1, 1.0, frozenset({"cpu"}), lambda: bool(self.in_flight))
        self.in_flight: InFlightQueue[Any] = InFlightQueue()
        self._free_s = 0.0
        self.tracker = StateTracker(problem, Eager().prepare(problem), sorts_queues=False)
        executor: Any = SimpleNamespace(
            hosts={},
            flush=lambda: None,
            poll=self._poll,
            idle=lambda: not len(self.in_flight),
            attempt=self._attempt,
            in_flight=[self.in_flight],
            data_manager=SimpleNamespace(lacks_memory=False),
        )
        run = RunTurns(self.mine, executor.hosts, (), lambda: run.ask_again())
        self._clock = LiveClock(
            self.tracker, executor, SubmissionLookahead(), "eager", self._receive, lambda: False, run
        )
        self._clock.began_ns = 0

    def run(self) -> list[float]:
        """Run to the end; return the time of each submission."""
        for task in self.tracker.sources():
            self.tracker.arrive(task)
        run_policy(Eager(), self.tracker, self._clock)
        self.mine.end()
        self.other.end()
        return self.starts_s

    def _receive(self, longest_s: float) -> bool:
        self.now_s += 1e-4
        if self.now_s >= self._other_until_s:
            self.other.end()
        self.turns.wake_due()
        return False

    def _attempt(self, task: int, processor: int) -> bool:
        self.starts_s.append(self.now_s)
        self._free_s = max(self._free_s, self.now_s) + self.seconds
        self.in_flight.add(SimpleNamespace(task=task, end_s=self._free_s), self.seconds)
        self._clock.submitted(task, processor)
        return True

    def _poll(self) -> list[CompletedTask]:
        ended = []
        while len(self.in_flight) and self.in_flight.items[0][0].end_s <= self.now_s:
            ended.append(CompletedTask(self.in_flight.pop().task, 0, self.seconds))
        return ended


def test_tasks_wait_while_a_run_of_higher_priority_has_work() -> None:
    starts_s = Shared(20, 1e-3, other_until_s=30e-3).run()
    assert min(starts_s) >= 30e-3 and len(starts_s) == 20
    assert all(b - a < 3e-3 for a, b in pairwise(starts_s))  # then immediately, and few are queued
    assert max(starts_s) - min(starts_s) > 17e-3


def test_a_long_delayed_run_does_a_twentieth_of_the_work() -> None:
    starts_s = Shared(20, 1e-3, other_until_s=10.0).run()
    assert 20e-3 / QUANTUM_S * HELD_S / 2 < max(starts_s) < 20e-3 / QUANTUM_S * HELD_S * 1.5


def test_messages_need_no_turn_and_long_functions_count() -> None:
    now_s, woken = [0.0], list[int]()
    turns = Turns(lambda: now_s[0], threaded=False)
    other, mine = (turns.join(priority, 1.0, frozenset({"cpu"}), lambda: False) for priority in (0, -1))
    assert isinstance(mine, Turn) and other.may_start(1e-3, lambda: None)
    run = RunTurns(mine, hosts=(1, 2), messages=(2,), wake=lambda: woken.append(1))
    assert run.may_start(7, 2, 0.0)
    assert not run.may_start(8, 1, 1e-3)
    other.end()
    assert not run.may_start(8, 1, 1e-3)  # until it is called back
    now_s[0] = 2 * LINGER_S
    turns.wake_due()
    assert woken == [1]
    run.ask_again()
    assert run.may_start(8, 1, 1e-3)
    used_s = mine.account.used_s
    run.ended(8, 1, 5e-3)
    run.ended(7, 2, 9.0)
    assert mine.account.used_s == pytest.approx(used_s + 4e-3)
    run.end()
