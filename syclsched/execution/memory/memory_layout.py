# SPDX-License-Identifier: Apache-2.0
"""Static memory layout of a plan whose memory is allocated once, for replay. Pure.

No dispatcher controls a replay, so memory is reused only if its previous users are ordered before the new one: by lane
order or an existing wait, or by an additional wait if the planned peak would otherwise be exceeded. Buffers are placed
best-fit in the plan's order. If that needs more than the planned peak, and one lane does all the work, they are packed
by their lifetimes. Small buffers are placed separately, because one of them could otherwise occupy the space of a large
one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from syclsched.devices.memory.memory_pool import padded
from syclsched.execution.core.program import MEMORY_KINDS, Buffer, Program, ProgramNode
from syclsched.execution.memory.lifetime_packing import MOST_BUFFERS, Lifetime, packed
from syclsched.model.plan import Instruction
from syclsched.model.platform import Platform
from syclsched.model.text.units import format_bytes
from syclsched.model.usm import PoolKey, PoolKeys

#: Maximum size of a small buffer in bytes.
SMALL_BYTES: Final = 4096

#: Launches before one whose small buffers it does not reuse, as it may be fused with them, and the bytes that may cost.
_FUSIBLE: Final = 8
_FUSIBLE_BYTES: Final = 16 * SMALL_BYTES

#: Maximum number of free ranges of the exact size to compare.
_MOST_COMPARED: Final = 16

#: A memory pool, and whether it is the part for small buffers.
_Part = tuple[PoolKey, bool]

#: Vector clock: for each lane, the position of an instruction; stands for all instructions up to it.
VectorClock = dict[int, int]


@dataclass(frozen=True, slots=True)
class Placement:
    """Location of one allocation."""

    block: int  # index into `MemoryLayout.blocks`
    offset: int  # in bytes


@dataclass(frozen=True)
class MemoryLayout:
    """Static memory layout of a plan."""

    blocks: tuple[tuple[PoolKey, int], ...]  # memory to allocate: pool and bytes
    places: Mapping[int, Placement]  # by instruction number of the ``alloc``
    #: Additional predecessors of instructions: the previous users of their memory.
    waits: Mapping[int, tuple[int, ...]]
    #: For instructions that use buffers with several allocations: the allocation of each such buffer.
    allocations_used: Mapping[int, tuple[tuple[Buffer, int], ...]]
    #: For instructions that reuse memory of earlier instructions of their lane: the last of these.
    behind: Mapping[int, int]
    nbytes: Mapping[str, int]  # bytes of all blocks, by memory space
    peak_bytes: Mapping[str, int]  # peak bytes of arrays in the plan's order, by memory space

    def why_not(self, platform: Platform) -> str | None:
        """Return why the layout does not fit in memory, or None if it fits; a capacity of 0 means unknown."""
        for space in platform.spaces:
            needed = self.nbytes.get(space.name, 0)
            if 0 < space.capacity_bytes < needed:
                return (
                    f"memory of {space.name!r} must be allocated and freed during a run: allocated beforehand "
                    f"it takes {format_bytes(needed)}, there are {format_bytes(space.capacity_bytes)}"
                )
        return None


def make_layout(program: Program, pinned: Collection[Buffer], alignment_bytes: int) -> MemoryLayout:
    """Compute the static memory layout of a plan."""
    found = _made(program, frozenset(pinned), alignment_bytes, _FUSIBLE_BYTES)
    if found.why_not(program.plan.platform) is None:
        return found
    return _made(program, frozenset(pinned), alignment_bytes, 0)


def _made(program: Program, pinned: frozenset[Buffer], alignment_bytes: int, fusible_bytes: int) -> MemoryLayout:
    builder = _LayoutBuilder(program, pinned, alignment_bytes, fusible_bytes)
    found = builder.run()
    starts = builder.packed_starts()
    return _LayoutBuilder(program, pinned, alignment_bytes, fusible_bytes, starts).run() if starts else found


@dataclass(slots=True)
class _FreeRange:
    """A memory range that is free once all instructions up to a vector clock have completed."""

    start: int
    nbytes: int
    after: VectorClock

    @property
    def end(self) -> int:
        return self.start + self.nbytes


@dataclass(slots=True)
class _FreeRanges:
    """Free ranges of one memory pool, indexed by start, end and size."""

    starts: dict[int, _FreeRange] = field(default_factory=dict)
    ends: dict[int, _FreeRange] = field(default_factory=dict)
    sizes: dict[int, dict[int, _FreeRange]] = field(default_factory=dict)
    top: int = 0

    def put(self, free_range: _FreeRange) -> None:
        if free_range.nbytes:
            self.starts[free_range.start] = self.ends[free_range.end] = free_range
            self.sizes.setdefault(free_range.nbytes, {})[free_range.start] = free_range

    def drop(self, free_range: _FreeRange) -> None:
        del self.starts[free_range.start], self.ends[free_range.end], self.sizes[free_range.nbytes][free_range.start]

    def runs(self, nbytes: int) -> Iterator[tuple[list[_FreeRange], int]]:
        """Yield runs of adjacent free ranges, with the bytes by which memory must grow to make them fit."""
        for first in list(self.starts.values()):
            run, size = [first], first.nbytes
            while size < nbytes and (following := self.starts.get(run[-1].end)) is not None:
                run.append(following)
                size += following.nbytes
            if size >= nbytes:
                yield run, 0
            elif run[-1].end == self.top:
                yield run, nbytes - size


class _LayoutBuilder:
    """Computes the layout by a walk over the plan's instructions; see `make_layout`."""

    def __init__(
        self,
        program: Program,
        pinned: frozenset[Buffer],
        alignment_bytes: int,
        fusible_bytes: int,
        starts: Mapping[int, int] | None = None,  # where to place allocations, by their number
    ) -> None:
        self._fusible_bytes = fusible_bytes
        self._program = program
        self._starts = {} if starts is None else starts
        #: Freed parts of the memory of placed allocations.
        self._freed: dict[_Part, list[_FreeRange]] = {}
        self._pinned = pinned
        self._keys = PoolKeys(program.plan.platform, program.plan.memory)
        self._alignment = alignment_bytes
        self._contexts = [program.plan.platform.device(lane.device).space for lane in program.plan.lanes]
        self._instructions = [instruction for _, instruction in program.plan.instructions()]
        self._spaces: dict[_Part, _FreeRanges] = {}
        self._ranges: dict[int, tuple[_Part, int, int]] = {}
        self._available_after: dict[int, VectorClock] = {}
        self._current: dict[Buffer, int] = {}
        self._allocation_counts = self._count_allocations()
        self._known: list[VectorClock] = [{} for _ in program.lanes]
        #: For each lane, the known completions of all lanes in the same memory space.
        self._known_in_space = [
            [k for k, space in zip(self._known, self._contexts, strict=True) if space == mine]
            for mine in self._contexts
        ]
        self._completed_by: dict[int, VectorClock] = {}
        self._position: dict[int, tuple[int, int]] = {}
        self._work_of_lane: list[list[int]] = [[] for _ in program.lanes]
        self._waits: dict[int, tuple[int, ...]] = {}
        self._behind: dict[int, int] = {}
        self._allocations_used: dict[int, tuple[tuple[Buffer, int], ...]] = {}
        self._peak, self._padded_peak = self._peaks()
        self._reuses_memory = any(i.kind == "free" and not self._is_pinned_free(i) for i in self._instructions)
        self._reallocates = any(times > 1 for times in self._allocation_counts.values())

    def run(self) -> MemoryLayout:
        for instruction in self._instructions:
            if instruction.kind == "alloc":
                self._allocate(instruction)
            elif instruction.kind == "free":
                self._free(instruction)
            elif self._reuses_memory or self._reallocates:
                self._visit(self._program.nodes[instruction.id])
        blocks, places = self._blocks()
        nbytes: dict[str, int] = {}
        for key, size in blocks:
            nbytes[key.space] = nbytes.get(key.space, 0) + size
        return MemoryLayout(
            tuple(blocks), places, self._waits, self._allocations_used, self._behind, nbytes, self._peak
        )

    def packed_starts(self) -> dict[int, int]:
        """Return places for all allocations that need less memory than those found; empty if there are none.

        Only for work on one lane, which is done in the plan's order.
        """
        if sum(map(bool, self._work_of_lane)) != 1:
            return {}
        found: dict[int, int] = {}
        saves = False
        for part, (numbers, buffers) in self._lifetimes().items():
            used, peak = self._spaces[part].top, self._padded_peak[part]
            if used <= peak or (part[1] and self._fusible_bytes) or len(buffers) > MOST_BUFFERS:
                found.update((number, self._ranges[number][1]) for number in numbers)
                continue
            starts, size = packed(buffers, peak)
            saves = saves or size < used
            found.update(
                (number, start if size < used else self._ranges[number][1])
                for number, start in zip(numbers, starts, strict=True)
            )
        return found if saves else {}

    def _lifetimes(self) -> dict[_Part, tuple[list[int], list[Lifetime]]]:
        """Return the allocations of each part with their lifetimes, in the plan's order."""
        begins: dict[int, int] = {}
        ends: dict[int, int] = {}
        current: dict[Buffer, int] = {}
        for place, instruction in enumerate(self._instructions):
            if instruction.kind == "alloc":
                current[self._memory(instruction)] = instruction.id
                begins[instruction.id] = place
            elif instruction.kind == "free" and not self._is_pinned_free(instruction):
                ends[current[self._memory(instruction)]] = place
        found: dict[_Part, tuple[list[int], list[Lifetime]]] = {}
        for number, begin in begins.items():
            part, _, nbytes = self._ranges[number]
            numbers, buffers = found.setdefault(part, ([], []))
            numbers.append(number)
            buffers.append(Lifetime(nbytes, begin, ends.get(number, len(self._instructions))))
        return found

    # --- inside -----------------------------------------------------------------------------------

    def _part(self, instruction: Instruction) -> _Part:
        return self._keys[self._memory(instruction)], instruction.nbytes <= SMALL_BYTES

    def _memory(self, instruction: Instruction) -> Buffer:
        use = instruction.uses[0]
        return self._program.whole.get(use.array, use.array), use.space

    def _count_allocations(self) -> dict[Buffer, int]:
        times: dict[Buffer, int] = {}
        for instruction in self._instructions:
            if instruction.kind == "alloc":
                buffer = self._memory(instruction)
                times[buffer] = times.get(buffer, 0) + 1
        return times

    def _peaks(self) -> tuple[dict[str, int], dict[_Part, int]]:
        """Return the peak bytes of arrays in the plan's order, by memory space; and with padding, by part."""
        held: Counter[str] = Counter()
        peak: dict[str, int] = {}
        wide: Counter[_Part] = Counter()
        wide_peak: dict[_Part, int] = {}
        for instruction in self._instructions:
            if instruction.kind in MEMORY_KINDS and not self._is_pinned_free(instruction):
                space, part = instruction.uses[0].space, self._part(instruction)
                sign = 1 if instruction.kind == "alloc" else -1
                held[space] += sign * instruction.nbytes
                wide[part] += sign * padded(instruction.nbytes, self._alignment)
                peak[space] = max(peak.get(space, 0), held[space])
                wide_peak[part] = max(wide_peak.get(part, 0), wide[part])
        return peak, wide_peak

    def _is_pinned_free(self, instruction: Instruction) -> bool:
        """Return whether an instruction is a free of a pinned buffer, which has no effect."""
        return instruction.kind == "free" and self._memory(instruction) in self._pinned

    def _visit(self, node: ProgramNode) -> None:
        """Visit a work instruction: record the completions that precede it, and its additional waits."""
        known = self._known[node.lane]
        for number in (*node.events, *node.completed_first):
            _join(known, self._completed_by[number])
        further: list[int] = []
        used: dict[Buffer, int] = {}
        for use in node.instruction.uses:
            buffer = (self._program.whole.get(use.array, use.array), use.space)
            allocation = self._current.get(buffer)
            if allocation is None:
                continue  # memory of the user
            if self._allocation_counts[buffer] > 1:
                used[buffer] = allocation
            for lane, place in self._available_after[allocation].items():
                if lane == node.lane:
                    self._behind[node.id] = max(self._work_of_lane[lane][place], self._behind.get(node.id, -1))
                elif known.get(lane, -1) < place:
                    number = self._work_of_lane[lane][place]
                    further.append(number)
                    _join(known, self._completed_by[number])
        if further:
            self._waits[node.id] = tuple(further)
        if used:
            self._allocations_used[node.id] = tuple(used.items())
        self._position[node.id] = node.lane, len(self._work_of_lane[node.lane])
        known[node.lane] = len(self._work_of_lane[node.lane])
        self._work_of_lane[node.lane].append(node.id)
        self._completed_by[node.id] = dict(known)

    def _free(self, instruction: Instruction) -> None:
        if self._is_pinned_free(instruction):
            return
        part, start, nbytes = self._ranges[self._current[self._memory(instruction)]]
        after: VectorClock = {}
        for number in self._program.frees_after(instruction):
            lane, place = self._position[number]
            after[lane] = max(place, after.get(lane, -1))
        if self._starts:
            self._freed.setdefault(part, []).append(_FreeRange(start, nbytes, after))
        else:
            self._spaces[part].put(_FreeRange(start, nbytes, after))

    def _allocate(self, instruction: Instruction) -> None:
        buffer = self._memory(instruction)
        part, nbytes = self._part(instruction), padded(instruction.nbytes, self._alignment)
        if self._starts:
            self._place(instruction, part, nbytes)
            return
        free = self._spaces.setdefault(part, _FreeRanges())
        lane = self._program.nodes[instruction.id].lane
        budget = self._padded_peak.get(part, 0)
        recent = part[1] and free.top + nbytes <= budget + self._fusible_bytes
        run = self._choose_ranges(free, nbytes, lane, budget, len(self._work_of_lane[lane]) - _FUSIBLE * recent)
        after: VectorClock = {}
        start = run[0].start if run else free.top
        for free_range in run:
            free.drop(free_range)
            _join(after, free_range.after)
        left = sum(free_range.nbytes for free_range in run) - nbytes
        if left > 0:
            free.put(_FreeRange(start + nbytes, left, after))
        free.top = max(free.top, start + nbytes)
        self._current[buffer] = instruction.id
        self._ranges[instruction.id] = part, start, nbytes
        self._available_after[instruction.id] = after

    def _place(self, instruction: Instruction, part: _Part, nbytes: int) -> None:
        """Place an allocation at a given position, after the earlier users of that memory."""
        start = self._starts[instruction.id]
        after: VectorClock = {}
        for freed in self._freed.get(part, ()):
            if freed.start < start + nbytes and start < freed.end:
                _join(after, freed.after)
        self._current[self._memory(instruction)] = instruction.id
        self._ranges[instruction.id] = part, start, nbytes
        self._available_after[instruction.id] = after

    def _choose_ranges(self, free: _FreeRanges, nbytes: int, lane: int, budget: int, recent: int) -> list[_FreeRange]:
        """Return adjacent free ranges to use; an empty list for memory not used yet.

        None of them was used by the lane's instructions from ``recent`` on.
        """
        known = self._known[lane]
        fitting: list[_FreeRange] = []
        for free_range in islice(free.sizes.get(nbytes, {}).values(), _MOST_COMPARED):
            if free_range.after.get(lane, -1) >= recent:
                continue
            if _has_passed(free_range.after, known):
                if not all(_has_passed(free_range.after, other) for other in self._known_in_space[lane]):
                    return [free_range]  # another lane of the space would have to wait for it
                fitting.append(free_range)
        if fitting:
            return fitting[:1]
        # Preferred: ranges whose users are already ordered before, with the least growth, then the least size. Then new
        # memory within the budget. Then ranges that need an additional wait.
        best: tuple[int, int, list[_FreeRange]] | None = None
        waited: tuple[int, int, list[_FreeRange]] | None = None
        for run, further in free.runs(nbytes):
            if further and free.top + further > budget:
                continue
            if any(free_range.after.get(lane, -1) >= recent for free_range in run):
                continue
            entry = (further, sum(s.nbytes for s in run), run)
            if all(_has_passed(free_range.after, known) for free_range in run):
                best = entry if best is None or entry[:2] < best[:2] else best
            elif all(self._can_wait(free_range.after, lane) for free_range in run):
                waited = entry if waited is None or entry[:2] < waited[:2] else waited
        if best is not None:
            return best[2]
        if free.top + nbytes <= budget or waited is None:
            return []
        return waited[2]

    def _can_wait(self, after: VectorClock, lane: int) -> bool:
        """Return whether a lane can wait for a vector clock: events cannot cross contexts, except to the host."""
        contexts = {self._contexts[other] for other in (*after, lane) if self._program.plan.lanes[other].kind != "host"}
        return len(contexts) <= 1

    def _blocks(self) -> tuple[list[tuple[PoolKey, int]], dict[int, Placement]]:
        """Return blocks and placements: one block for small buffers, and one per connected range of large ones."""
        blocks: list[tuple[PoolKey, int]] = []
        places: dict[int, Placement] = {}
        begin = end = -1
        part = None
        for number, (where, start, nbytes) in sorted(self._ranges.items(), key=lambda item: _sort_key(item[1])):
            if where != part or (start >= end and not where[1]):
                blocks.append((where[0], 0))
                part, begin, end = where, start, start
            end = max(end, start + nbytes)
            blocks[-1] = (where[0], end - begin)
            places[number] = Placement(len(blocks) - 1, start - begin)
        return blocks, places


def _join(known: VectorClock, other: VectorClock) -> None:
    for lane, place in other.items():
        if known.get(lane, -1) < place:
            known[lane] = place


def _has_passed(moment: VectorClock, known: VectorClock) -> bool:
    return all(known.get(lane, -1) >= place for lane, place in moment.items())


def _sort_key(at: tuple[_Part, int, int]) -> tuple[str, str, str, bool, int, int]:
    (key, small), start, nbytes = at
    return key.space, key.kind, key.context or "", small, start, nbytes
