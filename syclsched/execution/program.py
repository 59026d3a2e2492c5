# SPDX-License-Identifier: Apache-2.0
"""A plan as the dispatcher walks it: what each instruction needs before it may go, worked out once. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

from syclsched.model.plan import Instruction, Lane, Plan, PlannedArray, PlannedTask
from syclsched.model.platform import HOST

#: An array's copy in one memory space: (array, space).
Buffer = tuple[str, str]
MEMORY_KINDS = ("alloc", "free")
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Node:
    """One instruction with what must have happened before it is handed on."""

    instruction: Instruction  # from the plan
    lane: int  # index of its lane
    on_host: bool  # whether it is done by a host lane's thread, and so complete only when that says so
    submitted_first: tuple[int, ...] = ()  # instructions that must have been submitted
    #: Instructions that the host must know to have completed: host functions, and work of another SYCL context.
    completed_first: tuple[int, ...] = ()
    events: tuple[int, ...] = ()  # device instructions whose events it is given to wait for

    @property
    def id(self) -> int:
        """`Instruction.id`."""
        return self.instruction.id


class Program:
    """A verified plan with its waits sorted by how they are waited for."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tasks: Mapping[str, PlannedTask] = {t.name: t for t in plan.tasks}
        #: The array each segment is of, and the segments of each array that has some.
        self.whole: Mapping[str, str] = {a.name: a.rows.array for a in plan.arrays if a.rows is not None}
        self.segments: dict[str, list[PlannedArray]] = {}
        for array in plan.arrays:
            if array.rows is not None:
                self.segments.setdefault(array.rows.array, []).append(array)
        self._place: dict[int, tuple[int, int]] = {
            i.id: (n, p) for n, lane in enumerate(plan.lanes) for p, i in enumerate(lane.instructions)
        }
        self._orders: dict[int, frozenset[int]] = {}
        self._work_before: tuple[tuple[int | None, ...], ...] = tuple(_work_before(lane) for lane in plan.lanes)
        self._memory_first = self._allocations() if self.segments else {}
        self.lanes: tuple[tuple[Node, ...], ...] = tuple(
            tuple(self._node(n, lane, i) for i in lane.instructions) for n, lane in enumerate(plan.lanes)
        )
        self.nodes: dict[int, Node] = {node.id: node for lane in self.lanes for node in lane}
        #: What instructions wait for besides what the plan says; see `waiting_also`.
        self.further: Mapping[int, tuple[int, ...]] = {}

    @property
    def slots(self) -> int:
        """One more than the largest instruction number."""
        return max(self.nodes, default=-1) + 1

    def waiting_also(self, further: Mapping[int, tuple[int, ...]]) -> Program:
        """Return the same program in which instructions wait for some others besides."""
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

    def is_host_work(self, number: int) -> bool:
        """Return whether an instruction is done by a host lane's thread."""
        lane, _ = self._place[number]
        return self.plan.lanes[lane].kind == "host" and self._instruction(number).kind not in MEMORY_KINDS

    def frees_after(self, free: Instruction) -> tuple[int, ...]:
        """Return the instructions that must have completed before a ``free`` takes effect."""
        return tuple(sorted(i for i in self._ordered_by(free.id) if self._instruction(i).kind not in MEMORY_KINDS))

    @cached_property
    def waited_for(self) -> frozenset[int]:
        """Device instructions whose events some other lane waits for."""
        return self.signals.union(*(node.events for node in self.nodes.values()))

    @cached_property
    def last_of_lanes(self) -> tuple[int, ...]:
        """The last instruction of each lane that is not about memory."""
        work = [[node.id for node in lane if node.instruction.kind not in MEMORY_KINDS] for lane in self.lanes]
        return tuple(numbers[-1] for numbers in work if numbers)

    @cached_property
    def signals(self) -> frozenset[int]:
        """Device instructions whose completion the host must be told of, because another context waits for them."""
        awaited = {number for node in self.nodes.values() for number in node.completed_first}
        return frozenset(number for number in awaited if not self.is_host_work(number))

    @cached_property
    def final_buffers(self) -> dict[str, tuple[Buffer, int | None]]:
        """Per array the buffer that holds its last value when all is done, and the instruction that writes it.

        An array that is never written has its input for a last value. Arrays whose last value is freed are left out. An
        array that has segments is left out, too: each of them has a last value of its own.
        """
        inputs = [a.name for a in self.plan.arrays if a.is_input and a.name not in self.segments]
        residents = self.plan.residents
        version: dict[Buffer, object] = {(name, residents.get(name, HOST)): None for name in inputs}
        writer: dict[Buffer, int | None] = dict.fromkeys(version)
        newest: dict[str, object] = dict.fromkeys(inputs)
        # By the order of the tasks, not of the instructions: writers of different buffers need not wait for each other.
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
                        # Told apart by their tasks: what a task does again is the same value.
                        version[buffer], writer[buffer] = instruction.task, instruction.id
                        if last_writer.get(use.array) == instruction.task:
                            newest[use.array] = instruction.task
        found: dict[str, tuple[Buffer, int | None]] = {}
        # Of several copies of the last value the earliest is the one to wait for.
        for buffer in sorted(version, key=lambda b: -1 if (by := writer[b]) is None else by):
            if version[buffer] == newest.get(buffer[0], _NOTHING) and buffer[0] not in found:
                found[buffer[0]] = (buffer, writer[buffer])
        return found

    @cached_property
    def written_inputs(self) -> frozenset[str]:
        """Input arrays that some instruction writes in the host's memory, where the user's own data lies."""
        inputs = {a.name for a in self.plan.arrays if a.is_input}
        return frozenset(
            self.whole.get(use.array, use.array)
            for node in self.nodes.values()
            if node.instruction.kind not in MEMORY_KINDS
            for use in node.instruction.uses
            if use.mode.writes and use.space == HOST and use.array in inputs
        )

    def ancestors(self, task: str) -> frozenset[str]:
        """Return a task and the tasks whose values it depends on, directly or not."""
        last_writer: dict[str, str] = {}
        sources: dict[str, set[str]] = {}
        for planned in self.plan.tasks:
            sources[planned.name] = {
                last_writer[a.array] for a in planned.accesses if a.mode.reads and a.array in last_writer
            }
            last_writer.update((a.array, planned.name) for a in planned.accesses if a.mode.writes)
        found: set[str] = set()
        todo = [task]
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo.extend(sources.get(name, ()))
        return frozenset(found)

    # --- inside -----------------------------------------------------------------------------------

    def _instruction(self, number: int) -> Instruction:
        lane, position = self._place[number]
        return self.plan.lanes[lane].instructions[position]

    def _node(self, lane_index: int, lane: Lane, instruction: Instruction) -> Node:
        on_host = lane.kind == "host" and instruction.kind not in MEMORY_KINDS
        if instruction.kind in MEMORY_KINDS:
            # Host work that holds nothing up; a free's waits are looked at when it may take effect. Memory that comes
            # back after an eviction comes after the free of what it had before.
            frees = () if instruction.kind == "free" else instruction.waits
            earlier = tuple(w for w in frees if self._instruction(w).kind == "free")
            return Node(instruction, lane_index, on_host, submitted_first=earlier)
        targets = self._expand(instruction.waits)
        host = {i for i in targets if self.is_host_work(i)}
        device = [i for i in targets if i not in host and self._instruction(i).kind not in MEMORY_KINDS]
        remote = set() if on_host else {i for i in device if self._context(i) != self._context(instruction.id)}
        return Node(
            instruction,
            lane_index,
            on_host,
            submitted_first=(
                *self._memory_first.get(instruction.id, ()),
                *(i for i in targets if i not in host and i not in remote),
            ),
            completed_first=tuple(i for i in targets if i in host or i in remote),
            events=tuple(i for i in device if i not in remote),
        )

    def _allocations(self) -> dict[int, list[int]]:
        """Return the allocations each instruction needs for what it touches of arrays with segments.

        These lie in one memory, which whoever comes first gets; no wait says so to the others.
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
        """Return what stands for the SYCL context of a device instruction: the memory space of its device.

        Events are not handed from one context to another. The runtime allows it, but then takes another road, on which
        submission blocks for milliseconds and oneAPI 2024.2 crashes when several threads are on it.
        """
        return self.plan.platform.device(self.plan.lanes[self._place[number][0]].device).space

    def _expand(self, waits: Iterable[int]) -> list[int]:
        """Return waits with those for ``alloc`` and ``free`` replaced by what these stand for."""
        found: set[int] = set()
        for wait in waits:
            found.add(wait)
            if self._instruction(wait).kind in MEMORY_KINDS:
                found.update(self._ordered_by(wait))
        return sorted(i for i in found if self._instruction(i).kind != "free")

    def _ordered_by(self, number: int) -> frozenset[int]:
        """Return the instructions that are done once a memory instruction is: its waits, and the one before it."""
        known = self._orders.get(number)
        if known is not None:
            return known
        lane, position = self._place[number]
        previous = self._work_before[lane][position]
        found = set() if previous is None else {previous}
        for wait in self._instruction(number).waits:
            found.add(wait)
            if self._instruction(wait).kind in MEMORY_KINDS:
                found.update(self._ordered_by(wait))
        self._orders[number] = frozenset(found)
        return self._orders[number]


def _work_before(lane: Lane) -> tuple[int | None, ...]:
    """Return for each instruction of a lane the last one before it that is not about memory."""
    found: list[int | None] = []
    previous = None
    for instruction in lane.instructions:
        found.append(previous)
        if instruction.kind not in MEMORY_KINDS:
            previous = instruction.id
    return tuple(found)
