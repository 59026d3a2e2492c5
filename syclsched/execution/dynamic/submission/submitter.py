# SPDX-License-Identifier: Apache-2.0
"""Submission to device lanes: batched for the compiled loop, or one by one from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any, cast

from syclsched.devices.backends.registry import backend_of
from syclsched.devices.native.submission_library import load_library
from syclsched.devices.native.sycl_types import SyclContext, SyclEvent, SyclQueue, Waitable
from syclsched.devices.native.wakeup import Wakeup
from syclsched.devices.programs.executables import Executable, needs_python
from syclsched.devices.submission.commands import Command
from syclsched.devices.submission.lane_thread_batch import local_queues
from syclsched.devices.submission.lane_threads import LaneThreads
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.execution.core.clock import now_ns
from syclsched.execution.core.events import EventTable
from syclsched.execution.core.execution_records import Counts
from syclsched.execution.core.program import ProgramNode
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.dynamic.data.indexed_graph import IndexedLane
from syclsched.execution.lanes.batches import command_of
from syclsched.execution.lanes.cpu_helper_thread import HelperThread
from syclsched.execution.lanes.lanes import DeviceLane
from syclsched.execution.memory.buffers import BufferTable
from syclsched.model.plan import Instruction, Lane


@dataclass(slots=True)
class SubmissionRequest:
    """A task or copy to submit."""

    slot: int  # index of its event
    lane: int  # index of its lane
    waits: tuple[int, ...]  # slots of its dependencies on other lanes
    instruction: Instruction  # description, without waits and times
    #: None for copies, barriers and adopted tasks.
    work: InstructionWork | None = None
    executable: Executable | None = None
    submit_ns: int = 0  # time of submission
    event: SyclEvent | None = None  # set by submission from Python
    first_event: SyclEvent | None = None  # set by submission from Python in several steps: the first event


class Submitter:
    """The device lanes of one run."""

    def __init__(
        self,
        lanes: Sequence[IndexedLane],
        queues: Mapping[int, SyclQueue],
        slots: int,
        buffers: BufferTable,
        counts: Counts,
        *,
        native: bool,
        libraries: bool,
    ) -> None:
        #: The library of the compiled loop.
        self.library = load_library()
        #: Threads that execute lanes on host cores; None if the SYCL queues do.
        self.threads: LaneThreads | None = None
        #: Wake-up counter of the deciding thread, if lanes signal it.
        self.wakeup: Wakeup | None = None
        #: Wake-up counter that is never signalled, on which helper threads sleep.
        self.idle_wakeup: Wakeup | None = None
        devices = {index: lane.device for index, lane in enumerate(lanes)}
        self.loop = SubmissionLoop(self.library, dict(queues), slots, devices)
        if native:
            self.loop.use_native_queues()
            self.loop.time_calls(libraries)  # policies decide by measured task times
        self._queues = queues
        self._buffers = buffers
        self._counts = counts
        self._events = EventTable(self.loop)
        #: Orders not yet submitted, oldest first; without a command if Python must submit.
        self._gathered: list[tuple[SubmissionRequest, Command | None]] = []
        # By slot: library calls point into their commands until they complete.
        self._commands_in_flight: dict[int, Command] = {}
        #: Owners of commands that compiled code has submitted.
        self._owners: list[Any] = []
        self._helper_threads: dict[str, HelperThread] = {}
        self._device_of = [lane.device for lane in lanes]
        self._lanes: dict[int, DeviceLane] = {}
        for index, queue in queues.items():
            device = lanes[index].device
            if device not in self._helper_threads and backend_of(queue).computes_on_host_cores(queue):
                self._helper_threads[device] = HelperThread(device)
            lane = Lane(lanes[index].name, device, lanes[index].kind)
            helper_thread = self._helper_threads.get(device)
            self._lanes[index] = DeviceLane(lane, queue, buffers, self._events, counts, lambda _: None, helper_thread)

    # --- submitting -------------------------------------------------------------------------------

    def take(self, order: SubmissionRequest) -> list[tuple[SubmissionRequest, Exception]]:
        """Gather an order for the next `flush`, or submit it now; return refused orders."""
        command = self._command(order)
        self._gathered.append((order, command))
        if command is not None:
            self._commands_in_flight[order.slot] = command
        return [] if command is not None else self.flush()

    def submit(self, order: SubmissionRequest) -> list[tuple[SubmissionRequest, Exception]]:
        """Submit one order from Python; return it with its error if it was refused."""
        lane = self._lanes[order.lane]
        order.submit_ns = now_ns()
        events = self._sycl_events(order)
        node = ProgramNode(order.instruction, order.lane, False)
        try:
            event = lane.submit(node, order.work, order.executable, events)
        except Exception as error:
            self.submit_noop(order)
            return [(order, error)]
        self._counts.submission_ns += now_ns() - order.submit_ns
        order.event, order.first_event = event, lane.first_event
        self._put(order, event)
        return []

    def submit_noop(self, order: SubmissionRequest) -> None:
        """Submit a no-op in place of a skipped order, so that its successors stay ordered."""
        order.submit_ns = order.submit_ns or now_ns()
        self._put(order, self._lanes[order.lane].order(self._sycl_events(order)))

    def flush(self) -> list[tuple[SubmissionRequest, Exception]]:
        """Submit the gathered orders up to the first refused one; return that one with its error.

        Later orders stay gathered: the caller drops those that must not run, and flushes again.
        """
        while self._gathered:
            commands = [c for _, c in takewhile(lambda each: each[1] is not None, self._gathered) if c is not None]
            begun = [order for order, _ in self._gathered[: len(commands)]]
            self._gathered = self._gathered[len(commands) :]
            if not commands:
                order, _ = self._gathered.pop(0)
            elif (done := self._submit_batch(begun, commands)) < len(commands):
                if self.loop.stopped:
                    self._gathered = []
                    return []
                self._gathered = [*zip(begun[done + 1 :], commands[done + 1 :], strict=True), *self._gathered]
                order = begun[done]
            else:
                continue
            refused = self.submit(order)
            if refused:
                return refused
        return []

    def _submit_batch(self, orders: Sequence[SubmissionRequest], commands: Sequence[Command]) -> int:
        """Submit commands by the compiled loop; return the number submitted."""
        begun_ns = now_ns()
        batch = self.loop.submit(commands)
        self._counts.submission_ns += now_ns() - begun_ns
        self._counts.barriers += batch.fences
        self._counts.submissions += batch.done + batch.further
        for order, submit_ns in zip(orders, batch.submit_ns, strict=False):
            order.submit_ns = submit_ns
        for helper_thread in self._helper_threads.values():
            helper_thread.wait_for_batch(self.loop, batch)
        return batch.done

    def drop(self, order: SubmissionRequest) -> None:
        """Replace a gathered order by a no-op with the same dependencies."""
        order.work = order.executable = None
        fence = self.loop.fence(order.slot, order.lane, order.waits)
        self._gathered = [(each, fence if each is order else command) for each, command in self._gathered]

    @property
    def gathered(self) -> list[SubmissionRequest]:
        """Orders not yet submitted, oldest first."""
        return [order for order, _ in self._gathered]

    def begin_threads(self) -> None:
        """Start lane threads, which take commands in place of SYCL queues, if every lane is on host cores.

        Work on the SYCL queues must be submitted before, or after all work of the lane threads has completed.
        """
        self.wakeup, self.idle_wakeup = Wakeup(self.library), Wakeup(self.library)
        queues = local_queues(self._queues) if self.loop.native else None
        if queues is not None:
            try:
                self.threads = LaneThreads(self.library, self.loop, queues, self.wakeup)
            except OSError:
                queues.close()

    @property
    def needs_helpers(self) -> bool:
        """Whether some device needs a helper thread; see `lend`."""
        return self.threads is None and bool(self._helper_threads)

    def lend(self, work: Callable[[Sequence[int]], None]) -> None:
        """Lend a helper thread to each device; it calls ``work`` with the device's lanes."""
        for device, helper_thread in self._helper_threads.items():
            lanes = [index for index in self._queues if self._device_of[index] == device]
            helper_thread.run_wait(partial(work, lanes))

    def context(self, lane: int) -> SyclContext | None:
        """Return the SYCL context of a lane; None for a host lane."""
        return None if lane not in self._queues else self._queues[lane].sycl_context

    def queue(self, lane: int) -> SyclQueue:
        """Return the queue of a device lane."""
        return self._queues[lane]

    def keep(self, owner: Any) -> None:
        """Keep the owner of commands alive until all work has completed: lane threads read the commands later."""
        self._owners.append(owner)

    # --- completion -------------------------------------------------------------------------------

    def status(self, slot: int) -> int:
        """Return 1 if the event of a slot has completed, 0 if not yet, a negative code if it failed."""
        return self.loop.status(slot) if self.loop.has_event(slot) else 1

    def event(self, slot: int) -> Waitable | None:
        """Return the event of a slot; None if it has none."""
        return self.loop.event(slot) if self.loop.has_event(slot) else None

    def times(self, orders: Sequence[SubmissionRequest]) -> list[tuple[int, int] | None]:
        """Return start and end of completed orders on their device's clock, ns; None without timestamps."""
        found: list[tuple[int, int] | None] = [None] * len(orders)
        with_events = [n for n, o in enumerate(orders) if o.first_event is None and self.loop.has_event(o.slot)]
        for n, times in zip(with_events, self.loop.times([orders[n].slot for n in with_events]), strict=True):
            found[n] = times
        for n, order in enumerate(orders):
            if found[n] is None and order.event is not None:
                first = order.event if order.first_event is None else order.first_event
                found[n] = (first.profiling_info_start, order.event.profiling_info_end)
        return found

    def forget(self, slot: int) -> None:
        """Release a slot for reuse; its order has completed."""
        self._events.forget(slot)
        self._commands_in_flight.pop(slot, None)

    # --- the end ----------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Stop submission; for other threads."""
        self.loop.stop()

    def stop(self) -> None:
        """Stop helper threads and lanes once all submitted work has completed."""
        for helper_thread in self._helper_threads.values():
            helper_thread.stop()
        for lane in self._lanes.values():
            lane.stop()

    def wait_for_all(self) -> None:
        """Wait for all work that the compiled loop has submitted, even if the engine has no record of it."""
        self.loop.wait_for_all()

    def close(self) -> None:
        """Release events and threads; all work has completed."""
        if self.threads is not None:
            self.threads.close()
        self._owners.clear()
        for bell in (self.wakeup, self.idle_wakeup):
            if bell is not None:
                bell.close()
        self.wakeup = self.idle_wakeup = None
        self._events.close()
        for lane in self._lanes.values():
            lane.release()

    def _sycl_events(self, order: SubmissionRequest) -> list[SyclEvent]:
        """Return the events of an order's dependencies; not while lane threads run, see `begin_threads`."""
        events = [event for slot in order.waits if (event := self.event(slot)) is not None]
        return cast("list[SyclEvent]", events)

    def _put(self, order: SubmissionRequest, event: SyclEvent | None) -> None:
        self._counts.submissions += 1
        self._events.put(order.slot, event, order.lane)

    def _command(self, order: SubmissionRequest) -> Command | None:
        """Return the command of an order for the compiled loop; None if Python must submit it."""
        try:
            return self._make(order)
        except Exception:  # submission from Python fails likewise, and names the task
            return None

    def _make(self, order: SubmissionRequest) -> Command | None:
        instruction, work, executable = order.instruction, order.work, order.executable
        queue = self._queues[order.lane]
        if instruction.kind == "copy" and instruction.nbytes:
            source, target = self._buffers.ends(instruction)
            return self.loop.copy(
                order.slot,
                order.lane,
                order.waits,
                target.copy_operand(queue),
                source.copy_operand(queue),
                instruction.nbytes,
            )
        if work is None or executable is None or work.writes_nothing:
            return self.loop.fence(order.slot, order.lane, order.waits)
        if needs_python(executable):
            return None
        submission = executable.bind(work.bound(order.lane, queue, self._buffers.__getitem__))
        return command_of(self.loop, order.slot, order.lane, order.waits, submission, queue)
