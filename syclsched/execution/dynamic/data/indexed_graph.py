# SPDX-License-Identifier: Apache-2.0
"""Index-based view of a graph and its scheduling problem for the dynamic engine, computed once. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import LaneKind, PlannedArray, PlannedTask
from syclsched.model.platform import HOST, Device, Platform
from syclsched.planning.graph_record import GraphRecord, record
from syclsched.planning.memory.memory_kinds import kinds_without_plan
from syclsched.scheduling.dynamic.compiled.data_directory import DataDistribution
from syclsched.scheduling.dynamic.static_info import rows
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING


@dataclass(frozen=True, slots=True)
class _IndexedLane:
    """A lane of a dynamic run: an in-order queue, or the host thread."""

    #: As in `syclsched.model.plan.Lane`.
    name: str
    device: str
    kind: LaneKind
    number: int  # index of the device in the problem


@dataclass(frozen=True, slots=True)
class PieceAccess:
    """An access of a task to a piece."""

    piece: int
    reads: bool
    writes: bool
    mode: AccessMode


class IndexedGraph:
    """Tasks in the problem's order, pieces, arrays, memory spaces and lanes, by index."""

    def __init__(self, graph: TaskGraph, problem: Problem, platform: Platform) -> None:
        self.graph, self.problem, self.platform = graph, problem, platform
        self.record: GraphRecord = record(graph)
        planned = {t.name: t for t in self.record.tasks}
        self.tasks: list[PlannedTask] = [planned[name] for name in problem.names]
        number = {name: n for n, name in enumerate(problem.names)}
        cut = set(self.record.pieces)
        self.pieces: list[PlannedArray] = [a for a in self.record.arrays if a.name not in cut]
        self.arrays: list[PlannedArray] = [a for a in self.record.arrays if a.rows is None]
        whole = {a.name: n for n, a in enumerate(self.arrays)}
        self.piece: dict[str, int] = {a.name: n for n, a in enumerate(self.pieces)}
        self.array_of = [whole[a.name if a.rows is None else a.rows.array] for a in self.pieces]
        self.parts: list[list[int]] = [[] for _ in self.arrays]
        for piece, array in enumerate(self.array_of):
            self.parts[array].append(piece)
        self.touches: list[tuple[PieceAccess, ...]] = [
            tuple([PieceAccess(self.piece[a.array], a.mode.reads, a.mode.writes, a.mode) for a in task.accesses])
            for task in self.tasks
        ]
        self.after = [tuple([number[name] for name in task.after]) for task in self.tasks]
        tables = problem.tables
        self.reads = rows(tables.read_start, tables.read_item)
        self.makes = rows(tables.make_start, tables.make_item)
        self.spaces: list[str] = list(problem.spaces)
        self.space: dict[str, int] = {name: n for n, name in enumerate(self.spaces)}
        self.host_space = self.space[HOST]
        #: Arrays in another USM kind than the default.
        self.memory = kinds_without_plan(graph, self.record, platform)
        residents = {chosen.array: self.space[chosen.space] for chosen in self.memory if chosen.resident}
        #: Initial space of each piece, if it is an input.
        self.given_in = [residents.get(self.arrays[n].name, self.host_space) for n in self.array_of]
        self.devices: tuple[Device, ...] = tuple([platform.device(name) for name in problem.devices])
        self.home = [self.space[d.space] for d in self.devices]
        self.reaches = [tuple(dict.fromkeys([self.space[s] for s in (d.space, *d.reaches)])) for d in self.devices]
        self._links = {
            (self.space[n.source], self.space[n.destination]): n.seconds(4096) for n in reversed(platform.links)
        }
        self._add_lanes()
        self.statuses = {self.piece[name] for name in self.record.statuses if name in self.piece}
        #: The last writer of each piece, `NOTHING` if it is never written.
        self.last_writer = [NOTHING] * len(self.pieces)
        order = {t.name: n for n, t in enumerate(self.record.tasks)}
        for task in sorted(range(len(self.tasks)), key=lambda t: order[self.tasks[t].name]):
            for touch in self.touches[task]:
                if touch.writes:
                    self.last_writer[touch.piece] = task
        self.submission = [order[task.name] for task in self.tasks]

    def _add_lanes(self) -> None:
        self.lanes: list[_IndexedLane] = []
        for device, lane in self.problem.processors:
            d = self.devices[device]
            self.lanes.append(_IndexedLane(f"{d.name}:{lane}", d.name, "host" if d.is_host else "compute", device))
        self.copy_lane: dict[str, int] = {}
        for number, d in enumerate(self.devices):
            if d.copy_lane and not d.is_host:
                self.copy_lane[d.name] = len(self.lanes)
                self.lanes.append(_IndexedLane(f"{d.name}:copy", d.name, "copy", number))

    def first_items(self) -> list[int]:
        """Return the initial item of each piece, -1 for none."""
        found = [-1] * len(self.pieces)
        for item, space in enumerate(self.problem.tables.item_space.tolist()):
            if space != NOTHING:
                found[self.piece[self.problem.arrays[int(self.problem.item_array[item])]]] = item
        return found

    @cached_property
    def spread(self) -> DataDistribution:
        """The input of the compiled directory over several memory spaces."""
        spaces, processors = range(len(self.spaces)), range(len(self.problem.processors))
        homes = {self.home[n] for n, d in enumerate(self.devices) if not d.is_host} | {self.host_space}

        def direct_s(source: int, destination: int) -> float:
            found = self.link_s(source, destination)
            return 0.0 if source == destination else math.inf if found is None else found

        def lane(source: int, destination: int, consumer: int) -> int:
            if source == destination or not {source, destination} <= homes:
                return 0
            return self.lane_of_copy(source, destination, consumer)

        return DataDistribution(
            touches=[[(t.piece, t.reads, t.writes) for t in listed] for listed in self.touches],
            array_of=self.array_of,
            nbytes=[piece.nbytes for piece in self.pieces],
            given_in=[self.given_in[n] if piece.is_input else NOTHING for n, piece in enumerate(self.pieces)],
            host_space=self.host_space,
            direct_s=[[direct_s(a, b) for b in spaces] for a in spaces],
            copy_lane=[[[lane(a, b, p) for p in processors] for b in spaces] for a in spaces],
        )

    @property
    def most_copies(self) -> int:
        """Upper bound of the copies of compiled code; 0 if all compute devices share one space."""
        homes = {self.home[n] for n, d in enumerate(self.devices) if not d.is_host}
        return self.spread.most_copies if len(homes) > 1 else 0

    def link_s(self, source: int, destination: int) -> float | None:
        """Return the seconds of a small copy between two spaces by a direct link; None if there is none."""
        return self._links.get((source, destination))

    def lane_of_copy(self, source: int, destination: int, consumer: int) -> int:
        """Return the lane of a copy, chosen as in plans: at its destination's device, else at its source's."""
        wanted = self.lanes[consumer]
        device = self.devices[wanted.number]
        if device.is_host or device.space != self.spaces[destination]:
            compute = self.platform.compute_devices
            at_destination = [d for d in compute if d.space == self.spaces[destination]]
            near = at_destination or [d for d in compute if d.space == self.spaces[source]]
            device = device if device in near else near[0]
        if device.name in self.copy_lane:
            return self.copy_lane[device.name]
        if device.name == wanted.device and wanted.kind == "compute":
            return consumer
        return next(n for n, lane in enumerate(self.lanes) if lane.device == device.name)
