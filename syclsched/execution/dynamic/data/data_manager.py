# SPDX-License-Identifier: Apache-2.0
"""Data management before task submission: memory for the arrays of a task, and copies of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from syclsched.errors import MemoryLimitError
from syclsched.execution.dynamic.data.capacity import Block, Capacity
from syclsched.execution.dynamic.data.coherence import CoherenceDirectory, Stamp
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph, PieceAccess


class MemoryOps(Protocol):
    """Memory and copy operations that the `DataManager` requests."""

    def needs_host_sync(self, stamp: Stamp, lane: int) -> bool:
        """Return whether a lane cannot wait for a command by itself, so that the host must see it complete first."""

    def allocate(self, block: Block, lane: int) -> None:
        """Allocate memory; raise `MemoryLimitError` if the runtime has none."""

    def free(self, block: Block) -> None:
        """Free memory."""

    def copy(self, pieces: Sequence[int], source: int, destination: int, lane: int, before: set[Stamp]) -> bool:
        """Submit a copy to a lane, ordered after other commands; return False if that is not possible yet."""

    def idle(self) -> bool:
        """Return whether nothing is in flight, so that waiting cannot free any memory."""


@dataclass(frozen=True, slots=True)
class ResidentInputs:
    """The inputs of a task that can be submitted."""

    spaces: tuple[int, ...]  # memory space of each access
    before: set[Stamp]  # dependencies of the task


class DataManager:
    """Makes the data of tasks resident where they are to run."""

    def __init__(
        self, layout: IndexedGraph, directory: CoherenceDirectory, capacity: Capacity, memory_ops: MemoryOps
    ) -> None:
        self._layout = layout
        self._directory = directory
        self._capacity = capacity
        self._memory_ops = memory_ops
        self._nbytes = [piece.nbytes for piece in layout.pieces]
        #: Whether the last task that could not be submitted lacks memory, not merely an unfinished dependency.
        self.lacks_memory = False

    def make_resident(self, task: int, processor: int, before: Sequence[Stamp]) -> ResidentInputs | None:
        """Allocate and copy a task's inputs and outputs on a processor; return None if that cannot be finished yet."""
        self.lacks_memory = False
        memory_ops, directory, layout = self._memory_ops, self._directory, self._layout
        if any(memory_ops.needs_host_sync(stamp, processor) for stamp in before):
            return None
        touches = layout.touches[task]
        spaces = self._choose_spaces(task, layout.lanes[processor].number)
        stamps = set(before)
        for touch, space in zip(touches, spaces, strict=True):
            stamps |= self._dependencies(touch, space)
        if any(memory_ops.needs_host_sync(stamp, processor) for stamp in stamps):
            return None
        if not self._allocate_all(task, processor, spaces):
            return None
        for touch, space in zip(touches, spaces, strict=True):
            if not touch.reads or directory.is_valid(touch.piece, space):
                continue
            if not self._move([touch.piece], space, processor):
                return None
            copied = self._dependencies(touch, space)
            if any(memory_ops.needs_host_sync(stamp, processor) for stamp in copied):
                return None
            stamps |= copied
        return ResidentInputs(spaces, stamps)

    def _dependencies(self, touch: PieceAccess, space: int) -> set[Stamp]:
        """Return the commands that must complete before an access in a space."""
        directory = self._directory
        found = set(directory.write_dependencies(touch.piece, space)) if touch.writes else set()
        if touch.reads and directory.is_valid(touch.piece, space):
            writer = directory.read_dependency(touch.piece, space)
            if writer is not None:
                found.add(writer)
        return found

    def _choose_spaces(self, task: int, device: int) -> tuple[int, ...]:
        """Return the space of each access of a task: per array the reachable space with the fewest bytes to copy."""
        layout, directory = self._layout, self._directory
        reach = layout.reaches[device]
        if len(reach) == 1:
            return reach * len(layout.touches[task])
        chosen: dict[int, int] = {}
        read: dict[int, list[int]] = {}
        for touch in layout.touches[task]:
            read.setdefault(layout.array_of[touch.piece], []).extend([touch.piece] if touch.reads else [])
        for array, pieces in read.items():
            missing = [sum(self._nbytes[p] or 1 for p in pieces if not directory.is_valid(p, s)) for s in reach]
            chosen[array] = reach[missing.index(min(missing))]
        return tuple([chosen[layout.array_of[touch.piece]] for touch in layout.touches[task]])

    # --- memory -----------------------------------------------------------------------------------

    def _allocate_all(self, task: int, processor: int, spaces: Sequence[int]) -> bool:
        """Allocate memory for all arrays of a task; return False if there is not enough yet."""
        layout, capacity = self._layout, self._capacity
        blocks = [(layout.array_of[t.piece], s) for t, s in zip(layout.touches[task], spaces, strict=True)]
        for block in blocks:
            if not capacity.has(block) and not self._allocate(block, processor, blocks):
                return False
            capacity.touch(block)
        return True

    def _allocate(self, block: Block, processor: int, keep: Sequence[Block]) -> bool:
        """Allocate a block, after evicting other blocks if needed."""
        capacity = self._capacity
        if not capacity.fits(block):
            evicted = False
            for step in capacity.eviction_steps(block, keep):
                if step.kind == "free":
                    self._memory_ops.free(step.block)
                    evicted = True
                else:
                    evicted |= self._save(step.block, processor)
            if not capacity.fits(block):
                self.lacks_memory = True
                if not evicted and self._memory_ops.idle():
                    raise self._memory_error(block)
                return False
        self._memory_ops.allocate(block, processor)
        return True

    def _save(self, block: Block, processor: int) -> bool:
        """Copy the only valid copies in a block to host memory; return whether any copy was submitted."""
        array, space = block
        if not self._capacity.has((array, self._layout.host_space)):
            self._memory_ops.allocate((array, self._layout.host_space), processor)
        submitted = False
        for piece in self._capacity.to_save(block):
            submitted |= self._copy([piece], space, self._layout.host_space, processor)
        return submitted

    def _memory_error(self, block: Block) -> MemoryLimitError:
        array, space = self._layout.arrays[block[0]], self._layout.spaces[block[1]]
        return MemoryLimitError(
            f"{array.nbytes} bytes for array {array.name!r} do not fit beside the other arrays of the task",
            where=f"memory space {space!r}",
            hint="Allow more memory, or use smaller arrays",
        )

    # --- copies -----------------------------------------------------------------------------------

    def _move(self, pieces: Sequence[int], destination: int, processor: int) -> bool:
        """Copy pieces to a space, through host memory if needed; return False if a dependency must complete first."""
        layout, directory = self._layout, self._directory
        valid = directory.valid[pieces[0]]
        direct = [s for s in valid if layout.link_s(s, destination) is not None]
        if direct:
            source = min(direct, key=lambda s: layout.link_s(s, destination) or 0.0)
            return self._copy(pieces, source, destination, processor)
        host = layout.host_space
        if host in valid:
            return self._copy(pieces, host, destination, processor)
        block = (layout.array_of[pieces[0]], host)
        if not self._capacity.has(block):
            self._memory_ops.allocate(block, processor)
        if not self._copy(pieces, valid[0], host, processor):
            return False
        return self._copy(pieces, host, destination, processor)

    def _copy(self, pieces: Sequence[int], source: int, destination: int, processor: int) -> bool:
        """Submit a copy; return False if a dependency must complete first."""
        directory, lane = self._directory, self._layout.lane_of_copy(source, destination, processor)
        before: set[Stamp] = set()
        for piece in pieces:
            writer = directory.read_dependency(piece, source)
            if writer is not None:
                before.add(writer)
            before.update(directory.write_dependencies(piece, destination))
        if any(self._memory_ops.needs_host_sync(stamp, lane) for stamp in before):
            return False
        return self._memory_ops.copy(pieces, source, destination, lane, before)
