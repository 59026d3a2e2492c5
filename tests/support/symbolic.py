# SPDX-License-Identifier: Apache-2.0
"""Symbolic execution of graphs and plans: each row's value is its history, the reference for every execution."""

from __future__ import annotations

import random
from collections.abc import Iterable

from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Instruction, Plan
from syclsched.model.platform import HOST

#: The rows of an array in one memory space, each a value that represents its history.
Values = dict[tuple[str, str], list[int]]


_numbers: dict[object, int] = {}


def number(*history: object) -> int:
    """Return a number for a history: equal for equal ones."""
    return _numbers.setdefault(history, len(_numbers))


def _extent(shape: tuple[int, ...]) -> int:
    return shape[0] if shape else 1


def _seen(read: Iterable[tuple[str, int, int]]) -> int:
    return number("seen", *sorted(read))


def sequential(graph: TaskGraph) -> tuple[dict[str, int], dict[str, list[int]]]:
    """Return the values that each task reads, and each array's final rows."""
    values = {name: [number("input", name, r) for r in range(_extent(a.shape))] for name, a in graph.arrays.items()}
    seen = {}
    for name in graph.order():
        task = graph.find_task(name)
        touched = [(a, range(*(a.rows or (0, len(values[a.array]))))) for a in task.accesses]
        seen[name] = _seen({(a.array, r, values[a.array][r]) for a, rows in touched if a.mode.reads for r in rows})
        for access, rows in touched:
            if access.mode.writes:
                for row in rows:
                    values[access.array][row] = number(name, access.array, row, seen[name])
    return seen, values


class _PlanNames:
    """The rows and arrays that the names in a plan refer to."""

    def __init__(self, plan: Plan) -> None:
        self._rows = {a.name: a.rows for a in plan.arrays}
        self._extent = {a.name: _extent(a.shape) for a in plan.arrays}

    def whole(self, name: str) -> str:
        rows = self._rows[name]
        return name if rows is None else rows.array

    def rows(self, name: str) -> range:
        rows = self._rows[name]
        return range(self._extent[name]) if rows is None else range(rows.start, rows.stop)

    def empty(self, name: str) -> list[int]:
        return [number("rubbish")] * self._extent[name]


def _memory_needed(plan: Plan, places: _PlanNames) -> dict[int, set[int]]:
    """Return the allocations of each instruction's buffers: the last ones before it."""
    newest: dict[tuple[str, str], int] = {}
    needed: dict[int, set[int]] = {}
    for _, instruction in plan.instructions():
        memory = {(places.whole(u.array), u.space) for u in instruction.uses}
        if instruction.kind == "alloc":
            newest.update(dict.fromkeys(memory, instruction.id))
        else:
            needed[instruction.id] = {newest[m] for m in memory if m in newest}
    return needed


def execute(plan: Plan, rng: random.Random) -> tuple[dict[str, int], Values]:
    """Run a plan in a random order its lanes and waits allow, without using any of the planner's own code.

    A free takes effect at any time once what it waits for, and what is before it on its lane, is done. An allocation
    waits until memory that the same buffer had before has been given back, and what uses memory until it is there, as
    the engine's do.
    """
    places = _PlanNames(plan)
    buffers: Values = {
        (a.name, plan.residents.get(a.name, HOST)): [number("input", a.name, r) for r in places.rows(a.name)]
        for a in plan.arrays
        if a.is_input and a.rows is None
    }
    needed = _memory_needed(plan, places)
    seen: dict[str, int] = {}
    done: set[int] = set()
    pointer = [0] * len(plan.lanes)
    pending: list[tuple[Instruction, set[int]]] = []

    def head(lane: int) -> Instruction | None:
        instructions = plan.lanes[lane].instructions
        if pointer[lane] == len(instructions):
            return None
        first = instructions[pointer[lane]]
        if first.kind != "free" and not done >= {*first.waits, *needed.get(first.id, ())}:
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
        if instruction.kind == "alloc":
            use = instruction.uses[0]
            buffers[use.array, use.space] = places.empty(use.array)
        elif instruction.kind == "free":
            before = plan.lanes[lane_number].instructions[: pointer[lane_number]]
            pending.append((instruction, {*instruction.waits, *needed[instruction.id], *(i.id for i in before)}))
        elif instruction.kind == "copy":
            for source, target in zip(instruction.uses[::2], instruction.uses[1::2], strict=True):
                assert source.array == target.array
                whole = places.whole(source.array)
                for row in places.rows(source.array):
                    buffers[whole, target.space][row] = buffers[whole, source.space][row]
        elif instruction.kind in ("launch", "host"):
            assert instruction.task is not None
            touched = [(u.mode, places.whole(u.array), u.space, places.rows(u.array)) for u in instruction.uses]
            # A kernel's argument is rows of one array that follow each other in one memory.
            assert len({whole for _, whole, _, _ in touched}) == len({(whole, space) for _, whole, space, _ in touched})
            read = {(w, row, buffers[w, s][row]) for mode, w, s, rows in touched if mode.reads for row in rows}
            seen[instruction.task] = _seen(read)
            for mode, whole, space, rows in touched:
                if mode.writes:
                    for row in rows:
                        made = number(instruction.task, whole, row, seen[instruction.task])
                        buffers[whole, space][row] = made
        pointer[lane_number] += 1
        done.add(instruction.id)
    assert all(p == len(lane.instructions) for p, lane in zip(pointer, plan.lanes, strict=True)), "deadlock"
    return seen, buffers


def check(plan: Plan, graph: TaskGraph, rng: random.Random, times: int = 3) -> None:
    """Assert that random executions of a plan compute what the sequential program computes."""
    expected, last = sequential(graph)
    places = _PlanNames(plan)
    for _ in range(times):
        seen, buffers = execute(plan, rng)
        assert {t: v for t, v in expected.items() if graph.find_task(t).kind != "barrier"} == seen
        for array in plan.arrays:
            written = any(a.array == array.name and a.mode.writes for t in plan.tasks for a in t.accesses)
            if written and not array.temporary:
                whole, rows = places.whole(array.name), places.rows(array.name)
                wanted = [last[whole][row] for row in rows]
                assert wanted in [[v[row] for row in rows] for (name, _), v in buffers.items() if name == whole]
