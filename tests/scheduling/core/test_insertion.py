# SPDX-License-Identifier: Apache-2.0
"""The compiled insertion engine, compared with plain Python, task by task; and complete removal of trial tasks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_problems import problems
from support.scheduling_reference import heft

from syclsched.errors import PolicyError
from syclsched.scheduling import Problem, get, problem_from_arrays, problem_from_matrices, validate
from syclsched.scheduling.core.insertion import best_slot, find_ready_times, place, unplace
from syclsched.scheduling.core.list_schedulers import by_rank, in_order
from syclsched.scheduling.core.partial_schedule import PartialSchedule, make_partial_schedule

NO_OFFSETS = np.empty((0, 0))


@given(problems(channels=False, max_tasks=20))
def test_heft_equals_the_reference(problem: Problem) -> None:
    timetable, expected = get("heft").schedule(problem), heft(problem)
    for task in range(len(problem)):
        processor, start_s, finish_s = expected.slots[task]
        assert timetable.processor[task] == processor
        assert timetable.start_s[task] == pytest.approx(start_s)
        assert timetable.finish_s[task] == pytest.approx(finish_s)


@given(problems(channels=False, unreachable=True))
def test_a_task_with_unreachable_data_is_named(problem: Problem) -> None:
    expected = heft(problem)
    if len(expected.slots) == len(problem):
        validate(problem, get("heft").schedule(problem))
    else:
        with pytest.raises(PolicyError, match="cannot be brought to any device that can run it"):
            get("heft").schedule(problem)


def contents(state: PartialSchedule) -> list[list[float]]:
    slots, data, network = state
    count = int(network.counts[0])
    return [
        slots.processor.tolist(), slots.start_s.tolist(), slots.finish_s.tolist(), data.origin.tolist(),
        network.newest.tolist(), network.earlier[:count].tolist(), network.what[:count].ravel().tolist(),
        slots.lines.time[len(slots.kind) :, :2].ravel().tolist(),
        network.lines.time[2 * len(network.what) :, :2].ravel().tolist(),
    ]  # fmt: skip


@given(st.booleans().flatmap(lambda channels: problems(channels=channels)), st.integers(0, 12))
def test_unplaced_tasks_leave_no_remains(problem: Problem, kept: int) -> None:
    """Place some tasks for good, all others on trial, twice: equal results, and no remains in between."""
    state, order, devices = make_partial_schedule(problem.tables), by_rank(problem), len(problem.devices)

    def place_best(task: int) -> None:
        find_ready_times(*state, task, 0, devices)
        processor, start_s = best_slot(state.slots, task, 0, devices, NO_OFFSETS, 1.0)
        assert processor >= 0
        place(*state, task, processor, start_s)

    for task in order[:kept].tolist():
        place_best(task)
    before, trials = contents(state), []
    for _ in range(2):
        copies = [int(state.network.counts[0])]
        for task in order[kept:].tolist():
            place_best(task)
            copies.append(int(state.network.counts[0]))
        trials.append(contents(state))
        for task in order[kept:].tolist()[::-1]:
            copies.pop()
            unplace(*state, task, copies[-1])
        assert contents(state) == before
    assert trials[0] == trials[1]


def test_pins_followers_offsets_and_starts_choose_the_device() -> None:
    problem = problem_from_matrices([[2.0, 1.0, 4.0], [2.0, 1.0, math.inf]], {(0, 1): 0.0})
    order = np.arange(2)

    def devices(**choice: object) -> list[int]:
        timetable = in_order(problem, order, **choice)  # type: ignore[arg-type]
        validate(problem, timetable)
        return timetable.processor.tolist()

    assert devices() == [1, 1]
    assert devices(pinned=np.array([2, -1])) == [2, 1]
    assert devices(pinned=np.array([-1, 2])) == [1, 1]  # it cannot run there
    assert devices(pinned=np.array([0, -1]), follows=np.array([-1, 0])) == [0, 0]
    assert devices(pinned=np.array([2, -1]), follows=np.array([-1, 0])) == [2, 1]
    assert devices(offset_s=np.array([[0.0, 5.0, 0.0], [0.0, 0.0, 0.0]])) == [0, 1]
    timetable = in_order(problem_from_matrices([[5.0, 1.0]] * 3, {}), np.arange(3), by_start=True)
    assert timetable.processor.tolist() == [1, 0, 1]  # p0 starts it earlier only where p1 is busy


def test_unreachable_data_is_refused_with_task_and_device() -> None:
    inf = math.inf
    cut = problem_from_arrays([[1.0, inf], [inf, 1.0]], [0], [1], [2.0], latency_s=[[0.0, inf], [inf, 0.0]])
    with pytest.raises(PolicyError, match=r"task 't1': its data cannot be brought to any device .*\(p1\)"):
        get("heft").schedule(cut)
