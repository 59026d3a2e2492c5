# SPDX-License-Identifier: Apache-2.0
"""Plans made during a run: consistent with started tasks, followed by the policy, and of benefit."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.random_problems import problems
from support.turns import Turns

from syclsched.scheduling import problem_from_matrices
from syclsched.scheduling.dynamic import Hybrid
from syclsched.scheduling.dynamic.compiled.replanning import RunSnapshot, plan_snapshot, snapshot_of, switch_plan
from syclsched.scheduling.dynamic.compiled.run_state import (
    BOUND,
    DEVIATION,
    STARTED,
    RunState,
    bytes_between,
    new_run_state,
)
from syclsched.scheduling.dynamic.compiled.run_state_updates import complete, release_sources
from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING
from syclsched.scheduling.timetable import Timetable


def board_of(problem: Problem, plan: Timetable, lookahead: tuple[int, int, float] = (1, 2, 1e-3)) -> RunState:
    policy = Hybrid(plan)
    known = policy.prepare(problem)
    lanes = len(known.device_of)
    return new_run_state(
        problem, policy, known, lanes=lanes, commands=len(problem), is_host=[False] * lanes, lookahead=lookahead,
        before=[()] * len(problem),
    )  # fmt: skip


def end(state: RunState, lane: int, took_s: float, now_s: float) -> None:
    """End the next task of a lane."""
    counts, end_ns = np.zeros(len(state.submitted), np.int64), np.zeros(len(state.lane), np.int64)
    counts[lane], end_ns[state.flight[lane, state.done[lane]]] = 1, took_s * 1e9
    complete(state, counts, np.zeros(len(state.lane), np.int64), end_ns, now_s)


@settings(max_examples=examples(40), deadline=None)
@given(problem=problems(channels=False), data=st.data())
def test_tasks_start_once_whenever_plans_change(problem: Problem, data: st.DataObject) -> None:
    state = board_of(problem, Heft().schedule(problem))
    release_sources(state)
    turns = Turns(state, Hybrid)
    lanes, now_ns, late = len(state.known.device_of), 0, []
    while True:
        started = turns.take(now_ns)
        if data.draw(st.booleans()):
            late.append(plan_snapshot(snapshot_of(state, bytes_between(problem))))
        if late and data.draw(st.booleans()):
            switch_plan(state, *late.pop(0))
        busy = [lane for lane in range(lanes) if state.submitted[lane] > state.done[lane]]
        if not busy:
            if started == len(problem) or turns.take(now_ns) == started:
                break
            continue
        lane = data.draw(st.sampled_from(busy))
        now_ns += data.draw(st.sampled_from([0, 500_000_000, 2_000_000_000]))
        end(state, lane, data.draw(st.sampled_from([0.25, 1.0, 8.0])), now_ns * 1e-9)
    order = state.started[: state.counters[STARTED]].tolist()
    assert sorted(order) == list(range(len(problem)))
    at = {task: place for place, task in enumerate(order)}
    tables = problem.tables
    for task in order:
        assert np.isfinite(tables.seconds[tables.kind[task], state.known.device_of[state.lane[task]]])
        for before in tables.pred_task[tables.pred_start[task] : tables.pred_start[task + 1]].tolist():
            assert at[before] < at[task]


@settings(max_examples=examples(40), deadline=None)
@given(problem=problems(channels=False))
def test_started_tasks_stay_and_others_use_eligible_lanes(problem: Problem) -> None:
    state = board_of(problem, Heft().schedule(problem))
    release_sources(state)
    Turns(state, Hybrid).take(0)
    planned, level = plan_snapshot(snapshot_of(state, bytes_between(problem)))
    there = state.place[: len(problem)] != NOTHING
    np.testing.assert_array_equal(planned[there], state.lane[: len(problem)][there])
    assert sorted(level.tolist()) == list(range(len(problem)))
    device_of = state.known.device_of
    assert np.isfinite(problem.tables.seconds[problem.tables.kind, device_of[planned]]).all()


def test_tasks_without_duration_stay_on_their_lane() -> None:
    """Before, barriers went to the idle host lane, and the computing lanes waited for it."""
    done, barrier = [1.0, 1.0, np.inf], [0.0, 0.0, 0.0]
    frontier = RunSnapshot(
        seconds=np.array([done, barrier]),
        device_of=np.arange(3),
        succ_start=np.array([0, 1, 1]),
        succ_task=np.array([1]),
        planned=np.array([1, 1]),
        lane=np.array([1, NOTHING]),
        succ_bytes=np.zeros(1),
        latency_s=np.zeros((3, 3)),
        s_per_byte=np.zeros((3, 3)),
        end_s=np.zeros(2),
        free_s=np.array([5.0, 5.0, 0.0]),
    )
    lane, _ = plan_snapshot(frontier)
    assert lane.tolist() == [1, 1]


@pytest.mark.parametrize(("nbytes", "lane"), [(0.0, 0), (1e6, 1)])
def test_task_stays_with_data_if_a_copy_takes_longer(nbytes: float, lane: int) -> None:
    apart = 1.0 - np.eye(2)
    frontier = RunSnapshot(
        seconds=np.ones((2, 2)),
        device_of=np.arange(2),
        succ_start=np.array([0, 1, 1]),
        succ_task=np.array([1]),
        planned=np.array([1, 1]),
        lane=np.array([1, NOTHING]),
        succ_bytes=np.array([nbytes]),
        latency_s=0.1 * apart,
        s_per_byte=3e-6 * apart,
        end_s=np.array([1.0, 0.0]),
        free_s=np.array([1.0, 3.0]),
    )
    assert plan_snapshot(frontier)[0].tolist() == [1, lane]


def makespan(problem: Problem, true_s: Any, *, anew: bool) -> float:
    """Return the makespan of a run on a virtual clock whose times differ from the estimates."""
    state = board_of(problem, Heft().schedule(problem))
    release_sources(state)
    turns, lanes, now_s = Turns(state, Hybrid), len(state.known.device_of), 0.0
    free_s = [0.0] * lanes
    ends: list[tuple[float, int, int]] = []
    seen, ready_s = 0, np.zeros(len(problem))
    tables = problem.tables
    while True:
        started = turns.take(round(now_s * 1e9))
        for task in state.started[seen:started].tolist():
            lane = int(state.lane[task])
            free_s[lane] = max(free_s[lane], now_s, ready_s[task]) + true_s[task, state.known.device_of[lane]]
            heapq.heappush(ends, (free_s[lane], lane, task))
            for after in tables.succ_task[tables.succ_start[task] : tables.succ_start[task + 1]].tolist():
                ready_s[after] = max(ready_s[after], free_s[lane])
        if started > seen:
            seen = started
            continue
        if not ends:
            assert started == len(problem)
            return max(free_s)
        now_s, lane, task = heapq.heappop(ends)
        end(state, lane, true_s[task, state.known.device_of[lane]], now_s)
        if anew and state.scalars[DEVIATION] > state.scalars[BOUND]:
            switch_plan(state, *plan_snapshot(snapshot_of(state, bytes_between(problem))))


def stages(seed: int, width: int = 4, count: int = 30) -> tuple[Problem, Any]:
    """Return consecutive stages of kernels whose estimates are up to three times too high or too low."""
    generator = np.random.default_rng(seed)
    kernel_s = generator.uniform(0.3, 1.7, width) * 1e-3
    wrong_s = kernel_s * 3.0 ** generator.uniform(-1.0, 1.0, width)
    edges = {
        (step * width + a, (step + 1) * width + b): 0
        for step in range(count - 1)
        for a in range(width)
        for b in range(width)
    }
    true_s, believed_s = (np.tile(each, count)[:, None] * np.ones(2) for each in (kernel_s, wrong_s))
    return problem_from_matrices(believed_s.tolist(), edges), true_s


def test_replanning_limits_the_effect_of_wrong_kernel_costs() -> None:
    before, after = [], []
    for seed in range(12):
        problem, true_s = stages(seed)
        known = problem_from_matrices(true_s.tolist(), _edges_of(problem))
        best_s = makespan(known, true_s, anew=False)
        before.append(makespan(problem, true_s, anew=False) / best_s)
        after.append(makespan(problem, true_s, anew=True) / best_s)
    assert max(after) < max(before)
    assert np.median(after) < 1.1


def _edges_of(problem: Problem) -> dict[tuple[int, int], int]:
    tables = problem.tables
    return {
        (before, task): 0
        for task in range(len(problem))
        for before in tables.pred_task[tables.pred_start[task] : tables.pred_start[task + 1]].tolist()
    }
