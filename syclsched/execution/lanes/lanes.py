# SPDX-License-Identifier: Apache-2.0
"""Lanes of a run: in-order SYCL queues, and host threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from syclsched.devices.backends.registry import backend_of
from syclsched.devices.native.fences import lane_queue, submit_fence
from syclsched.devices.native.host_tasks import wait_for
from syclsched.devices.native.sycl_types import SyclEvent, SyclQueue, Waitable
from syclsched.devices.programs.executables import Executable, SequenceSubmission
from syclsched.devices.submission import faultpoints
from syclsched.devices.submission.command_maker import MAX_EVENT_LIST
from syclsched.devices.submission.faultpoints import SubmissionKind
from syclsched.errors import ExecutionError, RunCancelledError
from syclsched.execution.core.clock import now_ns
from syclsched.execution.core.events import EventTable
from syclsched.execution.core.execution_records import Counts, Record
from syclsched.execution.core.program import ProgramNode
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.core.worker import WorkerThread
from syclsched.execution.lanes.cpu_helper_thread import HelperThread
from syclsched.execution.lanes.host_calls import make_host_step
from syclsched.execution.lanes.pacing import Pacing
from syclsched.execution.memory.buffers import BufferTable
from syclsched.interrupts import HOST_CALL
from syclsched.model.plan import Lane, Plan

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices


def lane_number(lane: Lane) -> int:
    """Return the number of a lane among those of its device and kind."""
    suffix = lane.name.rpartition(":")[2]
    return int(suffix) if suffix.isdecimal() else 0


def queue_of(lane: Lane, devices: OpenDevices) -> SyclQueue | None:
    """Return a queue for a device lane; None for a host lane."""
    if lane.kind == "host":
        return None
    return lane_queue(devices.queue(lane.device, lane.kind, lane_number(lane)))


def queues_of(plan: Plan, devices: OpenDevices) -> dict[str, SyclQueue]:
    """Return a new queue for each device lane of a plan, by lane name."""
    return {lane.name: queue for lane in plan.lanes if (queue := queue_of(lane, devices)) is not None}


def by_index(plan: Plan, queues: Mapping[str, SyclQueue]) -> dict[int, SyclQueue]:
    """Convert a mapping of queues by lane name to one by lane index in the plan."""
    return {index: queues[lane.name] for index, lane in enumerate(plan.lanes) if lane.name in queues}


def device_names(plan: Plan) -> dict[int, str]:
    """Return the device names of a plan's lanes, by lane index."""
    return {index: lane.device for index, lane in enumerate(plan.lanes)}


@dataclass(frozen=True, slots=True)
class Completion:
    """Completion message of a lane's thread for one instruction."""

    node: ProgramNode
    #: Times on the host clock; None if it did not start.
    start_ns: int | None = None
    finish_ns: int | None = None
    error: BaseException | None = None  # raised by the instruction
    #: Whether it was not started because an earlier instruction of its host lane failed; the engine decides again.
    unexecuted: bool = False

    def record_in(self, record: Record) -> None:
        """Record the times, and the outcome unless it was executed."""
        record.start_ns, record.finish_ns = self.start_ns, self.finish_ns
        if self.error is not None:
            record.outcome = "failed"
        elif self.start_ns is None:
            record.outcome = "cancelled"


class DeviceLane:
    """An in-order queue for the instructions of one device lane."""

    def __init__(
        self,
        lane: Lane,
        queue: SyclQueue,
        buffers: BufferTable,
        events: EventTable,
        counts: Counts,
        report: Callable[[Completion], None],
        finish_before: Callable[[], None],
        helper_thread: HelperThread | None = None,
    ) -> None:
        import dpctl

        self.queue = queue
        self.name, self.device = lane.name, lane.device
        self._longest_list = MAX_EVENT_LIST if backend_of(queue).facts.kernels_wait else 0
        self.watcher = WorkerThread(f"syclsched {lane.name} events")
        self.pacer = WorkerThread(f"syclsched {lane.name} pace")
        self.helper = helper_thread
        self.pacing = Pacing(events.is_complete)
        self._report = report
        self._events = events
        self._finish_before = finish_before
        self._last: int | None = None
        #: Event of the first step of the latest submission, if that is a sequence.
        self.first_event: SyclEvent | None = None
        self._buffers = buffers
        self._counts = counts
        self._complete = dpctl.event_status_type.complete
        self._kept_alive: list[Any] = []

    def submit(
        self, node: ProgramNode, work: InstructionWork | None, executable: Executable | None, events: list[SyclEvent]
    ) -> SyclEvent:
        """Submit one instruction; return its event."""
        self.first_event = None
        depends = self._unfinished(events)
        is_copy = bool(node.instruction.kind == "copy" and node.instruction.nbytes)
        is_kernel = work is not None and executable is not None and not work.writes_nothing
        faults, verdict = faultpoints.active, "pass"
        if faults is not None:
            kind: SubmissionKind = "copy" if is_copy else "kernel" if is_kernel else "fence"
            verdict = faults.submits(self.device, self.queue, kind, self._events.loop, node.id)
            if verdict == "refuse":
                raise ExecutionError("the runtime refuses it", where=f"device {self.device!r}")
        self._finish_before()
        if len(depends) > self._longest_list and not is_copy:
            self._wait_on_helper(self._fence(depends))
            depends = []
        if verdict == "skip":
            event = self._fence(depends)
        elif is_copy:
            event = self._copy(node, depends)
        elif is_kernel:
            assert work is not None and executable is not None
            event = self._launch(node.lane, work, executable, depends)
        else:
            event = self._fence(depends)
        if faults is not None:
            if verdict != "pass":
                self._events.loop.fail(node.id)
            faults.submitted(self.device, self._events.loop, node.id)
        self._wait_on_helper(event)
        return event

    def order(self, events: list[SyclEvent]) -> SyclEvent | None:
        """Submit a fence after these events, in place of a skipped instruction; return its event."""
        # Successors of the instruction may rely on its predecessors.
        try:
            self._finish_before()
            event = self._fence(self._unfinished(events))
        except Exception:  # even the fence is refused: the host waits
            for before in events:
                wait_for(before)
            self.wait()
            return None
        self._wait_on_helper(event)
        return event

    def submitted(self, node: ProgramNode) -> None:
        """Record the submission of an instruction of this lane whose event is in the table."""
        self._last = node.id
        self.pacing.add(node.id, node.instruction.duration_s)

    def wait(self) -> None:
        """Wait for all submitted instructions, without the GIL."""
        event = None if self._last is None else self._events.get(self._last)
        if event is not None:
            wait_for(event)

    def watch(self, node: ProgramNode, event: SyclEvent) -> None:
        """Report the completion of an instruction that was submitted on this lane."""
        self.watcher.post(lambda: self._report(_watch(node, event)))

    def call_when_ready(self, wake: Callable[[], None]) -> None:
        """Call back, on a thread of the lane, when submission may continue."""
        event = self._events.get(self.pacing.midpoint())
        self.pacer.post(lambda: _wait_and(event, wake))

    def stop(self) -> None:
        """Stop the lane's threads."""
        self.watcher.stop()
        self.pacer.stop()

    def release(self) -> None:
        """Release objects that had to live until the last event."""
        self._kept_alive.clear()

    def _unfinished(self, events: list[SyclEvent]) -> list[SyclEvent]:
        """Return the events that have not completed."""
        return [e for e in events if e.execution_status != self._complete]

    def _wait_on_helper(self, event: SyclEvent) -> None:
        if self.helper is not None:
            self.helper.wait_for_event(event)

    def _fence(self, depends: list[SyclEvent]) -> SyclEvent:
        self._counts.barriers += 1
        return submit_fence(self.queue, depends)

    def _launch(self, lane: int, work: InstructionWork, executable: Executable, depends: list[SyclEvent]) -> SyclEvent:
        arguments = work.bound(lane, self.queue, self._buffers.__getitem__)
        submission = executable.bind(arguments)
        if not work.implementation.is_kernel:
            # A kernel's scalars are copied at submission and the run owns its arrays; a library may not copy either.
            self._kept_alive.append(submission)
        if isinstance(submission, SequenceSubmission):
            return self._submit_steps(submission, depends)
        return submission.submit(self.queue, depends)

    def _submit_steps(self, submission: SequenceSubmission, depends: list[SyclEvent]) -> SyclEvent:
        """Submit the steps of a sequence; without a waiting helper thread, submission takes several times as long."""
        events = submission.submissions(self.queue, depends)
        event = self.first_event = next(events)
        for following in events:
            self._wait_on_helper(event)
            event = following
            self._counts.submissions += 1
        return event

    def _copy(self, node: ProgramNode, depends: list[SyclEvent]) -> SyclEvent:
        source, destination = self._buffers.ends(node.instruction)
        return self.queue.memcpy_async(
            destination.copy_operand(self.queue),
            source.copy_operand(self.queue),
            node.instruction.nbytes,
            depends,
        )


class HostLane:
    """A thread that waits for events and calls Python functions in order.

    Several instructions are queued ahead, so that the thread continues without a wake-up. After a failure the thread
    returns the queued instructions unexecuted, because some may depend on the failed one.
    """

    def __init__(
        self,
        name: str,
        buffers: BufferTable,
        report: Callable[[Completion], None],
        cancelled: Callable[[], bool],
        counts: Counts,
    ) -> None:
        self.worker = WorkerThread(f"syclsched {name}")
        self._buffers = buffers
        self._report = report
        self._cancelled = cancelled
        self._counts = counts
        self._has_failed = False
        self._queued = 0
        self._unexecuted: list[ProgramNode] = []
        self._steps: dict[int, Callable[[], None]] = {}

    def start(
        self, node: ProgramNode, work: InstructionWork | None, executable: Executable | None, events: Sequence[Waitable]
    ) -> None:
        """Queue an instruction, to be executed once its events have completed; report an error as its failure."""
        self._queued += 1
        function = None if executable is None else executable.function
        try:
            call = make_host_step(node.instruction, work, function, self._buffers, self._counts.retried)
        except Exception as error:
            self._report(Completion(node, now_ns(), now_ns(), error))
            return
        step = self._steps[node.id] = partial(self._perform, node, events, call)
        self.worker.post(step)

    def restart(self, node: ProgramNode) -> None:
        """Queue an instruction again that was returned unexecuted."""
        self._queued += 1
        self.worker.post(self._steps[node.id])

    def skip(self, node: ProgramNode, events: Sequence[Waitable]) -> None:
        """Queue a wait for events in place of a skipped instruction."""
        self._queued += 1
        self.worker.post(lambda: self._report(_wait_for_skipped(node, events)))

    def take_unexecuted(self, completion: Completion) -> list[ProgramNode]:
        """Record a completion, and return unexecuted instructions; on the thread that calls `start`."""
        self._queued -= 1
        if completion.unexecuted:
            self._unexecuted.append(completion.node)
        else:
            self._steps.pop(completion.node.id, None)
        if self._queued or not self._has_failed:
            return []
        self._has_failed = False
        returned, self._unexecuted = self._unexecuted, []
        return returned

    def _perform(self, node: ProgramNode, events: Sequence[Waitable], call: Callable[[], object]) -> None:
        if self._has_failed:
            self._report(Completion(node, unexecuted=True))
            return
        completion = _perform(node, events, call, self._cancelled)
        if completion.error is not None:
            self._has_failed = True
        self._report(completion)


def _wait_and(event: SyclEvent | None, wake: Callable[[], None]) -> None:
    try:
        if event is not None:
            wait_for(event)
    finally:
        wake()


def _watch(node: ProgramNode, event: SyclEvent) -> Completion:
    try:
        wait_for(event)
    except BaseException as error:  # an error of the runtime must reach the caller, not end the thread
        return Completion(node, error=error)
    return Completion(node)


def _wait_for_skipped(node: ProgramNode, events: Sequence[Waitable]) -> Completion:
    for event in events:
        with suppress(Exception):  # reported for the instruction that was submitted with the event
            wait_for(event)
    return Completion(node)


def _perform(
    node: ProgramNode, events: Sequence[Waitable], call: Callable[[], object], cancelled: Callable[[], bool]
) -> Completion:
    start_ns: int | None = None
    try:
        for event in events:
            wait_for(event)
        if cancelled():
            return Completion(node)
        start_ns = now_ns()
        HOST_CALL.is_cancelled = cancelled
        call()
        return Completion(node, start_ns, now_ns())
    except RunCancelledError as error:
        return Completion(node) if cancelled() else Completion(node, start_ns, now_ns(), error)
    except BaseException as error:  # an error of a user function must reach the caller, not end the thread
        return Completion(node, start_ns, now_ns(), error)
    finally:
        HOST_CALL.is_cancelled = None
