# SPDX-License-Identifier: Apache-2.0
"""A problem run under a dynamic policy on a virtual clock: the policy knows estimates, tasks take their true time.

Data is fetched for a task when it is bound to a lane (or given to it, if it never was in a queue), and to where a plan
wants it as soon as it is made; from where it was made, over channels in the order of these requests. A lane that is
given a task is occupied while it waits for data.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from syclsched.errors import PolicyError
from syclsched.scheduling.dynamic.book import Book
from syclsched.scheduling.dynamic.fetching import Fetcher
from syclsched.scheduling.dynamic.state import Decision, DynamicPolicy
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING, Floats
from syclsched.scheduling.timetable import Timetable


class Logged(NamedTuple):
    """A decision as it was carried out.

    Parameters
    ----------
    time_s : float
        When.
    task, processor : int
        What went where.
    start : bool
        Whether to run, or into the queue.
    source : int
        The lane in whose queue it was; `NOTHING` if in none.
    """

    time_s: float
    task: int
    processor: int
    start: bool
    source: int


@dataclass(frozen=True, slots=True)
class DynamicRun:
    """What happened.

    Parameters
    ----------
    timetable : Timetable
        When each task ran, by the true times: valid for the true problem.
    log : tuple of Logged
        Every decision, in order.
    """

    timetable: Timetable
    log: tuple[Logged, ...]

    @property
    def stolen(self) -> int:
        """How many tasks were taken out of another lane's queue."""
        return sum(1 for entry in self.log if entry.source not in (NOTHING, entry.processor))


def run_dynamic(problem: Problem, policy: DynamicPolicy, *, estimated_s: Floats | None = None) -> DynamicRun:
    """Run a problem under a dynamic policy.

    Parameters
    ----------
    problem : Problem
        With the true times.
    policy : DynamicPolicy
        Who decides.
    estimated_s : ndarray of float64, shape (T, D), optional
        What the policy believes, infinity where a task cannot run; the truth if not given.

    Returns
    -------
    DynamicRun
        Deterministic.

    Raises
    ------
    PolicyError
        If the policy leaves tasks undone, for instance as their data cannot be brought anywhere, or wants something
        impossible.
    """
    believed = problem
    if estimated_s is not None:
        if not np.array_equal(np.isinf(estimated_s), np.isinf(problem.tables.seconds)):
            raise PolicyError("estimates must be finite just where a task can run", where=f"policy {policy.name!r}")
        estimates = np.ascontiguousarray(estimated_s, dtype=np.float64)
        estimates.flags.writeable = False
        believed = replace(problem, tables=problem.tables._replace(seconds=estimates))
    return _Run(problem, believed, policy).run()


class _Run:
    """One run: the state, and the clock's events."""

    def __init__(self, problem: Problem, believed: Problem, policy: DynamicPolicy) -> None:
        self._problem, self._policy = problem, policy
        self._true_s = problem.tables.seconds.tolist()
        self._release_s = problem.tables.release_s.tolist()
        self._book = Book(problem, policy.prepare(believed), policy.sorts_queues)
        self._state = self._book.state
        self._fetcher = Fetcher(problem, self._state)
        self._start_s = [math.nan] * len(problem)
        self._finish_s = [math.nan] * len(problem)
        self._processor = [NOTHING] * len(problem)
        self._events: list[tuple[float, int, int]] = []  # time, 0 for an end and 1 for a release, task
        self._log: list[Logged] = []

    def run(self) -> DynamicRun:
        """Run to the end."""
        self._fetcher.begin()
        for task in self._book.sources():
            heapq.heappush(self._events, (self._release_s[task], 1, task))
        while self._events:
            now_s = self._state.now_s = self._events[0][0]
            while self._events and self._events[0][0] <= now_s:
                _, kind, task = heapq.heappop(self._events)
                if kind == 1:
                    self._book.arrive(task)
                else:
                    self._end(task)
            while decisions := self._policy.decide(self._state):
                for decision in decisions:
                    self._carry_out(decision)
        undone = [name for name, start_s in zip(self._problem.names, self._start_s, strict=True) if math.isnan(start_s)]
        if undone:
            raise self._refusal(
                f"{len(undone)} tasks are left undone, {undone[0]!r} first: no device that can run it can get its data"
            )
        timetable = Timetable(
            np.array(self._processor, dtype=np.int64),
            np.array(self._start_s, dtype=np.float64),
            np.array(self._finish_s, dtype=np.float64),
            self._fetcher.copies(),
        )
        return DynamicRun(timetable, tuple(self._log))

    def _end(self, task: int) -> None:
        """Let a task end: its lane is idle, its items are made, others may be able to start."""
        processor = self._processor[task]
        device = self._state.known.device_of[processor]
        released = self._book.end(task, processor, self._true_s[task][device])
        self._fetcher.made_by(task, device)
        for after in released:
            if self._release_s[after] <= self._state.now_s:
                self._book.arrive(after)
            else:
                heapq.heappush(self._events, (self._release_s[after], 1, after))

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
        self._finish_s[task] = start_s + self._true_s[task][device]
        heapq.heappush(self._events, (self._finish_s[task], 0, task))

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
