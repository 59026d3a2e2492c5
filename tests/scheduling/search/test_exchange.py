# SPDX-License-Identifier: Apache-2.0
"""Replica exchange: valid, repeatable, no worse than its start, and optimal where the optimum is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.instances import PEFT_COSTS, PEFT_EDGES, TOPCUOGLU_COSTS, TOPCUOGLU_EDGES, layered
from support.random_problems import problems

from syclsched.scheduling.construction.matrices import problem_from_matrices
from syclsched.scheduling.core.orders import time_order
from syclsched.scheduling.policies.heft import Heft, Peft
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.search import refine, refinement
from syclsched.scheduling.search.annealing import Best
from syclsched.scheduling.search.cooling import Start, first_best
from syclsched.scheduling.search.exchange import REPLICAS, SWAP_STEPS, exchange
from syclsched.scheduling.search.meter import Meter
from syclsched.scheduling.search.refinement import EXCHANGE_STEPS
from syclsched.scheduling.validate import validate


def states(problem: Problem) -> list[tuple[float, Start]]:
    made = [policy.schedule(problem) for policy in (Heft(), Peft())]
    found = [
        (makespan_s(problem, m), (time_order(problem.tables, m.start_s, m.finish_s), np.array(m.processor, np.int64)))
        for m in made
    ]
    return sorted(found, key=lambda state: state[0])


def run(problem: Problem, steps: int, seed: int) -> tuple[Best, Meter]:
    found, meter = states(problem), Meter(steps, None)
    starts = [start for _, start in found]
    best = first_best(starts[0], found[0][0])
    exchange(problem.tables, starts, best, meter, seed, 0.0)
    return best, meter


@given(problems(channels=False), st.integers(0, 3))
@settings(max_examples=examples(30), deadline=None)
def test_exchange_keeps_the_best_and_uses_exactly_its_steps(problem: Problem, seed: int) -> None:
    best, meter = run(problem, 2 * REPLICAS * SWAP_STEPS + 7, seed)
    assert best.cost <= states(problem)[0][0]
    assert best.cost == 0.0 or meter.done == 2 * REPLICAS * SWAP_STEPS + 7


def test_equal_seeds_search_alike_and_others_do_not() -> None:
    problem = layered(40, 3, 3, seed=1)
    one, same, other = (run(problem, 10_000, seed)[0] for seed in (3, 3, 4))
    assert one.order.tobytes() == same.order.tobytes()
    assert one.processor.tobytes() == same.processor.tobytes()
    assert (one.order.tobytes(), one.processor.tobytes()) != (other.order.tobytes(), other.processor.tobytes())


@pytest.mark.parametrize(
    ("costs", "edges", "optimum"), [(TOPCUOGLU_COSTS, TOPCUOGLU_EDGES, 73.0), (PEFT_COSTS, PEFT_EDGES, 113.0)]
)
def test_exchange_is_used_for_many_steps(costs, edges, optimum, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def noted(*arguments) -> None:
        taken.append(1)
        exchange(*arguments)

    monkeypatch.setattr(refinement, "exchange", noted)
    problem = problem_from_matrices(costs, edges)
    found = refine(problem, [Heft().schedule(problem)], steps=2 * EXCHANGE_STEPS * len(problem))
    validate(problem, found)
    assert makespan_s(problem, found) == pytest.approx(optimum)
    refine(problem, [Heft().schedule(problem)], steps=EXCHANGE_STEPS)
    assert taken == [1]
