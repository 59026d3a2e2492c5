# SPDX-License-Identifier: Apache-2.0
"""Decisions of each dynamic policy, in states computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from support.random_problems import problems

from syclsched.scheduling import problem_from_matrices
from syclsched.scheduling.dynamic import (
    Decision,
    Eager,
    Hybrid,
    LaneState,
    Locality,
    PolicyState,
    Priority,
    StaticInfo,
    WorkStealing,
    run_dynamic,
)
from syclsched.scheduling.policies.heft import Heft
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING
from syclsched.scheduling.timetable import Timetable

INF = math.inf


def known(
    seconds: list[list[float]],
    *,
    levels: list[int] | None = None,
    reads: list[list[int]] | None = None,
    nbytes: list[float] | None = None,
    device_of: list[int] | None = None,
    planned: list[int] | None = None,
) -> StaticInfo:
    """Return devices with a space each; a byte takes a second to another space."""
    width = len(seconds[0])
    return StaticInfo(
        seconds=tuple(map(tuple, seconds)),
        reads=tuple(map(tuple, reads or [[]] * len(seconds))),
        nbytes=tuple(nbytes or []),
        reaches=tuple((d,) for d in range(width)),
        latency_s=((0.0,) * width,) * width,
        s_per_byte=((1.0,) * width,) * width,
        device_of=tuple(device_of or range(width)),
        level=tuple(levels or [0] * len(seconds)),
        planned=None if planned is None else tuple(planned),
    )


def state(
    what: StaticInfo, *, ready: list[int] | None = None, queues: dict[int, list[int]] | None = None
) -> PolicyState:
    """Return a state with all lanes idle at 10 s, and items on device 0 since 0 s."""
    lanes = [LaneState(NOTHING, 0.0, [], 0.0, []) for _ in what.device_of]
    for processor, queue in (queues or {}).items():
        lanes[processor].queue = queue
        lanes[processor].queued_s = sum(what.seconds[t][what.device_of[processor]] for t in queue)
    ready = ready or []
    return PolicyState(
        what, 10.0, ready, [sum(what.seconds[t][d] < INF for t in ready) for d in range(len(what.reaches))], lanes,
        [{0: 0.0} for _ in what.nbytes], [0] * len(what.nbytes), [NOTHING] * len(what.seconds),
        [1.0] * len(what.reaches), 0.0,
    )  # fmt: skip


def test_eager_uses_the_first_eligible_lane() -> None:
    now = state(known([[INF, 1.0], [9.0, 1.0], [1.0, 1.0]]), ready=[0, 1, 2])
    assert Eager().decide(now) == [Decision(1, 0, True), Decision(0, 1, True)]
    now.lanes[0].running = 3
    assert Eager().decide(now) == [Decision(0, 1, True)]


def test_eager_orders_by_priority_then_by_arrival() -> None:
    problem = problem_from_matrices([[1.0]] * 4, {}, priorities=[0, 0, 5, 0])
    assert Eager().prepare(problem).level == (1, 1, 0, 1)
    assert np.argsort(run_dynamic(problem, Eager()).timetable.start_s).tolist() == [2, 0, 1, 3]


def test_priority_orders_by_the_longest_path_to_the_end() -> None:
    problem = problem_from_matrices([[1.0], [1.0], [4.0], [1.0]], {(1, 3): 1.0}, priorities=[0, 0, 0, 0])
    assert Priority().prepare(problem).level == (2, 1, 0, 2)


def test_locality_weighs_expected_end_and_transfer() -> None:
    # On device 0 the data is present and the task takes 5 s; on device 1 it takes 1 s and 3 s of transfer.
    what = known([[5.0, 1.0]], reads=[[0]], nbytes=[3.0])
    assert Locality().decide(state(what, ready=[0])) == [Decision(0, 1, False)]
    assert Locality(beta=2.0).decide(state(what, ready=[0])) == [Decision(0, 0, False)]
    busy = state(what, ready=[0])
    busy.lanes[1].running, busy.lanes[1].until_s = 7, 12.0
    assert Locality().decide(busy) == [Decision(0, 0, False)]
    assert Locality(beta=0.0).decide(busy) == [Decision(0, 1, False)]


def test_locality_corrects_estimates_by_measured_drift() -> None:
    what = known([[2.0, 1.0]])
    slow = state(what, ready=[0])
    slow.drift[1] = 3.0
    assert Locality().decide(slow) == [Decision(0, 0, False)]


def test_locality_prefers_urgent_tasks_then_resident_data() -> None:
    what = known([[1.0]] * 4, levels=[0, 0, 0, 1], reads=[[0], [1], [], [0, 1]], nbytes=[1.0, 2.0])
    assert Locality().decide(state(what, queues={0: [0, 1, 2, 3]})) == [Decision(1, 0, True)]


def test_stealing_order_of_own_and_other_queues() -> None:
    what = known([[1.0, 1.0, 1.0]] * 6)
    assert WorkStealing().decide(state(what, queues={0: [0, 1, 2], 1: [3, 4]})) == [
        Decision(2, 0, True), Decision(4, 1, True), Decision(0, 2, True),
    ]  # fmt: skip


def test_stealing_prefers_own_device_then_reachable_memory() -> None:
    what = known([[1.0, 1.0, 1.0]] * 4, device_of=[0, 1, 2, 2])
    victims = state(what, queues={0: [0], 1: [1], 2: [2]})
    for processor in range(3):
        victims.lanes[processor].running = 9
    assert WorkStealing().decide(victims) == [Decision(2, 3, True)]
    victims.lanes[2].queue = []
    victims.known = replace(what, reaches=((0,), (1,), (2, 1)))
    assert WorkStealing().decide(victims) == [Decision(1, 3, True)]


def test_stealing_binds_to_the_lane_that_released_the_task() -> None:
    made = state(known([[1.0, 1.0], [1.0, INF]]), ready=[0, 1])
    made.released_by[:] = [1, 1]
    assert WorkStealing().decide(made) == [Decision(0, 1, False)]
    made.ready = [1]
    assert WorkStealing().decide(made) == [Decision(1, 0, False)]


# --- hybrid ---------------------------------------------------------------------------------------


@given(problems(channels=False))
def test_the_hybrid_follows_its_plan_if_durations_are_as_predicted(problem: Problem) -> None:
    plan = Heft().schedule(problem)
    run = run_dynamic(problem, Hybrid(plan))
    assert np.array_equal(run.timetable.processor, plan.processor)
    assert (run.timetable.start_s <= plan.start_s + 1e-9 * plan.makespan_s).all()
    assert run.stolen == 0


def plan_of(processor: list[int], start_s: list[float], finish_s: list[float]) -> Timetable:
    return Timetable(np.array(processor), np.array(start_s), np.array(finish_s))


def test_hybrid_waits_for_planned_task_until_deviation() -> None:
    plan = plan_of([0, 0, 1], [0.0, 1.0, 0.0], [1.0, 2.0, 1.0])
    now = state(known([[1.0, 1.0]] * 3, levels=[0, 1, 2], planned=[0, 0, 1]), queues={0: [1]})
    now.lanes[0].ahead = [0, 1]
    now.lanes[1].running = 2
    assert Hybrid(plan).decide(now) == []
    now.deviation = 0.1
    assert Hybrid(plan).decide(now) == [Decision(1, 0, True)]


def test_hybrid_steals_tasks_that_would_end_later() -> None:
    plan = plan_of([0, 0, 0], [0.0, 2.0, 4.0], [2.0, 4.0, 6.0])
    what = known(
        [[2.0, 3.0], [2.0, 1.0], [2.0, 3.0]], levels=[0, 1, 2], planned=[0, 0, 0], reads=[[], [0], []], nbytes=[1.0]
    )
    now = state(what, queues={0: [1, 2]})
    now.lanes[0].running, now.lanes[0].until_s, now.lanes[0].ahead = 0, 11.0, [1, 2]
    now.deviation = 0.06
    # Task 1 would end at 13 s on its lane, and at 12 s (1 s of transfer, 1 s of work) here.
    assert Hybrid(plan).decide(now) == [Decision(1, 1, True)]
    assert Hybrid(plan, bound=0.1).decide(now) == []
    far = replace(what, nbytes=(2.0,))
    now.known = far  # now 13 s here too; task 2, which ends at 15 s there, ends at 13 s
    assert Hybrid(plan).decide(now) == [Decision(2, 1, True)]
    now.drift[1] = 2.0  # 16 s, as the device takes twice as long as it should
    assert Hybrid(plan).decide(now) == []


def test_overdue_work_is_expected_to_go_on_for_a_while() -> None:
    now = state(known([[4.0]]))
    now.lanes[0].running, now.lanes[0].until_s = 0, 9.0
    assert now.busy_s(0) == pytest.approx(12.0)
    now.lanes[0].until_s = 11.0
    assert now.busy_s(0) == 11.0
