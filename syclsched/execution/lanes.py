# SPDX-License-Identifier: Apache-2.0
"""Lanes that work: an in-order SYCL queue, or a host thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from syclsched.devices.executables import Executable
from syclsched.devices.fences import lane_queue, must_fence, submit_fence
from syclsched.execution.buffers import BufferTable
from syclsched.execution.clock import now_ns
from syclsched.execution.lending import Lender
from syclsched.execution.pacing import Pacing
from syclsched.execution.program import Buffer, Node
from syclsched.execution.records import Counts
from syclsched.execution.work import Work
from syclsched.execution.worker import Worker
from syclsched.model.plan import Lane

#: With more waits than this, one fence is submitted for them instead of a long event list.
FENCE_WAITS = 8


def queue_of(lane: Lane, live: Any) -> Any:
    """Return a queue for a device lane, or None for a host lane.

    Parameters
    ----------
    lane : Lane
        Its name ends in its index: ``cpu:0``.
    live : LiveDevices
        The queues.

    Returns
    -------
    dpctl.SyclQueue or None
        In-order, with profiling, and nobody else's.
    """
    if lane.kind == "host":
        return None
    suffix = lane.name.rpartition(":")[2]
    return lane_queue(live.queue(lane.device, lane.kind, int(suffix) if suffix.isdecimal() else 0))


@dataclass(frozen=True, slots=True)
class Completion:
    """What a lane's thread reports of one instruction.

    Parameters
    ----------
    node : Node
        Which.
    start_ns, finish_ns : int or None
        Host's clock; None if it did not start.
    error : BaseException or None
        What it raised.
    """

    node: Node
    start_ns: int | None = None
    finish_ns: int | None = None
    error: BaseException | None = None


class DeviceLane:
    """An in-order queue that instructions are submitted to.

    Parameters
    ----------
    name : str
        Of the lane.
    queue : dpctl.SyclQueue
        In-order; nobody else submits to it.
    buffers : BufferTable
        The run's buffers.
    counts : Counts
        The run's counters.
    report : callable
        Takes the `Completion` of each instruction given to `watch`, on a thread of the lane's.
    lender : Lender, optional
        The device's, if it computes on the host's cores.
    """

    def __init__(
        self,
        name: str,
        queue: Any,
        buffers: BufferTable,
        counts: Counts,
        report: Callable[[Completion], None],
        lender: Lender | None = None,
    ) -> None:
        import dpctl

        self.queue = queue
        self._must_fence = must_fence(queue)
        self.watcher = Worker(f"syclsched {name} events")
        self.pacer = Worker(f"syclsched {name} pace")
        self._lender = lender
        self.pacing = Pacing(lambda event: bool(event.execution_status == self._complete))
        self._report = report
        self.last_event: Any = None
        self._buffers = buffers
        self._counts = counts
        self._complete = dpctl.event_status_type.complete
        self._kept: list[Any] = []

    def submit(self, node: Node, work: Work | None, executable: Executable | None, events: list[Any]) -> Any:
        """Submit one instruction.

        Parameters
        ----------
        node : Node
            A ``launch``, ``copy`` or ``barrier``.
        work, executable : Work, Executable or None
            For a launch.
        events : list of dpctl.SyclEvent
            What must have finished first, besides what was submitted here before.

        Returns
        -------
        dpctl.SyclEvent
            Its own.
        """
        depends = self._unfinished(events)
        is_copy = node.instruction.kind == "copy" and node.instruction.nbytes
        if depends and not is_copy and (self._must_fence or len(depends) > FENCE_WAITS):
            self._lend(self._fence(depends))
            depends = []
        if is_copy:
            event = self._copy(node, depends)
        elif work is not None and executable is not None and not work.writes_nothing:
            event = self._launch(node.lane, work, executable, depends)
        else:
            event = self._fence(depends)
        self._counts.submissions += 1
        self.last_event = event
        self._lend(event)
        self.pacing.add(event, node.instruction.duration_s)
        return event

    def wait(self) -> None:
        """Wait for everything submitted so far; lets other threads run."""
        if self.last_event is not None:
            self.last_event.wait()

    def watch(self, node: Node, event: Any) -> None:
        """Have it reported when an instruction that was submitted here has completed."""
        self.watcher.post(lambda: self._report(_watch(node, event)))

    def when_room(self, wake: Callable[[], None]) -> None:
        """Have something called, on a thread of the lane's, once submission may go on."""
        event = self.pacing.half_way()
        self.pacer.post(lambda: _wait_and(event, wake))

    def stop(self) -> None:
        """Let the lane's threads end."""
        self.watcher.stop()
        self.pacer.stop()

    def release(self) -> None:
        """Let go of what only had to live until the last event."""
        self._kept.clear()

    def _unfinished(self, events: list[Any]) -> list[Any]:
        """Return the events that are not complete."""
        return [e for e in events if e.execution_status != self._complete]

    def _lend(self, event: Any) -> None:
        if self._lender is not None:
            self._lender.lend(event)

    def _fence(self, depends: list[Any]) -> Any:
        self._counts.barriers += 1
        return submit_fence(self.queue, depends)

    def _launch(self, lane: int, work: Work, executable: Executable, depends: list[Any]) -> Any:
        arguments = {name: self._buffers[buffer].bound(lane, self.queue) for name, buffer in work.buffers.items()}
        submission = executable.bind(arguments)
        if work.implementation.kind == "library":
            # A kernel's scalars are copied when it is submitted and its arrays are the run's; a library's may not be.
            self._kept.append(submission)
        return submission.submit(self.queue, depends)

    def _copy(self, node: Node, depends: list[Any]) -> Any:
        source, destination = (self._buffers[use.array, use.space] for use in node.instruction.uses)
        return self.queue.memcpy_async(
            destination.copy_operand(self.queue),
            source.copy_operand(self.queue),
            node.instruction.nbytes,
            depends,
        )


class HostLane:
    """A thread that waits for events and calls Python functions.

    Parameters
    ----------
    name : str
        Of the lane.
    buffers : BufferTable
        The run's buffers.
    report : callable
        Takes each `Completion`, on the lane's thread.
    cancelled : callable
        Whether the run was cancelled.
    """

    def __init__(
        self,
        name: str,
        buffers: BufferTable,
        report: Callable[[Completion], None],
        cancelled: Callable[[], bool],
    ) -> None:
        self.worker = Worker(f"syclsched {name}")
        self._buffers = buffers
        self._report = report
        self._cancelled = cancelled

    def start(self, node: Node, work: Work | None, executable: Executable | None, events: list[Any]) -> None:
        """Have one instruction done once its events have completed.

        Parameters
        ----------
        node : Node
            A ``host`` function, a ``copy`` or a ``barrier``.
        work, executable : Work, Executable or None
            For a host function.
        events : list of dpctl.SyclEvent
            What must have finished first.
        """
        call = self._call(node, work, executable)
        self.worker.post(lambda: self._report(_perform(node, events, call, self._cancelled)))

    def _call(self, node: Node, work: Work | None, executable: Executable | None) -> Callable[[], object]:
        if work is not None and executable is not None and executable.function is not None:
            arguments = host_arguments(work, self._buffers)
            function = executable.function
            return lambda: function(**arguments)
        if node.instruction.kind == "copy":
            source, destination = (self._buffers[use.array, use.space] for use in node.instruction.uses)
            target = destination.numpy(writable=True)
            return lambda: np.copyto(target, source.numpy(writable=False))
        return lambda: None


def host_arguments(work: Work, buffers: BufferTable | Mapping[Buffer, Any]) -> dict[str, Any]:
    """Return a host function's arguments: NumPy views of the buffers, and scalars.

    Parameters
    ----------
    work : Work
        The task.
    buffers : BufferTable
        The run's buffers.

    Returns
    -------
    dict of str to numpy.ndarray or number
        Arrays that are only read are read-only, so that a function cannot write to an input.
    """
    arguments: dict[str, Any] = work.scalars
    for parameter in work.operation.arrays:
        assert parameter.mode is not None
        view = buffers[work.buffers[parameter.name]].numpy(writable=parameter.mode.writes)
        arguments[parameter.name] = view
    return arguments


def _wait_and(event: Any, wake: Callable[[], None]) -> None:
    try:
        event.wait()
    finally:
        wake()


def _watch(node: Node, event: Any) -> Completion:
    try:
        event.wait()  # lets other threads run
    except BaseException as error:  # what the runtime raises must reach the caller, not end the thread
        return Completion(node, error=error)
    return Completion(node)


def _perform(node: Node, events: list[Any], call: Callable[[], object], cancelled: Callable[[], bool]) -> Completion:
    start_ns: int | None = None
    try:
        for event in events:
            event.wait()  # lets other threads run
        if cancelled():
            return Completion(node)
        start_ns = now_ns()
        call()
        return Completion(node, start_ns, now_ns())
    except BaseException as error:  # whatever a user's function raises must reach the caller, not end the thread
        return Completion(node, start_ns, now_ns(), error)
