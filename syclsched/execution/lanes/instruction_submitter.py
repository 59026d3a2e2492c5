# SPDX-License-Identifier: Apache-2.0
"""Submission of instructions to the device lanes of a run: in batches by the compiled loop, or singly from Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from syclsched.devices.native.sycl_types import SyclEvent
from syclsched.devices.programs.executables import Executable
from syclsched.devices.submission.commands import Command
from syclsched.execution.core.clock import now_ns
from syclsched.execution.core.events import EventTable
from syclsched.execution.core.execution_records import Counts, Record
from syclsched.execution.core.program import ProgramNode
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.lanes.lane_set import LaneSet

#: First and largest size of a limited batch in instructions. The first batch is small, so that lanes start early; each
#: further one is twice as large.
_FIRST_SIZE, _LARGEST_SIZE = 4, 16
#: Limit of a batch in predicted seconds of work.
_LONGEST_S = 0.05


@dataclass(slots=True)
class SubmissionRequest:
    """An instruction of a device lane to be submitted."""

    node: ProgramNode
    #: None for copies and barriers.
    work: InstructionWork | None
    executable: Executable | None
    record: Record  # its submission time is 0 until the instruction is submitted


class SubmissionHandler(Protocol):
    """An engine, which is told the outcome of each submission."""

    def must_skip(self, node: ProgramNode) -> bool:
        """Return whether an instruction must not start: a predecessor has failed, or the run is ending."""

    def skip(self, request: SubmissionRequest) -> None:
        """Record an instruction that is not submitted because of `must_skip`, and order its successors."""

    def submitted(self, request: SubmissionRequest) -> None:
        """Record a submission."""

    def refused(self, request: SubmissionRequest, error: Exception) -> None:
        """Record an instruction that the runtime refuses, and order its successors."""


class BatchLimit:
    """Limit of the instructions submitted in one call: of one device, few at first, for a short time."""

    def __init__(self) -> None:
        self._most, self._count, self._seconds = _FIRST_SIZE, 0, 0.0
        self._device: str | None = None

    def admits(self, device: str) -> bool:
        """Return whether the batch may grow by an instruction of a device."""
        return device == self._device and self._count < self._most and self._seconds <= _LONGEST_S

    def add(self, device: str, duration_s: float) -> None:
        """Count an instruction of the batch."""
        self._device = device
        self._count += 1
        self._seconds += duration_s

    def begin_next(self) -> None:
        """Begin the next batch, empty, with twice the size."""
        self._most, self._count, self._seconds = min(2 * self._most, _LARGEST_SIZE), 0, 0.0


class InstructionSubmitter:
    """The device lanes of one run; used on its engine's thread only."""

    def __init__(
        self,
        lanes: LaneSet,
        events: EventTable,
        counts: Counts,
        handler: SubmissionHandler,
        make_command: Callable[[SubmissionRequest], Command | None],
        limit: BatchLimit | None = None,
    ) -> None:
        self.lanes = lanes
        self.loop = events.loop
        #: Instructions not yet submitted, oldest first.
        self.gathered: list[SubmissionRequest] = []
        self._events, self._counts, self._handler = events, counts, handler
        self._make_command, self._limit = make_command, limit
        #: By instruction: library calls point into their commands until they complete.
        self._commands: dict[int, Command] = {}

    def take(self, request: SubmissionRequest) -> None:
        """Gather an instruction for the next `flush`, or submit it now if only Python can."""
        node, limit = request.node, self._limit
        try:
            command = self._make_command(request)
        except Exception:  # submission from Python fails likewise, and names the task
            command = None
        device = self.lanes.devices[node.lane].device
        if self.gathered and (command is None or not (limit is None or limit.admits(device))):
            self.flush()
            if self._handler.must_skip(node):  # a gathered predecessor was refused
                self._handler.skip(request)
                return
        if command is None:
            self._submit_from_python(request)
            return
        self._commands[node.id] = command
        self.gathered.append(request)
        if limit is not None:
            limit.add(device, node.instruction.duration_s)

    def flush(self) -> None:
        """Submit the gathered instructions; after a refusal, or when the run is ending, decide again for each."""
        if not self.gathered:
            return
        gathered, self.gathered = self.gathered, []
        if self._limit is not None:
            self._limit.begin_next()
        begun_ns = now_ns()
        batch = self.loop.submit([self._commands[request.node.id] for request in gathered])
        self._counts.submission_ns += now_ns() - begun_ns
        self._counts.barriers += batch.fences
        self._counts.submissions += batch.done + batch.further
        for request, submit_ns in zip(gathered, batch.submit_ns, strict=False):
            request.record.submit_ns = submit_ns
            self._events.put_submitted(request.node.id)
            self._handler.submitted(request)
        for helper in {self.lanes.devices[request.node.lane].helper for request in gathered}:
            if helper is not None:
                helper.wait_for_batch(self.loop, batch)
        for request in gathered[batch.done :]:
            if self._handler.must_skip(request.node):
                self._handler.skip(request)
            else:
                self._submit_from_python(request)

    def put_noop(self, request: SubmissionRequest) -> None:
        """Submit a no-op in place of an instruction that does not run, so that its successors stay ordered."""
        node = request.node
        self._events.put(node.id, self.lanes.devices[node.lane].order(self.events_before(node)), node.lane)

    def events_before(self, node: ProgramNode) -> list[SyclEvent]:
        """Return the events that an instruction waits for."""
        return [event for number in node.events if (event := self._events.get(number)) is not None]

    def forget(self, number: int) -> None:
        """Release the number of a completed instruction for reuse."""
        self._events.forget(number)
        self._commands.pop(number, None)

    def _submit_from_python(self, request: SubmissionRequest) -> None:
        node, record = request.node, request.record
        lane, before = self.lanes.devices[node.lane], self.events_before(node)
        record.submit_ns = now_ns()
        try:
            event = lane.submit(node, request.work, request.executable, before)
        except Exception as error:
            record.outcome = "failed"
            self._handler.refused(request, error)
            return
        self._counts.submission_ns += now_ns() - record.submit_ns
        self._counts.submissions += 1
        record.event, record.first_event = event, lane.first_event
        self._events.put(node.id, event, node.lane)
        self._handler.submitted(request)
