# SPDX-License-Identifier: Apache-2.0
"""The clock of a live run: when it stops."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from syclsched.errors import PolicyError
from syclsched.execution.dynamic.data.submission_lookahead import SubmissionLookahead
from syclsched.execution.dynamic.live_clock import LiveClock
from syclsched.scheduling import problem_from_matrices
from syclsched.scheduling.dynamic import Eager
from syclsched.scheduling.dynamic.run_loop import run_policy
from syclsched.scheduling.dynamic.state_tracker import StateTracker


def clock_of(polls_in_flight: int) -> tuple[StateTracker, LiveClock]:
    """The clock of a run of one task, and an executor with copies in flight until it has been polled so often."""
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


def test_tasks_that_nobody_starts_are_counted() -> None:
    tracker, clock = clock_of(polls_in_flight=3)  # no task has become ready
    with pytest.raises(PolicyError, match="1 tasks are left undone"):
        run_policy(Eager(), tracker, clock)
