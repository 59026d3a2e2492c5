# SPDX-License-Identifier: Apache-2.0
"""Prefetched copies: timely, and within memory; and cases computed by hand."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.chunked import plan_of_chunks, two_gpus
from support.examples import examples
from support.strategies import ScheduledGraph, tight_cases, touching

from syclsched.errors import MemoryLimitError
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning import build as building
from syclsched.planning import build_plan, verify
from syclsched.planning.draft import ragged
from syclsched.planning.transfers.prefetch import sequence, start_times

READ, WRITE = AccessMode.READ, AccessMode.WRITE


def late_and_early() -> tuple[TaskGraph, Schedule, dict[str, float]]:
    """Return a plan whose copy of ``late``, made slowly, precedes a copy of ``early``, which is available at once."""
    graph = TaskGraph("two copies")
    late, early = (graph.array(n, (1000,), temporary=True) for n in ("late", "early"))
    tasks = (
        ("make_early", WRITE, early, "right", 1.0), ("make_late", WRITE, late, "right", 9.0),
        ("use_late", READ, late, "left", 1.0), ("use_early", READ, early, "left", 1.0),
    )  # fmt: skip
    assigned, durations = [], {}
    for position, (name, mode, array, device, seconds) in enumerate(tasks):
        graph.kernel(touching((mode,)), name=name, p0=array)
        assigned.append(Assignment(name, device, 0, "kernel", float(position), position + 1.0))
        durations[name] = seconds
    return graph, Schedule("by hand", tuple(assigned)), durations


def copied(plan: Plan) -> list[str]:
    return [i.uses[0].array for _, i in plan.instructions() if i.kind == "copy"]


def test_a_ready_copy_does_not_wait_behind_an_unready_copy() -> None:
    graph, schedule, durations = late_and_early()
    plan = build_plan(graph, two_gpus(link_s=3.0), schedule, durations)
    verify(plan, graph)
    assert copied(plan) == ["early", "late"]


def test_copies_are_not_prefetched_without_gain() -> None:
    graph, schedule, durations = late_and_early()
    # The copy of early takes no longer than the task that comes before its use.
    assert copied(build_plan(graph, two_gpus(link_s=1.0), schedule, durations)) == ["late", "early"]


def test_prefetches_stay_within_the_memory() -> None:
    graph, schedule, durations = late_and_early()
    both = build_plan(graph, two_gpus(link_s=3.0, left_bytes=16000), schedule, durations)
    assert copied(both) == ["early", "late"]
    one = build_plan(graph, two_gpus(link_s=3.0, left_bytes=8000), schedule, durations)
    verify(one, graph)
    assert copied(one) == ["late", "early"]
    assert one.peak_bytes["left"] == 8000


# With three, a kernel's result waits until that of the kernel before is freed: memory is reserved for prefetches.
@pytest.mark.parametrize(("buffers", "makespan_s"), [(2, 6 * 10.0 + 0.1), (3, 1.0 + 6 * 8.0 + 4.0 + 1.1), (0, 50.1)])
def test_the_peak_includes_prefetched_arrays(buffers: int, makespan_s: float) -> None:
    plan = plan_of_chunks(6, left_bytes=buffers * 8000)  # a kernel's two, and the next one's input; 0 is no limit
    assert plan.makespan_s == pytest.approx(makespan_s)
    if buffers:
        assert plan.peak_bytes["left"] == buffers * 8000


def test_order_of_prefetches() -> None:
    # Lane 0 computes 0 (1 s), 1 (5 s) and 2; lane 1 copies in 3, 4 (of 0) and 5, and copies out 6 (of 0).
    starts, before = ragged([[], [], [3], [], [0], [], [0]])
    lane, duration = np.array([0, 0, 0, 1, 1, 1, 1]), np.array([1.0, 5.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    early = lane == 1
    start_s = np.array([0.0, 1.0, 6.0, 0.0, 1.0, 2.0, 3.0])
    brings = np.array([False, False, False, True, True, True, False])
    assert sequence(start_s, duration, early, brings, lane, starts, before).tolist() == [3, 0, 4, 5, 1, 6, 2]
    none = np.zeros(7, np.bool_)
    assert sequence(start_s, duration, early, none, lane, starts, before).tolist() == [0, 3, 1, 4, 5, 6, 2]


def test_ready_copies_of_a_lane_are_ordered_by_due_date() -> None:
    # Lane 0 computes 0 (1 s) and 1 (5 s); lane 1 copies 2 (of 1), 3 (of 0) and 4 (of 0), due in that order.
    starts, before = ragged([[], [], [1], [0], [0]])
    lane, duration = np.array([0, 0, 1, 1, 1]), np.array([1.0, 5.0, 2.0, 2.0, 2.0])
    early = np.array([False, False, True, True, True])
    assert start_times(lane, early, starts, before, duration, 2, 5).tolist() == [0.0, 1.0, 6.0, 1.0, 3.0]
    assert start_times(lane, ~early & False, starts, before, duration, 2, 5).tolist() == [0.0, 1.0, 6.0, 8.0, 10.0]


def test_a_window_limits_prefetches() -> None:
    # Lane 0 computes 0, 2, 4 (1 s each), lane 1 copies 1, 3, 5 (without waits).
    starts, before = ragged([[]] * 6)
    lane, early = np.array([0, 1] * 3), np.array([False, True] * 3)
    ones = np.ones(6)
    assert start_times(lane, early, starts, before, ones, 2, 6).tolist() == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
    assert start_times(lane, early, starts, before, 3 * ones, 2, 1).tolist() == [0.0, 0.0, 3.0, 3.0, 6.0, 6.0]


@given(st.integers(1, 40), st.integers(1, 4), st.integers(0, 40), st.data())
def test_instructions_start_after_their_dependencies(count: int, lanes: int, window: int, data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.booleans(), min_size=lanes, max_size=lanes))
    lane = data.draw(st.lists(st.integers(0, lanes - 1), min_size=count, max_size=count))
    rows = [data.draw(st.lists(st.integers(0, n - 1), max_size=3, unique=True)) if n else [] for n in range(count)]
    seconds = data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=count, max_size=count))
    early = [kinds[n] for n in lane]
    start_s = start_times(
        np.array(lane), np.array(early), *ragged(rows), np.array(seconds), lanes, window
    )  # fmt: skip
    finish_s = start_s + np.array(seconds)
    assert np.isfinite(start_s).all()
    for n in range(count):
        assert all(finish_s[b] <= start_s[n] for b in rows[n])
    brings = np.array(early) & np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    order = sequence(start_s, np.array(seconds), np.array(early), brings, np.array(lane), *ragged(rows)).tolist()
    place = {n: position for position, n in enumerate(order)}
    assert sorted(order) == list(range(count))
    assert all(place[b] < place[n] for n in range(count) for b in rows[n])
    for number in range(lanes):
        mine = [n for n in range(count) if lane[n] == number]
        ordered = sorted(mine, key=lambda n: (start_s[n], finish_s[n])) if kinds[number] else mine
        assert all(finish_s[a] <= start_s[b] for a, b in pairwise(ordered))
        begun = [start_s[n] for n in sorted(mine, key=place.__getitem__)]
        assert begun == sorted(begun)


@settings(max_examples=examples(60), deadline=None)
@given(tight_cases())
def test_prefetching_causes_no_further_evictions(case: ScheduledGraph) -> None:
    given_ = building.plan_inputs(case.graph, case.platform, case.schedule, case.durations_s)
    try:
        draft = building.make_draft(given_, limited=True)
    except MemoryLimitError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "issue_early", lambda *_: None)
        in_order = building.finish_plan(given_, draft).plan()
    plan = building.finish_plan(given_, draft).plan()
    verify(plan, case.graph)
    done, expected = (Counter((i.kind, i.task, i.uses) for _, i in p.instructions()) for p in (plan, in_order))
    copies, expected_copies = (Counter({k: n for k, n in c.items() if k[0] == "copy"}) for c in (done, expected))
    assert copies == expected_copies
    kinds, expected_kinds = (Counter(kind for kind, _, _ in c.elements()) for c in (done, expected))
    assert kinds == expected_kinds  # and no more allocations and frees
    for space in case.platform.spaces:
        assert not space.capacity_bytes or plan.peak_bytes.get(space.name, 0) <= space.capacity_bytes
