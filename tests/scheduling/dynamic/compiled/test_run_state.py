# SPDX-License-Identifier: Apache-2.0
"""Compiled policies, compared with the policies in Python: equal decisions in one memory space and in several."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.definitions import with_tables
from support.examples import examples
from support.random_problems import problems
from support.turns import Turns

from syclsched.execution.dynamic.data.submission_lookahead import SubmissionLookahead
from syclsched.scheduling.dynamic import Eager, Hybrid, Locality, Priority, WorkStealing
from syclsched.scheduling.dynamic.compiled.data_directory import DataDistribution
from syclsched.scheduling.dynamic.compiled.run_state import N_COMMANDS, STARTED, new_run_state
from syclsched.scheduling.dynamic.compiled.run_state_updates import complete, release_sources
from syclsched.scheduling.dynamic.drift import KEPT, new_drift, record_duration
from syclsched.scheduling.dynamic.run_loop import run_policy
from syclsched.scheduling.dynamic.state_tracker import StateTracker
from syclsched.scheduling.dynamic.static_info import rows
from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING

#: No sum of estimates equals the seconds, so that rounding decides nothing.
LOOKAHEAD = (2, 5, 0.9871)


class ByHand:
    """A manually advanced clock with given ends of tasks; as in live runs, tasks are released when they are started."""

    def __init__(self, problem: Problem, policy: object, *, spread: bool = False) -> None:
        self.policy, self.spread = policy, spread
        known = policy.prepare(problem)  # type: ignore[attr-defined]
        if not spread:
            known = replace(known, reads=((),) * len(problem))
        self.known = known
        self.book = StateTracker(problem, known, policy.sorts_queues)  # type: ignore[attr-defined]
        self.flight: list[list[tuple[int, float]]] = [[] for _ in known.device_of]
        self.started: list[tuple[int, int]] = []
        self.makes = rows(problem.tables.make_start, problem.tables.make_item)
        for item, space in enumerate(problem.tables.item_space.tolist()):
            if space != NOTHING:
                self.book.state.where[item][space], self.book.state.origin[item] = 0.0, space
        for task in self.book.sources():
            self.book.arrive(task)

    def move(self, task: int, lane: int, end_s: float) -> None:
        """Copy a task's inputs to its device, and place its results there."""
        state, reached = self.book.state, self.known.reaches[self.known.device_of[lane]]
        for item in dict.fromkeys(self.known.reads[task]):
            there = state.where[item]
            if not any(space in there for space in reached):
                source = min(there)
                begin_s = max(state.now_s, there[source])
                there[reached[0]] = begin_s + self.known.copy_s(item, source, reached[0])
        for item in self.makes[task] if self.spread else ():
            state.where[item], state.origin[item] = {reached[0]: end_s}, reached[0]

    def note(self, lane: int) -> None:
        seconds = sum(s for _, s in self.flight[lane])
        count = len(self.flight[lane])
        if not count:
            self.book.ahead(lane, 0.0, NOTHING)
            return
        last, enough = self.flight[lane][-1][0], SubmissionLookahead(*LOOKAHEAD).enough(count, seconds)
        self.book.ahead(lane, self.book.state.now_s + seconds, last if enough else NOTHING)

    def decide(self, now_s: float) -> None:
        """Run the policy at a time, until it has no more decisions."""
        self.book.state.now_s, self.changed = now_s, True
        run_policy(self.policy, self.book, self)  # type: ignore[arg-type]

    def advance(self, progressed: bool) -> bool:
        changed, self.changed = self.changed, False
        return changed

    def accepts_tasks(self) -> bool:
        return True

    def bind(self, task: int, lane: int) -> None:
        self.book.bind(task, lane)

    def start(self, task: int, lane: int) -> None:
        state = self.book.state
        seconds = state.seconds(task, self.known.device_of[lane])
        until_s = max(state.now_s, state.lanes[lane].until_s) + seconds
        self.book.begin(task, lane, state.now_s)
        self.flight[lane].append((task, seconds))
        self.started.append((task, lane))
        self.move(task, lane, until_s)
        self.note(lane)
        state.lanes[lane].until_s = until_s
        for after in self.book.release(task, lane):
            self.book.arrive(after)

    def complete(self, lane: int, count: int, measured_s: list[float], now_s: float) -> None:
        self.book.state.now_s = now_s
        for seconds in measured_s[:count]:
            task, _ = self.flight[lane].pop(0)
            self.book.measure(task, lane, seconds)
        self.note(lane)


@settings(max_examples=examples(12))
@given(problem=problems(channels=False), data=st.data())
@pytest.mark.parametrize("spread", [False, True], ids=["one", "several"])
@pytest.mark.parametrize("which", ["eager", "priority", "dmdas", "dmdas by transfer", "stealing", "hybrid"])
def test_compiled_decisions_equal_those_of_the_policy(
    which: str, spread: bool, problem: Problem, data: st.DataObject
) -> None:
    assume(not spread or np.isfinite(problem.tables.latency_s).all())
    tables = problem.tables
    problem = with_tables(
        problem.with_task_seconds(tables.task_seconds() + 0.01), item_bytes=np.round(tables.item_bytes)
    )
    policies = {
        "eager": Eager(), "priority": Priority(), "dmdas": Locality(), "dmdas by transfer": Locality(beta=3.0),
        "stealing": WorkStealing(), "hybrid": Hybrid(Heft().schedule(problem)),
    }  # fmt: skip
    policy = policies[which]
    hand = ByHand(problem, policy, spread=spread)
    if not spread:  # all devices share one space
        hand.book.state.known = hand.known = replace(hand.known, reaches=((0,),) * len(problem.devices))
    lanes, tasks = len(hand.known.device_of), len(problem)
    items = data_of(problem, hand) if spread else None
    commands = tasks if items is None else tasks + items.most_copies
    run_state = new_run_state(
        problem, policy, hand.known, lanes=lanes + 1, commands=commands, is_host=[False] * lanes, lookahead=LOOKAHEAD,
        before=[()] * tasks, spread=items, after=None if items is None else [()] * tasks, copies_from=tasks,
    )  # fmt: skip
    release_sources(run_state)
    turns, now_ns = Turns(run_state, policy), 0
    while True:
        hand.decide(now_ns * 1e-9)
        started = turns.take(now_ns)
        mine = [
            (int(n), int(run_state.lane[n])) for n in run_state.started[: run_state.counters[N_COMMANDS]] if n < tasks
        ]
        assert mine == hand.started and len(mine) == started
        busy = [lane for lane in range(lanes) if hand.flight[lane]]
        if not busy:
            break
        lane = data.draw(st.sampled_from(busy))
        count = data.draw(st.integers(1, len(hand.flight[lane])))
        measured = [data.draw(st.sampled_from([0.25, 0.5, 1.0, 8.0])) for _ in range(count)]
        now_ns += data.draw(st.sampled_from([0, 500_000_000, 2_000_000_000]))
        hand.complete(lane, count, measured, now_ns * 1e-9)
        if data.draw(st.booleans()):  # with the next decisions, immediately
            turns.take(now_ns, lane, measured)
        else:
            counts, end_ns = np.zeros(lanes + 1, np.int64), np.zeros(commands, np.int64)
            counts[lane] = count
            end_ns[run_state.flight[lane, run_state.done[lane] :][:count]] = np.array(measured) * 1e9
            complete(run_state, counts, np.zeros(commands, np.int64), end_ns, now_ns * 1e-9)
    assert int(run_state.counters[STARTED]) == tasks == len({task for task, _ in hand.started})


def data_of(problem: Problem, hand: ByHand) -> DataDistribution:
    """Return the items of a problem as data that tasks read or make, with a copy lane after the others."""
    spaces, lanes = len(problem.tables.latency_s), len(hand.known.device_of)
    touches = [
        [*((item, True, False) for item in dict.fromkeys(reads)), *((item, False, True) for item in makes)]
        for reads, makes in zip(hand.known.reads, hand.makes, strict=True)
    ]
    items = len(hand.known.nbytes)
    copy_lane = [[[lanes] * lanes] * spaces] * spaces
    return DataDistribution(
        touches,
        range(items),
        hand.known.nbytes,
        problem.tables.item_space.tolist(),
        0,
        np.zeros((spaces, spaces)).tolist(),
        copy_lane,
    )


def test_task_waits_for_the_last_command_of_each_lane() -> None:
    from syclsched.scheduling import problem_from_matrices

    # 0 and 1 on one lane, the others on the other: 2 follows both, 3 follows 2 and 0, which 2 has waited for.
    costs = [[1.0, math.inf]] * 2 + [[math.inf, 1.0]] * 2
    problem = problem_from_matrices(costs, {(0, 2): 0, (1, 2): 0, (0, 3): 0, (2, 3): 0})
    known = Eager().prepare(problem)
    run_state = new_run_state(
        problem, Eager(), known, lanes=2, commands=4, is_host=[False] * 2, lookahead=(9, 9, 9.0), before=[()] * 4
    )
    release_sources(run_state)
    assert Turns(run_state, Eager()).take(0) == 4
    assert run_state.waits[2, : run_state.waits_count[2]].tolist() == [1]
    assert run_state.waits_count[3] == 0


# --- drift ----------------------------------------------------------------------------------------


def test_kinds_are_corrected_by_the_median_without_spikes() -> None:
    drift = new_drift(np.ones((4, 2)), 2)
    for seconds in (2.0, 2.1, 1.9, 2.0, 90.0, 2.05):
        record_duration(drift, 1, 0, seconds, 1.0)
    assert drift.of_kind[1, 0] == pytest.approx(2.0, rel=0.05)
    assert drift.of_kind[0, 0] == drift.of_kind[1, 1] == 0.0
    assert drift.of_device[1] == 1.0
    assert drift.of_device[0] < 4.0  # an outlier of 90 counts as ten times the expectation


@given(st.lists(st.floats(0.1, 10.0), min_size=3, max_size=60))
def test_the_latest_ratios_count(ratios: list[float]) -> None:
    drift = new_drift(np.ones((1, 1)), 1)
    for ratio in ratios:
        record_duration(drift, 0, 0, ratio, 1.0)
    kept = np.array(ratios[-KEPT:])
    middle = np.median(kept)
    spread = 1.4826 * np.median(np.abs(kept - middle))
    good = kept if spread == 0.0 else kept[np.abs(kept - middle) <= 5.0 * spread]
    expected = middle if spread == 0.0 else np.median(good)
    assert drift.of_kind[0, 0] == pytest.approx(expected)
