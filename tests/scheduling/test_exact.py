# SPDX-License-Identifier: Apache-2.0
"""The exact engine: optimal among all schedules of small problems, and a clear error where it is missing."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from support.examples import examples
from support.instances import PEFT_COSTS, PEFT_EDGES, TOPCUOGLU_COSTS, TOPCUOGLU_EDGES
from support.random_problems import problems

from syclsched.errors import PolicyError
from syclsched.scheduling.bounds import lower_bound
from syclsched.scheduling.construction.matrices import problem_from_matrices
from syclsched.scheduling.exact import solve
from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.search import refine
from syclsched.scheduling.tables import NOTHING, frozen
from syclsched.scheduling.validate import validate


def need_ortools() -> None:
    pytest.importorskip("ortools.sat.python.cp_model", reason="the extra 'exact' is not installed")


@pytest.mark.parametrize(
    ("costs", "edges", "optimum"), [(TOPCUOGLU_COSTS, TOPCUOGLU_EDGES, 73.0), (PEFT_COSTS, PEFT_EDGES, 113.0)]
)
def test_the_textbook_instances_are_proved_optimal(costs, edges, optimum) -> None:
    need_ortools()
    problem = problem_from_matrices(costs, edges)
    found = solve(problem, Heft().schedule(problem), limit_s=300.0)
    validate(problem, found.timetable)
    assert found.optimal
    assert found.makespan_s == pytest.approx(optimum)
    assert found.bound_s == pytest.approx(optimum, rel=1e-3)


@given(problems(channels=False, max_tasks=7, max_devices=3))
@settings(max_examples=examples(25), deadline=None)
def test_the_search_is_never_below_the_proved_optimum(problem: Problem) -> None:
    need_ortools()
    start = Heft().schedule(problem)
    found = solve(problem, start, limit_s=300.0)
    validate(problem, found.timetable)
    assert found.optimal
    assert makespan_s(problem, found.timetable) == found.makespan_s <= makespan_s(problem, start)
    assert lower_bound(problem).best_s <= found.makespan_s * (1 + 1e-9) + 1e-12
    searched_s = makespan_s(problem, refine(problem, [start], steps=3_000))
    assert searched_s >= found.bound_s * (1 - 1e-9)
    assert found.makespan_s <= searched_s * (1 + 1e-4)


def test_a_missing_ortools_error_names_the_package_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    problem = problem_from_matrices([[1.0, 2.0]], {})
    with pytest.raises(PolicyError, match=r"syclsched\[exact\]"):
        solve(problem, Heft().schedule(problem))


def by_receiver(problem: Problem) -> Problem:
    """Return a problem whose copies into each space wait for each other."""
    spaces = len(problem.spaces)
    channel = np.full((spaces, spaces, 2), NOTHING)
    channel[:, :, 0] = np.arange(spaces)
    channel[np.arange(spaces), np.arange(spaces)] = NOTHING
    return replace(problem, contention="one-port", tables=frozen(problem.tables._replace(channel=channel)))


def every_order(problem: Problem, devices: tuple[int, ...], best: float) -> float:
    """Return the least makespan of a placement, or the given one: tasks and copies as early as every order allows."""
    tables = problem.tables
    copies = {
        (int(item), int(tables.item_producer[item]), devices[task])
        for task in range(len(problem))
        for item in tables.read_item[tables.read_start[task] : tables.read_start[task + 1]]
        if devices[int(tables.item_producer[item])] != devices[task]
    }

    def extend(end: dict[object, float], free: dict[object, float]) -> None:
        nonlocal best
        if max(end.values(), default=0.0) >= best:
            return
        if len(end) == len(problem) + len(copies):
            best = max(end.values())
        for copy in copies - end.keys():
            item, maker, space = copy
            if maker in end:
                at = max(end[maker], free.get(("copies", space), 0.0))
                done = at + problem.copy_seconds(float(tables.item_bytes[item]), devices[maker], space)
                extend({**end, copy: done}, {**free, ("copies", space): done})
        for task in set(range(len(problem))) - end.keys():
            before = set(tables.pred_task[tables.pred_start[task] : tables.pred_start[task + 1]].tolist())
            items = set(tables.read_item[tables.read_start[task] : tables.read_start[task + 1]].tolist())
            needed = before | {copy for copy in copies if copy[0] in items and copy[2] == devices[task]}
            if needed <= end.keys():
                at = max([free.get(devices[task], 0.0), *(end[each] for each in needed)])
                done = at + float(tables.seconds[tables.kind[task], devices[task]])
                extend({**end, task: done}, {**free, devices[task]: done})

    extend({}, {})
    return best


@pytest.mark.parametrize("seed", range(6))
def test_with_copy_lanes_the_optimum_is_that_of_all_schedules(seed: int) -> None:
    need_ortools()
    rng = np.random.default_rng(seed)
    costs = rng.integers(1, 9, (5, 2)).astype(float).tolist()
    arcs = [(0, 2), (0, 3), (1, 3), (1, 4), (2, 4)]
    edges = {arcs[k]: float(rng.integers(1, 9)) for k in rng.choice(len(arcs), 4, replace=False).tolist()}
    problem = by_receiver(problem_from_matrices(costs, edges))
    start = Heft().schedule(problem)
    found = solve(problem, start, limit_s=300.0)
    validate(problem, found.timetable)
    assert found.optimal
    assert found.makespan_s == makespan_s(problem, found.timetable) <= makespan_s(problem, start)
    best_s = math.inf
    for devices in product(range(2), repeat=5):
        best_s = every_order(problem, devices, best_s)
    assert found.makespan_s == pytest.approx(best_s)
    free = solve(problem_from_matrices(costs, edges), start, limit_s=300.0)
    assert free.makespan_s <= found.makespan_s * (1 + 1e-9)


@given(problems(channels=True, max_tasks=6, max_devices=3))
@settings(max_examples=examples(15), deadline=None)
def test_results_with_channels_are_valid(problem: Problem) -> None:
    need_ortools()
    start = Heft().schedule(problem)
    if (np.diff(problem.tables.reach_start) > 1).any():
        with pytest.raises(PolicyError, match="several memory spaces"):
            solve(problem, start)
        return
    found = solve(problem, start, limit_s=300.0)
    validate(problem, found.timetable)
    assert found.optimal
    assert found.bound_s <= found.makespan_s * (1 + 1e-9)
    assert makespan_s(problem, found.timetable) == found.makespan_s <= makespan_s(problem, start)
