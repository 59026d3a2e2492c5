# SPDX-License-Identifier: Apache-2.0
"""Executable form of a plan: the submission conditions of every instruction, computed once. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from operator import attrgetter
from typing import Any

from syclsched.model.plan import Instruction, Lane, Plan, PlannedArray, PlannedTask
from syclsched.model.platform import HOST
from syclsched.model.text.bulk_objects import make_objects

#: An array's copy in one memory space: (array, space).
Buffer = tuple[str, str]
MEMORY_KINDS = ("alloc", "free")
_NOTHING = object()

#: Fields ``submitted_first``, ``completed_first`` and ``events`` of a node.
_Conditions = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
_NO_CONDITIONS: _Conditions = (), (), ()
_ID = attrgetter("id")


@dataclass(frozen=True, slots=True)
class ProgramNode:
    """One instruction with the conditions for submitting it."""

    instruction: Instruction  # from the plan
    lane: int  # index of its lane
    on_host: bool  # whether a host lane's thread executes it: it is complete when that thread reports so
    submitted_first: tuple[int, ...] = ()  # instructions that must have been submitted
    #: Instructions whose completion the host must have observed: host functions, and work of another SYCL context.
    completed_first: tuple[int, ...] = ()
    events: tuple[int, ...] = ()  # device instructions whose events it depends on

    @property
    def id(self) -> int:
        """`Instruction.id`."""
        return self.instruction.id


class Program:
    """A verified plan whose waits are sorted by kind: submission order, host-observed completion, or event."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tasks: Mapping[str, PlannedTask] = {t.name: t for t in plan.tasks}
        #: Array name by segment name, and segments by array name.
        self.whole: Mapping[str, str] = {a.name: a.rows.array for a in plan.arrays if a.rows is not None}
        self.segments: dict[str, list[PlannedArray]] = {}
        for array in plan.arrays:
            if array.rows is not None:
                self.segments.setdefault(array.rows.array, []).append(array)
        #: Memory space of each lane's device, which identifies its SYCL context.
        self._contexts = [plan.platform.device(lane.device).space for lane in plan.lanes]
        self._place: dict[int, tuple[int, int]] = {
            i.id: (n, p) for n, lane in enumerate(plan.lanes) for p, i in enumerate(lane.instructions)
        }
        self._predecessors_of: dict[int, frozenset[int]] = {}
        self._work_before: tuple[tuple[int | None, ...], ...] = tuple(_work_before(lane) for lane in plan.lanes)
        self._memory_first = self._allocations() if self.segments else {}
        self.lanes: tuple[tuple[ProgramNode, ...], ...] = tuple(
            tuple(self._nodes(n, lane)) for n, lane in enumerate(plan.lanes)
        )
        self.nodes: dict[int, ProgramNode] = {
            instruction.id: node
            for lane, nodes in zip(plan.lanes, self.lanes, strict=True)
            for instruction, node in zip(lane.instructions, nodes, strict=True)
        }
        #: Waits added to those of the plan, by instruction number; see `waiting_also`.
        self.further: Mapping[int, tuple[int, ...]] = {}
        #: Values that others derive from the instructions, by name; copies with other waits or plans share them.
        self.derived: dict[str, Any] = {}

    @property
    def slots(self) -> int:
        """One more than the largest instruction number."""
        return max(self.nodes, default=-1) + 1

    def with_extra_waits(self, further: Mapping[int, tuple[int, ...]]) -> Program:
        """Return a copy of the program with additional waits."""
        changed = copy(self)
        changed.further = {**self.further, **further}
        for name in ("waited_for", "signals"):
            vars(changed).pop(name, None)
        changed.lanes = tuple(
            tuple(
                replace(
                    node,
                    events=(
                        *node.events,
                        *(n for n in further[node.id] if not (n in node.events or self.is_host_work(n))),
                    ),
                    completed_first=(*node.completed_first, *(n for n in further[node.id] if self.is_host_work(n))),
                )
                if node.id in further
                else node
                for node in lane
            )
            for lane in self.lanes
        )
        changed.nodes = {node.id: node for lane in changed.lanes for node in lane}
        return changed

    def of_plan(self, plan: Plan) -> Program:
        """Return the program for a plan that does the same and is described otherwise."""
        changed = copy(self)
        changed.plan = plan
        return changed

    def is_host_work(self, number: int) -> bool:
        """Return whether a host lane's thread executes an instruction."""
        lane, _ = self._place[number]
        return self.plan.lanes[lane].kind == "host" and self._instruction(number).kind not in MEMORY_KINDS

    def frees_after(self, free: Instruction) -> tuple[int, ...]:
        """Return the instructions that must have completed before a ``free`` takes effect."""
        return tuple(sorted(i for i in self._predecessors(free.id) if self._instruction(i).kind not in MEMORY_KINDS))

    @cached_property
    def allocations(self) -> tuple[Instruction, ...]:
        """The allocations, by number."""
        found = [i for lane in self.plan.lanes for i in lane.instructions if i.kind == "alloc"]
        return tuple(sorted(found, key=_ID))

    @cached_property
    def waited_for(self) -> frozenset[int]:
        """Device instructions whose events another lane or the host waits for."""
        return self.signals.union(*(node.events for node in self.nodes.values()))

    @cached_property
    def last_of_lanes(self) -> tuple[int, ...]:
        """The last instruction of each lane, without allocations and frees."""
        work = [[node.id for node in lane if node.instruction.kind not in MEMORY_KINDS] for lane in self.lanes]
        return tuple(numbers[-1] for numbers in work if numbers)

    @cached_property
    def signals(self) -> frozenset[int]:
        """Device instructions whose completion the host must observe, because another context waits for them."""
        awaited = {number for node in self.nodes.values() for number in node.completed_first}
        return frozenset(number for number in awaited if not self.is_host_work(number))

    @cached_property
    def final_buffers(self) -> dict[str, tuple[Buffer, int | None]]:
        """The buffer that holds each array's final value, and the instruction that writes it (None: an input).

        Arrays whose final value is freed are omitted, and so are arrays with segments: each segment has its own entry.
        """
        inputs = [a.name for a in self.plan.arrays if a.is_input and a.name not in self.segments]
        residents = self.plan.residents
        version: dict[Buffer, object] = {(name, residents.get(name, HOST)): None for name in inputs}
        writer: dict[Buffer, int | None] = dict.fromkeys(version)
        newest: dict[str, object] = dict.fromkeys(inputs)
        # In task order, not instruction order: writers of different buffers need not wait for each other.
        last_writer = {a.array: t.name for t in self.plan.tasks for a in t.accesses if a.mode.writes}
        for _, instruction in self.plan.instructions():
            if instruction.kind == "free":
                freed = instruction.uses[0]
                for name in [a.name for a in self.segments.get(freed.array, ())] or [freed.array]:
                    version.pop((name, freed.space), None)
            elif instruction.kind == "copy":
                for source, target in zip(instruction.uses[::2], instruction.uses[1::2], strict=True):
                    copied = (target.array, target.space)
                    version[copied], writer[copied] = version[source.array, source.space], instruction.id
            elif instruction.kind != "alloc":
                for use in instruction.uses:
                    if use.mode.writes:
                        buffer = (use.array, use.space)
                        # Values are identified by their task: a recomputed task makes the same value.
                        version[buffer], writer[buffer] = instruction.task, instruction.id
                        if last_writer.get(use.array) == instruction.task:
                            newest[use.array] = instruction.task
        found: dict[str, tuple[Buffer, int | None]] = {}
        # Of several copies of the final value, wait for the earliest.
        for buffer in sorted(version, key=lambda b: -1 if (by := writer[b]) is None else by):
            if version[buffer] == newest.get(buffer[0], _NOTHING) and buffer[0] not in found:
                found[buffer[0]] = (buffer, writer[buffer])
        return found

    @cached_property
    def written_inputs(self) -> frozenset[str]:
        """Input arrays, not donated, that an instruction overwrites in host memory, where the user's own data is."""
        inputs = {a.name for a in self.plan.arrays if a.is_input} - self.plan.residents.keys()
        return frozenset(
            self.whole.get(use.array, use.array)
            for node in self.nodes.values()
            if node.instruction.kind not in MEMORY_KINDS
            for use in node.instruction.uses
            if use.mode.writes and use.space == HOST and use.array in inputs
        )

    @cached_property
    def final_writers(self) -> dict[str, str]:
        """The task that writes an array's final value, by array."""
        return {a.array: planned.name for planned in self.plan.tasks for a in planned.accesses if a.mode.writes}

    def ancestors(self, task: str) -> frozenset[str]:
        """Return a task and the tasks whose values it depends on, directly or not."""
        found: set[str] = set()
        todo = [task]
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo.extend(self._sources.get(name, ()))
        return frozenset(found)

    @cached_property
    def _sources(self) -> dict[str, set[str]]:
        """The tasks whose values a task reads, by task."""
        last_writer: dict[str, str] = {}
        sources: dict[str, set[str]] = {}
        for planned in self.plan.tasks:
            sources[planned.name] = {
                last_writer[a.array] for a in planned.accesses if a.mode.reads and a.array in last_writer
            }
            last_writer.update((a.array, planned.name) for a in planned.accesses if a.mode.writes)
        return sources

    # --- inside -----------------------------------------------------------------------------------

    def _instruction(self, number: int) -> Instruction:
        lane, position = self._place[number]
        return self.plan.lanes[lane].instructions[position]

    def _nodes(self, lane_index: int, lane: Lane) -> list[ProgramNode]:
        each, first = lane.instructions, self._memory_first
        on_host = lane.kind == "host"
        # Most instructions wait for nothing but their lane.
        conditions = [self._conditions(i, on_host) if i.waits or i.id in first else _NO_CONDITIONS for i in each]
        submitted_first, completed_first, events = zip(*conditions, strict=True) if conditions else ((), (), ())
        columns: dict[str, Iterable[object]] = {
            "instruction": each,
            "lane": repeat(lane_index, len(each)),
            "on_host": [on_host and i.kind not in MEMORY_KINDS for i in each],
            "submitted_first": submitted_first,
            "completed_first": completed_first,
            "events": events,
        }
        return make_objects(ProgramNode, len(each), columns)

    def _conditions(self, instruction: Instruction, host_lane: bool) -> _Conditions:
        """Return the instructions that must be submitted and completed first, and those to wait for by events."""
        if instruction.kind in MEMORY_KINDS:
            # Allocations and frees do not block their lane; a free's waits are checked when it may take effect.
            # An allocation after an eviction comes after the free of the array's previous memory.
            waits = () if instruction.kind == "free" else instruction.waits
            return tuple(w for w in waits if self._instruction(w).kind == "free"), (), ()
        targets = self._expand(instruction.waits)
        host = {i for i in targets if self.is_host_work(i)}
        device = [i for i in targets if i not in host and self._instruction(i).kind not in MEMORY_KINDS]
        remote = set() if host_lane else {i for i in device if self._context(i) != self._context(instruction.id)}
        return (
            (
                *self._memory_first.get(instruction.id, ()),
                *(i for i in targets if i not in host and i not in remote),
            ),
            tuple(i for i in targets if i in host or i in remote),
            tuple(i for i in device if i not in remote),
        )

    def _allocations(self) -> dict[int, list[int]]:
        """Return the allocations each instruction needs for the segmented arrays it accesses.

        Segments share one allocation, made by whichever lane is first; the plan has no wait for the other lanes.
        """
        current: dict[Buffer, int] = {}
        needed: dict[int, list[int]] = {}
        for _, instruction in self.plan.instructions():
            for use in instruction.uses:
                memory = (self.whole.get(use.array, use.array), use.space)
                if instruction.kind == "alloc":
                    current[memory] = instruction.id
                elif memory[0] in self.segments and memory in current:
                    found = needed.setdefault(instruction.id, [])
                    if current[memory] not in found:
                        found.append(current[memory])
        return needed

    def _context(self, number: int) -> str:
        """Return the memory space of an instruction's device, which identifies its SYCL context.

        Event dependencies never cross contexts. The runtime allows them, but submission then blocks for milliseconds,
        and oneAPI 2024.2 crashes when several threads submit such commands.
        """
        return self._contexts[self._place[number][0]]

    def _expand(self, waits: Iterable[int]) -> list[int]:
        """Return waits in which each ``alloc`` or ``free`` is expanded to the instructions that precede it."""
        found: set[int] = set()
        for wait in waits:
            found.add(wait)
            if self._instruction(wait).kind in MEMORY_KINDS:
                found.update(self._predecessors(wait))
        return sorted(i for i in found if self._instruction(i).kind != "free")

    def _predecessors(self, number: int) -> frozenset[int]:
        """Return the instructions ordered before a memory instruction: its waits and its lane predecessor."""
        known = self._predecessors_of.get(number)
        if known is not None:
            return known
        lane, position = self._place[number]
        previous = self._work_before[lane][position]
        found = set() if previous is None else {previous}
        for wait in self._instruction(number).waits:
            found.add(wait)
            if self._instruction(wait).kind in MEMORY_KINDS:
                found.update(self._predecessors(wait))
        self._predecessors_of[number] = frozenset(found)
        return self._predecessors_of[number]


def _work_before(lane: Lane) -> tuple[int | None, ...]:
    """Return, for each instruction of a lane, the last instruction before it that is no allocation or free."""
    found: list[int | None] = []
    previous = None
    for instruction in lane.instructions:
        found.append(previous)
        if instruction.kind not in MEMORY_KINDS:
            previous = instruction.id
    return tuple(found)
