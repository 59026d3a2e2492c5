# SPDX-License-Identifier: Apache-2.0
"""Batches of commands executed by lane threads, where every lane is one core of the host.

The OpenCL CPU runtime passes submitted commands to its own threads: a few microseconds a command, more where lanes wait
for each other, and the submitting thread needs a core, too. A queue of cl_intel_exec_by_local_thread executes commands
on the submitting thread: a lane is then one thread that executes its commands and polls flags to wait for other lanes
(``_submit_perform.c``).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from syclsched.devices.backends.registry import backend_of
from syclsched.devices.native.submission_library import SubmissionLibrary
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.submission.commands import Command
from syclsched.devices.submission.local_queues import LocalQueues, open_local_queues
from syclsched.devices.submission.submission_loop import SubmissionLoop


def why_not_local(queues: Mapping[int, SyclQueue]) -> str | None:
    """Return why lanes are not each one core of the host, executable by one thread each; None if they are."""
    reasons = (backend_of(queue).why_not_local(queue) for queue in queues.values())
    fits = len(queues) <= len(os.sched_getaffinity(0)) + 1
    return next(filter(None, reasons), None if fits else f"there are {len(queues)} lanes, and fewer cores")


def lane_thread_queues(queues: Mapping[int, SyclQueue]) -> LocalQueues | None:
    """Return local queues for lanes, or None if not every lane is one core of the host."""
    return None if why_not_local(queues) is not None else open_local_queues(queues)


class _Performer(ctypes.Structure):
    _fields_ = [
        ("lane", ctypes.c_void_p),
        ("commands", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("start_ns", ctypes.c_void_p),
        ("end_ns", ctypes.c_void_p),
    ]


class LaneThreadBatch:
    """The commands of some lanes, executed on lane threads any number of times."""

    def __init__(
        self, library: SubmissionLibrary, loop: SubmissionLoop, queues: LocalQueues, commands: Sequence[Command]
    ) -> None:
        self._library = library
        self._loop = loop
        self._commands = list(commands)
        self._lanes = loop.copy_lanes(queues.handles)
        lane_bytes = ctypes.sizeof(self._lanes) // max(1, len(self._lanes))
        by_lane: dict[int, list[Command]] = {}
        for command in self._commands:
            for part in command.parts:
                by_lane.setdefault(part.lane, []).append(part)
        self._pointers: list[Any] = []
        self._times: list[tuple[Any, Any]] = []
        self._performers = (_Performer * len(by_lane))()
        place: dict[int, tuple[int, int]] = {}
        for number, (lane, parts) in enumerate(by_lane.items()):
            pointers = (ctypes.c_void_p * len(parts))(*[part.address for part in parts])
            start_ns, end_ns = np.zeros(len(parts), np.int64), np.zeros(len(parts), np.int64)
            self._pointers.append(pointers)
            self._times.append((start_ns, end_ns))
            self._performers[number] = _Performer(
                ctypes.addressof(self._lanes) + lane * lane_bytes,
                ctypes.addressof(pointers),
                len(parts),
                start_ns.ctypes.data,
                end_ns.ctypes.data,
            )
            place.update((id(part), (number, position)) for position, part in enumerate(parts))
        self._first = np.array([place[id(c.parts[0])] for c in self._commands], np.int64).reshape(-1, 2)
        self._last = np.array([place[id(c.parts[-1])] for c in self._commands], np.int64).reshape(-1, 2)
        self._slots = np.array([command.slot for command in self._commands], np.int64)
        self._position = {command.slot: position for position, command in enumerate(self._commands)}
        self._done = np.zeros(loop.event_slots, np.int32)
        self._turn = 0

    def replace(self, command: Command) -> None:
        """Replace the command with the same slot, with the same number of submissions, all on one lane."""
        position = self._position[command.slot]
        lane, place = self._first[position]
        self._commands[position] = command
        for offset, part in enumerate(command.parts):
            self._pointers[lane][place + offset] = part.address

    def begin(self) -> None:
        """Mark all commands as not executed."""
        self._turn += 1
        for start_ns, end_ns in self._times:
            start_ns.fill(0)
            end_ns.fill(0)

    def perform(self) -> bool:
        """Execute all commands without the GIL; return whether all were done, none refused and the loop not stopped."""
        completed = self._library.perform(
            self._performers,
            len(self._performers),
            self._done.ctypes.data,
            self._turn,
            ctypes.byref(self._loop.stop_flag),
        )
        return bool(completed) or bool((self._done[self._slots] == self._turn).all())

    def is_begun(self, slot: int) -> bool:
        """Return whether the command of a slot has been started since `begin`; for any thread."""
        lane, place = self._first[self._position[slot]]
        return bool(self._times[lane][0][place])

    def is_done(self, slot: int) -> bool:
        """Return whether the command of a slot has been executed since `begin`; for any thread."""
        return bool(self._done[slot] == self._turn)

    def unfinished_parts(self, command: Command) -> list[Command]:
        """Return the parts of a command that have not been executed since `begin`, after `perform`."""
        lane, place = self._first[self._position[command.slot]]
        ends_ns = self._times[lane][1][place : place + len(command.parts)].tolist()
        return [part for part, end_ns in zip(command.parts, ends_ns, strict=True) if not end_ns]

    def times(self) -> tuple[Any, Any]:
        """Return start and end of each command, on the host's clock, in the order of the commands."""
        starts = np.empty(len(self._commands), np.int64)
        ends = np.empty(len(self._commands), np.int64)
        for number, (start_ns, end_ns) in enumerate(self._times):
            on_lane = self._first[:, 0] == number
            starts[on_lane] = start_ns[self._first[on_lane, 1]]
            ends[on_lane] = end_ns[self._last[on_lane, 1]]
        return starts, ends
