# SPDX-License-Identifier: Apache-2.0
"""Admission of allocations at run time: an allocation waits for frees when memory would exceed the planned peak."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from syclsched.devices.native.host_tasks import wait_for
from syclsched.devices.native.sycl_types import SyclEvent
from syclsched.errors import MemoryLimitError
from syclsched.execution.core.events import EventTable
from syclsched.execution.core.program import Buffer, Program, ProgramNode
from syclsched.execution.core.worker import WorkerThread
from syclsched.execution.memory.buffers import BufferTable
from syclsched.execution.memory.preallocation import buffers_to_preallocate
from syclsched.model.plan import Instruction, Plan
from syclsched.simulation.plan_memo import WorkMemo

_ID = attrgetter("id")


class PeakMemoryLimit:
    """Keeps the memory held in each space within the plan's peak, for any order in which lanes reach their allocations.

    An allocation ahead of the plan's global order is allowed only if capacity remains for all earlier pending ones.
    The earliest pending allocation therefore always fits once the frees before it have taken effect: delaying
    allocations cannot deadlock the run.
    """

    def __init__(
        self, allocations: Iterable[Instruction], peak_bytes: Mapping[str, int], prepared: Collection[int] = ()
    ) -> None:
        self._peak_bytes = peak_bytes
        self._prepared = prepared
        self._held_bytes: dict[str, int] = {}
        self._pending: dict[str, dict[int, int]] = {}
        held, waiting = self._held_bytes, self._pending
        for allocation in sorted(allocations, key=_ID):
            space = allocation.uses[0].space
            if space not in waiting:
                waiting[space] = {}
            if allocation.id in prepared:
                held[space] = held.get(space, 0) + allocation.nbytes
            else:
                waiting[space][allocation.id] = allocation.nbytes

    def allows(self, allocation: Instruction) -> bool:
        """Return whether an allocation may be made now."""
        space = allocation.uses[0].space
        limit = self._peak_bytes.get(space)
        if limit is None or allocation.id in self._prepared:
            return True
        needed = self._held_bytes.get(space, 0) + allocation.nbytes
        for number, nbytes in self._pending[space].items():
            if number >= allocation.id:
                break
            needed += nbytes
        return needed <= limit

    def allocated(self, allocation: Instruction) -> None:
        """Note that an allocation has been made."""
        space = allocation.uses[0].space
        self._pending[space].pop(allocation.id, None)
        if allocation.id not in self._prepared:
            self._held_bytes[space] = self._held_bytes.get(space, 0) + allocation.nbytes

    def skipped(self, allocation: Instruction) -> None:
        """Note that an allocation will not be made."""
        self._pending[allocation.uses[0].space].pop(allocation.id, None)

    def freed(self, space: str, nbytes: int) -> None:
        """Note that memory has been freed."""
        self._held_bytes[space] -= nbytes


@dataclass(frozen=True, slots=True)
class DeferredFree:
    """One deferred free."""

    buffer: Buffer
    after: tuple[int, ...]  # instructions that must have completed before


class DeferredFrees:
    """Deferred frees by lane; only the first of each lane is checked, because lanes complete in order."""

    def __init__(self, lane_count: int) -> None:
        self._lanes: list[deque[DeferredFree]] = [deque() for _ in range(lane_count)]

    def add(self, lane: int, free: DeferredFree) -> None:
        """Append a free of a lane."""
        self._lanes[lane].append(free)

    def take(self, completed: Callable[[int], bool]) -> list[DeferredFree]:
        """Remove and return the frees whose predecessors have completed."""
        due: list[DeferredFree] = []
        for lane in self._lanes:
            while lane and all(completed(number) for number in lane[0].after):
                due.append(lane.popleft())
        return due

    def waitable(self, submitted: Callable[[int], bool]) -> DeferredFree | None:
        """Return a free whose predecessors have all been submitted; None if there is none."""
        for lane in self._lanes:
            if lane and all(submitted(number) for number in lane[0].after):
                return lane[0]
        return None

    def __len__(self) -> int:
        return sum(len(lane) for lane in self._lanes)


class MemoryAdmission:
    """Allocations and frees of the dispatcher; used on the dispatcher's thread only."""

    def __init__(
        self,
        program: Program,
        buffers: BufferTable,
        events: EventTable,
        pinned: set[Buffer],
        freed: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        self._program = program
        self._buffers = buffers
        self._events = events
        self._pinned = pinned
        self._freed = freed
        self._wake = wake
        #: Buffers to allocate before the plan starts, by allocation number.
        self.prepared = _prepared_buffers(program.plan)
        self._limit = PeakMemoryLimit(program.allocations, program.plan.peak_bytes, self.prepared)
        self._frees = DeferredFrees(len(program.lanes))
        self._watcher = WorkerThread("syclsched memory")
        self._watching = False

    def skip(self, instruction: Instruction) -> None:
        """Note that an allocation is skipped because the run was cancelled."""
        self._limit.skipped(instruction)

    def allocate(self, instruction: Instruction, *, force: bool) -> bool:
        """Make an allocation; return False if it must wait until memory is freed."""
        use = instruction.uses[0]
        buffer = (use.array, use.space)
        if not force and not self._fits(instruction, buffer):
            self.execute_due_frees()
            if not self._fits(instruction, buffer):
                return False
        self._limit.allocated(instruction)
        try:
            self._buffers.allocate(buffer)
        except MemoryLimitError:
            self._limit.freed(use.space, instruction.nbytes)
            raise
        return True

    def _fits(self, instruction: Instruction, buffer: Buffer) -> bool:
        """Return whether there is memory, and the buffer's memory from before an eviction has been freed."""
        return buffer not in self._buffers and self._limit.allows(instruction)

    def free(self, node: ProgramNode) -> None:
        """Free a buffer once all predecessors of its ``free`` have completed."""
        use = node.instruction.uses[0]
        after = self._program.frees_after(node.instruction)
        self._frees.add(node.lane, DeferredFree((use.array, use.space), after))

    def execute_due_frees(self) -> bool:
        """Execute the frees whose predecessors have completed; return whether there were any."""
        due = self._frees.take(self._events.is_complete)
        for free in due:
            found = self._buffers.get(free.buffer)
            if found is None:
                continue
            self._limit.freed(free.buffer[1], found.array.nbytes)
            if free.buffer not in self._pinned:
                self._buffers.free(free.buffer)
        if due:
            self._freed()
        return bool(due)

    def expect(self) -> bool:
        """Call `wake` when the next free can take effect; return False if none can without further submissions."""
        free = self._frees.waitable(self._events.__contains__)
        if free is None:
            return False
        if not self._watching:
            self._watching = True
            events = [e for number in free.after if (e := self._events.get(number)) is not None]
            self._watcher.post(lambda: self._wait_and_wake(events))
        return True

    def note_wakeup(self) -> None:
        """Note that the dispatcher has received the wake-up."""
        self._watching = False

    def stop(self) -> None:
        """Stop the thread that waits for frees."""
        self._watcher.stop()

    def _wait_and_wake(self, events: list[SyclEvent]) -> None:
        try:
            for event in events:
                wait_for(event)
        finally:
            self._wake()


#: The result of the function below, by plan.
_PREPARED: Final[WorkMemo[Mapping[int, Buffer]]] = WorkMemo()


def _prepared_buffers(plan: Plan) -> Mapping[int, Buffer]:
    """Return the buffers to allocate before a plan starts, by allocation number."""
    found = _PREPARED.get(plan)
    if found is None:
        found = buffers_to_preallocate((i for _, i in plan.instructions()), plan.peak_bytes, plan.memory)
        _PREPARED.keep(plan, found)
    return found
