# SPDX-License-Identifier: Apache-2.0
"""The schedule of host synchronisation: submissions that wait for host steps, and steps that run exclusively."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.running import DTYPE, MIX, TWO_DEVICES, graphs, plan_by

from syclsched.execution.core.program import MEMORY_KINDS, Program
from syclsched.execution.replay.host_sync import HostSyncSchedule, plan_host_sync
from syclsched.execution.runner.plan_binding import why_dispatcher_needed
from syclsched.model.graph import TaskGraph

ROOMY = replace(TWO_DEVICES, spaces=tuple(replace(space, capacity_bytes=10**9) for space in TWO_DEVICES.spaces))


def by_task(graph: TaskGraph, lane_of: dict[str, int]) -> tuple[Program, HostSyncSchedule]:
    """Return a plan with kernels on lanes of one device, and tasks without a lane on the host."""

    def place(name: str) -> tuple[str, int, str | None]:
        first = graph.find_task(name).operation.implementations[0].name  # type: ignore[union-attr]
        return ("a", lane_of[name], first) if name in lane_of else ("host", 0, first)

    program = Program(plan_by(graph, ROOMY, place))
    assert why_dispatcher_needed(program, {}) is None
    return program, plan_host_sync(program)


def arrays_of(graph: TaskGraph, *names: str) -> list[Any]:
    return [graph.array(name, data=np.zeros(8, DTYPE)) for name in names]


def levels_of(program: Program, levels: HostSyncSchedule) -> dict[str, int]:
    return {i.task: levels.of[i.id] for _, i in program.plan.instructions() if i.kind == "launch" and i.task}


def test_only_tasks_that_need_the_host_are_delayed() -> None:
    graph = TaskGraph("branches")
    x, y, z = arrays_of(graph, "x", "y", "z")
    graph.kernel(MIX, name="first", x=x, y=y, a=1)
    graph.host(lambda y: None, name="look", y=y.update())
    graph.kernel(MIX, name="behind", x=x, y=y, a=1)
    graph.kernel(MIX, name="beside", x=x, y=z, a=1)
    program, levels = by_task(graph, {"first": 0, "behind": 0, "beside": 1})
    assert levels_of(program, levels) == {"first": 0, "behind": 1, "beside": 0}
    at = [step.node.instruction.task if step.node else None for step in levels.steps].index("look")
    assert not levels.is_exclusive[at]


def test_host_steps_of_a_chain_are_exclusive() -> None:
    graph = TaskGraph("chain")
    x, y = arrays_of(graph, "x", "y")
    for n in range(3):
        graph.kernel(MIX, name=f"k{n}", x=x, y=y, a=1)
        graph.host(lambda y: None, name=f"h{n}", y=y.update())
    program, levels = by_task(graph, {f"k{n}": 0 for n in range(3)})
    assert list(levels_of(program, levels)) == ["k0", "k1", "k2"]
    assert sorted(levels_of(program, levels).values()) == list(levels_of(program, levels).values())
    assert all(levels.is_exclusive)


@given(graph=graphs(max_tasks=20), data=st.data())
def test_levels_follow_from_waits(graph: TaskGraph, data: st.DataObject) -> None:
    def place(name: str) -> tuple[str, int, str | None]:
        device = data.draw(st.sampled_from(["a", "b", "host"]))
        operation = graph.find_task(name).operation
        kinds = (
            []
            if operation is None
            else [i for i in operation.implementations if (i.kind == "host") == (device == "host")]
        )
        return device, data.draw(st.integers(0, 1)) if device == "a" else 0, kinds[0].name if kinds else None

    program = Program(plan_by(graph, ROOMY, place))
    levels = plan_host_sync(program)
    nodes = [program.nodes[i.id] for _, i in program.plan.instructions() if i.kind not in MEMORY_KINDS]
    behind: dict[int, set[int]] = {}
    last: dict[int, int] = {}
    first: dict[int, int] = {}
    for node in nodes:
        if node.on_host:
            continue
        first[node.id] = last.get(node.lane, node.id)
        before = {n for n in (*node.events, first[node.id]) if n in behind}
        behind[node.id] = before.union(*(behind[n] for n in before))
        last[node.lane] = node.id
    # Instructions known to be complete after each step and those before it.
    seen: list[set[int]] = []
    for step in levels.steps:
        seen.append({*(seen[-1] if seen else ()), *step.events}.union(*(behind[n] for n in step.events)))
    done_at = {step.node.id: n for n, step in enumerate(levels.steps) if step.node is not None}
    for node in nodes:
        if node.on_host:
            assert levels.steps[done_at[node.id]].events == node.events
            continue
        awaited = [
            done_at[n] if n in done_at else next(k for k, by in enumerate(seen) if n in by)
            for n in node.completed_first
        ]
        inherited = [levels.of[n] for n in (*node.events, first[node.id]) if n != node.id and n in levels.of]
        assert levels.of[node.id] == max((*(k + 1 for k in awaited), *inherited), default=0)
    for n, step in enumerate(levels.steps):
        there = {number for number, level in levels.of.items() if level <= n}
        assert set(step.events) <= there
        assert levels.is_exclusive[n] == (there <= seen[n])
        if step.node is None:
            assert step.events and not seen[n - 1].intersection(step.events) if n else step.events


def test_one_wait_does_for_all_that_came_before() -> None:
    graph = TaskGraph("over and over")
    x, y, z = arrays_of(graph, "x", "y", "z")
    graph.kernel(MIX, name="one", x=x, y=y, a=1)
    graph.kernel(MIX, name="two", x=x, y=z, a=1)
    graph.kernel(MIX, name="there", x=z, y=y, a=1)
    graph.kernel(MIX, name="again", x=y, y=z, a=1)
    where = {"one": "a", "two": "a", "there": "b", "again": "b"}
    levels = plan_host_sync(Program(plan_by(graph, ROOMY, lambda name: (where[name], 0, "opencl-c"))))
    assert levels.nodes == () and len(levels.steps) <= 2


def test_a_task_waits_for_all_that_it_needs_of_another_context() -> None:
    graph = TaskGraph("both")
    x, y, z, w = arrays_of(graph, "x", "y", "z", "w")
    graph.kernel(MIX, name="one", x=x, y=y, a=1)
    graph.kernel(MIX, name="two", x=x, y=z, a=1)
    graph.kernel(MIX, name="there", x=x, y=w, a=1)
    graph.edge("one", "there")
    graph.edge("two", "there")
    where = {"one": ("a", 0), "two": ("a", 1), "there": ("b", 0)}
    program = Program(plan_by(graph, ROOMY, lambda name: (*where[name], "opencl-c")))
    levels = plan_host_sync(program)
    number = {i.task: i.id for _, i in program.plan.instructions() if i.kind == "launch"}
    before = levels.steps[: levels.of[number["there"]]]
    assert {number["one"], number["two"]} <= {event for step in before for event in step.events}
