# SPDX-License-Identifier: Apache-2.0
"""Where each task finds its arrays, and the copies that bring them there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import BufferUse, InstructionKind
from syclsched.model.platform import HOST, Device, Platform
from syclsched.model.schedule import Assignment
from syclsched.model.task import Task
from syclsched.planning.steps import LaneKey, Step


class TransferPass:
    """Turn assignments in global order into steps, with a copy wherever data is needed elsewhere.

    No copy is made between devices that reach the same memory space, and a copy once made is used by every
    later reader until the array is written again.

    Parameters
    ----------
    graph : TaskGraph
        The graph.
    platform : Platform
        Its spaces and links.
    durations_s : Mapping[str, float]
        Predicted seconds of each task where it is assigned.
    """

    def __init__(self, graph: TaskGraph, platform: Platform, durations_s: Mapping[str, float]) -> None:
        self._graph = graph
        self._platform = platform
        self._durations_s = durations_s
        self._arrays = graph.arrays
        self._devices = {d.name: d for d in platform.devices}
        # Spaces that hold the current value, the one written (or copied to) first coming first.
        self._valid: dict[str, list[str]] = {name: [HOST] for name in graph.inputs()}
        self._steps: list[Step] = []
        self._later_readers: dict[str, list[tuple[int, str]]] = {}

    def run(self, assignments: Sequence[Assignment]) -> list[Step]:
        """Return the steps.

        Parameters
        ----------
        assignments : sequence of Assignment
            In an order that respects all dependencies.

        Returns
        -------
        list of Step
            Copies stand before the task they are made for.
        """
        for position, assignment in enumerate(assignments):
            for access in self._graph.task(assignment.task).accesses:
                if access.mode.reads:
                    home = self._devices[assignment.device].space
                    self._later_readers.setdefault(access.array, []).append((position, home))
        for position, assignment in enumerate(assignments):
            self._place(position, assignment)
        return self._steps

    def final_spaces(self) -> dict[str, list[str]]:
        """Return the spaces that hold each array's last value."""
        return self._valid

    def _place(self, position: int, assignment: Assignment) -> None:
        task, device = self._graph.task(assignment.task), self._devices[assignment.device]
        uses = []
        for access in task.accesses:
            space = self._space_for(position, access.array, access.mode, device, task, assignment.lane)
            uses.append(BufferUse(access.array, space, access.mode))
        for use in uses:
            if use.mode.writes:
                self._valid[use.array] = [use.space]
        if device.is_host:
            lane = LaneKey(device.name, "host", assignment.lane)
        else:
            lane = LaneKey(device.name, "compute", assignment.lane)
        kind: InstructionKind = "host" if device.is_host else "launch"
        if task.kind == "barrier":
            kind = "barrier"
        self._steps.append(
            Step(
                kind=kind,
                lane=lane,
                task=task.name,
                uses=tuple(uses),
                implementation=assignment.implementation,
                duration_s=self._durations_s[task.name],
            )
        )

    def _space_for(self, position: int, array: str, mode: AccessMode, device: Device, task: Task, lane: int) -> str:
        """Choose the space in which ``device`` touches ``array``; copy the value there if it is read."""
        if not mode.reads:
            return self._space_to_write(position, array, device)
        valid = self._valid[array]
        for space in device.reaches:
            if space in valid:
                return space
        source = min(valid, key=lambda s: self._seconds(s, device.space, array))
        self._copy(array, source, device.space, task.name, device, lane)
        return device.space

    def _space_to_write(self, position: int, array: str, device: Device) -> str:
        """Write where the next reader wants it, if this device reaches that space."""
        if len(device.reaches) > 1:
            for later, space in self._later_readers.get(array, ()):
                if later > position and space in device.reaches:
                    return space
        return device.space

    def _seconds(self, source: str, destination: str, array: str) -> float:
        nbytes = self._arrays[array].nbytes
        return sum(link.seconds(nbytes) for link in self._platform.route(source, destination))

    def _copy(self, array: str, source: str, destination: str, task: str, device: Device, lane: int) -> None:
        nbytes = self._arrays[array].nbytes
        for link in self._platform.route(source, destination):
            self._steps.append(
                Step(
                    kind="copy",
                    lane=self._copy_lane(link.source, link.destination, device, lane),
                    task=task,
                    uses=(
                        BufferUse(array, link.source, AccessMode.READ),
                        BufferUse(array, link.destination, AccessMode.WRITE),
                    ),
                    duration_s=link.seconds(nbytes),
                    nbytes=nbytes,
                )
            )
            self._valid[array].append(link.destination)

    def _copy_lane(self, source: str, destination: str, consumer: Device, lane: int) -> LaneKey:
        """Use the consumer's queue if it lives in the destination, else a device of the source's space.

        Where a separate copy lane is of no use, the copy goes on the very lane that needs it: nothing has to wait.
        """
        owner = consumer
        if consumer.is_host or consumer.space != destination:
            here = [d for d in self._platform.compute_devices if d.space == destination]
            there = [d for d in self._platform.compute_devices if d.space == source]
            owner = (here or there)[0]
        if owner.copy_lane:
            return LaneKey(owner.name, "copy")
        return LaneKey(owner.name, "compute", lane if owner is consumer else 0)
