# SPDX-License-Identifier: Apache-2.0
"""The compiled dynamic policies, compared with plain Python that tries all ready tasks on all devices at every step."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy

import numpy as np
import pytest
from hypothesis import given
from support.random_problems import problems
from support.scheduling_reference import Reference, upward_ranks

from syclsched.scheduling import Problem, Timetable, get
from syclsched.scheduling.core.list_schedulers import best_pairs


def agree(timetable: Timetable, expected: Reference) -> None:
    assert [(int(p), float(s)) for p, s in zip(timetable.processor, timetable.start_s, strict=True)] == [
        expected.slots[task][:2] for task in range(len(timetable.processor))
    ]


def pairs(problem: Problem, merit_s: list[list[float]]) -> Reference:
    """Take the pair of the highest merit less start; ties by task, time, device."""
    reference = Reference(problem)
    while ready := reference.ready_tasks():
        options = [
            (start_s - merit_s[task][device], *reference.tie(task), seconds, device, start_s, processor, task)
            for task in ready
            for start_s, seconds, device, processor in first_free(reference, task)
        ]
        *_, start_s, processor, task = min(options)
        reference.place(task, processor, start_s)
    return reference


def first_free(reference: Reference, task: int) -> list[tuple[float, float, int, int]]:
    """The slots without insertion on the lane of each device that is free first."""
    ends = {processor: max([e for _, e in taken], default=0.0) for processor, taken in enumerate(reference.taken)}
    best: dict[int, tuple[float, float, int, int]] = {}
    for option in reference.options(task, insertion=False):
        device, processor = option[2:]
        if device not in best or ends[processor] < ends[best[device][3]]:
            best[device] = option
    return list(best.values())


def by_completion(problem: Problem, urgency: Callable[[list[float]], float]) -> Reference:
    """Select the most urgent task, by its rising completion times, for the device where it completes first."""
    reference = Reference(problem)
    while ready := reference.ready_tasks():
        options = []
        for task in ready:
            slots = sorted((s + seconds, device, s, p) for s, seconds, device, p in first_free(reference, task))
            options.append((-urgency([slot[0] for slot in slots]), *reference.tie(task), task, slots[0]))
        *_, task, (_, _, start_s, processor) = min(options)
        reference.place(task, processor, start_s)
    return reference


@given(problems(channels=False, whole=True))
def test_min_min(problem: Problem) -> None:
    agree(get("min-min").schedule(problem), pairs(problem, (-problem.tables.task_seconds()).tolist()))


@given(problems(channels=False, whole=True))
def test_any_merits(problem: Problem) -> None:
    merit_s = np.array(
        [[(task * 7 + device * 3) % 11 for device in range(len(problem.devices))] for task in range(len(problem))]
    )
    agree(best_pairs(problem, merit_s.astype(float)), pairs(problem, merit_s.tolist()))


@given(problems(channels=False, whole=True))
def test_max_min(problem: Problem) -> None:
    agree(get("max-min").schedule(problem), by_completion(problem, lambda ends: ends[0]))


@given(problems(channels=False, whole=True))
def test_sufferage(problem: Problem) -> None:
    expected = by_completion(problem, lambda ends: ends[1] - ends[0] if len(ends) > 1 else math.inf)
    agree(get("sufferage").schedule(problem), expected)


@given(problems(channels=False, whole=True))
def test_etf_starts_the_earliest_ready_task(problem: Problem) -> None:
    """Replayed in order of start, each start is the earliest of all ready tasks on all devices."""
    timetable = get("etf").schedule(problem)
    reference = Reference(problem)
    waiting = set(range(len(problem)))
    while waiting:
        ready = reference.ready_tasks()
        least_s = min(option[0] for task in ready for option in first_free(reference, task))
        task = min((t for t in ready if timetable.start_s[t] == least_s), key=lambda t: (timetable.finish_s[t], t))
        processor = int(timetable.processor[task])
        reference.place(task, processor, float(timetable.start_s[task]))
        waiting.remove(task)


@given(problems(channels=False, whole=True, max_tasks=8))
def test_lookahead(problem: Problem) -> None:
    ranks = upward_ranks(problem)
    reference = Reference(problem)

    def choose(task: int) -> tuple[int, float]:
        best: dict[int, tuple[float, float, int, int]] = {}
        for option in reference.options(task):
            if option[2] not in best or option[0] < best[option[2]][0]:
                best[option[2]] = option
        values = [(after(reference, task, o[3], o[0]), o[0] + o[1], o[2], o[3], o[0]) for o in best.values()]
        *_, processor, start_s = min(values)
        return processor, start_s

    def after(base: Reference, task: int, processor: int, start_s: float) -> float:
        trial = copy(base)
        trial.taken = [list(taken) for taken in base.taken]
        trial.slots, trial.origin, trial.made_s = dict(base.slots), dict(base.origin), dict(base.made_s)
        trial.place(task, processor, start_s)
        last_s = trial.slots[task][2]
        for follower in sorted(trial.row("succ_task", task), key=lambda t: (-ranks[t], *trial.tie(t))):
            start_s, _, _, there = min(trial.options(follower), key=lambda o: o[0] + o[1])
            trial.place(follower, there, start_s)
            last_s = max(last_s, trial.slots[follower][2])
        return last_s

    reference.list_schedule(ranks, choose)
    timetable = get("lookahead").schedule(problem)
    for task, (processor, start_s, _) in reference.slots.items():
        assert timetable.processor[task] == processor
        assert timetable.start_s[task] == pytest.approx(start_s)
