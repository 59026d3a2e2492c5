# SPDX-License-Identifier: Apache-2.0
"""Copies and evictions that bring each task its arrays within limited memory.

`syclsched.planning.transfers.transfers` is the simpler pass for plans that fit into memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from syclsched.model.access import MODE_CODE, AccessMode
from syclsched.model.plan import LaneKind, PlannedAccess, PlannedTask
from syclsched.model.platform import HOST, Device, Link, Platform
from syclsched.model.schedule import Assignment
from syclsched.planning.draft import (
    BARRIER,
    COPY,
    HOST_CALL,
    LAUNCH,
    READING,
    WRITING,
    BufferColumns,
    LaneKey,
    PlanDraft,
    Steps,
    ragged,
)
from syclsched.planning.future_accesses import FutureAccesses
from syclsched.planning.graph_record import GraphRecord
from syclsched.planning.memory.rematerialisation import Producer, Rematerialiser
from syclsched.planning.memory.residency import Buffer, Residency
from syclsched.planning.transfers.copy_lanes import copy_owners

#: Access modes of a copy: its source, its destination.
_COPIES = bytes([MODE_CODE[id(AccessMode.READ)], MODE_CODE[id(AccessMode.WRITE)]])


class _Step(NamedTuple):
    """One row of `CounterValues`, with its task by name."""

    kind: int
    lane: int
    task: str
    modes: bytes
    blocks: tuple[int, ...]
    duration_s: float
    nbytes: int = 0
    again: int = 0
    way: int = -1


class EvictingPass:
    """Turns assignments in global order into steps that fit into the platform's memory spaces.

    Copies follow the rules of `syclsched.planning.transfers.transfers`. `Residency` chooses which arrays are evicted.
    """

    def __init__(
        self,
        graph: GraphRecord,
        platform: Platform,
        durations_s: Mapping[str, float],
        *,
        remaking: bool = False,
    ) -> None:
        self._graph = graph
        self._platform = platform
        self._durations_s = durations_s
        self._may_remake = remaking
        self._again: Counter[str] = Counter()
        self._tasks = {t.name: t for t in graph.tasks}
        self._nbytes = {a.name: a.nbytes for a in graph.arrays}
        self._devices = {d.name: d for d in platform.devices}
        self._routes: dict[tuple[str, str], tuple[Link, ...]] = {}
        self._copy_lanes: dict[tuple[str, str, str, int], int] = {}
        self._owners = copy_owners(platform)
        self._lanes: dict[LaneKey, int] = {}
        self._compute_lanes: dict[tuple[str, int], int] = {}
        self._times_s: dict[tuple[str, str, int], float] = {}
        self._steps: list[_Step] = []
        self._space_number = {s.name: n for n, s in enumerate(platform.spaces)}
        self._whole = graph.whole()
        self._end_row = {a.name: a.rows.stop for a in graph.arrays if a.rows is not None}
        self._first_row = {a.name: a.rows.start for a in graph.arrays if a.rows is not None}
        # Spaces that hold the current value of each array, in the order in which they got it.
        self._valid: dict[str, list[str]] = {a.name: [HOST] if a.is_input else [] for a in graph.arrays}

    def run(self, assignments: Sequence[Assignment]) -> PlanDraft:
        """Return the draft of a plan for some assignments."""
        self._upcoming = FutureAccesses(assignments, self._tasks, self._devices)
        self._memory = Residency(self._graph, self._platform, self._upcoming, self._valid)
        self._remaking = self._make_remaking() if self._may_remake else None
        for position, assignment in enumerate(assignments):
            self._place(position, assignment)
        implementations = {a.task: a.implementation for a in assignments}
        memory = self._buffers(self._memory.memory)
        return PlanDraft(
            self._columns(),
            tuple(self._lanes),
            tuple([implementations[t.name] for t in self._graph.tasks]),
            self._buffers(self._memory.blocks),
            memory,
            np.array(self._memory.memory_of, np.int64),
            self._graph.nbytes[memory.array],
            np.array(sorted(self._memory.foreign), np.int64),
            np.array(sorted(self._kept()), np.int64),
        )

    def _columns(self) -> Steps:
        number = {task.name: n for n, task in enumerate(self._graph.tasks)}
        steps = self._steps
        starts, blocks = ragged([s.blocks for s in steps])
        return Steps(
            kind=np.array([s.kind for s in steps], np.int64),
            lane=np.array([s.lane for s in steps], np.int64),
            task=np.array([number[s.task] for s in steps], np.int64),
            duration_s=np.array([s.duration_s for s in steps], np.float64),
            nbytes=np.array([s.nbytes for s in steps], np.int64),
            again=np.array([s.again for s in steps], np.int64),
            way=np.array([s.way for s in steps], np.int64),
            starts=starts,
            blocks=blocks,
            modes=np.frombuffer(b"".join([s.modes for s in steps]), np.uint8),
        )

    def _buffers(self, buffers: Sequence[Buffer]) -> BufferColumns:
        number = {array.name: n for n, array in enumerate(self._graph.arrays)}
        return BufferColumns(
            np.array([number[array] for array, _ in buffers], np.int64),
            np.array([self._space_number[space] for _, space in buffers], np.int64),
        )

    def _make_remaking(self) -> Rematerialiser:
        made = Rematerialiser(
            self._graph,
            self._devices,
            self._durations_s,
            self._upcoming,
            self._memory,
            self._valid,
            self._seconds,
        )
        self._memory.can_recompute = made.can_recompute
        return made

    def _kept(self) -> frozenset[int]:
        """Return one memory with the last value of each array or segment that may be read after the run."""
        written = {a.array for t in self._graph.tasks for a in t.accesses if WRITING[id(a.mode)]}
        return frozenset(
            self._memory.memory_of[self._memory.block(a.name, self._valid[a.name][0])]
            for a in self._graph.arrays
            if a.name in written and (not a.temporary or a.name in self._graph.statuses)
        )

    # --- one task ---------------------------------------------------------------------------------

    def _place(self, position: int, assignment: Assignment) -> None:
        task = self._tasks[assignment.task]
        self._upcoming.now = 2 * position
        if self._remaking is not None:
            for array, maker in self._remaking.missing(task):
                self._again[maker.task.name] += 1
                self._add_task(maker.task, maker.assignment)
                self._remaking.note_recomputed(array)
                self._memory.end(maker.task)
        self._upcoming.now += 1
        self._add_task(task, assignment)
        if self._remaking is not None:
            self._remaking.made(Producer(task, assignment, self._upcoming.now))
        self._upcoming.now += 1
        self._memory.end(task)

    def _add_task(self, task: PlannedTask, assignment: Assignment) -> None:
        """Add the steps of a task, after the copies it needs."""
        device = self._devices[assignment.device]
        self._memory.begin(task, device)
        blocks, written = [], []
        valid, home = self._valid, device.space
        chosen = self._gather_segments(task, device, assignment.lane) if self._whole else {}
        for access in task.accesses:
            array, mode = access.array, id(access.mode)
            if array in chosen:
                space = chosen[array]
            elif not READING[mode]:
                space = self._space_to_write(array, device)
            elif home in valid[array]:
                space = home
            else:
                space = self._space_to_read(array, device, task, assignment.lane)
            blocks.append(self._block(array, space, task, device, assignment.lane))
            if WRITING[mode]:
                written.append((array, space))
        self._steps.append(
            _Step(
                BARRIER if task.kind == "barrier" else HOST_CALL if device.is_host else LAUNCH,
                self._compute_lane(device, assignment.lane),
                task.name,
                bytes([MODE_CODE[id(access.mode)] for access in task.accesses]),
                tuple(blocks),
                self._durations_s[task.name],
                again=self._again[task.name],
            )
        )
        for array, space in written:
            valid[array] = [space]

    def _space_to_read(self, array: str, device: Device, task: PlannedTask, lane: int) -> str:
        """Return the space in which a device reads an array that is not in its own; copy it if needed."""
        valid = self._valid[array]
        for space in device.reaches:
            if space in valid:
                return space
        # Allocate first: the evictions this needs may move this very array.
        self._block(array, device.space, task, device, lane)
        self._copy([array], self._source(array, device.space), device.space, task, device, lane)
        return device.space

    def _source(self, array: str, destination: str) -> str:
        """Return the space from which an array can be copied to another soonest."""
        valid = self._valid[array]
        return valid[0] if len(valid) == 1 else min(valid, key=lambda s: self._seconds(s, destination, array))

    def _gather_segments(self, task: PlannedTask, device: Device, lane: int) -> dict[str, str]:
        """Return the space of each segment a task touches, one per array; copy the missing segments there."""
        touched: dict[str, list[PlannedAccess]] = {}
        for access in task.accesses:
            if access.array in self._whole:
                touched.setdefault(self._whole[access.array], []).append(access)
        chosen: dict[str, str] = {}
        for accesses in touched.values():
            read = [access.array for access in accesses if READING[id(access.mode)]]
            first = accesses[0].array
            space = self._space_for(read, device) if read else self._space_to_write(first, device)
            self._block(first, space, task, device, lane)  # allocate first, as above
            missing = [array for array in read if space not in self._valid[array]]
            for source, segments in self._adjacent_segments(missing, space):
                self._copy(segments, source, space, task, device, lane)
            chosen.update((access.array, space) for access in accesses)
        return chosen

    def _space_for(self, read: Sequence[str], device: Device) -> str:
        """Return the reachable space with the fewest bytes to copy; the device's own on a tie."""
        fewest, best = None, device.space
        for space in (device.space, *device.reaches):
            missing = sum(self._nbytes[array] for array in read if space not in self._valid[array])
            if fewest is not None and missing >= fewest:
                continue
            if fewest is None or self._memory.can_hold(read[0], space):
                fewest, best = missing, space
        return best

    def _adjacent_segments(self, segments: Iterable[str], destination: str) -> list[tuple[str, list[str]]]:
        """Group adjacent segments of one array with the same source space: each group is one copy."""
        runs: list[tuple[str, list[str]]] = []
        for array in sorted(segments, key=self._first_row.__getitem__):
            source = self._source(array, destination)
            if runs and runs[-1][0] == source and self._end_row[runs[-1][1][-1]] == self._first_row[array]:
                runs[-1][1].append(array)
            else:
                runs.append((source, [array]))
        return runs

    def _space_to_write(self, array: str, device: Device) -> str:
        """Return the space the next reader wants, if the device reaches it; else the device's own."""
        if len(device.reaches) > 1:
            for space in self._upcoming.readers(array):
                if space in device.reaches and self._memory.can_hold(array, space):
                    return space
        return device.space

    def _block(self, array: str, space: str, task: PlannedTask, device: Device, lane: int) -> int:
        """Return the block of an array in a space for a task; evict other arrays if memory is short."""
        while (victim := self._memory.admit(array, space, task)) is not None:
            self._evict(victim, space, task, device, lane)
        return self._memory.block(array, space)

    def _evict(self, array: str, space: str, task: PlannedTask, device: Device, lane: int) -> None:
        """Evict an array from a space; save its value to the host's memory if it is live and nowhere else."""
        pieces = self._graph.pieces.get(array, (array,))
        unsaved = [piece for piece in pieces if self._valid[piece] == [space] and self._memory.wanted(piece)]
        if unsaved == [array] and self._remaking is not None and self._remaking.drop_if_cheaper(array, space):
            self._valid[array].clear()
            self._memory.drop(array, space)
            return
        if unsaved:
            self._block(unsaved[0], HOST, task, device, lane)
        for source, segments in [(space, unsaved)] if unsaved == [array] else self._adjacent_segments(unsaved, HOST):
            self._copy(segments, source, HOST, task, device, lane)
        for piece in pieces:
            if space in self._valid[piece]:
                self._valid[piece].remove(space)
        self._memory.drop(array, space)

    # --- copies -----------------------------------------------------------------------------------

    def _route(self, source: str, destination: str) -> tuple[Link, ...]:
        key = (source, destination)
        if key not in self._routes:
            self._routes[key] = self._platform.route(source, destination)
        return self._routes[key]

    def _seconds(self, source: str, destination: str, array: str) -> float:
        key = (source, destination, self._nbytes[array])
        seconds = self._times_s.get(key)
        if seconds is None:
            seconds = sum(link.seconds(key[2]) for link in self._route(source, destination))
            self._times_s[key] = seconds
        return seconds

    def _copy(
        self, arrays: Sequence[str], source: str, destination: str, task: PlannedTask, device: Device, lane: int
    ) -> None:
        """Add the copy of an array, or of adjacent segments of one."""
        nbytes, number = sum([self._nbytes[array] for array in arrays]), self._space_number
        for link in self._route(source, destination):
            blocks = []
            for array in arrays:
                start = self._memory.block(array, link.source)
                blocks += [start, self._block(array, link.destination, task, device, lane)]
            self._steps.append(
                _Step(
                    COPY,
                    self._copy_lane(link.source, link.destination, device, lane),
                    task.name,
                    _COPIES * len(arrays),
                    tuple(blocks),
                    link.seconds(nbytes),
                    nbytes,
                    way=number[link.source] * len(number) + number[link.destination],
                )
            )
            for array in arrays:
                self._valid[array].append(link.destination)

    def _copy_lane(self, source: str, destination: str, consumer: Device, lane: int) -> int:
        """Return the lane of a copy: the copy lane of its owner.

        On a device without a copy lane, the copy runs on the lane that needs it, so that nothing has to wait for it.
        """
        key = (source, destination, consumer.name, lane)
        if key not in self._copy_lanes:
            devices, spaces = self._platform.devices, self._space_number
            owner = devices[self._owners[devices.index(consumer), spaces[source], spaces[destination]]]
            kind = LaneKey(owner.name, "copy")
            if not owner.copy_lane:
                kind = LaneKey(owner.name, "compute", lane if owner is consumer else 0)
            self._copy_lanes[key] = self._lane(kind)
        return self._copy_lanes[key]

    # --- lanes ------------------------------------------------------------------------------------

    def _compute_lane(self, device: Device, number: int) -> int:
        key = (device.name, number)
        lane = self._compute_lanes.get(key)
        if lane is None:
            kind: LaneKind = "host" if device.is_host else "compute"
            lane = self._compute_lanes[key] = self._lane(LaneKey(device.name, kind, number))
        return lane

    def _lane(self, key: LaneKey) -> int:
        return self._lanes.setdefault(key, len(self._lanes))
