# SPDX-License-Identifier: Apache-2.0
"""Dynamic policies on random problems with right, noisy and wrong estimates: valid timetables."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.definitions import with_tables
from support.examples import examples
from support.random_problems import problems

from syclsched.errors import PolicyError
from syclsched.scheduling import problem_from_matrices, validate
from syclsched.scheduling.dynamic import (
    DYNAMIC_POLICIES,
    Decision,
    DynamicPolicy,
    Eager,
    Hybrid,
    Locality,
    PolicyState,
    StaticInfo,
    run_dynamic,
)
from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING, Floats


@dataclass(frozen=True)
class Watched:
    """A policy that asserts that the wrapped one is deterministic and leaves the state unchanged."""

    inner: DynamicPolicy

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def sorts_queues(self) -> bool:
        return self.inner.sorts_queues

    def prepare(self, problem: Problem) -> StaticInfo:
        return self.inner.prepare(problem)

    def decide(self, state: PolicyState) -> list[Decision]:
        before = deepcopy(state)
        decisions = self.inner.decide(state)
        assert state == before
        assert self.inner.decide(before) == decisions
        return decisions


def estimates(problem: Problem, kind: str, seed: int) -> Floats:
    """Return estimates: the true durations, with lognormal noise, or each three times too long or too short."""
    generator = np.random.default_rng(seed)
    seconds = problem.tables.task_seconds()
    if kind == "noisy":
        return seconds * np.exp(generator.normal(0.0, 0.5, seconds.shape))
    if kind == "three times off":
        return seconds * 3.0 ** generator.choice([-1.0, 1.0], seconds.shape)
    return seconds


def policies(problem: Problem, estimated: Floats) -> list[DynamicPolicy]:
    plan = Heft().schedule(problem.with_task_seconds(estimated))
    return [*DYNAMIC_POLICIES, Hybrid(plan), Hybrid(plan, bound=0.0)]


@pytest.mark.parametrize("kind", ["exact", "noisy", "three times off"])
@settings(max_examples=examples(15))
@given(data=st.data(), seed=st.integers(0, 9))
def test_timetables_hold_by_the_true_times(kind: str, data: st.DataObject, seed: int) -> None:
    problem = data.draw(problems(channels=data.draw(st.booleans())))
    estimated = estimates(problem, kind, seed)
    estimated.flags.writeable = False
    for policy in policies(problem, estimated):
        run = run_dynamic(problem, Watched(policy), estimated_s=estimated)
        validate(problem, run.timetable, policy=policy.name)
        assert sorted(entry.task for entry in run.log if entry.start) == list(range(len(problem)))
        for entry in run.log:
            assert entry.time_s <= run.timetable.start_s[entry.task]
            if entry.start:
                assert run.timetable.processor[entry.task] == entry.processor


@settings(max_examples=examples(40))
@given(problems(channels=True, unreachable=True))
def test_immovable_data_stay_or_are_refused(problem: Problem) -> None:
    for policy in DYNAMIC_POLICIES:
        try:
            run = run_dynamic(problem, policy)
        except PolicyError as error:
            assert error.where == f"policy {policy.name!r}"
            continue
        validate(problem, run.timetable, policy=policy.name)


def test_unreachable_data_names_the_task() -> None:
    problem = problem_from_matrices([[1.0, np.inf], [np.inf, 1.0]], {(0, 1): 1.0})
    latency = np.array([[0.0, np.inf], [np.inf, 0.0]])
    cut = with_tables(problem, latency_s=latency)
    for policy in DYNAMIC_POLICIES:
        with pytest.raises(PolicyError, match=r"1 tasks are left undone, 't1' first"):
            run_dynamic(cut, policy)


@dataclass(frozen=True)
class Wrong:
    """A policy with the same decisions in every state."""

    wants: tuple[Decision, ...]
    name: str = "wrong"
    sorts_queues: bool = False

    def prepare(self, problem: Problem) -> StaticInfo:
        return Eager().prepare(problem)

    def decide(self, state: PolicyState) -> list[Decision]:
        return list(self.wants)


@pytest.mark.parametrize(
    ("wants", "text"),
    [
        ([Decision(0, 2, True)], "wants task 't0' on processor 2, which does not exist"),
        ([Decision(1, 0, True)], "wants task 't1', which is not ready or has been started"),
        ([Decision(0, 0, True), Decision(0, 1, True)], "wants task 't0', which is not ready or has been started"),
        ([Decision(2, 1, False)], "wants task 't2' on 'p1', which cannot run it"),
        ([Decision(0, 0, True), Decision(2, 0, True)], "wants to start task 't2' on a lane that is busy"),
    ],
)
def test_impossible_decisions_are_refused(wants: list[Decision], text: str) -> None:
    problem = problem_from_matrices([[1.0, 1.0], [1.0, 1.0], [1.0, np.inf]], {(0, 1): 1.0})
    with pytest.raises(PolicyError, match=text):
        run_dynamic(problem, Wrong(tuple(wants)))


def test_estimates_must_be_finite_for_exactly_the_eligible_devices() -> None:
    problem = problem_from_matrices([[1.0, np.inf]], {})
    with pytest.raises(PolicyError, match="finite just where a task can run"):
        run_dynamic(problem, Eager(), estimated_s=np.ones((1, 2)))


def test_equal_runs_are_equal() -> None:
    problem = problem_from_matrices([[3.0, 1.0]] * 9, {(0, 5): 1.0, (1, 5): 2.0, (2, 7): 9.0})
    for policy in DYNAMIC_POLICIES:
        first, second = run_dynamic(problem, policy), run_dynamic(problem, policy)
        assert first.log == second.log
        assert np.array_equal(first.timetable.start_s, second.timetable.start_s)


def test_an_empty_problem_is_done_at_once() -> None:
    empty = problem_from_matrices([], {})
    run = run_dynamic(empty, Locality())
    assert (run.log, run.timetable.makespan_s, run.stolen) == ((), 0.0, 0)


def test_result_copies_and_fetches_share_a_channel() -> None:
    # t0 on p0 makes 4 s worth of data for each of t1, t2 on p1: p0 sends one after the other.
    problem = problem_from_matrices(
        [[1.0, np.inf], [np.inf, 1.0], [np.inf, 1.0]], {(0, 1): 4.0, (0, 2): 4.0}, contention="one-port"
    )
    run = run_dynamic(problem, Eager())
    validate(problem, run.timetable)
    assert run.timetable.copies is not None
    assert run.timetable.copies.finish_s.tolist() == [5.0, 10.0]  # eager copies inputs when the lane takes the task
    pushed = run_dynamic(problem, Locality()).timetable
    assert pushed.copies is not None
    assert pushed.copies.finish_s.tolist() == [5.0, 9.0]  # copied while the task is bound, the second after the first
    assert pushed.start_s.tolist() == [0.0, 5.0, 9.0]
    assert NOTHING not in pushed.processor
