# SPDX-License-Identifier: Apache-2.0
"""Rounds of several generations: complete, in order on every lane, and bounded by the busiest lane where possible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.running import DTYPE, MIX, graphs, plan_by

from syclsched.execution.core.program import Program
from syclsched.execution.replay.host_sync import plan_host_sync
from syclsched.execution.runner import stream_rounds
from syclsched.execution.runner.stream_prediction import forecast, submissions, unrolled
from syclsched.execution.runner.stream_rounds import (
    Rounds,
    interleaved_rounds,
    rounds_before_host_steps,
    sequential_rounds,
)
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Launch, OpenCLSource, Operation, Parameter, Work
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform
from syclsched.simulation import predict


def device(name: str, lanes: int = 1) -> Device:
    kind, backend = ("host", "host") if name == HOST else ("gpu", "opencl")
    return Device(name, name, kind, backend, name, space=name, reaches=(name,), lanes=lanes, dtypes=(DTYPE,))


PLATFORM = Platform(
    "one",
    devices=(device("a", 3), device(HOST)),
    spaces=(MemorySpace("a", 10**9), MemorySpace(HOST, 10**9, host_accessible=True)),
    links=(Link("a", HOST, 1e-9, 1e15), Link(HOST, "a", 1e-9, 1e15)),
)


SET = Operation(
    "set",
    (Parameter("y", AccessMode.WRITE),),
    (Implementation("opencl-c", "opencl-c", lambda _: OpenCLSource("", "set"), launch=lambda s, d: Launch((100,))),),
    lambda signature: Work(flops=0.0, bytes=0.0),
)


def two_lane_plan(copy_s: float = 0.0) -> Plan:
    """A task on one lane, one on another, and one on the first again; each takes 10 us."""
    graph = TaskGraph("two lanes")
    x, y, z = (graph.array(name, data=np.zeros(100, DTYPE)) for name in "xyz")
    for name, source, target in (("0 first", x, y), ("1 other", y, z), ("0 last", z, y)):
        graph.kernel(MIX, name=name, x=source, y=target, a=1)
    plan = plan_by(graph, PLATFORM, lambda name: ("a", int(name[0]), "opencl-c"))
    if copy_s:
        lanes = [
            replace(lane, instructions=tuple(replace(i, duration_s=copy_s) for i in lane.instructions))
            if lane.kind == "copy"
            else lane
            for lane in plan.lanes
        ]
        plan = predict(replace(plan, lanes=tuple(lanes)))
    return plan


def check(program: Program, rounds: Rounds, generations: int, in_flight: int) -> None:
    """Check that each instruction runs once, after its waits and after its lane's earlier ones of the generation."""
    seen: set[tuple[int, int]] = set()
    before = {}
    for nodes in program.lanes:
        work = [node.id for node in nodes if node.id in rounds.order]
        before |= dict(zip(work[1:], work, strict=False))
    for generation, number in submissions(rounds, generations, in_flight):
        node = program.nodes[number]
        needed = {*node.events, *node.completed_first, *([before[number]] if number in before else [])}
        assert {(generation, n) for n in needed} <= seen
        assert (generation, number) not in seen
        seen.add((generation, number))
    assert len(seen) == generations * len(rounds.order)


@given(data=st.data(), generations=st.integers(1, 6), in_flight=st.integers(1, 4))
def test_any_plan_is_submitted_wholly_and_in_order(data: st.DataObject, generations: int, in_flight: int) -> None:
    graph = data.draw(graphs(max_tasks=12))
    lanes = {t.name: data.draw(st.integers(0, 2)) for t in graph.tasks}

    def place(name: str) -> tuple[str, int, str | None]:
        operation = graph.find_task(name).operation
        return "a", lanes[name], None if operation is None else operation.implementations[0].name

    program = Program(plan_by(graph, PLATFORM, place))
    rounds = interleaved_rounds(program)
    check(program, sequential_rounds(program), generations, in_flight)
    if rounds is not None:
        assert rounds.stages > 1
        check(program, rounds, generations, in_flight)
        predict(unrolled(program, rounds, generations, in_flight))  # lanes do not deadlock


@given(data=st.data(), generations=st.integers(1, 6), in_flight=st.integers(1, 4))
def test_tasks_before_host_functions_are_submitted_in_order(
    data: st.DataObject, generations: int, in_flight: int
) -> None:
    graph = data.draw(graphs(max_tasks=12))
    for name in data.draw(st.lists(st.sampled_from(sorted(graph.arrays)), max_size=3)):
        graph.host(lambda y: None, name=f"host{len(graph)}", y=graph.arrays[name].update())
    lanes = {t.name: data.draw(st.integers(0, 2)) for t in graph.tasks}

    def place(name: str) -> tuple[str, int, str | None]:
        operation = graph.find_task(name).operation
        first = None if operation is None else operation.implementations[0]
        if first is not None and first.kind == "host":
            return HOST, 0, first.name
        return "a", lanes[name], None if first is None else first.name

    program = Program(plan_by(graph, PLATFORM, place))
    level_of = plan_host_sync(program).of
    for rounds in (sequential_rounds(program), interleaved_rounds(program)):
        if rounds is not None:
            found = rounds_before_host_steps(rounds, level_of)
            assert sorted(found.order) == sorted(level_of)
            assert [level_of[n] for n in found.order] == sorted(level_of.values())
            first = sum(level == 0 for level in level_of.values())
            assert found.stages <= rounds.stages
            check(program, replace(found, order=found.order[:first]), generations, in_flight)
            last = max(found.stages - 1, 0)
            assert (last, first) in found.pieces  # then functions begin


def test_generations_are_interleaved_if_a_lane_is_used_twice() -> None:
    plan = two_lane_plan()
    program = Program(plan)
    rounds = interleaved_rounds(program)
    assert rounds is not None
    tasks = [program.nodes[n].instruction.task for _, n in submissions(rounds, 4, 3)]
    launched = [t for t, n in zip(tasks, submissions(rounds, 4, 3), strict=True) if program.nodes[n[1]].lane != 2]
    first_lane = [t for t in launched if t is not None and t.startswith("0")]
    assert first_lane[:4] == ["0 first", "0 first", "0 last", "0 first"]  # not first, last, first, last


@pytest.mark.parametrize(("in_flight", "interval_us"), [(1, 30.0), (2, 20.0), (3, 20.0)])
def test_the_interval_is_the_load_of_the_busiest_lane(in_flight: int, interval_us: float) -> None:
    found = forecast(Program(two_lane_plan()), in_flight)
    assert found.interval_s * 1e6 == pytest.approx(interval_us, rel=0.02)
    assert found.rounds.stages == (1 if in_flight == 1 else 2)


def test_generations_are_not_interleaved_without_a_gain() -> None:
    # The copies of a generation take longer than all the rest, and run ahead.
    found = forecast(Program(two_lane_plan(copy_s=50e-6)), 3)
    assert found.rounds.stages == 1
    assert found.interval_s * 1e6 == pytest.approx(150.0, rel=0.02)


def test_one_lane_is_not_interleaved() -> None:
    graph = TaskGraph("made here")
    y = graph.array("y", (100,), DTYPE)
    graph.kernel(SET, name="set", y=y)
    assert interleaved_rounds(Program(plan_by(graph, PLATFORM, lambda name: ("a", 0, "opencl-c")))) is None


def test_a_lane_is_ordered_by_times_within_the_interval() -> None:
    program = Program(two_lane_plan())
    node = program.nodes[next(i.id for _, i in program.plan.instructions() if i.kind == "launch")]
    nodes = [replace(node, instruction=replace(node.instruction, id=number)) for number in range(3)]
    rounds = stream_rounds._rounds(nodes, [0.0, 25.0, 12.0], 20.0)
    assert rounds.order == (0, 2, 1)
    # The second stage, at 5 in its interval, comes between those of the first, at 0 and 12.
    assert rounds.pieces == ((0, 1), (1, 3), (0, 2))
    assert list(submissions(rounds, 2, 2)) == [(0, 0), (0, 2), (1, 0), (0, 1), (1, 2), (1, 1)]
