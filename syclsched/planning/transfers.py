# SPDX-License-Identifier: Apache-2.0
"""Where each task finds its arrays, and the copies that bring them there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from syclsched.model.access import AccessMode
from syclsched.model.plan import BufferUse, PlannedTask
from syclsched.model.platform import HOST, Device, Link, Platform
from syclsched.model.schedule import Assignment
from syclsched.planning.record import GraphRecord
from syclsched.planning.residency import Residency
from syclsched.planning.steps import READING, WRITING, Draft, LaneKey, Step
from syclsched.planning.uses import Upcoming


class TransferPass:
    """Turn assignments in global order into steps, with a copy wherever data is needed elsewhere.

    No copy is made between devices that reach the same memory space, and a copy once made is used by every
    later reader until the array is written again. If memory is limited, arrays that would be in the way are evicted:
    see `Residency`.

    Parameters
    ----------
    graph : GraphRecord
        The graph.
    platform : Platform
        Its spaces and links.
    durations_s : Mapping[str, float]
        Predicted seconds of each task where it is assigned.
    limited : bool, optional
        Whether to keep within the capacities of the platform's spaces.
    """

    def __init__(
        self, graph: GraphRecord, platform: Platform, durations_s: Mapping[str, float], *, limited: bool = False
    ) -> None:
        self._graph = graph
        self._platform = platform
        self._durations_s = durations_s
        self._limited = limited
        self._tasks = {t.name: t for t in graph.tasks}
        self._nbytes = {a.name: a.nbytes for a in graph.arrays}
        self._devices = {d.name: d for d in platform.devices}
        self._routes: dict[tuple[str, str], tuple[Link, ...]] = {}
        self._copy_lanes: dict[tuple[str, str, str, int], int] = {}
        self._lanes: dict[LaneKey, int] = {}
        self._uses: dict[tuple[str, str, int], BufferUse] = {}
        self._steps: list[Step] = []
        # Spaces that hold the current value, the one written (or copied to) first coming first.
        self._valid: dict[str, list[str]] = {a.name: [HOST] if a.is_input else [] for a in graph.arrays}

    def run(self, assignments: Sequence[Assignment]) -> Draft:
        """Return the steps.

        Parameters
        ----------
        assignments : sequence of Assignment
            In an order that respects all dependencies.

        Returns
        -------
        Draft
            Copies stand before the task they are made for.

        Raises
        ------
        MemoryLimitError
            If memory is limited and a task does not fit.
        """
        self._upcoming = Upcoming(assignments, self._tasks, self._devices)
        self._memory = Residency(self._graph, self._platform, self._upcoming, self._valid, limited=self._limited)
        for position, assignment in enumerate(assignments):
            self._place(position, assignment)
        return Draft(
            tuple(self._steps),
            tuple(self._lanes),
            tuple(self._memory.blocks),
            self._memory.foreign,
            self._kept(),
        )

    def _kept(self) -> frozenset[int]:
        """Return the blocks with the last values of arrays someone may ask for, one each."""
        written = {a.array for t in self._graph.tasks for a in t.accesses if WRITING[id(a.mode)]}
        return frozenset(
            self._memory.block(a.name, self._valid[a.name][0])
            for a in self._graph.arrays
            if a.name in written and (not a.temporary or a.name in self._graph.statuses)
        )

    # --- one task ---------------------------------------------------------------------------------

    def _place(self, position: int, assignment: Assignment) -> None:
        task, device = self._tasks[assignment.task], self._devices[assignment.device]
        self._upcoming.now = position
        if self._limited:
            self._memory.begin(task, device)
        uses, blocks, written = [], [], []
        for access in task.accesses:
            array, mode = access.array, id(access.mode)
            if READING[mode]:
                space = self._space_to_read(array, device, task, assignment.lane)
            else:
                space = self._space_to_write(array, device)
            blocks.append(self._block(array, space, task, device, assignment.lane))
            uses.append(self._use(array, space, access.mode))
            if WRITING[mode]:
                written.append((array, space))
        self._steps.append(
            Step(
                "barrier" if task.kind == "barrier" else "host" if device.is_host else "launch",
                self._lane(LaneKey(device.name, "host" if device.is_host else "compute", assignment.lane)),
                task.name,
                tuple(uses),
                tuple(blocks),
                assignment.implementation,
                self._durations_s[task.name],
            )
        )
        for array, space in written:
            self._valid[array] = [space]
        if self._limited:
            self._upcoming.now = position + 1
            self._memory.end(task)

    def _space_to_read(self, array: str, device: Device, task: PlannedTask, lane: int) -> str:
        """Return the space in which ``device`` reads an array; copy the value there if it is nowhere in reach."""
        valid = self._valid[array]
        if device.space in valid:
            return device.space
        for space in device.reaches:
            if space in valid:
                return space
        # Room first: what makes it may move this very array.
        self._block(array, device.space, task, device, lane)
        source = valid[0]
        if len(valid) > 1:
            source = min(valid, key=lambda s: self._seconds(s, device.space, array))
        self._copy(array, source, device.space, task, device, lane)
        return device.space

    def _space_to_write(self, array: str, device: Device) -> str:
        """Write where the next reader wants it, if this device reaches that space."""
        if len(device.reaches) > 1:
            for space in self._upcoming.readers(array):
                if space in device.reaches and (not self._limited or self._memory.can_hold(array, space)):
                    return space
        return device.space

    def _block(self, array: str, space: str, task: PlannedTask, device: Device, lane: int) -> int:
        """Return the memory of an array in a space for use by a task; evict others if there is no room for it."""
        if self._limited:
            while (victim := self._memory.admit(array, space, task)) is not None:
                self._evict(victim, space, task, device, lane)
        return self._memory.block(array, space)

    def _evict(self, array: str, space: str, task: PlannedTask, device: Device, lane: int) -> None:
        """Take an array out of a space; save its value to the host's memory if it is the only one and wanted."""
        valid = self._valid[array]
        if valid == [space] and self._memory.wanted(array):
            self._block(array, HOST, task, device, lane)
            self._copy(array, space, HOST, task, device, lane)
        if space in valid:
            valid.remove(space)
        self._memory.drop(array, space)

    # --- copies -----------------------------------------------------------------------------------

    def _route(self, source: str, destination: str) -> tuple[Link, ...]:
        key = (source, destination)
        if key not in self._routes:
            self._routes[key] = self._platform.route(source, destination)
        return self._routes[key]

    def _seconds(self, source: str, destination: str, array: str) -> float:
        return sum(link.seconds(self._nbytes[array]) for link in self._route(source, destination))

    def _copy(self, array: str, source: str, destination: str, task: PlannedTask, device: Device, lane: int) -> None:
        nbytes = self._nbytes[array]
        for link in self._route(source, destination):
            start = self._memory.block(array, link.source)
            end = self._block(array, link.destination, task, device, lane)
            self._steps.append(
                Step(
                    "copy",
                    self._copy_lane(link.source, link.destination, device, lane),
                    task.name,
                    (
                        self._use(array, link.source, AccessMode.READ),
                        self._use(array, link.destination, AccessMode.WRITE),
                    ),
                    (start, end),
                    None,
                    link.seconds(nbytes),
                    nbytes,
                )
            )
            self._valid[array].append(link.destination)

    def _copy_lane(self, source: str, destination: str, consumer: Device, lane: int) -> int:
        """Use the consumer's queue if it lives in the destination, else a device of the source's space.

        Where a separate copy lane is of no use, the copy goes on the very lane that needs it: nothing has to wait.
        """
        key = (source, destination, consumer.name, lane)
        if key not in self._copy_lanes:
            owner = consumer
            if consumer.is_host or consumer.space != destination:
                here = [d for d in self._platform.compute_devices if d.space == destination]
                there = [d for d in self._platform.compute_devices if d.space == source]
                near = here or there
                owner = consumer if consumer in near else near[0]
            kind = LaneKey(owner.name, "copy")
            if not owner.copy_lane:
                kind = LaneKey(owner.name, "compute", lane if owner is consumer else 0)
            self._copy_lanes[key] = self._lane(kind)
        return self._copy_lanes[key]

    # --- shared parts -----------------------------------------------------------------------------

    def _lane(self, key: LaneKey) -> int:
        return self._lanes.setdefault(key, len(self._lanes))

    def _use(self, array: str, space: str, mode: AccessMode) -> BufferUse:
        key = (array, space, id(mode))  # an enum member is slow to hash
        use = self._uses.get(key)
        if use is None:
            use = self._uses[key] = BufferUse(array, space, mode)
        return use
