# SPDX-License-Identifier: Apache-2.0
"""The static memory layout: memory is reused after its last user only, and little is wasted."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support.chunked import plan_of_chunks
from support.examples import examples
from support.running import ASSIGN, DTYPE, TWO_DEVICES, plan_by
from support.strategies import ScheduledGraph, tight_cases

from syclsched.errors import MemoryLimitError
from syclsched.execution.core.program import MEMORY_KINDS, Program
from syclsched.execution.memory.memory_layout import MemoryLayout, make_layout
from syclsched.execution.replay import launch_fusion
from syclsched.execution.replay.host_sync import plan_host_sync
from syclsched.execution.runner.plan_binding import why_dispatcher_needed
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.schedule import Schedule
from syclsched.planning import build_plan


@st.composite
def straight_plans(draw: st.DrawFn) -> Plan:
    """Return plans on the lanes of one device whose memory is tight, with a copy lane or without."""
    case: ScheduledGraph = draw(tight_cases())
    left = case.platform.device("left")
    assignments = tuple(
        replace(a, device="left", lane=draw(st.integers(0, left.lanes - 1))) for a in case.schedule.assignments
    )
    try:
        plan = build_plan(case.graph, case.platform, Schedule("one device", assignments), case.durations_s)
    except MemoryLimitError:
        assume(False)
        raise
    assume(why_dispatcher_needed(Program(plan), {}) is None)
    return plan


def done_before(program: Program) -> dict[int, set[int]]:
    """Return for each instruction all that precede it by lane order and events."""
    before: dict[int, set[int]] = {}
    last: dict[int, int] = {}
    for number in sorted(n for n, node in program.nodes.items() if node.instruction.kind not in MEMORY_KINDS):
        node = program.nodes[number]
        known: set[int] = set()
        for earlier in (*node.events, *([last[node.lane]] if node.lane in last else [])):
            known |= before[earlier] | {earlier}
        before[number], last[node.lane] = known, number
    return before


def users_of(plan: Plan) -> dict[int, list[int]]:
    """Return by number of the allocation the instructions that use its memory."""
    current: dict[tuple[str, str], int] = {}
    found: dict[int, list[int]] = {}
    for _, instruction in plan.instructions():
        for use in instruction.uses:
            buffer = (use.array, use.space)
            if instruction.kind == "alloc":
                current[buffer] = instruction.id
                found[instruction.id] = []
            elif instruction.kind != "free" and buffer in current:
                found[current[buffer]].append(instruction.id)
    return found


def overlapping(plan: Plan, layout: MemoryLayout) -> list[tuple[int, int]]:
    nbytes = {i.id: i.nbytes for _, i in plan.instructions() if i.kind == "alloc"}
    spans = {n: (p.block, p.offset, p.offset + nbytes[n]) for n, p in layout.places.items()}
    return [
        (a, b)
        for a, b in combinations(sorted(spans), 2)
        if spans[a][0] == spans[b][0] and spans[a][1] < spans[b][2] and spans[b][1] < spans[a][2]
    ]


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(straight_plans(), st.sampled_from([8, 64]))
def test_memory_is_reused_only_after_its_last_user(plan: Plan, alignment: int) -> None:
    program = Program(plan)
    layout = make_layout(program, (), alignment)
    before = done_before(program.with_extra_waits(layout.waits))
    users = users_of(plan)
    for first, second in overlapping(plan, layout):
        for later in users[second]:
            assert set(users[first]) <= before[later] | {later}


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(straight_plans())
def test_launches_that_use_the_same_memory_are_not_fused(plan: Plan) -> None:
    layout = make_layout(Program(plan), (), 64)
    program = Program(plan).with_extra_waits(layout.waits)
    nodes = [program.nodes[i.id] for _, i in plan.instructions() if i.kind not in MEMORY_KINDS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch_fusion, "MIN_SAVED_LAUNCHES", 1)
        patch.setattr(launch_fusion, "MAX_DURATION_S", 10.0)
        units = launch_fusion.fuse_launches(
            program, nodes, lambda node: ("same", 8, 0), (), layout.behind, plan_host_sync(program).of
        )
    together = {node.id: {other.id for other in unit} for unit in units for node in unit}
    users = users_of(plan)
    for first, second in overlapping(plan, layout):
        assert not any(together[later] & set(users[first]) for later in users[second])


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(straight_plans())
def test_buffers_lie_in_blocks_at_aligned_offsets(plan: Plan) -> None:
    layout = make_layout(Program(plan), (), 64)
    nbytes = {i.id: i.nbytes for _, i in plan.instructions() if i.kind == "alloc"}
    assert set(layout.places) == set(nbytes)
    for number, place in layout.places.items():
        assert place.offset % 64 == 0
        assert place.offset + nbytes[number] <= layout.blocks[place.block][1]
    assert layout.peak_bytes == {space: peak for space, peak in plan.peak_bytes.items() if peak}


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(straight_plans())
def test_results_are_never_overwritten(plan: Plan) -> None:
    freed = [(i.uses[0].array, i.uses[0].space) for _, i in plan.instructions() if i.kind == "free"]
    assume(freed)
    layout = make_layout(Program(plan), freed[:1], 8)
    mine = [
        i.id for _, i in plan.instructions() if i.kind == "alloc" and (i.uses[0].array, i.uses[0].space) == freed[0]
    ]
    assert not [later for earlier, later in overlapping(plan, layout) if earlier in mine]


def chain_of_temporaries(length: int, sizes: list[int]) -> TaskGraph:
    graph = TaskGraph("temporaries")
    before = graph.array("a0", data=np.zeros(max(sizes), DTYPE))
    for i in range(length):
        after = graph.array(f"a{i + 1}", (max(sizes),), DTYPE, temporary=i < length - 1)
        graph.kernel(ASSIGN, name=f"t{i}", x=before, y=after)
        before = after
    return graph


def test_a_chain_of_temporaries_takes_the_planned_peak() -> None:
    plan = plan_by(chain_of_temporaries(50, [128]), TWO_DEVICES, lambda name: ("a", 0, "library"))
    layout = make_layout(Program(plan), (), 64)
    assert layout.nbytes == {"a": plan.peak_bytes["a"]}
    assert not layout.waits


@pytest.mark.parametrize("seed", range(8))
def test_one_lane_takes_the_planned_peak_without_gaps(seed: int) -> None:
    device = replace(TWO_DEVICES.device("a"), copy_lane=False)  # its only lane makes its copies, too
    platform = replace(TWO_DEVICES, devices=(device, *(each for each in TWO_DEVICES.devices if each.name != "a")))
    chosen = random.Random(seed)
    graph = TaskGraph("gaps")
    made = [graph.array("x", data=np.zeros(8, DTYPE))]
    for i in range(8):
        y = graph.array(f"a{i}", (8 * chosen.randint(1, 8),), DTYPE, temporary=True)
        graph.kernel(ASSIGN, name=f"t{i}", x=made[-chosen.randint(1, min(4, len(made)))], y=y)
        made.append(y)
    graph.kernel(ASSIGN, name="end", x=made[-1], y=graph.array("z", (8,), DTYPE))
    plan = plan_by(graph, platform, lambda name: ("a", 0, "library"))
    assert len(plan.lanes) == 1
    peak = plan.peak_bytes["a"]
    least = replace(platform, spaces=tuple(replace(each, capacity_bytes=peak) for each in platform.spaces))
    layout = make_layout(Program(replace(plan, platform=least)), (), 64)
    assert layout.nbytes == {"a": peak}
    assert not layout.waits


@pytest.mark.parametrize(("elements", "is_reused"), [(16, False), (2048, True)])
def test_small_buffers_are_not_those_of_the_launches_before(elements: int, is_reused: bool) -> None:
    graph = TaskGraph("directions")
    x = graph.array("x", data=np.zeros(elements, DTYPE))
    for i in range(40):  # results that nothing reads, as the last states of a recurrent layer
        y = graph.array(f"y{i}", (elements,), DTYPE, temporary=True)
        graph.kernel(ASSIGN, name=f"t{i}", x=x, y=y)
    large = replace(TWO_DEVICES, spaces=tuple(replace(s, capacity_bytes=1 << 20) for s in TWO_DEVICES.spaces))
    plan = plan_by(graph, large, lambda name: ("a", 0, "library"))
    program = Program(plan)
    layout = make_layout(program, (), 64)
    order = [node.id for node in program.nodes.values() if node.instruction.kind == "launch"]
    distances = [order.index(number) - order.index(before) for number, before in layout.behind.items()]
    assert distances and (min(distances) == 1 if is_reused else min(distances) > 8)
    assert layout.nbytes["a"] <= plan.peak_bytes["a"] + (0 if is_reused else 1 << 16)


def test_two_lanes_take_the_planned_peak() -> None:
    plan = plan_by(chain_of_temporaries(50, [128]), TWO_DEVICES, lambda name: ("a", int(name[1:]) % 2, "library"))
    assert make_layout(Program(plan), (), 64).nbytes == {"a": plan.peak_bytes["a"]}


@pytest.mark.parametrize("buffers", [3, 4])
def test_copies_do_not_wait_for_memory_if_there_is_enough(buffers: int) -> None:
    plan = plan_of_chunks(8, left_bytes=buffers * 8000)
    program = Program(plan)
    layout = make_layout(program, (), 8)
    waited = {number for numbers in layout.waits.values() for number in numbers}
    # Each device lane reuses memory that others would have to wait for; the host has one buffer, and is fast.
    assert all(program.nodes[number].on_host for number in waited)
    assert layout.nbytes["left"] <= buffers * 8000


def test_a_layout_larger_than_memory_is_refused() -> None:
    plan = plan_by(chain_of_temporaries(5, [100]), TWO_DEVICES, lambda name: ("a", 0, "library"))
    layout = make_layout(Program(plan), (), 64)
    assert layout.why_not(TWO_DEVICES) is None
    small = replace(TWO_DEVICES, spaces=tuple(replace(s, capacity_bytes=1000) for s in TWO_DEVICES.spaces))
    assert "allocated and freed during a run" in str(layout.why_not(small))
    unknown = replace(TWO_DEVICES, spaces=tuple(replace(s, capacity_bytes=0) for s in TWO_DEVICES.spaces))
    assert layout.why_not(unknown) is None
