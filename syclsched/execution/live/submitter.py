# SPDX-License-Identifier: Apache-2.0
"""How work gets to its lane: gathered for the compiled loop, or submitted from Python where that cannot do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

from syclsched.devices.bell import Bell
from syclsched.devices.commands import Command
from syclsched.devices.executables import Executable, needs_python
from syclsched.devices.lane_threads import LaneThreads
from syclsched.devices.performance import local_queues
from syclsched.devices.submission_library import Library, load_library
from syclsched.devices.submission_loop import SubmissionLoop
from syclsched.execution.batches import command_of
from syclsched.execution.buffers import BufferTable
from syclsched.execution.clock import now_ns
from syclsched.execution.events import EventTable
from syclsched.execution.lanes import DeviceLane
from syclsched.execution.lending import Lender, computes_on_host_cores
from syclsched.execution.live.layout import LiveLane
from syclsched.execution.program import Node
from syclsched.execution.records import Counts
from syclsched.execution.work import Work
from syclsched.model.plan import Instruction, Lane


@dataclass(slots=True)
class Order:
    """Something that is to be submitted."""

    slot: int  # where its event goes
    lane: int  # which lane it goes to
    waits: tuple[int, ...]  # slots of what it waits for on other lanes
    instruction: Instruction  # what it is, as far as Python must know to submit it
    #: For a task that computes.
    work: Work | None = None
    executable: Executable | None = None
    submit_ns: int = 0  # when it was submitted
    event: Any = None  # if it was submitted from Python
    first_event: Any = None  # if that was in several steps: the event of the first


class Submitter:
    """The device lanes of one run."""

    def __init__(
        self,
        lanes: Sequence[LiveLane],
        queues: Mapping[int, Any],
        slots: int,
        buffers: BufferTable,
        counts: Counts,
        *,
        native: bool,
        libraries: bool,
    ) -> None:
        self._library = library = load_library()
        #: Who does the work of lanes that are cores of the host; None if the devices' queues do.
        self.threads: LaneThreads | None = None
        #: What wakes the thread that decides, if somebody does.
        self.bell: Bell | None = None
        #: What never rings, to sleep by: for threads that are lent.
        self.quiet: Bell | None = None
        self.loop = (
            None
            if library is None
            else SubmissionLoop(library, dict(queues), slots, {index: lane.device for index, lane in enumerate(lanes)})
        )
        if self.loop is not None and native:
            self.loop.go_native()
            self.loop.time_calls(libraries)  # by what tasks take it is decided what comes next
        self._queues = queues
        self._buffers = buffers
        self._counts = counts
        self._events = EventTable(self.loop)
        #: In order; without a command what is to be submitted from Python.
        self._gathered: list[tuple[Order, Command | None]] = []
        # What a library's call points to is needed until its work has ended. By slot.
        self._under_way: dict[int, Command] = {}
        #: What owns commands that others have submitted.
        self._owners: list[Any] = []
        self._lenders: dict[str, Lender] = {}
        self._device_of = [lane.device for lane in lanes]
        self._lanes: dict[int, DeviceLane] = {}
        for index, queue in queues.items():
            device = lanes[index].device
            if device not in self._lenders and computes_on_host_cores(queue.sycl_device):
                self._lenders[device] = Lender(device)
            lane = Lane(lanes[index].name, device, lanes[index].kind)
            lender = self._lenders.get(device)
            self._lanes[index] = DeviceLane(lane, queue, buffers, self._events, counts, lambda _: None, lender)

    # --- submitting -------------------------------------------------------------------------------

    def take(self, order: Order) -> list[tuple[Order, Exception]]:
        """Take an order, to be submitted with the next `flush` at the latest; return those that were refused."""
        command = self._command(order)
        self._gathered.append((order, command))
        if command is not None:
            self._under_way[order.slot] = command
        return [] if command is not None else self.flush()

    def submit(self, order: Order) -> list[tuple[Order, Exception]]:
        """Submit one order from Python, at once."""
        lane = self._lanes[order.lane]
        order.submit_ns = now_ns()
        events = [event for slot in order.waits if (event := self.event(slot)) is not None]
        node = Node(order.instruction, order.lane, False)
        try:
            event = lane.submit(node, order.work, order.executable, events)
        except Exception as error:
            self.stand_in(order)
            return [(order, error)]
        self._counts.submission_ns += now_ns() - order.submit_ns
        order.event, order.first_event = event, lane.first_event
        self._put(order, event)
        return []

    def stand_in(self, order: Order) -> None:
        """Submit something that does nothing in place of an order that is left out: others may rely on its place."""
        order.submit_ns = order.submit_ns or now_ns()
        events = [event for slot in order.waits if (event := self.event(slot)) is not None]
        self._put(order, self._lanes[order.lane].order(events))

    def flush(self) -> list[tuple[Order, Exception]]:
        """Hand on what was gathered; return the order that was refused, if one was, and put those after it back.

        They are to be thought over again, with `flush`.
        """
        while self._gathered:
            commands = [c for _, c in takewhile(lambda each: each[1] is not None, self._gathered) if c is not None]
            begun = [order for order, _ in self._gathered[: len(commands)]]
            self._gathered = self._gathered[len(commands) :]
            if not commands:
                order, _ = self._gathered.pop(0)
            elif (done := self._hand_on(begun, commands)) < len(commands):
                assert self.loop is not None
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

    def _hand_on(self, orders: Sequence[Order], commands: Sequence[Command]) -> int:
        """Have the loop submit commands; return how many of them it did."""
        assert self.loop is not None
        begun_ns = now_ns()
        batch = self.loop.submit(commands)
        self._counts.submission_ns += now_ns() - begun_ns
        self._counts.barriers += batch.fences
        self._counts.submissions += batch.done + batch.further
        for order, submit_ns in zip(orders, batch.submit_ns, strict=False):
            order.submit_ns = submit_ns
        for lender in self._lenders.values():
            lender.lend_batch(self.loop, batch)
        return batch.done

    def drop(self, order: Order) -> None:
        """Leave out an order that was put back: something that does nothing takes its place, behind what is before."""
        order.work = order.executable = None
        fence = None if self.loop is None else self.loop.fence(order.slot, order.lane, order.waits)
        self._gathered = [(each, fence if each is order else command) for each, command in self._gathered]

    @property
    def gathered(self) -> list[Order]:
        """What was put back, or is yet to be submitted, in order."""
        return [order for order, _ in self._gathered]

    def begin_threads(self) -> None:
        """Have threads of our own, if every lane is a core of the host, to which commands can be submitted instead.

        What goes to the devices' queues must come before, or after all of that has completed.
        """
        assert self.loop is not None and self._library is not None
        self.bell, self.quiet = Bell(self._library), Bell(self._library)
        queues = local_queues(self._queues) if self.loop.native else None
        if queues is not None:
            try:
                self.threads = LaneThreads(self._library, self.loop, queues, self.bell)
            except OSError:
                queues.close()

    @property
    def lends(self) -> bool:
        """Whether a thread is to be lent to some device for what is submitted to it: see `lend`."""
        return self.threads is None and bool(self._lenders)

    @property
    def library(self) -> Library:
        """The compiled loop's library, where there is a loop."""
        assert self._library is not None
        return self._library

    def lend(self, work: Callable[[Sequence[int]], None]) -> None:
        """Lend a thread to each device for some work, which is told the device's lanes."""
        for device, lender in self._lenders.items():
            lanes = [index for index in self._queues if self._device_of[index] == device]
            lender.lend_until(partial(work, lanes))

    def context(self, lane: int) -> Any:
        """Return the SYCL context of a lane; None for one of the host's."""
        return None if lane not in self._queues else self._queues[lane].sycl_context

    def queue(self, lane: int) -> Any:
        """Return the queue of a device lane."""
        return self._queues[lane]

    def keep(self, owner: Any) -> None:
        """Keep what owns commands until all has completed: our own threads look at them when their turn comes."""
        self._owners.append(owner)

    # --- what became of it ------------------------------------------------------------------------

    def status(self, slot: int) -> int:
        """Return 1 for what has completed, 0 if not yet, less for what has failed on its device."""
        if self.loop is not None:
            return self.loop.status(slot) if self.loop.has_event(slot) else 1
        if not self._events.is_complete(slot):
            return 0
        return self._events.failed().get(slot, 1)

    def event(self, slot: int) -> Any:
        """Return the event of a slot; None if it has none."""
        if self.loop is None:
            return self._events.get(slot)
        return self.loop.event(slot) if self.loop.has_event(slot) else None

    def times(self, orders: Sequence[Order]) -> list[tuple[int, int] | None]:
        """Return when each of some that have completed started and ended on its device's clock."""
        found: list[tuple[int, int] | None] = [None] * len(orders)
        if self.loop is not None:
            there = [n for n, o in enumerate(orders) if o.first_event is None and self.loop.has_event(o.slot)]
            for n, times in zip(there, self.loop.times([orders[n].slot for n in there]), strict=True):
                found[n] = times
        for n, order in enumerate(orders):
            if found[n] is None and order.event is not None:
                first = order.event if order.first_event is None else order.first_event
                found[n] = (first.profiling_info_start, order.event.profiling_info_end)
        return found

    def forget(self, slot: int) -> None:
        """Let a slot be used again; what it stood for has completed."""
        self._events.forget(slot)
        self._under_way.pop(slot, None)

    # --- the end ----------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Submit nothing more; for other threads."""
        if self.loop is not None:
            self.loop.stop()

    def stop(self) -> None:
        """Let the threads end once everything that was submitted has completed."""
        for lender in self._lenders.values():
            lender.stop()
        for lane in self._lanes.values():
            lane.stop()

    def wait_for_all(self) -> None:
        """Wait for all that the compiled loop has submitted, whoever knows of it."""
        if self.loop is not None:
            self.loop.wait_for_all()

    def close(self) -> None:
        """Give events back; everything has completed."""
        if self.threads is not None:
            self.threads.close()
        self._owners.clear()
        for bell in (self.bell, self.quiet):
            if bell is not None:
                bell.close()
        self.bell = self.quiet = None
        self._events.close()
        for lane in self._lanes.values():
            lane.release()

    def _put(self, order: Order, event: Any) -> None:
        self._counts.submissions += 1
        self._events.put(order.slot, event, order.lane)

    def _command(self, order: Order) -> Command | None:
        """Return what the loop is to be given; None if it cannot do it."""
        if self.loop is None:
            return None
        try:
            return self._make(order)
        except Exception:  # submission from Python meets the same again, and says whose it is
            return None

    def _make(self, order: Order) -> Command | None:
        assert self.loop is not None
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
