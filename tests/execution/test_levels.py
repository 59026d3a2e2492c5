# SPDX-License-Identifier: Apache-2.0
"""Which submissions must wait for the host's steps, and which steps leave nothing else on its way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from running import DTYPE, MIX, TWO_DEVICES, graphs, plan_by

from syclsched.execution.levels import Levels, find_levels
from syclsched.execution.program import MEMORY_KINDS, Program
from syclsched.execution.straight import why_not_straight
from syclsched.model.graph import TaskGraph

ROOMY = replace(TWO_DEVICES, spaces=tuple(replace(space, capacity_bytes=10**9) for space in TWO_DEVICES.spaces))


def by_task(graph: TaskGraph, lane_of: dict[str, int]) -> tuple[Program, Levels]:
    """Kernels on lanes of one device, what has no lane on the host."""

    def place(name: str) -> tuple[str, int, str | None]:
        first = graph.task(name).operation.implementations[0].name  # type: ignore[union-attr]
        return ("a", lane_of[name], first) if name in lane_of else ("host", 0, first)

    program = Program(plan_by(graph, ROOMY, place))
    assert why_not_straight(program, {}) is None
    return program, find_levels(program)


def arrays_of(graph: TaskGraph, *names: str) -> list[Any]:
    return [graph.array(name, data=np.zeros(8, DTYPE)) for name in names]


def levels_of(program: Program, levels: Levels) -> dict[str, int]:
    return {i.task: levels.of[i.id] for _, i in program.plan.instructions() if i.kind == "launch" and i.task}


def test_only_what_needs_the_host_is_held_back() -> None:
    graph = TaskGraph("branches")
    x, y, z = arrays_of(graph, "x", "y", "z")
    graph.kernel(MIX, name="first", x=x, y=y, a=1)
    graph.host(lambda y: None, name="look", y=y.update())
    graph.kernel(MIX, name="behind", x=x, y=y, a=1)
    graph.kernel(MIX, name="beside", x=x, y=z, a=1)
    program, levels = by_task(graph, {"first": 0, "behind": 0, "beside": 1})
    assert levels_of(program, levels) == {"first": 0, "behind": 1, "beside": 0}
    at = [step.instruction.task for step in levels.steps].index("look")
    assert not levels.alone[at]


def test_a_chain_has_nothing_else_on_its_way() -> None:
    graph = TaskGraph("chain")
    x, y = arrays_of(graph, "x", "y")
    for n in range(3):
        graph.kernel(MIX, name=f"k{n}", x=x, y=y, a=1)
        graph.host(lambda y: None, name=f"h{n}", y=y.update())
    program, levels = by_task(graph, {f"k{n}": 0 for n in range(3)})
    assert list(levels_of(program, levels)) == ["k0", "k1", "k2"]
    assert sorted(levels_of(program, levels).values()) == list(levels_of(program, levels).values())
    assert all(levels.alone)


@given(graph=graphs(max_tasks=20), data=st.data())
def test_levels_follow_from_what_is_waited_for(graph: TaskGraph, data: st.DataObject) -> None:
    def place(name: str) -> tuple[str, int, str | None]:
        device = data.draw(st.sampled_from(["a", "host"]))
        operation = graph.task(name).operation
        kinds = (
            []
            if operation is None
            else [i for i in operation.implementations if (i.kind == "host") == (device == "host")]
        )
        return device, data.draw(st.integers(0, 1)) if device == "a" else 0, kinds[0].name if kinds else None

    program = Program(plan_by(graph, ROOMY, place))
    levels = find_levels(program)
    position = {step.id: n for n, step in enumerate(levels.steps)}
    behind: dict[int, set[int]] = {}
    last: dict[int, int] = {}
    for _, instruction in program.plan.instructions():
        if instruction.kind in MEMORY_KINDS:
            continue
        node = program.nodes[instruction.id]
        before = {*node.events, *node.completed_first, *([last[node.lane]] if node.lane in last else [])}
        behind[node.id] = before.union(*(behind[n] for n in before))
        last[node.lane] = node.id
    for number, level in levels.of.items():
        steps = [position[n] for n in behind[number] if n in position]
        assert level == max(steps, default=-1) + 1
    for n, step in enumerate(levels.steps):
        assert all(levels.of[number] <= n for number in step_events(program, step.id))
        there = {number for number, level in levels.of.items() if level <= n}
        reached = {b for s in levels.steps[: n + 1] for b in (*s.events, *(c for e in s.events for c in behind[e]))}
        assert levels.alone[n] == (there <= reached)


def step_events(program: Program, number: int) -> tuple[int, ...]:
    return program.nodes[number].events
