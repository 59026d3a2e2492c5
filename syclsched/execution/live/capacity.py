# SPDX-License-Identifier: Apache-2.0
"""Which memory is taken in each space, who leaves when there is no room, and what has to be saved first. Pure.

Least recently used leaves first: what comes next is not known in a run that decides as it goes. Of that, what is of no
use any more goes before what lies elsewhere, too, and that before what must be copied away.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from syclsched.errors import MemoryLimitError
from syclsched.execution.live.coherence import Directory
from syclsched.execution.live.layout import Layout

#: Memory of an array in a space, both by index.
Block = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Step:
    """What makes room: memory to give back, or a value to copy to the host's memory so that it can be."""

    kind: Literal["free", "save"]  # ``free`` or ``save``
    block: Block  # array and space


class Capacity:
    """The memory of one run."""

    def __init__(
        self,
        nbytes: Sequence[int],
        parts: Sequence[Sequence[int]],
        limits: Sequence[int],
        directory: Directory,
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
        """Return whether there is memory for an array in a space."""
        return block in self._used

    def touch(self, block: Block) -> None:
        """Note that a block was used."""
        self._clock += 1
        self._used[block] = self._clock

    def take(self, block: Block) -> None:
        """Note that a block was allocated."""
        self._held[block[1]] += self._nbytes[block[0]]
        self.touch(block)

    def lend(self, block: Block) -> None:
        """Note a block that is the user's own and counts for nothing."""
        self.touch(block)
        self.pinned.add(block)

    def give(self, block: Block) -> None:
        """Note that a block was given back."""
        del self._used[block]
        self._held[block[1]] -= self._nbytes[block[0]]

    def fits(self, block: Block) -> bool:
        """Return whether there is room for a block now."""
        limit = self._limits[block[1]]
        return not limit or self._held[block[1]] + self._nbytes[block[0]] <= limit

    def is_idle(self, block: Block) -> bool:
        """Return whether all that touches a block has completed."""
        users = self._directory.users(self._parts[block[0]], block[1])
        return all(self._is_done(lane, place) for lane, place in users.items())

    def make_room(self, block: Block, keep: Collection[Block]) -> list[Step]:
        """Return what to do so that a block fits, sooner or later; nothing if only waiting can help, or nothing can."""
        space = block[1]
        missing = self._held[space] + self._nbytes[block[0]] - self._limits[space]
        free: list[Block] = []
        save: list[Block] = []
        leaving = 0
        for other in sorted((b for b in self._used if b[1] == space), key=self._worth):
            if other in keep or other in self.pinned or not self._nbytes[other[0]]:
                continue
            if self.must_save(other):
                save.append(other)
            elif self.is_idle(other):
                free.append(other)
            else:
                leaving += self._nbytes[other[0]]  # soon
        steps: list[Step] = []
        for other in free:
            if missing <= 0:
                return steps
            steps.append(Step("free", other))
            missing -= self._nbytes[other[0]]
        missing -= leaving
        for other in save:
            if missing <= 0:
                return steps
            steps.append(Step("save", other))
            missing -= self._nbytes[other[0]]
        return steps

    def must_save(self, block: Block) -> bool:
        """Return whether a block holds a value that is nowhere else and may still be asked for."""
        return bool(self.to_save(block))

    def to_save(self, block: Block) -> list[int]:
        """Return the pieces of a block whose values are nowhere else and may still be asked for."""
        array, space = block
        return [p for p in self._parts[array] if self._directory.valid[p] == [space] and self._wanted(p)]

    def _worth(self, block: Block) -> tuple[int, int]:
        """Return what a block is worth keeping: nothing if no value in it is wanted, else by its last use."""
        array, space = block
        current = any(self._directory.is_valid(p, space) and self._wanted(p) for p in self._parts[array])
        return (1 if current else 0, self._used[block])


def beside_constants(layout: Layout, limits: Sequence[int], constant_bytes: Mapping[str, int]) -> list[int]:
    """Return what constants leave of the spaces' capacities."""
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
