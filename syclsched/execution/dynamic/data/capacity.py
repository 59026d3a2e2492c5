# SPDX-License-Identifier: Apache-2.0
"""Memory use per space, and the choice of blocks to evict. Pure.

Eviction is least recently used, because a dynamic run does not know its future accesses. Blocks without a wanted value
go first, then blocks whose values are also valid elsewhere, then blocks that must be copied to the host first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from syclsched.errors import MemoryLimitError
from syclsched.execution.dynamic.data.coherence import CoherenceDirectory
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph

#: Memory of an array in a space, both by index.
Block = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _EvictionStep:
    """An eviction step: free a block, or first copy its only valid values to host memory."""

    kind: Literal["free", "save"]
    block: Block  # array and space


class Capacity:
    """Memory accounting and eviction of one run."""

    def __init__(
        self,
        nbytes: Sequence[int],
        parts: Sequence[Sequence[int]],
        limits: Sequence[int],
        directory: CoherenceDirectory,
        is_done: Callable[[int, int], bool],
        wanted: Callable[[int], bool],
        pinned: set[Block],
    ) -> None:
        self._nbytes = nbytes
        self._parts = parts
        self._limits = limits
        self._directory = directory
        self._is_done = is_done
        self._wanted = wanted
        self._held = [0] * len(limits)
        self._used: dict[Block, int] = {}
        self._clock = 0
        self.pinned = pinned

    def has(self, block: Block) -> bool:
        """Return whether an array is allocated in a space."""
        return block in self._used

    def touch(self, block: Block) -> None:
        """Record a use of a block, for LRU order."""
        self._clock += 1
        self._used[block] = self._clock

    def take(self, block: Block) -> None:
        """Record the allocation of a block."""
        self._held[block[1]] += self._nbytes[block[0]]
        self.touch(block)

    def pin_user_block(self, block: Block) -> None:
        """Record a block of user memory, which is never evicted and counts towards no limit."""
        self.touch(block)
        self.pinned.add(block)

    def give(self, block: Block) -> None:
        """Record that a block was freed."""
        del self._used[block]
        self._held[block[1]] -= self._nbytes[block[0]]

    def fits(self, block: Block) -> bool:
        """Return whether a block fits under its space's limit now."""
        limit = self._limits[block[1]]
        return not limit or self._held[block[1]] + self._nbytes[block[0]] <= limit

    def is_idle(self, block: Block) -> bool:
        """Return whether all commands that access a block have completed."""
        users = self._directory.users(self._parts[block[0]], block[1])
        return all(self._is_done(lane, place) for lane, place in users.items())

    def eviction_steps(self, block: Block, keep: Collection[Block]) -> list[_EvictionStep]:
        """Return the evictions after which a block will fit; none if only waiting can help, or nothing can."""
        space = block[1]
        missing = self._held[space] + self._nbytes[block[0]] - self._limits[space]
        free: list[Block] = []
        save: list[Block] = []
        pending_bytes = 0
        for other in sorted((b for b in self._used if b[1] == space), key=self._eviction_key):
            if other in keep or other in self.pinned or not self._nbytes[other[0]]:
                continue
            if self.must_save(other):
                save.append(other)
            elif self.is_idle(other):
                free.append(other)
            else:
                pending_bytes += self._nbytes[other[0]]  # freed once its users complete
        steps: list[_EvictionStep] = []
        for other in free:
            if missing <= 0:
                return steps
            steps.append(_EvictionStep("free", other))
            missing -= self._nbytes[other[0]]
        missing -= pending_bytes
        for other in save:
            if missing <= 0:
                return steps
            steps.append(_EvictionStep("save", other))
            missing -= self._nbytes[other[0]]
        return steps

    def must_save(self, block: Block) -> bool:
        """Return whether a block holds the only valid copy of a value that may still be read."""
        return bool(self.to_save(block))

    def to_save(self, block: Block) -> list[int]:
        """Return the pieces of a block that are the only valid copy of a value that may still be read."""
        array, space = block
        return [p for p in self._parts[array] if self._directory.valid[p] == [space] and self._wanted(p)]

    def _eviction_key(self, block: Block) -> tuple[int, int]:
        """Return the eviction priority of a block, lowest first: no wanted value, then least recently used."""
        array, space = block
        current = any(self._directory.is_valid(p, space) and self._wanted(p) for p in self._parts[array])
        return (1 if current else 0, self._used[block])


def limits_beside_constants(
    layout: IndexedGraph, limits: Sequence[int], constant_bytes: Mapping[str, int]
) -> list[int]:
    """Return the memory limits of the spaces less their constants."""
    found = []
    for space, limit in zip(layout.spaces, limits, strict=True):
        taken = constant_bytes.get(space, 0)
        if limit and taken >= limit:
            raise MemoryLimitError(
                f"constants take {taken} bytes, there are {limit}",
                where=f"memory space {space!r}",
                hint="Allow more memory, or leave the device out",
            )
        found.append(limit - taken if limit else 0)
    return found
