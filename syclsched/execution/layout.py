# SPDX-License-Identifier: Apache-2.0
"""Where the buffers of a plan lie in memory that is got once, when nobody watches over its runs. Pure.

Nobody watches over such a run, so memory is used again only behind those who used it before: by the order of the
lanes and the waits there are, or by further waits where the plan's peak leaves no other way. Buffers go into the free
stretch that fits best, as in dynamic storage allocation with known lifetimes; small ones lie by themselves, lest one of
them takes the place of a large one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from syclsched.devices.pool import padded
from syclsched.execution.program import MEMORY_KINDS, Buffer, Node, Program
from syclsched.model.plan import Instruction
from syclsched.model.platform import Platform
from syclsched.model.units import format_bytes
from syclsched.model.usm import PoolKey, PoolKeys

#: Buffers of no more bytes than this are small.
SMALL_BYTES: Final = 4096

#: So many free stretches of the right size are compared.
_MOST_COMPARED: Final = 16

#: Which memory, and whether what lies there is small.
_Part = tuple[PoolKey, bool]

#: Per lane, the place of an instruction on it: everything up to there is meant.
Moment = dict[int, int]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the memory of one allocation lies."""

    block: int  # index among `Layout.blocks`
    offset: int  # of its first byte


@dataclass(frozen=True)
class Layout:
    """Memory of a plan."""

    blocks: tuple[tuple[PoolKey, int], ...]  # what is to be got: of which memory, and bytes
    places: Mapping[int, Place]  # by number of the ``alloc``
    #: What instructions must wait for besides, so that nobody else uses the memory any more.
    waits: Mapping[int, tuple[int, ...]]
    #: For instructions that use buffers which are allocated several times: which of the allocations they use.
    several: Mapping[int, tuple[tuple[Buffer, int], ...]]
    behind: Mapping[int, int]  # for instructions whose memory others of their lane used before: the last of these
    nbytes: Mapping[str, int]  # all blocks of a space together
    peak_bytes: Mapping[str, int]  # most bytes of arrays in them at once, in the plan's order

    def why_not(self, platform: Platform) -> str | None:
        """Return why there is no room for it, or None if there is; a capacity of 0 is not known."""
        for space in platform.spaces:
            needed = self.nbytes.get(space.name, 0)
            if 0 < space.capacity_bytes < needed:
                return (
                    f"memory of {space.name!r} must be given out as it comes free during a run: "
                    f"got beforehand it takes {format_bytes(needed)}, there are {format_bytes(space.capacity_bytes)}"
                )
        return None


def lay_out(program: Program, pinned: Collection[Buffer], alignment_bytes: int) -> Layout:
    """Return where the buffers of a plan lie."""
    return _Layouter(program, frozenset(pinned), alignment_bytes).run()


@dataclass(slots=True)
class _Stretch:
    """Memory that is free once everything up to a moment is done."""

    start: int
    nbytes: int
    after: Moment

    @property
    def end(self) -> int:
        return self.start + self.nbytes


@dataclass(slots=True)
class _Space:
    """Free stretches of one memory space, by where they begin, where they end, and their size."""

    starts: dict[int, _Stretch] = field(default_factory=dict)
    ends: dict[int, _Stretch] = field(default_factory=dict)
    sizes: dict[int, dict[int, _Stretch]] = field(default_factory=dict)
    top: int = 0

    def put(self, stretch: _Stretch) -> None:
        if stretch.nbytes:
            self.starts[stretch.start] = self.ends[stretch.end] = stretch
            self.sizes.setdefault(stretch.nbytes, {})[stretch.start] = stretch

    def drop(self, stretch: _Stretch) -> None:
        del self.starts[stretch.start], self.ends[stretch.end], self.sizes[stretch.nbytes][stretch.start]

    def runs(self, nbytes: int) -> Iterator[tuple[list[_Stretch], int]]:
        """Yield neighbours that are large enough together, or would be if memory went on by so many bytes."""
        for first in list(self.starts.values()):
            run, size = [first], first.nbytes
            while size < nbytes and (following := self.starts.get(run[-1].end)) is not None:
                run.append(following)
                size += following.nbytes
            if size >= nbytes:
                yield run, 0
            elif run[-1].end == self.top:
                yield run, nbytes - size


class _Layouter:
    """Walks through a plan in its order; see `lay_out`."""

    def __init__(self, program: Program, pinned: frozenset[Buffer], alignment_bytes: int) -> None:
        self._program = program
        self._pinned = pinned
        self._keys = PoolKeys(program.plan.platform, program.plan.memory)
        self._alignment = alignment_bytes
        self._contexts = [program.plan.platform.device(lane.device).space for lane in program.plan.lanes]
        self._instructions = [instruction for _, instruction in program.plan.instructions()]
        self._spaces: dict[_Part, _Space] = {}
        self._at: dict[int, tuple[_Part, int, int]] = {}
        self._after: dict[int, Moment] = {}
        self._current: dict[Buffer, int] = {}
        self._times = self._count_allocations()
        self._known: list[Moment] = [{} for _ in program.lanes]
        #: By lane, what other lanes know that use the same memory.
        self._near = [
            [k for k, space in zip(self._known, self._contexts, strict=True) if space == mine]
            for mine in self._contexts
        ]
        self._done_by: dict[int, Moment] = {}
        self._position: dict[int, tuple[int, int]] = {}
        self._listed: list[list[int]] = [[] for _ in program.lanes]
        self._waits: dict[int, tuple[int, ...]] = {}
        self._behind: dict[int, int] = {}
        self._several: dict[int, tuple[tuple[Buffer, int], ...]] = {}
        self._peak, self._padded_peak = self._peaks()
        self._reuses = any(i.kind == "free" and not self._stays(i) for i in self._instructions)
        self._repeats = any(times > 1 for times in self._times.values())

    def run(self) -> Layout:
        for instruction in self._instructions:
            if instruction.kind == "alloc":
                self._allocate(instruction)
            elif instruction.kind == "free":
                self._free(instruction)
            elif self._reuses or self._repeats:
                self._pass(self._program.nodes[instruction.id])
        blocks, places = self._blocks()
        nbytes: dict[str, int] = {}
        for key, size in blocks:
            nbytes[key.space] = nbytes.get(key.space, 0) + size
        return Layout(tuple(blocks), places, self._waits, self._several, self._behind, nbytes, self._peak)

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
        """Return the most bytes of arrays at once in the plan's order, by space, and with padding by part."""
        held: Counter[str] = Counter()
        peak: dict[str, int] = {}
        wide: Counter[_Part] = Counter()
        wide_peak: dict[_Part, int] = {}
        for instruction in self._instructions:
            if instruction.kind in MEMORY_KINDS and not self._stays(instruction):
                space, part = instruction.uses[0].space, self._part(instruction)
                sign = 1 if instruction.kind == "alloc" else -1
                held[space] += sign * instruction.nbytes
                wide[part] += sign * padded(instruction.nbytes, self._alignment)
                peak[space] = max(peak.get(space, 0), held[space])
                wide_peak[part] = max(wide_peak.get(part, 0), wide[part])
        return peak, wide_peak

    def _stays(self, instruction: Instruction) -> bool:
        """Return whether it is a free that has no effect."""
        return instruction.kind == "free" and self._memory(instruction) in self._pinned

    def _pass(self, node: Node) -> None:
        """Go past work: note what has been done once it begins, and what it must wait for besides."""
        known = self._known[node.lane]
        for number in (*node.events, *node.completed_first):
            _join(known, self._done_by[number])
        further: list[int] = []
        used: dict[Buffer, int] = {}
        for use in node.instruction.uses:
            buffer = (self._program.whole.get(use.array, use.array), use.space)
            allocation = self._current.get(buffer)
            if allocation is None:
                continue  # the user's own
            if self._times[buffer] > 1:
                used[buffer] = allocation
            for lane, place in self._after[allocation].items():
                if lane == node.lane:
                    self._behind[node.id] = max(self._listed[lane][place], self._behind.get(node.id, -1))
                elif known.get(lane, -1) < place:
                    number = self._listed[lane][place]
                    further.append(number)
                    _join(known, self._done_by[number])
        if further:
            self._waits[node.id] = tuple(further)
        if used:
            self._several[node.id] = tuple(used.items())
        self._position[node.id] = node.lane, len(self._listed[node.lane])
        known[node.lane] = len(self._listed[node.lane])
        self._listed[node.lane].append(node.id)
        self._done_by[node.id] = dict(known)

    def _free(self, instruction: Instruction) -> None:
        if self._stays(instruction):
            return
        part, start, nbytes = self._at[self._current[self._memory(instruction)]]
        after: Moment = {}
        for number in self._program.frees_after(instruction):
            lane, place = self._position[number]
            after[lane] = max(place, after.get(lane, -1))
        self._spaces[part].put(_Stretch(start, nbytes, after))

    def _allocate(self, instruction: Instruction) -> None:
        buffer = self._memory(instruction)
        part, nbytes = self._part(instruction), padded(instruction.nbytes, self._alignment)
        free = self._spaces.setdefault(part, _Space())
        lane = self._program.nodes[instruction.id].lane
        run = self._choose(free, nbytes, lane, self._padded_peak.get(part, 0))
        after: Moment = {}
        start = run[0].start if run else free.top
        for stretch in run:
            free.drop(stretch)
            _join(after, stretch.after)
        left = sum(stretch.nbytes for stretch in run) - nbytes
        if left > 0:
            free.put(_Stretch(start + nbytes, left, after))
        free.top = max(free.top, start + nbytes)
        self._current[buffer] = instruction.id
        self._at[instruction.id] = part, start, nbytes
        self._after[instruction.id] = after

    def _choose(self, free: _Space, nbytes: int, lane: int, budget: int) -> list[_Stretch]:
        """Return free stretches to use, neighbours; none for memory that is not used yet."""
        known = self._known[lane]
        fitting: list[_Stretch] = []
        for stretch in islice(free.sizes.get(nbytes, {}).values(), _MOST_COMPARED):
            if _is_past(stretch.after, known):
                if not all(_is_past(stretch.after, other) for other in self._near[lane]):
                    return [stretch]  # another lane would have to wait for it
                fitting.append(stretch)
        if fitting:
            return fitting[:1]
        # Best: behind what used it before anyhow, least left over. Then new memory; then what must be waited for.
        best: tuple[int, int, list[_Stretch]] | None = None
        waited: tuple[int, int, list[_Stretch]] | None = None
        for run, further in free.runs(nbytes):
            if further and free.top + further > budget:
                continue
            entry = (further, sum(s.nbytes for s in run), run)
            if all(_is_past(stretch.after, known) for stretch in run):
                best = entry if best is None or entry[:2] < best[:2] else best
            elif all(self._can_wait(stretch.after, lane) for stretch in run):
                waited = entry if waited is None or entry[:2] < waited[:2] else waited
        if best is not None:
            return best[2]
        if free.top + nbytes <= budget or waited is None:
            return []
        return waited[2]

    def _can_wait(self, after: Moment, lane: int) -> bool:
        """Return whether a lane can wait for a moment: events are not handed to other contexts, but to the host."""
        contexts = {self._contexts[other] for other in (*after, lane) if self._program.plan.lanes[other].kind != "host"}
        return len(contexts) <= 1

    def _blocks(self) -> tuple[list[tuple[PoolKey, int]], dict[int, Place]]:
        """Return what is to be in one piece: all small buffers, and of the large ones what must be."""
        blocks: list[tuple[PoolKey, int]] = []
        places: dict[int, Place] = {}
        begin = end = -1
        part = None
        for number, (where, start, nbytes) in sorted(self._at.items(), key=lambda item: _place_key(item[1])):
            if where != part or (start >= end and not where[1]):
                blocks.append((where[0], 0))
                part, begin, end = where, start, start
            end = max(end, start + nbytes)
            blocks[-1] = (where[0], end - begin)
            places[number] = Place(len(blocks) - 1, start - begin)
        return blocks, places


def _join(known: Moment, other: Moment) -> None:
    for lane, place in other.items():
        if known.get(lane, -1) < place:
            known[lane] = place


def _is_past(moment: Moment, known: Moment) -> bool:
    return all(known.get(lane, -1) >= place for lane, place in moment.items())


def _place_key(at: tuple[_Part, int, int]) -> tuple[str, str, str, bool, int, int]:
    (key, small), start, nbytes = at
    return key.space, key.kind, key.context or "", small, start, nbytes
