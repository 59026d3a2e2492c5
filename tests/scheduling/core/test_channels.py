# SPDX-License-Identifier: Apache-2.0
"""Copies on one-port channels: one after another, in gaps, and shared by all readers."""

from __future__ import annotations

import math

from support.random_problems import READ, WRITE, build

from syclsched.scheduling import (
    Copies,
    Timetable,
    get,
    makespan_s,
    problem_from_arrays,
    problem_from_matrices,
    validate,
)
from syclsched.scheduling.problem import Problem

INF = math.inf


def run(problem: Problem) -> tuple[Timetable, list[tuple[float, float]]]:
    timetable = get("heft").schedule(problem)
    validate(problem, timetable)
    copies = timetable.copies
    assert copies is not None
    return timetable, sorted(zip(copies.start_s.tolist(), copies.finish_s.tolist(), strict=True))


def pinned(devices: list[int], width: int) -> list[list[float]]:
    return [[1.0 if d == device else INF for d in range(width)] for device in devices]


def test_a_sender_sends_one_copy_at_a_time() -> None:
    edges = {(0, 1): 5.0, (0, 2): 5.0}
    timetable, copies = run(problem_from_matrices(pinned([0, 1, 2], 3), edges, contention="one-port"))
    assert copies == [(1.0, 6.0), (6.0, 11.0)]
    assert sorted(timetable.start_s.tolist()) == [0.0, 6.0, 11.0]


def test_a_receiver_receives_one_copy_at_a_time() -> None:
    edges = {(0, 2): 5.0, (1, 2): 3.0}
    _, copies = run(problem_from_matrices(pinned([0, 1, 2], 3), edges, contention="one-port"))
    assert copies in ([(1.0, 6.0), (6.0, 9.0)], [(1.0, 4.0), (4.0, 9.0)])


def test_copies_between_different_pairs_do_not_wait() -> None:
    edges = {(0, 2): 5.0, (1, 3): 5.0}
    _, copies = run(problem_from_matrices(pinned([0, 1, 2, 3], 4), edges, contention="one-port"))
    assert copies == [(1.0, 6.0), (1.0, 6.0)]


def test_a_short_copy_fills_a_gap() -> None:
    """t0 sends to t1 early and to t2 late (after its second part is done): the data for t3 fits in between."""
    costs = pinned([0, 1, 0, 2, 3], 4)
    costs[2][0] = 10.0
    # t0 -> t1 at 1; t2 (11 s on p0, after t0) -> t3; t0 -> t4 is the shortest, and ranked last.
    edges = {(0, 1): 2.0, (0, 2): 0.0, (2, 3): 4.0, (0, 4): 1.5}
    timetable, copies = run(problem_from_matrices(costs, edges, contention="one-port"))
    assert len(copies) == 3
    assert (11.0, 15.0) in copies
    assert timetable.makespan_s == 16.0
    assert all(finish <= 4.5 or start >= 11.0 for start, finish in copies)


def test_one_copy_serves_all_readers_in_a_space() -> None:
    problem = build(
        pinned([0, 1, 1], 2), [[0], [1]], [3.0], [0], [{0: WRITE}, {0: READ}, {0: READ}],
        [[0.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]], channel=(0, 1),
    )  # fmt: skip
    timetable, copies = run(problem)
    assert copies == [(1.0, 4.0)]
    assert timetable.makespan_s == 6.0


def test_wanted_results_are_copied_at_the_end() -> None:
    problem = build(
        pinned([0, 0], 2), [[0], [1]], [3.0, 5.0], [0, 0], [{0: WRITE}, {1: WRITE}],
        [[0.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]], channel=(0, 1), wishes=[(0, 1), (1, 1), (1, 0)],
    )  # fmt: skip
    timetable, copies = run(problem)
    assert copies == [(1.0, 4.0), (4.0, 9.0)]
    assert (timetable.makespan_s, makespan_s(problem, timetable)) == (2.0, 9.0)


def test_without_copies_the_list_is_empty() -> None:
    timetable = get("heft").schedule(problem_from_arrays([[1.0, 2.0]], [], [], [], contention="one-port"))
    assert isinstance(timetable.copies, Copies)
    assert timetable.copies.item.tolist() == []
