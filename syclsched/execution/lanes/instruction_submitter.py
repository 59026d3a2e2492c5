# SPDX-License-Identifier: Apache-2.0
"""Submission of instructions to the device lanes of a run: in batches by the compiled loop, or singly from Python."""

from __future__ import annotations

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
from syclsched.execution.lanes.instruction_commands import CommandFactory
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
    record: Record | None = None  # None if it is not recorded before its submission


class SubmissionHandler(Protocol):
    """An engine, which receives the outcome of each submission."""

    def must_skip(self, node: ProgramNode) -> bool:
        """Return whether an instruction must not start: a predecessor has failed, or the run is ending."""

    def skip(self, request: SubmissionRequest) -> None:
        """Record an instruction that is not submitted because of `must_skip`, and order its successors."""

    def submitted(self, request: SubmissionRequest, submit_ns: int) -> None:
        """Record a submission."""

    def refused(self, request: SubmissionRequest, error: Exception) -> None:
        """Record an instruction that the runtime refuses, and order its successors."""


class InstructionSubmitter:
    """The device lanes of one run; used on its engine's thread only."""

    def __init__(
        self,
        lanes: LaneSet,
        events: EventTable,
        counts: Counts,
        handler: SubmissionHandler,
        commands: CommandFactory,
        *,
        limited: bool,
    ) -> None:
        self.lanes = lanes
        self.loop = events.loop
        #: Instructions not yet submitted, oldest first.
        self.gathered: list[SubmissionRequest] = []
        self._events, self._counts, self._handler, self._factory = events, counts, handler, commands
        #: Whether a batch is of one device, small at first, and short.
        self._limited = limited
        self._largest, self._batch_s, self._device = _FIRST_SIZE, 0.0, ""
        self._batch: list[Command] = []
        self._batch_lanes: set[int] = set()
        #: By instruction: library calls point into their commands until they complete.
        self._commands: dict[int, Command] = {}

    def take(self, request: SubmissionRequest) -> None:
        """Gather an instruction for the next `flush`, or submit it now if only Python can."""
        node = request.node
        try:
            command = self._factory.make(node, request.work, request.executable)
        except Exception:  # submission from Python fails likewise, and names the task
            command = None
        device = self.lanes.devices[node.lane].device
        if self.gathered and (command is None or (self._limited and (device != self._device or self._is_full))):
            self.flush()
            if self._handler.must_skip(node):  # a gathered predecessor was refused
                self._handler.skip(request)
                return
        if command is None:
            self._submit_from_python(request)
            return
        self._commands[node.id] = command
        self._batch.append(command)
        self._batch_lanes.add(node.lane)
        self._batch_s += node.instruction.duration_s
        self._device = device
        self.gathered.append(request)

    @property
    def _is_full(self) -> bool:
        return len(self._batch) >= self._largest or self._batch_s > _LONGEST_S

    def flush(self) -> None:
        """Submit the gathered instructions; after a refusal, or when the run is ending, decide again for each."""
        if not self.gathered:
            return
        gathered, commands, lanes = self.gathered, self._batch, self._batch_lanes
        self.gathered, self._batch, self._batch_lanes, self._batch_s = [], [], set(), 0.0
        self._largest = min(2 * self._largest, _LARGEST_SIZE)
        handler, begun_ns = self._handler, now_ns()
        batch = self.loop.submit(commands)
        self._counts.submission_ns += now_ns() - begun_ns
        self._counts.barriers += batch.fences
        self._counts.submissions += batch.done + batch.further
        for request, submit_ns in zip(gathered, batch.submit_ns, strict=False):
            self._events.put_submitted(request.node.id)
            handler.submitted(request, submit_ns)
        for helper in {self.lanes.devices[lane].helper for lane in lanes}:
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
        node = request.node
        record = request.record = request.record or Record(0)
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
        self._handler.submitted(request, record.submit_ns)
