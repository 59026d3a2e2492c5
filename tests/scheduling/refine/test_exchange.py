# SPDX-License-Identifier: Apache-2.0
"""Tests of replica exchange: valid, repeatable, no worse than its start, and at the optimum where that is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.instances import PEFT_COSTS, PEFT_EDGES, TOPCUOGLU_COSTS, TOPCUOGLU_EDGES, layered
from support.random_problems import problems

from syclsched.scheduling.matrices import problem_from_matrices
from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.policies.peft import Peft
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.refine import search as searching
from syclsched.scheduling.refine.anneal import BestSchedule
from syclsched.scheduling.refine.decode import order_of
from syclsched.scheduling.refine.exchange import REPLICAS, SWAP_STEPS, StartState, exchange
from syclsched.scheduling.refine.meter import Meter
from syclsched.scheduling.refine.search import EXCHANGE_STEPS, refine
from syclsched.scheduling.validate import validate


def states(problem: Problem) -> list[StartState]:
    tables, made = problem.tables, [policy.schedule(problem) for policy in (Heft(), Peft())]
    return sorted(
        (
            (makespan_s(problem, m), order_of(tables.pred_start, tables.pred_task, m.start_s, m.finish_s),
             np.array(m.processor, np.int64))
            for m in made
        ),
        key=lambda state: state[0],
    )  # fmt: skip


def run(problem: Problem, steps: int, seed: int) -> tuple[BestSchedule, Meter]:
    starts, meter = states(problem), Meter(steps, None)
    best = BestSchedule(starts[0][1].copy(), starts[0][2].copy(), np.array([starts[0][0]]))
    exchange(problem.tables, starts, best, meter, seed, 0.0)
    return best, meter


@given(problems(channels=False), st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_it_keeps_the_best_and_uses_all_its_steps_and_no_more(problem: Problem, seed: int) -> None:
    best, meter = run(problem, 2 * REPLICAS * SWAP_STEPS + 7, seed)
    assert best.makespan_s[0] <= states(problem)[0][0]
    assert best.makespan_s[0] == 0.0 or meter.done == 2 * REPLICAS * SWAP_STEPS + 7


def test_equal_seeds_search_alike_and_others_do_not() -> None:
    problem = layered(40, 3, 3, seed=1)
    one, same, other = (run(problem, 10_000, seed)[0] for seed in (3, 3, 4))
    assert one.order.tobytes() == same.order.tobytes()
    assert one.processor.tobytes() == same.processor.tobytes()
    assert (one.order.tobytes(), one.processor.tobytes()) != (other.order.tobytes(), other.processor.tobytes())


@pytest.mark.parametrize(
    ("costs", "edges", "optimum"), [(TOPCUOGLU_COSTS, TOPCUOGLU_EDGES, 73.0), (PEFT_COSTS, PEFT_EDGES, 113.0)]
)
def test_it_is_taken_where_there_are_many_steps_and_finds_the_optimum(
    costs, edges, optimum, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []

    def noted(*arguments) -> None:
        taken.append(1)
        exchange(*arguments)

    monkeypatch.setattr(searching, "exchange", noted)
    problem = problem_from_matrices(costs, edges)
    found = refine(problem, [Heft().schedule(problem)], steps=2 * EXCHANGE_STEPS * len(problem))
    validate(problem, found)
    assert makespan_s(problem, found) == pytest.approx(optimum)
    refine(problem, [Heft().schedule(problem)], steps=EXCHANGE_STEPS)
    assert taken == [1]
