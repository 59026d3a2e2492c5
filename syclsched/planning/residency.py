# SPDX-License-Identifier: Apache-2.0
"""Which arrays lie in which memory spaces as a plan goes on, and which of them has to go when a space is full.

The one whose next use lies farthest ahead goes (Belady 1966; with a known future that costs the fewest reloads).
A plan knows its future, so no heuristic of recency is needed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn

from syclsched.errors import MemoryLimitError
from syclsched.model.plan import PlannedTask
from syclsched.model.platform import HOST, Device, Platform
from syclsched.model.units import format_exact_bytes
from syclsched.planning.record import GraphRecord
from syclsched.planning.uses import Upcoming

#: An array's copy in one memory space: (array, space).
Buffer = tuple[str, str]

#: An array that could go: minus its next use here, whether it would have to be saved, minus its size, its name.
_Entry = tuple[int, bool, int, str]


class Residency:
    """The blocks of memory there are, and who must make room.

    A block ends when it is dropped, and if the array comes back to the space it gets another. The segments of an array
    have blocks of their own, and come and go together: memory is the whole array's.
    """

    def __init__(
        self,
        graph: GraphRecord,
        platform: Platform,
        upcoming: Upcoming,
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
        #: The memory of blocks: see `Draft`.
        self.memory: list[Buffer] = []
        self.memory_of: list[int] = []
        self._memory: dict[Buffer, int] = {}
        for array in graph.arrays:
            if array.is_input and array.name not in self._pieces:
                self.block(array.name, HOST)
        #: Memory that is the user's: it takes no room, and stays.
        self.foreign = frozenset(range(len(self.memory)))
        self._held_bytes = dict.fromkeys(self._capacity, 0)
        self._spaces: dict[str, set[str]] = {name: set() for name in self._nbytes}
        # What could go, per space; of several entries for one buffer the newest counts.
        self._queues: dict[str, list[_Entry]] = {name: [] for name in self._capacity}
        self._newest: dict[Buffer, _Entry] = {}
        self._in_use: set[Buffer] = set()
        #: Whether a value that is nowhere else but in a space can be given up, for it can be made again.
        self.can_give_up: Callable[[str, str], bool] = _never

    def block(self, array: str, space: str) -> int:
        """Return the block of an array or a segment in a space, a new one if it has none."""
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
        """Begin with a task: what it uses from now on cannot go."""
        self._in_use.clear()
        capacity = self._capacity.get(device.space)
        if capacity is not None and len(device.reaches) == 1:
            needed = sum(self._nbytes[array] for array in self._touched(task))
            if needed > capacity:
                self._refuse(task, device.space, needed)

    def admit(self, array: str, space: str, task: PlannedTask) -> str | None:
        """Give an array room in a space, or name the one that has to go first."""
        whole = self._whole.get(array, array)
        buffer = (whole, space)
        if buffer not in self._memory:
            capacity = self._capacity.get(space)
            if capacity is not None:
                nbytes = self._nbytes[whole]
                if self._held_bytes[space] + nbytes > capacity:
                    victim = self._farthest(space)
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
        """Return whether there is, or can be made, room for an array beside what the task uses."""
        capacity, whole = self._capacity.get(space), self._whole.get(array, array)
        if capacity is None or (whole, space) in self._memory:
            return True
        return self._used_bytes(space) + self._nbytes[whole] <= capacity

    def wanted(self, array: str) -> bool:
        """Return whether the present value of an array or a segment will be read, by a task or after the run."""
        return self._upcoming.needed(array) or (array in self._lasting and self._upcoming.over(array))

    def holds(self, array: str, space: str) -> bool:
        """Return whether there is memory of an array in a space."""
        return (self._whole.get(array, array), space) in self._memory

    def can_save(self, array: str, space: str) -> bool:
        """Return whether the host's memory has, or can make, room for the value of an array that leaves a space."""
        capacity = self._capacity.get(HOST)
        if space == HOST:
            return False  # there is nowhere else to save it to
        if capacity is None or self.holds(array, HOST):
            return True
        room = capacity - self._nbytes[array]
        return self._held_bytes[HOST] <= room or self._used_bytes(HOST) + self._saved_bytes(HOST) <= room

    def drop(self, array: str, space: str) -> None:
        """End the stay of an array in a space; the user's own stays."""
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
        """End with a task: drop what it has made stale or is not needed any more."""
        self.settle(self._touched(task))

    def settle(self, arrays: Iterable[str]) -> None:
        """Drop what is stale or not needed any more of some arrays, and note when the others are needed next."""
        for array in arrays:
            pieces = self._pieces.get(array, (array,))
            dead = all(piece not in self._lasting and self._upcoming.over(piece) for piece in pieces)
            for space in sorted(self._spaces[array]):
                if dead or not any(space in self._valid[piece] for piece in pieces):
                    self.drop(array, space)
                else:
                    self._enqueue(array, space)

    def renew(self, array: str) -> None:
        """Note anew when an array is needed next."""
        for space in self._spaces[self._whole.get(array, array)]:
            self._enqueue(self._whole.get(array, array), space)

    # --- inside -----------------------------------------------------------------------------------

    def _touched(self, task: PlannedTask) -> Iterable[str]:
        """Return the arrays a task touches, wholly or in part."""
        return dict.fromkeys(self._whole.get(access.array, access.array) for access in task.accesses)

    def _enqueue(self, array: str, space: str) -> None:
        if space in self._capacity:
            dirty = self._only_here(array, space)
            next_use = min(self._upcoming.next_in(piece, space) for piece in self._pieces.get(array, (array,)))
            entry = (-next_use, dirty, -self._nbytes[array], array)
            self._newest[array, space] = entry
            heapq.heappush(self._queues[space], entry)

    def _only_here(self, array: str, space: str) -> bool:
        """Return whether the present value of an array, or of one of its segments, is wanted and nowhere else."""
        pieces = self._pieces.get(array, (array,))
        return any(list(self._valid[piece]) == [space] and self.wanted(piece) for piece in pieces)

    def _farthest(self, space: str) -> str | None:
        """Return the array in a space that may go and whose next use there lies farthest ahead."""
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
            if space == HOST and self._only_here(array, space) and not self.can_give_up(array, space):
                continue  # there is nowhere else to save it to
            victim = array
        for entry in stay:
            heapq.heappush(queue, entry)
        return victim

    def _used_bytes(self, space: str) -> int:
        """Return the bytes in a space that cannot go: what the task uses, and statuses."""
        staying = {a for a, where in self._in_use if where == space and self._memory[a, where] not in self.foreign}
        staying.update(array for array in self._statuses if space in self._spaces[array])
        return sum(self._nbytes[array] for array in staying)

    def _saved_bytes(self, space: str) -> int:
        """Return the bytes of values that are nowhere else, in the space to which they are saved."""
        if space != HOST:
            return 0
        saved = [a for a, spaces in self._spaces.items() if HOST in spaces and (a, HOST) not in self._in_use]
        return sum(self._nbytes[a] for a in saved if a not in self._statuses and self._only_here(a, HOST))

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
