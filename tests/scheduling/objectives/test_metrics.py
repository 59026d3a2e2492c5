# SPDX-License-Identifier: Apache-2.0
"""Metrics of timetables, compared with their definitions, on random problems with all features of the model."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.definitions import ItemPlacements, with_tables
from support.examples import examples
from support.random_problems import READ, UPDATE, WRITE, build, problems

from syclsched.errors import PlatformError, PolicyError
from syclsched.scheduling import Timetable, get, makespan_s, problem_from_matrices
from syclsched.scheduling.objectives.metrics import evaluate, resolve_space
from syclsched.scheduling.problem import Problem

POLICIES = ("heft", "min-min", "random", "round-robin")


@st.composite
def answered(draw: st.DrawFn, *, channels: bool) -> tuple[Problem, Timetable]:
    problem = draw(problems(channels=channels))
    spaces = ("host", *problem.spaces[1:]) if draw(st.booleans()) else problem.spaces
    made = np.flatnonzero(problem.tables.item_producer >= 0).tolist()
    lasting = draw(st.lists(st.sampled_from(made), unique=True)) if made else []
    problem = replace(problem, spaces=spaces, lasting=tuple(lasting))
    return problem, get(draw(st.sampled_from(POLICIES))).schedule(problem)


@pytest.mark.parametrize("channels", [False, True])
def test_peak_memory_equals_its_definition(channels: bool) -> None:
    @settings(max_examples=examples(50), deadline=None)
    @given(answered(channels=channels))
    def check(pair: tuple[Problem, Timetable]) -> None:
        problem, timetable = pair
        found = evaluate(problem, timetable).peak_bytes
        expected = ItemPlacements(problem, timetable).peak_bytes(makespan_s(problem, timetable))
        assert found == pytest.approx(expected)

    check()


@settings(max_examples=examples(100), deadline=None)
@given(answered(channels=False), st.data())
def test_energy_is_power_times_time(pair: tuple[Problem, Timetable], data: st.DataObject) -> None:
    problem, timetable = pair
    watts = st.lists(st.sampled_from([0.0, 5.0, 70.0]), min_size=len(problem.devices), max_size=len(problem.devices))
    problem = with_tables(problem, busy_w=np.array(data.draw(watts)), idle_w=np.array(data.draw(watts)))
    expected = ItemPlacements(problem, timetable).energy_j(makespan_s(problem, timetable))
    assert evaluate(problem, timetable).energy_j == pytest.approx(expected)


@settings(max_examples=examples(50), deadline=None)
@given(answered(channels=True))
def test_the_interval_is_the_largest_load(pair: tuple[Problem, Timetable]) -> None:
    problem, timetable = pair
    loads: dict[object, float] = {}
    for task, processor in enumerate(timetable.processor.tolist()):
        seconds = problem.tables.seconds[problem.tables.kind[task], problem.tables.processor_device[processor]]
        loads["p", processor] = loads.get(("p", processor), 0.0) + seconds
    copies = timetable.copies
    for k in range(0 if copies is None else len(copies.item)):
        for channel in set(problem.tables.channel[copies.source[k], copies.destination[k]].tolist()) - {-1}:
            seconds = copies.finish_s[k] - copies.start_s[k]
            loads["c", channel] = loads.get(("c", channel), 0.0) + seconds
    found = evaluate(problem, timetable)
    assert found.initiation_interval_s == pytest.approx(max(loads.values()))


def two_devices() -> Problem:
    """Return a problem: a on d0 makes x and y; b on d1 reads x; c updates y in place on d0."""
    return build(
        [[1.0, math.inf], [math.inf, 2.0], [3.0, math.inf]],
        [[0], [1]],
        [100.0, 7.0],
        [0, 0],
        [{0: WRITE, 1: WRITE}, {0: READ}, {1: UPDATE}],
        [[0.0, 0.5], [0.5, 0.0]],
        [[0.0, 0.0], [0.0, 0.0]],
    )


def test_metrics_of_a_small_timetable() -> None:
    problem = two_devices()
    timetable = Timetable(np.array([0, 1, 0]), np.array([0.0, 1.5, 1.0]), np.array([1.0, 3.5, 4.0]))
    metrics = evaluate(problem, timetable)
    # m0: the two unread first values are inputs, placed there: 107; x and y while a runs; x is freed at 1.5.
    assert metrics.peak_bytes == {"m0": 107.0 + 107.0, "m1": 100.0}
    assert metrics.makespan_s == 4.0
    assert metrics.initiation_interval_s == 4.0
    assert metrics.energy_j is None
    with pytest.raises(PolicyError, match="energy is not known"):
        metrics.value("energy")
    with pytest.raises(PlatformError, match=r"no memory space 'm7'.*m0, m1"):
        metrics.value("memory", "m7")
    with pytest.raises(PolicyError, match="no metric 'speed'"):
        metrics.value("speed")
    assert metrics.value("memory") == 214.0
    assert metrics.value("memory", "m1") == 100.0
    assert resolve_space(problem, "d1") == "m1"
    with pytest.raises(PlatformError, match="m0, m1, d0, d1"):
        resolve_space(problem, "gpu")


def test_a_device_without_numbers_that_does_nothing_counts_nothing() -> None:
    problem = problem_from_matrices([[2.0, 5.0], [3.0, 5.0]], {(0, 1): 1.0})
    problem = with_tables(problem, busy_w=np.array([10.0, np.nan]), idle_w=np.array([1.0, np.nan]))
    alone = get("single:p0").schedule(problem)
    assert evaluate(problem, alone).energy_j == pytest.approx(50.0)
    assert evaluate(problem, get("single:p1").schedule(problem)).energy_j is None


def test_metrics_of_an_empty_problem_are_zero() -> None:
    problem = problem_from_matrices(np.empty((0, 2)), {})
    metrics = evaluate(problem, get("heft").schedule(problem))
    assert (metrics.makespan_s, metrics.initiation_interval_s) == (0.0, 0.0)
    assert set(metrics.peak_bytes.values()) == {0.0}
