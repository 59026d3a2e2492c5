# SPDX-License-Identifier: Apache-2.0
"""Plans of tasks on row ranges: race-free row by row, without needless waits."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import symbolic
from support.examples import examples
from support.plans import without_one_wait
from support.strategies import ScheduledGraph, cases, touching

from syclsched.errors import IncompletePlanError, RaceError
from syclsched.model.access import MODE_CODE, AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Instruction, Plan, PlannedRows
from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning import build_plan, verify
from syclsched.planning.draft import BufferColumns, LaneKey, PlanDraft, Steps
from syclsched.planning.instruction_rows import touches, without_memory
from syclsched.planning.synchronisation.hazards import hazards
from syclsched.planning.verification.plan_segments import segment_table
from syclsched.simulation import predict

WRITE = touching((AccessMode.WRITE,))
READ = touching((AccessMode.READ,))
UPDATE = touching((AccessMode.UPDATE,))
READ_WRITE = touching((AccessMode.READ, AccessMode.WRITE))


def build(case: ScheduledGraph) -> Plan:
    return build_plan(case.graph, case.platform, case.schedule, case.durations_s)


@settings(max_examples=examples(60))
@given(cases(ranges=True), st.randoms(use_true_random=False))
def test_every_execution_order_has_the_sequential_results(case: ScheduledGraph, rng: random.Random) -> None:
    plan = build(case)
    verify(plan, case.graph)
    symbolic.check(plan, case.graph, rng)
    assert Plan.from_json(plan.to_json()) == plan
    assert predict(plan).makespan_s >= max(case.durations_s.values())


@settings(max_examples=examples(50))
@given(cases(ranges=True), st.data())
def test_no_wait_can_be_left_out(case: ScheduledGraph, data: st.DataObject) -> None:
    plan = build(case)
    changed = without_one_wait(data, plan)
    with pytest.raises(RaceError, match="nothing orders them"):
        verify(changed, case.graph)


@settings(max_examples=examples(50))
@given(cases(ranges=True), st.data(), st.randoms(use_true_random=False))
def test_memory_that_holds_one_task_is_enough(case: ScheduledGraph, data: st.DataObject, rng: random.Random) -> None:
    arrays = case.graph.arrays
    most = max(sum({a.array: arrays[a.array].nbytes for a in t.accesses}.values()) for t in case.graph.tasks)
    room = data.draw(st.integers(most, 2 * most + 1))
    spaces = [s if s.name == HOST else replace(s, capacity_bytes=max(room, 1)) for s in case.platform.spaces]
    platform = replace(case.platform, spaces=tuple(spaces))
    plan = build_plan(case.graph, platform, case.schedule, case.durations_s)
    verify(plan, case.graph)
    symbolic.check(plan, case.graph, rng)
    assert all(plan.peak_bytes.get(s.name, 0) <= s.capacity_bytes for s in platform.spaces if s.capacity_bytes)


# --- by hand --------------------------------------------------------------------------------------


def two_devices() -> Platform:
    """Return two devices with memory of their own, and the host."""
    devices = [
        Device(
            f"d{n}", f"key{n}", "gpu", "level_zero", "a device", f"m{n}", (f"m{n}",),
            lanes=2, copy_lane=True, dtypes=("float64",), aspects=("fp64",), max_work_group_size=64,
        )
        for n in range(2)
    ]  # fmt: skip
    spaces = [MemorySpace(HOST, 0, True), MemorySpace("m0", 0, False), MemorySpace("m1", 0, False)]
    links = [Link(a, b, 1e-6, 1e9) for n in range(2) for a, b in ((HOST, f"m{n}"), (f"m{n}", HOST))]
    devices.append(Device(HOST, HOST, HOST, HOST, "the host", HOST, (HOST,)))
    return Platform("two", tuple(devices), tuple(spaces), tuple(links), ())


def plan_on(graph: TaskGraph, lanes: dict[str, tuple[str, int]]) -> Plan:
    """Plan each task on a device's lane; each takes 1 s."""
    assignments = [
        Assignment(name, *lanes[name], "host" if lanes[name][0] == HOST else "kernel", float(n), n + 1.0)
        for n, name in enumerate(graph.order())
    ]
    durations = dict.fromkeys(graph.order(), 1.0)
    return predict(build_plan(graph, two_devices(), Schedule("by hand", tuple(assignments)), durations))


def work(plan: Plan) -> dict[str, Instruction]:
    return {i.task or "": i for _, i in plan.instructions() if i.kind in ("launch", "host")}


def test_readers_wait_only_for_writers_of_overlapping_rows() -> None:
    graph = TaskGraph("fan")
    a = graph.array("a", (200,))
    for n in range(4):
        graph.kernel(WRITE, name=f"w{n}", p0=a[50 * n : 50 * n + 50])
    graph.kernel(READ, name="middle", p0=a[75:125])
    graph.kernel(READ, name="all", p0=a)
    assert [d for d in graph.dependencies() if d.after[0] == "w"] == []
    assert {d.before for d in graph.dependencies() if d.after == "middle"} == {"w1", "w2"}
    assert {d.before for d in graph.dependencies() if d.after == "all"} == {"w0", "w1", "w2", "w3"}
    where = {"w0": ("d0", 0), "w1": ("d0", 1), "w2": ("d1", 0), "w3": ("d1", 1), "middle": ("d0", 1), "all": ("d0", 0)}
    plan = plan_on(graph, where)
    verify(plan, graph)
    done = work(plan)
    assert all(done[f"w{n}"].waits == () and done[f"w{n}"].start_s < 0.5 for n in range(4))
    # Each space has one memory for the array, and only needed rows are copied: one copy of contiguous ones.
    assert [i.nbytes for _, i in plan.instructions() if i.kind == "alloc"] == [1600, 1600, 1600]
    copies = [[u.array for u in i.uses if u.space == "m0"] for _, i in plan.instructions() if i.kind == "copy"]
    assert [c for c in copies if c] == [["a[100:125]"], ["a[125:150]", "a[150:200]"]]
    assert plan.counters.copied_bytes == 2 * 8 * 100  # through the host


def test_dropped_dependency_is_refused_naming_the_rows() -> None:
    graph = TaskGraph("dropped")
    a = graph.array("a", (100,))
    graph.kernel(WRITE, name="first", p0=a[:60])
    graph.kernel(UPDATE, name="second", p0=a[20:])
    graph.kernel(READ, name="third", p0=a[30:40])
    plan = plan_on(graph, {"first": ("d0", 0), "second": ("d0", 1), "third": ("d0", 1)})
    verify(plan, graph)
    lanes = tuple(
        replace(lane, instructions=tuple(replace(i, waits=()) if i.task == "second" else i for i in lane.instructions))
        for lane in plan.lanes
    )
    with pytest.raises(RaceError, match=r"'first' and task 'second' both touch array 'a\[20:60\]' in space 'm0'"):
        verify(replace(plan, lanes=lanes), graph)


def test_writing_rows_does_not_move_other_rows() -> None:
    graph = TaskGraph("halves")
    a = graph.array("a", (100,), data=[0.0] * 100)
    graph.kernel(UPDATE, name="left", p0=a[:50])
    graph.kernel(UPDATE, name="right", p0=a[50:])
    graph.kernel(READ_WRITE, name="both", p0=a, p1=graph.array("b", (100,)))
    plan = plan_on(graph, {"left": ("d0", 0), "right": (HOST, 0), "both": ("d1", 0)})
    verify(plan, graph)
    copied = [
        (u.array, i.uses[0].space, i.uses[1].space)
        for _, i in plan.instructions()
        if i.kind == "copy"
        for u in i.uses[::2]
    ]
    assert copied == [
        ("a[0:50]", HOST, "m0"),
        ("a[0:50]", "m0", HOST),
        ("a[0:50]", HOST, "m1"),
        ("a[50:100]", HOST, "m1"),
    ]
    assert "read a[0:100] in m1" in plan.explain("both")


@pytest.mark.parametrize(("memory", "before"), [((0, 0), []), ((0, 1), [0])])
def test_copies_of_rows_into_one_buffer_are_ordered(memory: tuple[int, int], before: list[int]) -> None:
    modes = np.array([MODE_CODE[id(mode)] for mode in (AccessMode.READ, AccessMode.WRITE)], np.uint8)
    none, two = np.zeros(2, np.int64), np.arange(2)
    steps = Steps(none, none, two, np.zeros(2), none, none, none - 1, np.arange(3), two, modes)
    stays = np.zeros(len(set(memory)), np.int64)  # the array is number 0, its segments are 1 and 2
    draft = PlanDraft(
        steps, (LaneKey("d0", "compute"),), (None, None), BufferColumns(two + 1, none), BufferColumns(stays, stays),
        np.array(memory), stays + 400, none[:0], none[:0],
    )  # fmt: skip
    rows = without_memory(touches(steps))
    assert hazards(rows, draft, {}, by_buffer=True)[1].tolist() == before
    assert hazards(rows, draft, {})[1].tolist() == []


def tampered(plan: Plan, kind: str, change: Callable[[Instruction], Instruction]) -> Plan:
    """Return the plan with its last instruction of a kind changed."""
    last = max(i.id for _, i in plan.instructions() if i.kind == kind)
    lanes = tuple(
        replace(lane, instructions=tuple(change(i) if i.id == last else i for i in lane.instructions))
        for lane in plan.lanes
    )
    return replace(plan, lanes=lanes)


@pytest.fixture
def gathering() -> Plan:
    """Return two tasks on one device, and a third on another that reads the results of both."""
    graph = TaskGraph("gathering")
    a = graph.array("a", (100,), temporary=True)
    graph.kernel(WRITE, name="left", p0=a[:50])
    graph.kernel(WRITE, name="right", p0=a[50:])
    graph.kernel(READ_WRITE, name="both", p0=a, p1=graph.array("b", (10,)))
    return plan_on(graph, {"left": ("d0", 0), "right": ("d0", 1), "both": ("d1", 0)})


def test_segments_that_are_none_are_refused(gathering: Plan) -> None:
    verify(gathering)
    whole, left, right, b = gathering.arrays
    for wrong in (
        replace(left, rows=PlannedRows("a", 0, 60)),
        replace(left, rows=PlannedRows("none", 0, 50)),
        replace(left, name="a[0:500]", rows=PlannedRows("a", 0, 500), shape=(500,), nbytes=4000),
        replace(left, is_input=True),
        replace(left, nbytes=401),
    ):
        with pytest.raises(IncompletePlanError, match=r"does not match rows \d+ to \d+ of array '\w+'"):
            segment_table(replace(gathering, arrays=(whole, wrong, right, b)))
    longer = replace(left, name="a[0:51]", rows=PlannedRows("a", 0, 51), shape=(51,), nbytes=408)
    with pytest.raises(IncompletePlanError, match=r"'a\[0:51\]' and 'a\[50:100\]' overlap"):
        segment_table(replace(gathering, arrays=(whole, longer, right, b)))


def test_instructions_that_mistake_segments_are_refused(gathering: Plan) -> None:
    def named(name: str) -> Callable[[Instruction], Instruction]:
        return lambda i: replace(i, uses=(replace(i.uses[0], array=name), *i.uses[1:]))

    with pytest.raises(IncompletePlanError, match=r"array 'a\[0:50\]' has no memory of its own"):
        verify(tampered(gathering, "free", named("a[0:50]")))
    with pytest.raises(IncompletePlanError, match="array 'a' is touched in parts, and here as a whole"):
        verify(tampered(gathering, "copy", named("a")))
    with pytest.raises(IncompletePlanError, match="no copy of"):
        verify(tampered(gathering, "copy", lambda i: replace(i, uses=(*i.uses[2:], *i.uses[:2]))))
    with pytest.raises(IncompletePlanError, match="the size of array"):
        verify(tampered(gathering, "copy", lambda i: replace(i, uses=i.uses[:2])))


def test_rows_that_a_task_touches_lie_in_one_space() -> None:
    graph = TaskGraph("apart")
    a = graph.array("a", (100,))
    graph.kernel(WRITE, name="left", p0=a[:50])
    graph.host(lambda a: None, name="right", a=a[50:].write())
    graph.host(lambda a: None, name="both", a=a.read())
    platform = two_devices()
    host = replace(platform.device(HOST), reaches=(HOST, "m0"))
    platform = replace(platform, devices=(*platform.devices[:2], host))
    where = {"left": ("d0", 0, "kernel"), "right": (HOST, 0, "host"), "both": (HOST, 0, "host")}
    schedule = Schedule("by hand", tuple(Assignment(n, *where[n], 0.0, 1.0) for n in graph.order()))
    plan = build_plan(graph, platform, schedule, dict.fromkeys(graph.order(), 1.0))
    verify(plan, graph)

    def elsewhere(i: Instruction) -> Instruction:
        first, second = i.uses
        other = HOST if first.space == "m0" else "m0"
        return replace(i, uses=(replace(first, space=other), second)) if i.task == "both" else i

    with pytest.raises(IncompletePlanError, match="rows of array 'a' that task 'both' touches do not lie in one space"):
        verify(tampered(plan, "host", elsewhere))


def test_arrays_accessed_whole_have_no_segments() -> None:
    graph = TaskGraph("whole")
    a = graph.array("a", (100,))
    graph.kernel(WRITE, name="first", p0=a)
    graph.kernel(READ, name="second", p0=a[:])
    graph.kernel(READ, name="third", p0=a[0:100])
    plan = plan_on(graph, dict.fromkeys(("first", "second", "third"), ("d0", 0)))
    assert [(array.name, array.rows) for array in plan.arrays] == [("a", None)]
    assert [len(i.uses) for i in work(plan).values()] == [1, 1, 1]
