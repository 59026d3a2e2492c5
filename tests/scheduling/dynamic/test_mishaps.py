# SPDX-License-Identifier: Apache-2.0
"""Devices that slow down or fail under a dynamic policy: cases computed by hand, and invariants."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_problems import READ, UPDATE, WRITE, build, problems

from syclsched.errors import DeviceNotFoundError, PlanError, PolicyError
from syclsched.scheduling import problem_from_matrices, validate
from syclsched.scheduling.dynamic import DYNAMIC_POLICIES, DynamicPolicy, DynamicRun, Eager, Hybrid, run_dynamic
from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.problem import Problem, makespan_s
from syclsched.scheduling.tables import NOTHING
from syclsched.simulation import Event, Failure, SlowDown

# --- by hand --------------------------------------------------------------------------------------


def times(run: DynamicRun) -> list[tuple[int, float, float]]:
    table = run.timetable
    return list(zip(table.processor.tolist(), table.start_s.tolist(), table.finish_s.tolist(), strict=True))


def test_a_slow_down_holds_from_its_time_until_the_next() -> None:
    # As for plans: 1 s is left of the first at 3 s and takes 2; the second does 0.75 s of its work until 6.5 s.
    problem = problem_from_matrices([[4.0], [1.0]], {(0, 1): 0.0})
    run = run_dynamic(problem, Eager(), events=(SlowDown("p0", 6.5, 1.0), SlowDown("p0", 3.0, 2.0)))
    assert times(run) == [(0, 0.0, 5.0), (0, 5.0, 6.75)]
    assert (run.complete, run.makespan_s) == (True, 6.75)


def test_the_policy_detects_a_slow_down_from_task_durations() -> None:
    problem = problem_from_matrices([[1.0, 1.0]] * 40, {})
    plan = Heft().schedule(problem)
    slow = (SlowDown("p0", 0.0, 4.0),)
    static = run_dynamic(problem, Hybrid(plan, bound=math.inf), events=slow)
    hybrid = run_dynamic(problem, Hybrid(plan), events=slow)
    assert static.makespan_s == 80.0
    assert hybrid.makespan_s <= 36.0  # 32 would be best: p1 does four tasks while p0 does one
    assert hybrid.stolen > 0


def test_interrupted_tasks_restart_on_another_device() -> None:
    problem = problem_from_matrices([[4.0, 6.0]], {})
    run = run_dynamic(problem, Eager(), events=(Failure("p0", 3.0),))
    assert times(run) == [(1, 3.0, 9.0)]
    assert run.interrupted == ((0, 0, 0.0, 3.0),)
    assert run.complete


def test_a_task_that_ends_as_its_device_fails_is_finished() -> None:
    run = run_dynamic(problem_from_matrices([[4.0, 6.0]], {}), Eager(), events=(Failure("p0", 4.0),))
    assert (times(run), run.interrupted) == ([(0, 0.0, 4.0)], ())


def test_lost_data_and_dependent_tasks_are_named() -> None:
    # t0 -> t1 -> t2 on p0, and t3 by itself: the result of t0 is on p0 only.
    problem = problem_from_matrices(
        [[1.0, math.inf], [4.0, 4.0], [1.0, 1.0], [1.0, 9.0]], {(0, 1): 1.0, (1, 2): 1.0}, priorities=[2, 1, 0, 0]
    )
    run = run_dynamic(problem, Eager(), events=(Failure("p0", 3.0),))
    assert [(problem.names[u.task], u.reason) for u in run.undone] == [("t1", "data"), ("t2", "after")]
    assert [problem.item_name(item) for item in run.lost_items] == ["array 't0->t1'"]
    assert not run.complete
    assert run.timetable.processor.tolist() == [0, NOTHING, NOTHING, 1]
    assert math.isnan(run.timetable.start_s[1])


def test_data_that_was_copied_in_time_is_not_lost() -> None:
    # t1 and t2 read the same array, made by t0 on d0. t1's copy to d1 has arrived when d0 fails in the middle of t2.
    problem = build(
        [[1.0, math.inf], [math.inf, 5.0], [5.0, 5.0]], [[0], [1]], [4.0], [0], [{0: WRITE}, {0: READ}, {0: READ}],
        [[0.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]],
    )  # fmt: skip
    run = run_dynamic(problem, Eager(), events=(Failure("d0", 4.0),))
    assert times(run) == [(0, 0.0, 1.0), (1, 2.0, 7.0), (1, 7.0, 12.0)]
    early = run_dynamic(problem, Eager(), events=(Failure("d0", 1.5),))
    assert {u.reason for u in early.undone} == {"data"}
    assert [task for task, *_ in early.interrupted] == [2, 1]  # one ran there, the other waited for its data


def test_arrays_of_interrupted_updates_are_lost() -> None:
    # Both devices use one memory, so the failure of one loses no data.
    def shared(second: int) -> Problem:
        return build(
            [[1.0, 9.0], [4.0, 4.0]], [[0], [0]], [4.0], [0], [{0: WRITE}, {0: second}], [[0.0]], [[0.0]]
        )  # fmt: skip

    read = run_dynamic(shared(READ), Eager(), events=(Failure("d0", 3.0),))
    assert read.complete
    assert times(read)[1] == (1, 3.0, 7.0)
    updated = run_dynamic(shared(UPDATE), Eager(), events=(Failure("d0", 3.0),))
    assert [(u.task, u.reason) for u in updated.undone] == [(1, "data")]


def test_a_result_not_yet_copied_home_is_lost() -> None:
    problem = build(
        [[1.0, math.inf]], [[0], [1]], [4.0], [0], [{0: WRITE}], [[0.0, 2.0], [2.0, 0.0]], np.zeros((2, 2)),
        wishes=[(0, 1)],
    )  # fmt: skip
    lost = run_dynamic(problem, Eager(), events=(Failure("d0", 2.5),))
    assert (lost.undone, len(lost.lost_items), lost.complete) == ((), 1, False)
    assert lost.lost_items == tuple(problem.tables.want_item)
    home = run_dynamic(problem, Eager(), events=(Failure("d0", 3.0),))
    assert (home.complete, home.makespan_s) == (True, 3.0)


@pytest.mark.parametrize("channel", [None, (0, NOTHING)])
def test_a_result_is_copied_home_from_a_surviving_copy(channel: tuple[int, int] | None) -> None:
    # Made on d0 in 1 s. It is at d1, which reads it, from 2 s on; the copy to m2 takes 4 s from d0 and 10 s from d1.
    problem = build(
        [[1.0, math.inf], [math.inf, 1.0]], [[0], [1]], [4.0], [0], [{0: WRITE}, {0: READ}],
        [[0.0, 1.0, 4.0], [1.0, 0.0, 10.0], [1.0, 1.0, 0.0]], np.zeros((3, 3)), wishes=[(0, 2)],
        channel=None if channel is None else [[(3 * i + j, NOTHING) for j in range(3)] for i in range(3)],
    )  # fmt: skip
    run = run_dynamic(problem, Eager(), events=(Failure("d0", 3.0),))
    assert (run.complete, run.makespan_s) == (True, 13.0)
    assert run_dynamic(problem, Eager(), events=(Failure("d0", 5.0),)).makespan_s == 5.0


def test_hybrid_deviates_when_a_device_fails() -> None:
    problem = problem_from_matrices([[1.0, 1.0]] * 20, {})
    plan = Heft().schedule(problem)
    hybrid = run_dynamic(problem, Hybrid(plan), events=(Failure("p0", 4.5),))
    assert hybrid.complete
    assert hybrid.makespan_s == 16.0  # four tasks on p0, sixteen on p1
    static = run_dynamic(problem, Hybrid(plan, bound=math.inf), events=(Failure("p0", 4.5),))
    assert {u.reason for u in static.undone} == {"policy"}
    assert len(static.undone) == 6


def test_tasks_without_remaining_device_are_reported() -> None:
    problem = problem_from_matrices([[2.0, math.inf], [math.inf, 1.0]], {})
    run = run_dynamic(problem, Eager(), events=(Failure("p0", 1.0), Failure("p0", 1.5)))
    assert [(u.task, u.reason) for u in run.undone] == [(0, "device")]
    everything = run_dynamic(problem, Eager(), events=(Failure("p0", 0.0), Failure("p1", 0.0)))
    assert (len(everything.undone), everything.makespan_s) == (2, 0.0)


def test_copies_slower_than_estimated() -> None:
    problem = problem_from_matrices([[1.0, math.inf], [math.inf, 1.0]], {(0, 1): 2.0})
    run = run_dynamic(problem, Eager(), copy_factor=np.array([3.0]))
    assert times(run) == [(0, 0.0, 1.0), (1, 7.0, 8.0)]


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (Failure("p9", 1.0), DeviceNotFoundError),
        (SlowDown("p0", 1.0, 0.0), PlanError),
        (Failure("p0", -1.0), PlanError),
    ],
)
def test_impossible_events_are_refused(event: Event, error: type[Exception]) -> None:
    with pytest.raises(error):
        run_dynamic(problem_from_matrices([[1.0]], {}), Eager(), events=(event,))


# --- invariants -----------------------------------------------------------------------------------


@st.composite
def mishaps(draw: st.DrawFn, problem: Problem) -> tuple[Event, ...]:
    """Draw a few events of any device, at times when tasks may run."""
    at_s = st.one_of(st.sampled_from([0.0, 1.0, 2.0, 7.0]), st.floats(0.0, 60.0))
    device = st.sampled_from(problem.devices)
    failure = st.builds(Failure, device, at_s)
    slow = st.builds(SlowDown, device, at_s, st.sampled_from([0.5, 2.0, 10.0]))
    return tuple(draw(st.lists(st.one_of(failure, slow), min_size=1, max_size=4)))


def policies(problem: Problem) -> list[DynamicPolicy]:
    return [*DYNAMIC_POLICIES, Hybrid(Heft().schedule(problem))]


def check(problem: Problem, run: DynamicRun, events: tuple[Event, ...]) -> None:
    """Check a run's invariants, from its results alone."""
    tables, table = problem.tables, run.timetable
    failed_s: dict[int, float] = {}
    for event in sorted(events, key=lambda e: e.at_s):
        if isinstance(event, Failure):
            failed_s.setdefault(problem.devices.index(event.device), event.at_s)
    undone = {u.task for u in run.undone}
    done = [task for task in range(len(problem)) if not math.isnan(table.finish_s[task])]
    # Each task has one row, and is either done or reported.
    assert sorted([*done, *undone]) == list(range(len(problem)))
    assert all(table.processor[task] == NOTHING for task in undone)
    attempts = [(int(table.processor[t]), float(table.start_s[t]), float(table.finish_s[t])) for t in done]
    for task in done:
        device = int(tables.processor_device[table.processor[task]])
        assert tables.seconds[tables.kind[task], device] < math.inf
        assert table.start_s[task] >= tables.release_s[task]
        # Nothing runs on a device after its failure.
        assert table.finish_s[task] <= failed_s.get(device, math.inf)
        for other in tables.pred_task[tables.pred_start[task] : tables.pred_start[task + 1]]:
            assert other not in undone
            assert table.finish_s[other] <= table.start_s[task]
        if not any(isinstance(event, SlowDown) for event in events):
            assert table.finish_s[task] - table.start_s[task] == pytest.approx(
                tables.seconds[tables.kind[task], device]
            )
    for entry in run.log:
        gone_s = failed_s.get(int(tables.processor_device[entry.processor]), math.inf)
        assert entry.time_s < gone_s or run.makespan_s <= gone_s
    for task, processor, start_s, stopped_s in run.interrupted:
        assert stopped_s in failed_s.values()
        if start_s < stopped_s:
            attempts.append((processor, start_s, stopped_s))
        assert task in undone or table.start_s[task] >= stopped_s
    attempts = sorted(a for a in attempts if a[2] > a[1])
    for (lane, _, until_s), (other_lane, start_s, _) in pairwise(attempts):
        assert lane != other_lane or until_s <= start_s
    if not failed_s:
        assert run.complete
    reasons = {u.reason for u in run.undone}
    assert "policy" not in reasons
    if "data" in reasons:
        assert run.lost_items


def check_channels(problem: Problem, run: DynamicRun, events: tuple[Event, ...]) -> None:
    """Check that copies on one channel never overlap, and that none uses a memory after its loss."""
    copies = run.timetable.copies
    assert copies is not None
    tables = problem.tables
    homes = tables.reach_space[tables.reach_start[:-1]].tolist()
    lost_s = {
        homes[d]: min(e.at_s for e in events if isinstance(e, Failure) and problem.devices.index(e.device) == d)
        for d in {problem.devices.index(e.device) for e in events if isinstance(e, Failure)}
        if homes.count(homes[d]) == 1
    }
    rows = list(zip(*(column.tolist() for column in copies), strict=True))
    busy: dict[int, list[tuple[float, float]]] = {}
    for _, source, destination, start_s, finish_s in rows:
        over = run.makespan_s <= min(lost_s.get(source, math.inf), lost_s.get(destination, math.inf))
        assert over or finish_s <= lost_s.get(source, math.inf)
        assert over or finish_s <= lost_s.get(destination, math.inf)
        for channel in {*tables.channel[source, destination].tolist()} - {NOTHING}:
            busy.setdefault(channel, []).append((start_s, finish_s))
    for spans in busy.values():
        spans = sorted(s for s in spans if s[1] > s[0])
        assert all(before[1] <= after[0] for before, after in pairwise(spans))


def same(one: DynamicRun, other: DynamicRun) -> bool:
    return (one.log, one.interrupted, one.undone, one.lost_items, one.makespan_s) == (
        other.log, other.interrupted, other.undone, other.lost_items, other.makespan_s,
    ) and np.array_equal(one.timetable.start_s, other.timetable.start_s, equal_nan=True)  # fmt: skip


@given(st.data(), st.booleans())
def test_every_task_is_done_once_or_reported(data: st.DataObject, channels: bool) -> None:
    problem = data.draw(problems(channels=channels))
    events = data.draw(mishaps(problem))
    for policy in policies(problem):
        run = run_dynamic(problem, policy, events=events)
        check(problem, run, events)
        if problem.has_channels:
            check_channels(problem, run, events)
        assert same(run, run_dynamic(problem, policy, events=events))


@given(st.data())
def test_failures_with_unreachable_memory_spaces(data: st.DataObject) -> None:
    problem = data.draw(problems(channels=False, unreachable=True))
    events = data.draw(mishaps(problem))
    for policy in DYNAMIC_POLICIES:
        try:
            run = run_dynamic(problem, policy, events=events)
        except PolicyError:
            continue
        assert not {u.reason for u in run.undone} & {"policy"}


@given(st.data(), st.booleans())
def test_a_failure_after_the_end_changes_nothing(data: st.DataObject, channels: bool) -> None:
    problem = data.draw(problems(channels=channels, whole=True))
    for policy in policies(problem):
        calm = run_dynamic(problem, policy)
        late = run_dynamic(problem, policy, events=(Failure("d0", calm.makespan_s + 0.5), SlowDown("d0", 1e6, 9.0)))
        assert calm.log == late.log
        assert late.makespan_s == calm.makespan_s == makespan_s(problem, calm.timetable)
        assert late.complete
        validate(problem, late.timetable)


@given(problems(channels=True), st.integers(0, 5))
def test_slow_downs_alone_leave_a_valid_timetable_of_slower_tasks(problem: Problem, seed: int) -> None:
    run = run_dynamic(problem, DYNAMIC_POLICIES[seed % 4], events=(SlowDown("d0", 0.0, 2.0),))
    seconds = problem.tables.task_seconds().copy()
    seconds[:, 0] *= 2.0
    slower = problem.with_task_seconds(seconds)
    validate(slower, run.timetable)
    assert run.complete
