# SPDX-License-Identifier: Apache-2.0
"""Turns of a dynamic run that shares devices with other runs: each task asks before it is submitted."""

from __future__ import annotations

from collections.abc import Callable, Collection

from syclsched.execution.dispatch.turns import Turn
from syclsched.execution.dynamic.data.submission_lookahead import SubmissionLookahead

#: Host lanes have one function at a time: queued ones would delay other runs.
_ON_HOST = SubmissionLookahead(fewest=1, most=1)


class RunTurns:
    """The turns of one run; used on the thread that decides.

    ``hosts`` are the processors of the host's lanes; ``messages`` are those that only exchange data with other
    machines, which needs no turn. ``wake`` is called, on any thread, when a task that must wait may ask again by
    `ask_again`.
    """

    def __init__(self, turn: Turn, hosts: Collection[int], messages: Collection[int], wake: Callable[[], None]) -> None:
        self._turn, self._hosts, self._messages, self._wake = turn, hosts, messages, wake
        self._waits = False
        self._predicted_s: dict[int, float] = {}  # of the tasks that may start or have started

    def may_start(self, task: int, processor: int, seconds: float) -> bool:
        """Return whether a task of predicted length may start."""
        if processor in self._messages or task in self._predicted_s:
            return True
        if self._waits or not self._turn.may_start(seconds, self._wake):
            self._waits = True
            return False
        self._predicted_s[task] = seconds
        return True

    def ask_again(self) -> None:
        """Note that a waiting task may ask again."""
        self._waits = False

    def ended(self, task: int, processor: int, seconds: float | None) -> None:
        """Note the end of a task, and charge the run for a function of the host that took longer than predicted."""
        predicted_s = self._predicted_s.get(task)
        if predicted_s is not None and seconds is not None and processor in self._hosts and seconds > predicted_s:
            self._turn.took_longer(seconds - predicted_s)

    def lookahead(self, processor: int) -> SubmissionLookahead:
        """Return how much work a lane may have."""
        if processor in self._hosts:
            return _ON_HOST
        ahead = self._turn.ahead
        return SubmissionLookahead(fewest=ahead.fewest, seconds=ahead.seconds)

    def end(self) -> None:
        """Take no more turns."""
        self._turn.end()
