# SPDX-License-Identifier: Apache-2.0
"""Graphs and plans run on values that are their own history: what any execution of a plan must compute."""

from __future__ import annotations

import random

from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Instruction, Plan
from syclsched.model.platform import HOST

Values = dict[tuple[str, str], object]


def sequential(graph: TaskGraph) -> tuple[dict[str, object], dict[str, object]]:
    """What each task reads, and each array's last value, if values are the history that made them."""
    values: dict[str, object] = {name: ("input", name) for name in graph.arrays}
    seen = {}
    for name in graph.order():
        task = graph.task(name)
        seen[name] = tuple(values[a.array] for a in task.accesses if a.mode.reads)
        for access in task.accesses:
            if access.mode.writes:
                values[access.array] = (name, access.array, seen[name])
    return seen, values


def execute(plan: Plan, rng: random.Random) -> tuple[dict[str, object], Values]:
    """Run a plan in a random order its lanes and waits allow, without using any of the planner's own code.

    A free takes effect at any time once what it waits for, and what is before it on its lane, is done. An allocation
    waits until memory that the same buffer had before has been given back, as the engine's does.
    """
    buffers: Values = {(a.name, HOST): ("input", a.name) for a in plan.arrays if a.is_input}
    seen: dict[str, object] = {}
    done: set[int] = set()
    pointer = [0] * len(plan.lanes)
    pending: list[tuple[Instruction, set[int]]] = []

    def head(lane: int) -> Instruction | None:
        instructions = plan.lanes[lane].instructions
        if pointer[lane] == len(instructions):
            return None
        first = instructions[pointer[lane]]
        if first.kind != "free" and not done >= set(first.waits):
            return None
        if first.kind == "alloc" and (first.uses[0].array, first.uses[0].space) in buffers:
            return None
        return first

    while True:
        ready = [lane for lane in range(len(plan.lanes)) if head(lane) is not None]
        due = [entry for entry in pending if done >= entry[1]]
        if due and (not ready or rng.random() < 0.3):
            entry = rng.choice(due)
            pending.remove(entry)
            del buffers[entry[0].uses[0].array, entry[0].uses[0].space]
            continue
        if not ready:
            break
        lane_number = rng.choice(ready)
        instruction = head(lane_number)
        assert instruction is not None
        uses = [(u.array, u.space) for u in instruction.uses]
        if instruction.kind == "alloc":
            buffers[uses[0]] = "rubbish"
        elif instruction.kind == "free":
            before = plan.lanes[lane_number].instructions[: pointer[lane_number]]
            pending.append((instruction, {*instruction.waits, *(i.id for i in before)}))
        elif instruction.kind == "copy":
            buffers[uses[1]] = buffers[uses[0]]
        elif instruction.kind in ("launch", "host"):
            read = tuple(buffers[u.array, u.space] for u in instruction.uses if u.mode.reads)
            assert instruction.task is not None
            seen[instruction.task] = read
            for use in instruction.uses:
                if use.mode.writes:
                    assert (use.array, use.space) in buffers
                    buffers[use.array, use.space] = (instruction.task, use.array, read)
        pointer[lane_number] += 1
        done.add(instruction.id)
    assert all(p == len(lane.instructions) for p, lane in zip(pointer, plan.lanes, strict=True)), "deadlock"
    return seen, buffers


def check(plan: Plan, graph: TaskGraph, rng: random.Random, times: int = 3) -> None:
    """Assert that random executions of a plan compute what the sequential program computes."""
    expected, last = sequential(graph)
    for _ in range(times):
        seen, buffers = execute(plan, rng)
        assert {t: v for t, v in expected.items() if graph.task(t).kind != "barrier"} == seen
        for array in plan.arrays:
            written = any(a.array == array.name and a.mode.writes for t in plan.tasks for a in t.accesses)
            if written and not array.temporary:
                assert last[array.name] in [v for (name, _), v in buffers.items() if name == array.name]
