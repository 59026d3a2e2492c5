# SPDX-License-Identifier: Apache-2.0
"""Predecessors that delayed each instruction of a trace: by lane order, by a wait, or by memory reuse. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from syclsched.model.plan import Instruction, Plan
from syclsched.model.trace import Span, Trace

Via = Literal["lane", "wait", "memory"]


@dataclass(frozen=True, slots=True)
class StartCause:
    """An instruction that had to end before another could start."""

    span: Span
    #: ``lane``: previous instruction on the lane; ``wait``: an explicit wait; ``memory``: last user of reused memory.
    via: Via


@dataclass(frozen=True, slots=True)
class StartCauses:
    """All instructions that ran, with the causes of each."""

    spans: tuple[Span, ...]  # in order of start; without cancelled instructions
    before: Mapping[int, tuple[StartCause, ...]]  # by `Span.instruction`

    def last(self, span: Span, *, lane: bool = True) -> StartCause | None:
        """Return the cause that ended last, without lane order if ``lane`` is false; None if there is none."""
        found = [cause for cause in self.before[span.instruction] if lane or cause.via != "lane"]
        return max(found, key=lambda cause: (cause.span.finish_s, cause.via != "lane"), default=None)


def find_start_causes(trace: Trace, plan: Plan | None = None) -> StartCauses:
    """Return the causes of each instruction of a trace; ``memory`` waits are found only with a plan."""
    ran = sorted((s for s in trace.spans if s.outcome != "cancelled"), key=lambda s: (s.start_s, s.instruction))
    by_number = {span.instruction: span for span in ran}
    memory = _MemoryWaits(plan) if plan is not None else None
    previous: dict[str, Span] = {}
    before: dict[int, tuple[StartCause, ...]] = {}
    for span in ran:
        found: dict[int, StartCause] = {}
        if span.lane in previous:
            found[previous[span.lane].instruction] = StartCause(previous[span.lane], "lane")
        waited, freed = (span.waits, ()) if memory is None else memory.waits(span)
        for numbers, via in ((freed, "memory"), (waited, "wait")):
            for number in numbers:
                if number in before:  # skip instructions that started later: two device clocks disagree
                    found[number] = StartCause(by_number[number], via)  # type: ignore[arg-type]
        before[span.instruction] = tuple(found.values())
        previous[span.lane] = span
    return StartCauses(tuple(ran), before)


class _MemoryWaits:
    """The waits of a plan, divided into waits for memory and waits for data."""

    def __init__(self, plan: Plan) -> None:
        self._instructions: dict[int, Instruction] = {}
        self._work_before: dict[int, int] = {}
        self._allocations: dict[int, list[Instruction]] = {}
        for lane in plan.lanes:
            allocations: list[Instruction] = []
            last: int | None = None
            for instruction in lane.instructions:
                self._instructions[instruction.id] = instruction
                if last is not None:
                    self._work_before[instruction.id] = last
                if instruction.kind == "alloc":
                    allocations.append(instruction)
                elif instruction.kind != "free":
                    self._allocations[instruction.id], allocations = allocations, []
                    last = instruction.id
        self._step = 1 + max(self._instructions, default=0)

    def waits(self, span: Span) -> tuple[Iterable[int], Iterable[int]]:
        """Return the instructions waited for: for data, and for memory."""
        # Instances of a plan in one trace continue the numbering.
        number = span.instruction % self._step
        shift = span.instruction - number
        data: set[int] = set()
        memory: set[int] = set()
        added = self._waits_added_by_layout(number, span)
        for wait in (each - shift for each in span.waits):
            is_memory = self._memory_kind(wait) is not None
            group = memory if is_memory or wait + shift in added else data
            group.update(self._work_awaited_by(wait) if is_memory else [wait])
        for allocation in self._allocations.get(number, ()):
            for wait in allocation.waits:
                memory.update([wait] if self._memory_kind(wait) is None else self._work_awaited_by(wait))
        return [n + shift for n in data], [n + shift for n in memory - data]

    def _waits_added_by_layout(self, number: int, span: Span) -> set[int]:
        """Return the waits that are not in the plan: the memory layout added them."""
        planned = self._instructions.get(number)
        if planned is None or planned.task != span.task:
            return set()  # of another plan, made for the remaining work after a failure
        shift = span.instruction - number
        return set(span.waits) - {wait + shift for wait in planned.waits}

    def _memory_kind(self, number: int) -> str | None:
        """Return ``alloc`` or ``free``; None for any other kind."""
        found = self._instructions.get(number)
        return found.kind if found is not None and found.kind in ("alloc", "free") else None

    def _work_awaited_by(self, number: int, depth: int = 0) -> set[int]:
        """Return the tasks and copies that an alloc or free instruction waits for, transitively."""
        instruction = self._instructions[number]
        work = {self._work_before[number]} if instruction.kind == "free" and number in self._work_before else set()
        for wait in instruction.waits:
            if self._memory_kind(wait) is None:
                work.add(wait)
            elif depth < _MAX_DEPTH:
                work |= self._work_awaited_by(wait, depth + 1)
        return work


#: Depth to which chains of allocs and frees that wait for each other are followed.
_MAX_DEPTH = 8
