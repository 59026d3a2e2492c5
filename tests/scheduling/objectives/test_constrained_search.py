# SPDX-License-Identifier: Apache-2.0
"""The search under objectives and constraints: valid, feasible, optimal where known, refused where impossible."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.definitions import ItemPlacements, with_tables
from support.examples import examples
from support.instances import layered
from support.random_problems import READ, WRITE, build, problems

from syclsched.errors import InfeasibleError, MemoryLimitError, PlatformError, PolicyError
from syclsched.scheduling import get, makespan_s, problem_from_matrices, validate
from syclsched.scheduling.core.orders import depth_first
from syclsched.scheduling.objectives.aims import Constraint, minimize
from syclsched.scheduling.objectives.constrained_search import search
from syclsched.scheduling.objectives.metrics import evaluate
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.search.constrained.evaluator import ConstrainedEvaluator
from syclsched.scheduling.search.constrained.memory_accounting import EXCESS, LIMIT
from syclsched.scheduling.tables import NOTHING


@st.composite
def loaded(draw: st.DrawFn, *, channels: bool) -> tuple[Problem, np.ndarray, np.ndarray]:
    """Return a problem with a random topological order and random processors."""
    problem = draw(problems(channels=channels))
    tables = problem.tables
    waiting = np.diff(tables.pred_start).tolist()
    ready, order = [t for t, w in enumerate(waiting) if w == 0], []
    while ready:
        task = ready.pop(draw(st.integers(0, len(ready) - 1)))
        order.append(task)
        for after in tables.succ_task[tables.succ_start[task] : tables.succ_start[task + 1]].tolist():
            waiting[after] -= 1
            if waiting[after] == 0:
                ready.append(after)
    able = [
        np.flatnonzero(np.isfinite(tables.seconds[tables.kind[t], tables.processor_device])).tolist()
        for t in range(len(problem))
    ]
    processor = [draw(st.sampled_from(choice)) for choice in able]
    return problem, np.array(order), np.array(processor)


@pytest.mark.parametrize("channels", [False, True])
def test_decoded_timetables_are_valid_with_correct_metrics(channels: bool) -> None:
    @settings(max_examples=examples(40), deadline=None)
    @given(loaded(channels=channels))
    def check(given_: tuple[Problem, np.ndarray, np.ndarray]) -> None:
        problem, order, processor = given_
        if channels:  # the choice among several spaces in which an item is read differs there
            assume((np.diff(problem.tables.reach_start) == 1).all())
        evaluator = ConstrainedEvaluator(problem)
        makespan_s_, interval_s, _ = evaluator.values(order, processor)
        timetable = evaluator.timetable()
        validate(problem, timetable)
        metrics = evaluate(problem, timetable)
        assert makespan_s_ == pytest.approx(metrics.makespan_s)
        assert interval_s == pytest.approx(metrics.initiation_interval_s)

    check()


@pytest.mark.parametrize("channels", [False, True])
def test_limits_that_the_decoder_keeps_are_kept_at_every_instant(channels: bool) -> None:
    @settings(max_examples=examples(40), deadline=None)
    @given(loaded(channels=channels), st.sampled_from([1.0, 1.5, 2.0, 3.0]), st.integers(0, 3))
    def check(given_: tuple[Problem, np.ndarray, np.ndarray], factor: float, which: int) -> None:
        problem, order, processor = given_
        assume((np.diff(problem.tables.reach_start) == 1).all())
        space = which % len(problem.spaces)
        assume(space not in problem.tables.want_space)
        evaluator = ConstrainedEvaluator(problem)
        memory = evaluator.state.memory
        memory[space, LIMIT] = 0.0
        evaluator.load(order, processor)
        memory[space, LIMIT] = limit = factor * memory[space, EXCESS]  # the minimum that the order needs
        evaluator.load(order, processor)
        assert memory[space, EXCESS] == 0.0
        timetable = evaluator.timetable()
        validate(problem, timetable)
        peak = ItemPlacements(problem, timetable).peak_bytes(makespan_s(problem, timetable))
        assert peak[problem.spaces[space]] <= limit * (1 + 1e-9)

    check()


def fork(width: int, nbytes: float) -> Problem:
    """Return producers and consumers on a device of four lanes, and a second device that is ten times slower."""
    accesses = [{k: WRITE} for k in range(width)] + [{k: READ, width + k: WRITE} for k in range(width)]
    sizes = [nbytes] * width + [1.0] * width
    problem = build(
        [[1.0, 10.0]] * (2 * width), [[0], [1]], sizes, [1] * (2 * width), accesses,
        [[0.0, 0.1], [0.1, 0.0]], [[0.0, 0.01], [0.01, 0.0]], lanes=[4, 1],
    )  # fmt: skip
    # First values are not read, and have no size here.
    nbytes_of = problem.tables.item_bytes.copy()
    nbytes_of[problem.tables.item_producer == NOTHING] = 0.0
    return with_tables(problem, item_bytes=nbytes_of)


def test_memory_is_kept_to_by_waiting() -> None:
    problem = fork(8, 100.0)
    free = search(problem, minimize("makespan"), steps=500)
    assert free.metrics.peak_bytes["m0"] >= 400.0
    tight = search(problem, minimize("makespan").subject_to("memory[m0] <= 210B"), steps=2000)
    validate(problem, tight.timetable)
    assert tight.metrics.peak_bytes["m0"] <= 210.0
    assert tight.metrics.makespan_s >= free.metrics.makespan_s


def test_the_least_memory_is_found() -> None:
    problem = fork(6, 100.0)
    found = search(problem, minimize("memory[m0]").subject_to(Constraint("makespan", 1000.0)), steps=3000)
    everything_elsewhere = search(problem, minimize("memory[d0]"), steps=3000)
    assert everything_elsewhere.metrics.peak_bytes["m0"] == found.metrics.peak_bytes["m0"] == 0.0
    both = search(problem, minimize("memory"), steps=3000)
    assert max(both.metrics.peak_bytes.values()) <= 101.0  # one value, one result


def brute_force(problem: Problem, measure: str, limits: dict[str, float]) -> float:
    """Return the minimum of a measure over all semi-active placements and orders, without memory limits."""
    best = math.inf
    tables = problem.tables
    evaluator = ConstrainedEvaluator(problem, power=True)
    for order in itertools.permutations(range(len(problem))):
        position = {task: k for k, task in enumerate(order)}
        rows = np.repeat(np.arange(len(problem)), np.diff(tables.pred_start))
        if any(position[a] > position[b] for a, b in zip(tables.pred_task.tolist(), rows.tolist(), strict=True)):
            continue
        for processor in itertools.product(range(len(tables.processor_device)), repeat=len(problem)):
            values = evaluator.values(np.array(order), np.array(processor)).tolist()
            value = dict(zip(("makespan", "interval", "energy"), values, strict=True))
            if all(value[name] <= limit for name, limit in limits.items()):
                best = min(best, value[measure])
    return best


def small(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    edges = {(0, 1): 2.0, (0, 2): 3.0, (1, 3): 1.0, (2, 4): 4.0, (3, 4): 1.0}
    problem = problem_from_matrices(rng.uniform(1.0, 9.0, (5, 2)).tolist(), edges)
    return with_tables(problem, busy_w=np.array([100.0, 15.0]), idle_w=np.array([10.0, 2.0]))


@pytest.mark.parametrize("seed", range(4))
def test_small_problems_are_solved_to_the_optimum(seed: int) -> None:
    problem = small(seed)
    for measure in ("makespan", "interval", "energy"):
        found = search(problem, minimize(measure), steps=4000, seed=seed)
        assert found.metrics.value(measure) == pytest.approx(brute_force(problem, measure, {}))
    least_s = brute_force(problem, "makespan", {})
    limit_s = 1.3 * least_s
    found = search(problem, minimize("energy").subject_to(Constraint("makespan", limit_s)), steps=4000, seed=seed)
    assert found.metrics.makespan_s <= limit_s * (1 + 1e-9)
    assert found.metrics.energy_j == pytest.approx(brute_force(problem, "energy", {"makespan": limit_s}))


def test_equal_arguments_give_equal_answers() -> None:
    problem = layered(40, 3, 2, 5)
    aim = minimize("makespan").subject_to("memory <= 150B")
    one, other = (search(problem, aim, steps=1500, seed=3) for _ in range(2))
    assert one.timetable.start_s.tobytes() == other.timetable.start_s.tobytes()
    assert one.timetable.processor.tobytes() == other.timetable.processor.tobytes()


def test_results_are_never_worse_than_the_start() -> None:
    problem = layered(60, 4, 3, 7)
    begin = [get(name).schedule(problem) for name in ("heft", "peft")]
    found = search(problem, minimize("makespan"), timetables=begin, steps=10)
    assert found.metrics.makespan_s <= min(makespan_s(problem, t) for t in begin)


def test_memory_too_small_for_any_plan_is_refused_with_the_sizes() -> None:
    problem = fork(3, 100.0)
    aim = minimize("makespan").subject_to("memory <= 100B")
    with pytest.raises(MemoryLimitError, match=r"task 't3' .*needs 101 bytes.*the limit is 100 bytes"):
        search(problem, aim, steps=100)


def test_limits_that_cannot_be_kept_name_the_one_that_binds() -> None:
    problem = small(1)
    least_s = search(problem, minimize("makespan"), steps=3000).metrics.makespan_s
    aim = minimize("energy").subject_to(Constraint("makespan", 0.9 * least_s), Constraint("energy", 1e6))
    with pytest.raises(InfeasibleError, match="the least makespan found with the others kept to is") as raised:
        search(problem, aim, steps=3000)
    assert f"{least_s:.4g} s" in str(raised.value) or f"{least_s:.2f} s" in str(raised.value)
    assert "energy found" not in str(raised.value)


def test_energy_without_power_is_refused() -> None:
    problem = layered(10, 2, 2, 1)
    with pytest.raises(PolicyError, match="no power is known"):
        search(problem, minimize("energy"), steps=10)
    half = with_tables(problem, busy_w=np.array([10.0, 10.0]), idle_w=np.array([1.0, math.nan]))
    with pytest.raises(PolicyError, match="device 'p1': its idle_w is not known"):
        search(half, minimize("makespan").subject_to("energy <= 1J"), steps=10)


def test_energy_minimisation_uses_devices_of_known_power() -> None:
    problem = with_tables(layered(20, 2, 2, 1), busy_w=np.array([10.0, math.nan]), idle_w=np.array([1.0, math.nan]))
    found = search(problem, minimize("energy"), steps=200)
    assert set(found.timetable.processor.tolist()) == {0}
    assert found.metrics.energy_j == pytest.approx(10.0 * problem.tables.task_seconds()[:, 0].sum())


def test_an_unknown_space_is_named() -> None:
    with pytest.raises(PlatformError, match="no memory space 'gpu'"):
        search(layered(5, 2, 1, 1), minimize("makespan").subject_to("memory[gpu] <= 1GiB"), steps=1)


def test_depth_first_is_topological_and_follows_chains() -> None:
    problem = problem_from_matrices([[1.0]] * 6, {(0, 1): 1.0, (1, 2): 1.0, (3, 4): 1.0, (4, 5): 1.0})
    order = depth_first(problem.tables.pred_start, problem.tables.succ_start, problem.tables.succ_task)
    assert order.tolist() in ([0, 1, 2, 3, 4, 5], [3, 4, 5, 0, 1, 2])
