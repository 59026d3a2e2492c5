# SPDX-License-Identifier: Apache-2.0
"""Modulo schedules, unrolled over generations and checked at every instant and for every value."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.instances import layered
from support.random_problems import READ, UPDATE, WRITE, build, problems

from syclsched.scheduling import get, problem_from_matrices
from syclsched.scheduling.objectives import PipelinedSchedule, evaluate, modulo_schedule, pipeline
from syclsched.scheduling.problem import NOTHING, Problem
from syclsched.scheduling.tables import frozen

GENERATIONS = 5


class Unrolled:
    """Some generations of a modulo schedule, one after another."""

    def __init__(self, problem: Problem, schedule: PipelinedSchedule) -> None:
        self.problem, self.schedule, self.t = problem, schedule, problem.tables
        self.device = self.t.processor_device[schedule.processor].tolist()
        self.slack = 1e-8 * (schedule.interval_s + schedule.makespan_s)
        rows = zip(self.t.make_replaces.tolist(), self.t.make_item.tolist(), strict=True)
        self.replaced_by = {old: new for old, new in rows if old >= 0}
        self.place = self.settle()

    def start(self, task: int, generation: int) -> float:
        return float(self.schedule.start_s[task]) + generation * self.schedule.interval_s

    def finish(self, task: int, generation: int) -> float:
        return self.start(task, generation) + float(self.t.seconds[task, self.device[task]])

    def last(self, item: int) -> int:
        while item in self.replaced_by:
            item = self.replaced_by[item]
        return item

    def reach(self, task: int) -> list[int]:
        return self.t.reach_space[
            self.t.reach_start[self.device[task]] : self.t.reach_start[self.device[task] + 1]
        ].tolist()

    def read_in(self, item: int, task: int, place: dict[int, int]) -> int:
        if place[item] in self.reach(task):
            return place[item]
        return min(self.reach(task), key=lambda s: self.problem.copy_seconds(self.t.item_bytes[item], place[item], s))

    def settle(self) -> dict[int, int]:
        """Return the space of every item in the steady state of generations."""
        inputs = {i: int(self.t.item_space[i]) for i in range(len(self.t.item_bytes)) if self.t.item_producer[i] < 0}
        for _ in range(10):
            place = dict(inputs)
            for task in range(len(self.problem)):
                for row in range(self.t.make_start[task], self.t.make_start[task + 1]):
                    old = int(self.t.make_replaces[row])
                    place[int(self.t.make_item[row])] = (
                        self.reach(task)[0] if old < 0 else self.read_in(old, task, place)
                    )
            settled = {i: place[self.last(i)] if self.last(i) != i else s for i, s in inputs.items()}
            if settled == inputs:
                return place
            inputs = settled
        raise AssertionError("never settles")

    def made_s(self, item: int, generation: int) -> float:
        producer = int(self.t.item_producer[item])
        if producer >= 0:
            return self.finish(producer, generation)
        final = self.last(item)
        if final == item:
            return generation * self.schedule.interval_s
        return self.finish(int(self.t.item_producer[final]), generation - 1) if generation else -math.inf

    def arrival_s(self, item: int, space: int, generation: int) -> float:
        if space == self.place[item] or self.t.item_bytes[item] == 0.0:
            return self.made_s(item, generation)
        if not self.problem.has_channels:
            copy_s = self.problem.copy_seconds(self.t.item_bytes[item], self.place[item], space)
            return self.made_s(item, generation) + copy_s
        copies = self.schedule.copies
        assert copies is not None
        (row,) = np.flatnonzero((copies.item == item) & (copies.destination == space))
        assert copies.source[row] == self.place[item]
        taken = self.problem.copy_seconds(self.t.item_bytes[item], self.place[item], space)
        assert copies.finish_s[row] - copies.start_s[row] == pytest.approx(taken)
        shift = generation * self.schedule.interval_s
        assert copies.start_s[row] + shift >= self.made_s(item, generation) - self.slack
        return float(copies.finish_s[row]) + shift

    def check(self) -> None:
        self.check_resources()
        for generation in range(GENERATIONS):
            for task in range(len(self.problem)):
                begin = self.start(task, generation)
                assert self.schedule.start_s[task] >= self.t.release_s[task] - self.slack
                for k in range(self.t.pred_start[task], self.t.pred_start[task + 1]):
                    assert begin >= self.finish(int(self.t.pred_task[k]), generation) - self.slack
                for item in self.t.read_item[self.t.read_start[task] : self.t.read_start[task + 1]].tolist():
                    space = self.read_in(item, task, self.place)
                    assert begin >= self.arrival_s(item, space, generation) - self.slack
            if generation:
                self.check_overwriting(generation)

    def check_overwriting(self, generation: int) -> None:
        """Check that a generation overwrites no value that the one before still reads."""
        for item in range(len(self.t.item_bytes)):
            final = self.last(item)
            if self.t.item_producer[item] >= 0 or final == item:
                continue
            writer = int(self.t.item_producer[self.replaced_by[item]])
            begin = self.start(writer, generation)
            for task in range(len(self.problem)):
                if final in self.t.read_item[self.t.read_start[task] : self.t.read_start[task + 1]]:
                    assert begin >= self.finish(task, generation - 1) - self.slack
            for space in self.t.want_space[self.t.want_item == final].tolist():
                assert begin >= self.arrival_s(final, space, generation - 1) - self.slack

    def check_resources(self) -> None:
        used: dict[object, list[tuple[float, float]]] = {}
        copies = self.schedule.copies
        for generation in range(GENERATIONS):
            for task, processor in enumerate(self.schedule.processor.tolist()):
                used.setdefault(processor, []).append((self.start(task, generation), self.finish(task, generation)))
            shift = generation * self.schedule.interval_s
            for k in range(0 if copies is None else len(copies.item)):
                span = (float(copies.start_s[k]) + shift, float(copies.finish_s[k]) + shift)
                for channel in set(self.t.channel[copies.source[k], copies.destination[k]].tolist()) - {-1}:
                    used.setdefault(("channel", channel), []).append(span)
        for spans in used.values():
            free_s = -math.inf
            for start_s, finish_s in sorted(spans):
                assert min(finish_s, free_s) - start_s <= self.slack  # the overlap with earlier intervals
                free_s = max(free_s, finish_s)


@pytest.mark.parametrize("channels", [False, True])
def test_generations_do_not_conflict(channels: bool) -> None:
    @settings(max_examples=examples(50), deadline=None)
    @given(problems(channels=channels), st.sampled_from(["heft", "min-min", "random", "round-robin"]))
    def check(problem: Problem, policy: str) -> None:
        schedule = modulo_schedule(problem, get(policy).schedule(problem))
        assert schedule.interval_s >= schedule.bound_s * (1 - 1e-9)
        Unrolled(problem, schedule).check()

    check()


@pytest.mark.parametrize("seed", range(5))
def test_without_recurrences_the_interval_is_the_bound(seed: int) -> None:
    problem = layered(60, 3, 3, seed)
    timetable = get("heft").schedule(problem)
    schedule = modulo_schedule(problem, timetable)
    assert schedule.interval_s == pytest.approx(evaluate(problem, timetable).initiation_interval_s)
    assert schedule.interval_s == pytest.approx(schedule.bound_s)
    Unrolled(problem, schedule).check()


def test_throughput_beats_repeating_the_makespan() -> None:
    problem = layered(60, 3, 3, 1)
    found = pipeline(problem, steps=2000)
    Unrolled(problem, found).check()
    assert found.interval_s < evaluate(problem, get("heft").schedule(problem)).makespan_s
    assert found.stage.max() <= math.ceil(found.makespan_s / found.interval_s - 1e-9)


def test_two_devices_in_a_chain_work_on_two_generations() -> None:
    problem = problem_from_matrices([[2.0, math.inf], [math.inf, 2.0]], {(0, 1): 1.0})
    found = pipeline(problem, steps=100)
    assert (found.interval_s, found.makespan_s) == (2.0, 5.0)
    assert found.stage.tolist() == [0, 1]


def test_an_update_in_place_is_passed_to_the_next_generation() -> None:
    """x is updated on d0, then read and updated on d1: the next generation begins with this value."""
    problem = build(
        [[2.0, math.inf], [math.inf, 3.0]], [[0], [1]], [8.0, 1.0], [0, 0], [{0: UPDATE}, {0: UPDATE, 1: WRITE}],
        [[0.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]],
    )  # fmt: skip
    found = modulo_schedule(problem, get("heft").schedule(problem))
    # 2 s on d0, 1 s to d1, 3 s there, 1 s back: nothing overlaps.
    assert found.interval_s == pytest.approx(7.0)
    assert found.bound_s == pytest.approx(7.0)
    Unrolled(problem, found).check()
    fresh = build(
        [[2.0, math.inf], [math.inf, 3.0]], [[0], [1]], [8.0, 1.0], [0, 0], [{0: WRITE}, {0: READ, 1: WRITE}],
        [[0.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]],
    )  # fmt: skip
    assert modulo_schedule(fresh, get("heft").schedule(fresh)).interval_s == pytest.approx(3.0)


def test_tasks_without_duration_have_an_interval_of_zero() -> None:
    problem = problem_from_matrices([[0.0], [0.0]], {(0, 1): 0.0})
    found = pipeline(problem, steps=10)
    assert found.interval_s == 0.0
    assert found.stage.tolist() == [0, 0]


def test_equal_arguments_give_equal_answers() -> None:
    problem = layered(30, 3, 2, 2)
    one, other = (pipeline(problem, steps=500, seed=4) for _ in range(2))
    assert one.start_s.tobytes() == other.start_s.tobytes()


@pytest.mark.parametrize("release_s", [1e3, 1e6, 1e9])
def test_tasks_shorter_than_the_precision_of_times(release_s: float) -> None:
    problem = problem_from_matrices([[1e-10]] * 3, {})
    problem = replace(problem, tables=frozen(problem.tables._replace(release_s=np.full(3, release_s))))
    schedule = modulo_schedule(problem, get("heft").schedule(problem))
    assert schedule.interval_s >= 3e-10 * (1 - 1e-9)
    assert schedule.start_s.min() >= release_s


def test_rounded_copies_stay_behind_their_producers() -> None:
    """The copy ends at 0.9, so by subtraction it begins 6e-17 s before its producer, at 0.3."""
    problem = build(
        [[0.3, math.inf], [1e-17, math.inf], [math.inf, 1.0]], [[0], [1]], [8.0, 8.0, 8.0], [0, 0, 1],
        [{0: WRITE}, {0: READ, 1: WRITE}, {1: READ, 2: WRITE}], [[0.0, 0.6], [0.6, 0.0]], [[0.0, 0.0], [0.0, 0.0]],
        channel=(0, NOTHING),
    )  # fmt: skip
    found = modulo_schedule(problem, get("heft").schedule(problem))
    assert found.interval_s == pytest.approx(1.0)
    Unrolled(problem, found).check()
