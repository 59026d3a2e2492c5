# SPDX-License-Identifier: Apache-2.0
"""Tests of the decoder: what is worked out again after moves is what working out everything gives."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_problems import problems

from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.refine.chains import clear_undo_log, load, undo
from syclsched.scheduling.refine.critical import compute_tails, critical_path
from syclsched.scheduling.refine.decode import compute_all_times, order_of, update_times
from syclsched.scheduling.refine.moves import propose
from syclsched.scheduling.refine.prepare import prepare
from syclsched.scheduling.refine.records import MOVES, Search
from syclsched.scheduling.timetable import Timetable
from syclsched.scheduling.validate import validate


def begin(problem: Problem, seed: int) -> tuple[Search, float]:
    tables, start = problem.tables, Heft().schedule(problem)
    search = prepare(tables, seed)
    order = order_of(tables.pred_start, tables.pred_task, start.start_s, start.finish_s)
    load(search.nodes, search.lanes, search.order, order, start.processor)
    return search, compute_all_times(search)


def timetable(search: Search) -> Timetable:
    nodes = search.nodes[:-1]
    return Timetable(nodes["processor"].copy(), nodes["start_s"].copy(), nodes["finish_s"].copy())


def everything(search: Search) -> tuple[bytes, ...]:
    nodes = search.nodes[:-1]
    columns = [nodes[name].tobytes() for name in ("position", "processor", "before", "after", "start_s", "finish_s")]
    return (*columns, search.order.tobytes(), search.lanes.tobytes(), search.origin.tobytes())


@given(problems(channels=False))
@settings(max_examples=60, deadline=None)
def test_a_list_schedule_is_decoded_into_one_that_is_no_longer(problem: Problem) -> None:
    search, found_s = begin(problem, 0)
    validate(problem, timetable(search))
    assert found_s == makespan_s(problem, timetable(search))
    assert found_s <= makespan_s(problem, Heft().schedule(problem)) * (1 + 1e-12)


@given(problems(channels=False), st.integers(0, 1000))
@settings(max_examples=80, deadline=None)
def test_moves_are_worked_out_as_if_from_nothing_and_taken_back_without_trace(problem: Problem, seed: int) -> None:
    search, _ = begin(problem, seed)
    for step in range(30):
        before = everything(search)
        compute_tails(search)
        propose(search, critical_path(search), math.inf)
        if search.counts[MOVES] == 0:
            continue
        found_s = update_times(search, math.inf)
        assert not search.nodes["dirty"].any()
        if found_s == math.inf or step % 3 == 0:
            undo(search)
            assert everything(search) == before
            continue
        clear_undo_log(search.counts, search.order.size)
        validate(problem, timetable(search))
        again = prepare(problem.tables, seed)
        load(again.nodes, again.lanes, again.order, search.order, search.nodes["processor"][:-1].copy())
        assert compute_all_times(again) == found_s
        assert everything(again) == everything(search)


@given(problems(channels=False), st.integers(0, 1000), st.sampled_from([0.9, 1.0, 1.1]))
@settings(max_examples=120, deadline=None)
def test_work_that_leads_nowhere_is_given_up_and_leaves_nothing_dirty(
    problem: Problem, seed: int, share: float
) -> None:
    search, now_s = begin(problem, seed)
    for _ in range(20):
        before = everything(search)
        compute_tails(search)
        propose(search, critical_path(search), math.inf)
        found_s = update_times(search, share * now_s)
        again = prepare(problem.tables, 0)
        load(again.nodes, again.lanes, again.order, search.order, search.nodes["processor"][:-1].copy())
        truly_s = compute_all_times(again)
        assert found_s == truly_s or (found_s == math.inf and truly_s > share * now_s)
        assert not search.nodes["dirty"].any()
        undo(search)
        assert everything(search) == before


@given(problems(channels=False))
@settings(max_examples=60, deadline=None)
def test_the_critical_path_leads_without_a_gap_from_the_beginning_to_the_end(problem: Problem) -> None:
    search, _ = begin(problem, 0)
    path = search.path[: critical_path(search)].tolist()
    nodes = search.nodes[:-1]
    assert nodes["finish_s"][path[0]] == nodes["finish_s"].max()
    for after, before in pairwise(path):
        assert nodes["position"][before] < nodes["position"][after]
        assert nodes["finish_s"][before] <= nodes["start_s"][after]


@given(problems(channels=False))
@settings(max_examples=60, deadline=None)
def test_head_and_tail_of_a_task_are_within_the_makespan(problem: Problem) -> None:
    search, _ = begin(problem, 0)
    compute_tails(search)
    nodes = search.nodes[:-1]
    longest_s = float((nodes["start_s"] + nodes["out_s"]).max())
    last_s = float(nodes["finish_s"].max())
    assert longest_s <= last_s * (1 + 1e-9)
    assert np.all(nodes["out_s"] >= nodes["finish_s"] - nodes["start_s"])
