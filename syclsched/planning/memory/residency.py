# SPDX-License-Identifier: Apache-2.0
"""Residency of arrays in memory spaces while a plan is built, and the choice of arrays to evict.

The array whose next use is farthest ahead is evicted (Belady 1966: with a known future, this needs the fewest reloads).
A plan knows its future, so no heuristic such as least recently used is needed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn

from syclsched.errors import MemoryLimitError
from syclsched.model.plan import PlannedTask
from syclsched.model.platform import HOST, Device, Platform
from syclsched.model.text.units import format_exact_bytes
from syclsched.planning.future_accesses import FutureAccesses
from syclsched.planning.graph_record import GraphRecord

#: An array's copy in one memory space: (array, space).
Buffer = tuple[str, str]

#: An eviction candidate: minus its next use, whether it must be saved first, minus its size, its name.
_Entry = tuple[int, bool, int, str]


class Residency:
    """The blocks of memory in each space, and the eviction policy.

    A block ends when it is freed; if the array returns to the space, it gets a new one. The segments of an array have
    their own blocks but share the whole array's memory, so they are allocated and freed together.
    """

    def __init__(
        self,
        graph: GraphRecord,
        platform: Platform,
        upcoming: FutureAccesses,
        valid: Mapping[str, Sequence[str]],
    ) -> None:
        self._nbytes = {a.name: a.nbytes for a in graph.arrays}
        self._upcoming = upcoming
        self._valid = valid
        self._capacity = {s.name: s.capacity_bytes for s in platform.spaces if s.capacity_bytes}
        self._pieces, self._whole = graph.pieces, graph.whole()
        self._statuses = {self._whole.get(name, name) for name in graph.statuses}
        self._lasting = graph.statuses | {a.name for a in graph.arrays if not a.temporary}
        self.blocks: list[Buffer] = []
        self._block: dict[Buffer, int] = {}
        #: The memories of the blocks: see `Draft`.
        self.memory: list[Buffer] = []
        self.memory_of: list[int] = []
        self._memory: dict[Buffer, int] = {}
        for array in graph.arrays:
            if array.is_input and array.name not in self._pieces:
                self.block(array.name, HOST)
        #: The user's own memory, which counts towards no capacity and is never freed.
        self.foreign = frozenset(range(len(self.memory)))
        self._held_bytes = dict.fromkeys(self._capacity, 0)
        self._spaces: dict[str, set[str]] = {name: set() for name in self._nbytes}
        # Eviction candidates per space, as heaps; of several entries for one buffer only the newest is valid.
        self._queues: dict[str, list[_Entry]] = {name: [] for name in self._capacity}
        self._newest: dict[Buffer, _Entry] = {}
        self._in_use: set[Buffer] = set()
        #: Whether the only copy of a value, in this space, can be dropped because it can be recomputed.
        self.can_recompute: Callable[[str, str], bool] = _never

    def block(self, array: str, space: str) -> int:
        """Return the block of an array or a segment in a space; create it if needed."""
        buffer = (array, space)
        found = self._block.get(buffer)
        if found is None:
            found = self._block[buffer] = len(self.blocks)
            self.blocks.append(buffer)
            if array in self._whole:
                buffer = (self._whole[array], space)
            memory = self._memory.get(buffer)
            if memory is None:
                memory = self._memory[buffer] = len(self.memory)
                self.memory.append(buffer)
            self.memory_of.append(memory)
        return found

    # --- one task ---------------------------------------------------------------------------------

    def begin(self, task: PlannedTask, device: Device) -> None:
        """Begin a task: the arrays it uses from now on cannot be evicted."""
        self._in_use.clear()
        capacity = self._capacity.get(device.space)
        if capacity is not None and len(device.reaches) == 1:
            needed = sum(self._nbytes[array] for array in self._touched(task))
            if needed > capacity:
                self._refuse(task, device.space, needed)

    def admit(self, array: str, space: str, task: PlannedTask) -> str | None:
        """Allocate an array in a space, or return the array that must be evicted first."""
        whole = self._whole.get(array, array)
        buffer = (whole, space)
        if buffer not in self._memory:
            capacity = self._capacity.get(space)
            if capacity is not None:
                nbytes = self._nbytes[whole]
                if self._held_bytes[space] + nbytes > capacity:
                    victim = self._choose_victim(space)
                    if victim is None:
                        self._refuse(task, space, self._used_bytes(space) + self._saved_bytes(space) + nbytes)
                    return victim
                self._held_bytes[space] += nbytes
            self.block(array, space)
            self._spaces[whole].add(space)
            self._enqueue(whole, space)
        self._in_use.add(buffer)
        return None

    def can_hold(self, array: str, space: str) -> bool:
        """Return whether an array fits into a space beside the arrays the task uses, after evictions."""
        capacity, whole = self._capacity.get(space), self._whole.get(array, array)
        if capacity is None or (whole, space) in self._memory:
            return True
        return self._used_bytes(space) + self._nbytes[whole] <= capacity

    def wanted(self, array: str) -> bool:
        """Return whether the current value of an array or a segment will be read, by a task or after the run."""
        return self._upcoming.will_be_read(array) or (array in self._lasting and self._upcoming.over(array))

    def holds(self, array: str, space: str) -> bool:
        """Return whether an array has memory in a space."""
        return (self._whole.get(array, array), space) in self._memory

    def can_save(self, array: str, space: str) -> bool:
        """Return whether an array evicted from a space can be saved to the host's memory."""
        capacity = self._capacity.get(HOST)
        if space == HOST:
            return False  # there is no other space to save it to
        if capacity is None or self.holds(array, HOST):
            return True
        room = capacity - self._nbytes[array]
        return self._held_bytes[HOST] <= room or self._used_bytes(HOST) + self._saved_bytes(HOST) <= room

    def drop(self, array: str, space: str) -> None:
        """Free an array's memory in a space, unless it is the user's own."""
        if self._memory[array, space] in self.foreign:
            return
        del self._memory[array, space]
        for piece in self._pieces.get(array, (array,)):
            self._block.pop((piece, space), None)
        self._newest.pop((array, space), None)
        self._spaces[array].discard(space)
        if space in self._capacity:
            self._held_bytes[space] -= self._nbytes[array]

    def end(self, task: PlannedTask) -> None:
        """End a task: free the memory that is stale or no longer needed."""
        self.settle(self._touched(task))

    def settle(self, arrays: Iterable[str]) -> None:
        """Free stale and dead memory of some arrays, and update the next use of the rest."""
        for array in arrays:
            pieces = self._pieces.get(array, (array,))
            dead = all(piece not in self._lasting and self._upcoming.over(piece) for piece in pieces)
            for space in sorted(self._spaces[array]):
                if dead or not any(space in self._valid[piece] for piece in pieces):
                    self.drop(array, space)
                else:
                    self._enqueue(array, space)

    def renew(self, array: str) -> None:
        """Update an array's next use."""
        for space in self._spaces[self._whole.get(array, array)]:
            self._enqueue(self._whole.get(array, array), space)

    # --- inside -----------------------------------------------------------------------------------

    def _touched(self, task: PlannedTask) -> Iterable[str]:
        """Return the arrays a task touches, wholly or in part."""
        return dict.fromkeys(self._whole.get(access.array, access.array) for access in task.accesses)

    def _enqueue(self, array: str, space: str) -> None:
        if space in self._capacity:
            dirty = self._is_only_copy(array, space)
            next_use = min(self._upcoming.next_read_in(piece, space) for piece in self._pieces.get(array, (array,)))
            entry = (-next_use, dirty, -self._nbytes[array], array)
            self._newest[array, space] = entry
            heapq.heappush(self._queues[space], entry)

    def _is_only_copy(self, array: str, space: str) -> bool:
        """Return whether a space has the only copy of a live value of an array or of one of its segments."""
        pieces = self._pieces.get(array, (array,))
        return any(list(self._valid[piece]) == [space] and self.wanted(piece) for piece in pieces)

    def _choose_victim(self, space: str) -> str | None:
        """Return the evictable array of a space whose next use is farthest ahead; None if there is none."""
        queue, stay = self._queues[space], []
        victim = None
        while queue and victim is None:
            entry = heapq.heappop(queue)
            array = entry[-1]
            if self._newest.get((array, space)) != entry:
                continue
            stay.append(entry)
            if (array, space) in self._in_use or array in self._statuses:
                continue
            if space == HOST and self._is_only_copy(array, space) and not self.can_recompute(array, space):
                continue  # there is no other space to save it to
            victim = array
        for entry in stay:
            heapq.heappush(queue, entry)
        return victim

    def _used_bytes(self, space: str) -> int:
        """Return the bytes in a space that cannot be evicted: the task's arrays, and statuses."""
        staying = {a for a, where in self._in_use if where == space and self._memory[a, where] not in self.foreign}
        staying.update(array for array in self._statuses if space in self._spaces[array])
        return sum(self._nbytes[array] for array in staying)

    def _saved_bytes(self, space: str) -> int:
        """Return the bytes in the host's memory of values that exist nowhere else."""
        if space != HOST:
            return 0
        saved = [a for a, spaces in self._spaces.items() if HOST in spaces and (a, HOST) not in self._in_use]
        return sum(self._nbytes[a] for a in saved if a not in self._statuses and self._is_only_copy(a, HOST))

    def _refuse(self, task: PlannedTask, space: str, needed: int) -> NoReturn:
        capacity = self._capacity[space]
        raise MemoryLimitError(
            f"when task {task.name!r} runs, at least {format_exact_bytes(needed)} are needed at once, "
            f"there are {format_exact_bytes(capacity)}",
            where=f"memory space {space!r}",
            hint="Use smaller arrays (tiles, batches), raise a limit that was set, or add a device with more memory",
        )


def _never(array: str, space: str) -> bool:
    return False
