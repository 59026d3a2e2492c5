# SPDX-License-Identifier: Apache-2.0
"""The incremental decoder: equal to a complete decoding after moves."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.random_problems import problems

from syclsched.scheduling.core.orders import time_order
from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.search.incremental.chains import clear_undo_log, undo
from syclsched.scheduling.search.incremental.critical import compute_tails, critical_path
from syclsched.scheduling.search.incremental.decode import update_times
from syclsched.scheduling.search.incremental.evaluator import IncrementalEvaluator
from syclsched.scheduling.search.incremental.moves import prepare_moves, propose
from syclsched.scheduling.search.incremental.records import IncrementalState
from syclsched.scheduling.validate import validate


def begin(problem: Problem, seed: int) -> tuple[IncrementalEvaluator, float]:
    start = Heft().schedule(problem)
    evaluator = IncrementalEvaluator(problem.tables, seed)
    return evaluator, evaluator.load(time_order(problem.tables, start.start_s, start.finish_s), start.processor)


def everything(search: IncrementalState) -> tuple[bytes, ...]:
    nodes = search.nodes[:-1]
    columns = [nodes[name].tobytes() for name in ("position", "processor", "before", "after", "start_s", "finish_s")]
    return (*columns, search.order.tobytes(), search.lanes.tobytes(), search.origin.tobytes())


@given(problems(channels=False))
@settings(max_examples=examples(30), deadline=None)
def test_a_list_schedule_is_decoded_into_one_that_is_no_longer(problem: Problem) -> None:
    evaluator, found_s = begin(problem, 0)
    validate(problem, evaluator.timetable())
    assert found_s == makespan_s(problem, evaluator.timetable())
    assert found_s <= makespan_s(problem, Heft().schedule(problem)) * (1 + 1e-12)


@given(problems(channels=False), st.integers(0, 1000))
@settings(max_examples=examples(20), deadline=None)
def test_incremental_moves_equal_complete_decoding(problem: Problem, seed: int) -> None:
    evaluator, _ = begin(problem, seed)
    search = evaluator.state
    for step in range(30):
        before = everything(search)
        prepare_moves(search)
        if not propose(search, math.inf):
            continue
        found_s = update_times(search, math.inf)
        assert not search.nodes["dirty"].any()
        if found_s == math.inf or step % 3 == 0:
            undo(search)
            assert everything(search) == before
            continue
        clear_undo_log(search.counts, search.order.size)
        validate(problem, evaluator.timetable())
        again = IncrementalEvaluator(problem.tables, seed)
        assert again.load(search.order, search.nodes["processor"][:-1].copy()) == found_s
        assert everything(again.state) == everything(search)


@given(problems(channels=False), st.integers(0, 1000), st.sampled_from([0.9, 1.0, 1.1]))
@settings(max_examples=examples(30), deadline=None)
def test_abandoned_decodings_leave_no_dirty_nodes(problem: Problem, seed: int, share: float) -> None:
    evaluator, now_s = begin(problem, seed)
    search = evaluator.state
    for _ in range(20):
        before = everything(search)
        prepare_moves(search)
        propose(search, math.inf)
        found_s = update_times(search, share * now_s)
        again = IncrementalEvaluator(problem.tables, 0)
        truly_s = again.load(search.order, search.nodes["processor"][:-1].copy())
        assert found_s == truly_s or (found_s == math.inf and truly_s > share * now_s)
        assert not search.nodes["dirty"].any()
        undo(search)
        assert everything(search) == before


@given(problems(channels=False))
@settings(max_examples=examples(30), deadline=None)
def test_critical_path_has_no_gap(problem: Problem) -> None:
    search = begin(problem, 0)[0].state
    path = search.path[: critical_path(search)].tolist()
    nodes = search.nodes[:-1]
    assert nodes["finish_s"][path[0]] == nodes["finish_s"].max()
    for after, before in pairwise(path):
        assert nodes["position"][before] < nodes["position"][after]
        assert nodes["finish_s"][before] <= nodes["start_s"][after]


@given(problems(channels=False))
@settings(max_examples=examples(30), deadline=None)
def test_head_and_tail_of_a_task_are_within_the_makespan(problem: Problem) -> None:
    search = begin(problem, 0)[0].state
    compute_tails(search)
    nodes = search.nodes[:-1]
    longest_s = float((nodes["start_s"] + nodes["out_s"]).max())
    last_s = float(nodes["finish_s"].max())
    assert longest_s <= last_s * (1 + 1e-9)
    assert np.all(nodes["out_s"] >= nodes["finish_s"] - nodes["start_s"])
