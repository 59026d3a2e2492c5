# SPDX-License-Identifier: Apache-2.0
"""Counter tracks of a run: running tasks, copied bytes, queue depth per lane, memory in use per space. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from syclsched.model.plan import Plan
from syclsched.model.trace import Span

#: Times in nanoseconds, each with the counter's value from then on.
CounterValues = list[tuple[int, int]]


class TimedSpan(NamedTuple):
    """One span with its predicted or measured times in whole nanoseconds."""

    span: Span
    start_ns: int
    finish_ns: int


def counter_steps(
    timed: Sequence[TimedSpan], plan: Plan | None, *, submitted: bool
) -> Iterator[tuple[str, str, CounterValues]]:
    """Yield each counter as name, unit and (time in ns, new value) pairs."""
    running: dict[int, int] = {}
    copied: dict[int, int] = {}
    depth: dict[str, dict[int, int]] = {}
    for span, start_ns, finish_ns in timed:
        if span.kind == "copy":
            _add(copied, finish_ns, span.nbytes)
        elif finish_ns > start_ns:
            _add(running, start_ns, 1)
            _add(running, finish_ns, -1)
        if submitted:
            queue = depth.setdefault(span.lane, {})
            submit_ns = min(round(span.submit_s * 1e9), finish_ns)
            _add(queue, submit_ns, 1)
            _add(queue, finish_ns, -1)
    yield "running tasks", "tasks", _cumulative_values(running)
    yield "copied", "bytes", _cumulative_values(copied)
    for lane, changes in depth.items():
        yield f"queue depth {lane}", "instructions", _cumulative_values(changes)
    if plan is not None:
        for space, values in memory_steps(timed, plan).items():
            yield f"memory in use {space}", "bytes", values


def memory_steps(timed: Sequence[TimedSpan], plan: Plan) -> dict[str, CounterValues]:
    """Return the memory in use per space; a buffer counts from its first to its last use."""
    return {space: _cumulative_values(changes) for space, changes in _memory_changes(timed, plan).items()}


def _memory_changes(timed: Sequence[TimedSpan], plan: Plan) -> dict[str, dict[int, int]]:
    """Return the changes of memory in use per space; a buffer counts from its first to its last use."""
    sizes = {(array.name, space.name): array.nbytes for array in plan.arrays for space in plan.platform.spaces}
    owner = {array.name: array.rows.array for array in plan.arrays if array.rows is not None}
    life: dict[int, list[tuple[str, str, int]]] = {}
    turn: dict[tuple[str, str], int] = {}
    allocated: set[tuple[str, str]] = set()
    for _, instruction in plan.instructions():
        for use in instruction.uses:
            buffer = (owner.get(use.array, use.array), use.space)
            if instruction.kind == "alloc":
                sizes[buffer] = instruction.nbytes
                turn[buffer] = turn.get(buffer, 0) + 1
                allocated.add(buffer)
            elif instruction.kind != "free" and buffer in allocated:
                life.setdefault(instruction.id, []).append((*buffer, turn[buffer]))
    step = 1 + max((i.id for _, i in plan.instructions()), default=0)
    used: dict[tuple[int, str, str, int], tuple[int, int]] = {}
    for span, start_ns, finish_ns in timed:
        for array, space, number in life.get(span.instruction % step, ()):
            key = (span.instruction // step, array, space, number)
            first, last = used.get(key, (start_ns, finish_ns))
            used[key] = min(first, start_ns), max(last, finish_ns)
    found: dict[str, dict[int, int]] = {}
    for (_, array, space, _), (first, last) in used.items():
        changes = found.setdefault(space, {})
        _add(changes, first, sizes[array, space])
        _add(changes, last, -sizes[array, space])
    return found


def _add(changes: dict[int, int], moment: int, change: int) -> None:
    changes[moment] = changes.get(moment, 0) + change


def _cumulative_values(changes: dict[int, int]) -> CounterValues:
    found: CounterValues = []
    value = 0
    for moment in sorted(changes):
        if changes[moment]:
            value += changes[moment]
            found.append((moment, value))
    return found
