# SPDX-License-Identifier: Apache-2.0
"""Why each instruction of a trace began when it did, and not before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from syclsched.model.plan import Instruction, Plan
from syclsched.model.trace import Span, Trace

Via = Literal["lane", "wait", "memory"]


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that had to end first."""

    span: Span  # what
    #: ``lane``: it came before on the lane; ``wait``: it was waited for; ``memory``: what was to be used was still in
    #: use by it.
    via: Via


@dataclass(frozen=True, slots=True)
class Causes:
    """All instructions that ran, with what each had to wait for."""

    spans: tuple[Span, ...]  # in order of start; without those that were cancelled
    before: Mapping[int, tuple[Cause, ...]]  # by `Span.instruction`

    def last(self, span: Span, *, lane: bool = True) -> Cause | None:
        """Return the cause that ended last; None if there is none."""
        found = [cause for cause in self.before[span.instruction] if lane or cause.via != "lane"]
        return max(found, key=lambda cause: (cause.span.finish_s, cause.via != "lane"), default=None)


def find_causes(trace: Trace, plan: Plan | None = None) -> Causes:
    """Return what each instruction of a trace had to wait for."""
    ran = sorted((s for s in trace.spans if s.outcome != "cancelled"), key=lambda s: (s.start_s, s.instruction))
    by_number = {span.instruction: span for span in ran}
    memory = _Memory(plan) if plan is not None else None
    previous: dict[str, Span] = {}
    before: dict[int, tuple[Cause, ...]] = {}
    for span in ran:
        found: dict[int, Cause] = {}
        if span.lane in previous:
            found[previous[span.lane].instruction] = Cause(previous[span.lane], "lane")
        waited, freed = (span.waits, ()) if memory is None else memory.waits(span)
        for numbers, via in ((freed, "memory"), (waited, "wait")):
            for number in numbers:
                if number in before:  # not what began later: two clocks disagree
                    found[number] = Cause(by_number[number], via)  # type: ignore[arg-type]
        before[span.instruction] = tuple(found.values())
        previous[span.lane] = span
    return Causes(tuple(ran), before)


class _Memory:
    """A plan's waits, with those for memory told from those for data."""

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
        """Return what an instruction waits for: for data, and for memory."""
        # Generations in one trace are numbered on.
        number = span.instruction % self._step
        shift = span.instruction - number
        data: set[int] = set()
        memory: set[int] = set()
        added = self._added(number, span)
        for wait in (each - shift for each in span.waits):
            about_memory = self._kind(wait) is not None
            of = memory if about_memory or wait + shift in added else data
            of.update(self._behind(wait) if about_memory else [wait])
        for allocation in self._allocations.get(number, ()):
            for wait in allocation.waits:
                memory.update([wait] if self._kind(wait) is None else self._behind(wait))
        return [n + shift for n in data], [n + shift for n in memory - data]

    def _added(self, number: int, span: Span) -> set[int]:
        """Return the waits that the plan does not say: they were added where memory was laid out."""
        planned = self._instructions.get(number)
        if planned is None or planned.task != span.task:
            return set()  # of another plan: what is left of one after a failure
        shift = span.instruction - number
        return set(span.waits) - {wait + shift for wait in planned.waits}

    def _kind(self, number: int) -> str | None:
        """Return ``alloc`` or ``free``, or None if it is something else."""
        found = self._instructions.get(number)
        return found.kind if found is not None and found.kind in ("alloc", "free") else None

    def _behind(self, number: int, depth: int = 0) -> set[int]:
        """Return the work that an instruction about memory stands for."""
        instruction = self._instructions[number]
        found = {self._work_before[number]} if instruction.kind == "free" and number in self._work_before else set()
        for wait in instruction.waits:
            if self._kind(wait) is None:
                found.add(wait)
            elif depth < _DEEPEST:
                found |= self._behind(wait, depth + 1)
        return found


#: Frees that wait for allocations that wait for frees are followed so far.
_DEEPEST = 8
