# SPDX-License-Identifier: Apache-2.0
"""What the engine does with its hands: submits tasks and copies, gets and gives back memory, polls completions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from syclsched.errors import ExecutionError, MemoryLimitError
from syclsched.execution.buffers import BufferTable
from syclsched.execution.clock import now_ns
from syclsched.execution.lanes import Completion, HostLane
from syclsched.execution.live.bringing import Bringer, Brought
from syclsched.execution.live.capacity import Block, Capacity
from syclsched.execution.live.coherence import Directory, Stamp
from syclsched.execution.live.happened import Entry, Log, instruction_of
from syclsched.execution.live.layout import Layout
from syclsched.execution.live.lookahead import InFlight
from syclsched.execution.live.outcomes import Outcomes
from syclsched.execution.live.submitter import Order, Submitter
from syclsched.execution.live.tasks import TaskWork
from syclsched.execution.program import Node
from syclsched.execution.records import Counts, Outcome, Record
from syclsched.execution.work import Work
from syclsched.model.plan import InstructionKind
from syclsched.scheduling.dynamic.state import State
from syclsched.scheduling.tables import NOTHING

#: Copies that may be on their way at once.
COPY_SLOTS = 512


@dataclass(slots=True)
class Given:
    """Something that was given to a lane.

    Parameters
    ----------
    task : int
        Which, or for whose sake.
    place : int
        Its place in what was given to the lane.
    entry : Entry
        What the log has of it.
    order : Order or None
        How it was submitted; None for what the host does.
    ended : bool
        Whether what the host does has ended.
    """

    task: int
    place: int
    entry: Entry
    order: Order | None = None
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """A task that has completed.

    Parameters
    ----------
    task, processor : int
        What, where.
    seconds : float or None
        How long it took; None if it failed or was left out.
    """

    task: int
    processor: int
    seconds: float | None


class Carrier:
    """Carries out decisions; see `syclsched.execution.live.bringing.Hands`.

    Parameters
    ----------
    layout : Layout
        The graph.
    state : State
        What the policy sees: where items are is kept up to date here.
    work : TaskWork
        What tasks do.
    buffers : BufferTable
        With the inputs in it.
    submitter : Submitter
        The device lanes.
    queues : Mapping[int, dpctl.SyclQueue]
        By index of lane.
    hosts : Mapping[int, HostLane]
        By index of lane.
    limits : sequence of int
        Bytes of each space, 0 for no limit.
    outcomes : Outcomes
        What failed.
    submitted : callable
        Told of each task and its lane once it has been submitted or left out.
    counts : Counts
        The run's.
    lock : threading.RLock
        Held while memory is given back.
    pinned : set of (int, int)
        Memory, by array and space, that must stay; others add to it while they hold the lock.
    """

    def __init__(
        self,
        layout: Layout,
        state: State,
        work: TaskWork,
        buffers: BufferTable,
        submitter: Submitter,
        queues: Mapping[int, Any],
        hosts: Mapping[int, HostLane],
        limits: Sequence[int],
        outcomes: Outcomes,
        submitted: Callable[[int, int], None],
        counts: Counts,
        lock: threading.RLock,
        pinned: set[Block],
    ) -> None:
        self._layout, self._state, self._work, self._buffers = layout, state, work, buffers
        self._submitter, self._queues, self._hosts, self._outcomes = submitter, queues, hosts, outcomes
        self._submitted = submitted
        self.log = Log()
        self.counts = counts
        self._lock = lock
        self.directory = Directory(len(layout.pieces), len(layout.spaces))
        self.capacity = Capacity(
            [whole.nbytes for whole in layout.wholes],
            layout.parts,
            limits,
            self.directory,
            self.is_done,
            self._wanted,
            pinned,
        )
        self.bringer = Bringer(layout, self.directory, self.capacity, self)
        lanes, tasks = len(layout.lanes), len(layout.tasks)
        self.stamp: list[Stamp | None] = [None] * tasks
        self.in_flight: list[InFlight[Given]] = [InFlight() for _ in range(lanes)]
        self.pieces_of_work: dict[int, Work] = {}
        self._given = [0] * lanes
        #: Of each lane, how many of those given to it have completed: all before that place.
        self._done = [0] * lanes
        self._ordered_after: list[list[int]] = [[0] * lanes for _ in range(lanes)]
        self._contexts = [None if lane not in queues else queues[lane].sycl_context for lane in range(lanes)]
        self._free_slots = list(range(tasks + COPY_SLOTS - 1, tasks - 1, -1))
        self._slots: dict[Stamp, int] = {}
        self._orders: dict[int, Given] = {}
        self._nodes: dict[int, tuple[Given, Node, Any, Any, Sequence[int]]] = {}
        self._for = 0
        self._item = _first_items(layout)
        self._reads_left = [0] * len(layout.pieces)
        self._uses_left = [0] * len(layout.wholes)
        for touches in layout.touches:
            for touch in touches:
                self._reads_left[touch.piece] += touch.reads
                self._uses_left[layout.whole_of[touch.piece]] += 1
        self._kept = [not p.temporary or n in layout.statuses for n, p in enumerate(layout.pieces)]
        self._dying: list[int] = []
        #: How many tasks were cancelled, or failed before they were submitted.
        self.left_out = 0
        for number, piece in enumerate(layout.pieces):
            if piece.is_input:
                self.directory.put(number, layout.given_in[number])
                block = (layout.whole_of[number], layout.given_in[number])
                if not self.capacity.has(block):
                    self.capacity.lend(block)

    # --- a task -----------------------------------------------------------------------------------

    def attempt(self, task: int, processor: int) -> bool:
        """Submit a task to a lane, after bringing what it needs; return False if that cannot be done yet."""
        self._for = task
        if self._outcomes.cancels(task):
            self._leave_out(task, processor, "cancelled")
            return True
        before = [stamp for other in self._layout.after[task] if (stamp := self.stamp[other]) is not None]
        try:
            brought = self.bringer.bring(task, processor, before)
        except MemoryLimitError as error:
            self._outcomes.failed(task, "no memory:", error, "memory")
            self._leave_out(task, processor, "failed")
            return True
        if brought is None:
            return False
        if self._outcomes.has_failed(task):  # a copy for it was refused
            self._leave_out(task, processor, "failed")
            return True
        self._give(task, processor, brought)
        return True

    def _give(self, task: int, processor: int, brought: Brought) -> None:
        """Submit a task whose data is there."""
        layout, state = self._layout, self._state
        device = layout.lanes[processor].number
        barrier = layout.tasks[task].kind == "barrier"
        seconds = 0.0 if barrier else state.seconds(task, device)
        start_s = max(state.now_s, state.lanes[processor].until_s)
        waits, slots = self._waits(processor, brought.before)
        stamp = self._next(processor)
        touched = tuple([touch.piece for touch in layout.touches[task]])
        kind: InstructionKind = "barrier" if barrier else "host" if processor in self._hosts else "launch"
        entry = self.log.add(
            Entry(
                kind, processor, task, touched, brought.spaces, stamp, waits, start_s, start_s + seconds, None, device
            )
        )
        for touch, space in zip(layout.touches[task], brought.spaces, strict=True):
            if touch.writes:
                self.directory.written(touch.piece, space, stamp)
            else:
                self.directory.read(touch.piece, space, stamp)
        self._made(task, brought.spaces, start_s + seconds)
        work = self._work.work(task, device, brought.spaces)
        if work is not None and work.status is not None:
            self.pieces_of_work[task] = work
        instruction, executable = (
            self._work.instruction(task, device, brought.spaces, task),
            self._work.executable(task, device),
        )
        given = Given(task, stamp[1], entry)
        self.in_flight[processor].add(given, seconds)
        self._outcomes.done(task)
        if processor in self._hosts:
            self.flush()
            self._start_on_host(given, Node(instruction, processor, True), work, executable, slots)
        else:
            self._submit(given, Order(task, processor, slots, instruction, work, executable), stamp)
        self.stamp[task] = stamp
        self._submitted(task, processor)

    def expect(self, given: Given, node: Node, work: Any, executable: Any) -> None:
        """Be ready for what the host's thread reports of a task that was adopted."""
        given.entry.record = Record(now_ns())
        self._nodes[node.id] = (given, node, work, executable, ())

    def adopt(self, entry: Entry, *, ended: bool) -> Given:
        """Take over a task that others have submitted, with its entry in the log.

        Parameters
        ----------
        entry : Entry
            Not in the log yet.
        ended : bool
            Whether it has ended, if it is on a lane of the host's.

        Returns
        -------
        Given
            It, as what was given to its lane.
        """
        task, processor, stamp = entry.task, entry.lane, entry.stamp
        assert stamp is not None
        self.log.add(entry)
        self._given[processor] = stamp[1] + 1
        for other, place in entry.waits:
            self._ordered_after[processor][other] = max(self._ordered_after[processor][other], place + 1)
        for touch, space in zip(self._layout.touches[task], entry.spaces, strict=True):
            if touch.writes:
                self.directory.written(touch.piece, space, stamp)
            else:
                self.directory.read(touch.piece, space, stamp)
        self._made(task, entry.spaces, entry.finish_s)
        self._outcomes.done(task)
        given = Given(task, stamp[1], entry, ended=ended)
        if processor not in self._hosts:
            given.order = Order(task, processor, (), self._work.instruction(task, entry.device, entry.spaces, task))
            given.order.submit_ns = entry.record.submit_ns if entry.record is not None else 0
            self._orders[task], self._slots[stamp] = given, task
        self.in_flight[processor].add(given, entry.finish_s - entry.start_s)
        self.stamp[task] = stamp
        self._submitted(task, processor)
        return given

    def _submit(self, given: Given, order: Order, stamp: Stamp) -> None:
        given.order = order
        self._orders[order.slot] = given
        self._slots[stamp] = order.slot
        self._refused(self._submitter.take(order))

    def _start_on_host(self, given: Given, node: Node, work: Any, executable: Any, slots: Sequence[int]) -> None:
        self._nodes[node.id] = (given, node, work, executable, slots)
        events = [event for slot in slots if (event := self._submitter.event(slot)) is not None]
        given.entry.record = Record(now_ns())
        try:
            self._hosts[node.lane].start(node, work, executable, events)
        except Exception as error:
            self._ended_on_host(given, Completion(node, now_ns(), now_ns(), error))

    def _leave_out(self, task: int, processor: int, outcome: Outcome) -> None:
        """Give a task that does not run its place: what comes after it by an edge of the graph relies on that."""
        layout = self._layout
        waits, slots = self._waits(processor, {s for o in layout.after[task] if (s := self.stamp[o]) is not None})
        stamp = self._next(processor)
        entry = self.log.add(Entry("barrier", processor, task, (), (), stamp, waits))
        entry.record = Record(now_ns(), outcome)
        self.left_out += 1
        self._outcomes.left_out(task)
        self._made(task, (layout.home[layout.lanes[processor].number],) * len(layout.touches[task]), 0.0)
        given = Given(task, stamp[1], entry)
        self.in_flight[processor].add(given, 0.0)
        if processor in self._hosts:
            given.ended = True
        else:
            given.order = Order(task, processor, slots, self._work.instruction(task, -1, None, task))
            self._orders[task], self._slots[stamp] = given, task
            self.flush()
            self._submitter.stand_in(given.order)
        self.stamp[task] = stamp
        self._submitted(task, processor)

    def _made(self, task: int, spaces: Sequence[int], when_s: float) -> None:
        """Note that a task was submitted: its items will be where it runs, and it needs its data no more."""
        layout, state = self._layout, self._state
        made = iter(layout.makes[task])
        for touch, space in zip(layout.touches[task], spaces, strict=True):
            self._reads_left[touch.piece] -= touch.reads
            array = layout.whole_of[touch.piece]
            self._uses_left[array] -= 1
            if not self._uses_left[array] and not any(self._kept[piece] for piece in layout.parts[array]):
                self._dying.append(array)
            if touch.writes:
                item = self._item[touch.piece] = next(made)
                state.origin[item], state.where[item] = space, {space: when_s}

    # --- what the bringer wants -------------------------------------------------------------------

    def far(self, stamp: Stamp, lane: int) -> bool:
        """Return whether a lane cannot wait for something by itself, so that the host must see it complete first."""
        other = stamp[0]
        if other == lane and lane not in self._hosts:
            return False
        if self.is_done(*stamp):
            return False
        if other in self._hosts:
            return True
        return lane not in self._hosts and bool(self._contexts[other] != self._contexts[lane])

    def allocate(self, block: Block, lane: int) -> None:
        """Get memory for an array in a space."""
        array, space = block
        self._buffers.allocate((self._layout.wholes[array].name, self._layout.spaces[space]))
        self.capacity.take(block)
        self.log.add(Entry("alloc", lane, self._for, (array,), (space,)))

    def free(self, block: Block) -> None:
        """Give memory of an array in a space back; all that touches it has completed."""
        layout, (array, space) = self._layout, block
        users = self.directory.users(layout.parts[array], space)
        with self._lock:
            if block in self.capacity.pinned:
                return
            self.directory.left(layout.parts[array], space)
            self._buffers.free((layout.wholes[array].name, layout.spaces[space]))
        self.capacity.give(block)
        lane = next(iter(users), 0)
        self.log.add(Entry("free", lane, self._for, (array,), (space,), waits=tuple(users.items())))
        for piece in layout.parts[array]:
            item = self._item[piece]
            if item >= 0:
                there = self._state.where[item]
                there.pop(space, None)
                if self._state.origin[item] == space and there:
                    self._state.origin[item] = next(iter(there))

    def copy(self, pieces: Sequence[int], source: int, destination: int, lane: int, before: set[Stamp]) -> bool:
        """Submit a copy to a lane, after others; return False if too many are on their way."""
        if not self._free_slots:
            return False
        layout, state = self._layout, self._state
        slot = self._free_slots.pop()
        waits, slots = self._waits(lane, before)
        stamp = self._next(lane)
        nbytes = sum(layout.pieces[piece].nbytes for piece in pieces)
        seconds = state.known.latency_s[source][destination] + nbytes * state.known.s_per_byte[source][destination]
        start_s = max(state.now_s, state.now_s + self.in_flight[lane].seconds)
        entry = self.log.add(
            Entry(
                "copy", lane, self._for, tuple(pieces), (source, destination), stamp, waits, start_s, start_s + seconds
            )
        )
        for piece in pieces:
            self.directory.copied(piece, source, destination, stamp)
            item = self._item[piece]
            if item >= 0:
                state.where[item][destination] = start_s + seconds
        given = Given(self._for, stamp[1], entry)
        self.in_flight[lane].add(given, seconds)
        self._submit(
            given, Order(slot, lane, slots, instruction_of(entry, slot, layout, self._work.instruction)), stamp
        )
        return True

    def idle(self) -> bool:
        """Return whether nothing is on its way."""
        return not any(len(each) for each in self.in_flight)

    # --- what has completed -----------------------------------------------------------------------

    def flush(self) -> None:
        """Hand on what was gathered."""
        self._refused(self._submitter.flush())

    def poll(self) -> list[Ended]:
        """Return the tasks that have completed since the last time, and let their lanes go on."""
        ended: list[Ended] = []
        finished: list[tuple[int, Given]] = []
        for lane, in_flight in enumerate(self.in_flight):
            items = in_flight.items
            while items:
                given = items[0][0]
                if given.order is None:
                    if not given.ended:
                        break
                else:
                    status = self._submitter.status(given.order.slot)
                    if status == 0:
                        break
                    if status < 0:
                        self._device_failed(given, status)
                    finished.append((lane, given))
                in_flight.pop()
                self._done[lane] = given.place + 1
                if given.order is None:
                    seconds = _measured_s(given.entry.record)
                    ended.append(Ended(given.task, lane, seconds))
        if finished:
            self._note_finished(finished, ended)
        if self._dying and (ended or finished):
            self._bury()
        return ended

    def _note_finished(self, finished: Sequence[tuple[int, Given]], ended: list[Ended]) -> None:
        orders = [given.order for _, given in finished if given.order is not None]
        for (lane, given), order, times in zip(finished, orders, self._submitter.times(orders), strict=True):
            del self._slots[lane, given.place], self._orders[order.slot]
            record = given.entry.record
            if record is None:
                given.entry.record = Record(order.submit_ns, device_ns=times)
            else:
                record.device_ns = times
            if order.slot < len(self._layout.tasks):
                good = times is not None and given.entry.record is not None and given.entry.record.outcome == "done"
                # A library's call that was not waited for has no end of its own, and so tells nothing.
                taken_ns = times[1] - times[0] if good and times else 0
                ended.append(Ended(given.task, lane, taken_ns * 1e-9 if taken_ns > 0 else None))
            else:
                self._submitter.forget(order.slot)
                self._free_slots.append(order.slot)

    def handle(self, completion: Completion) -> None:
        """Take note of what a host lane reports."""
        for_whom = self._nodes.pop(completion.node.id)
        if completion.returned:
            self._nodes[completion.node.id] = for_whom
        else:
            self._ended_on_host(for_whom[0], completion)
        for node in self._hosts[completion.node.lane].take_returned(completion):
            given, node, work, executable, slots = self._nodes.pop(node.id)
            self._start_on_host(given, node, work, executable, slots)

    def _ended_on_host(self, given: Given, completion: Completion) -> None:
        record = given.entry.record
        assert record is not None
        record.start_ns, record.finish_ns = completion.start_ns, completion.finish_ns
        if completion.error is not None:
            record.outcome = "failed"
            self._outcomes.failed(given.task, "raised", completion.error, "raised")
        elif completion.start_ns is None:
            record.outcome = "cancelled"
            self._outcomes.left_out(given.task)
        given.ended = True

    def is_done(self, lane: int, place: int) -> bool:
        """Return whether what was given to a lane in a place has completed."""
        return place < self._done[lane]

    def _bury(self) -> None:
        """Give the memory of arrays back that nobody will touch any more."""
        left = []
        for array in self._dying:
            blocks = [(array, space) for space in range(len(self._layout.spaces))]
            blocks = [block for block in blocks if self.capacity.has(block) and block not in self.capacity.pinned]
            idle = [block for block in blocks if self.capacity.is_idle(block)]
            for block in idle:
                self.free(block)
            if len(idle) < len(blocks):
                left.append(array)
        self._dying = left

    # --- what was refused, or failed --------------------------------------------------------------

    def _refused(self, refused: Sequence[tuple[Order, Exception]]) -> None:
        """Note what the runtime would not take; think what was gathered behind it over again."""
        while refused:
            for order, error in refused:
                given = self._orders[order.slot]
                given.entry.record = Record(order.submit_ns, "failed")
                if order.slot < len(self._layout.tasks) and (order.work is None or order.work.implementation.is_kernel):
                    self._outcomes.never_begun.add(given.task)
                self._lose(given, "could not be submitted:", error)
            for order in self._submitter.gathered:
                given = self._orders[order.slot]
                if order.slot >= len(self._layout.tasks):
                    continue
                failed = self._outcomes.has_failed(given.task)
                if failed or self._outcomes.cancels(given.task):
                    given.entry.record = Record(now_ns(), "failed" if failed else "cancelled")
                    self._outcomes.left_out(given.task)
                    self._submitter.drop(order)
            refused = self._submitter.flush()

    def _device_failed(self, given: Given, code: int) -> None:
        cause = ExecutionError(f"the runtime gives it status {code}")
        if given.entry.kind == "copy":
            self._lose(given, "failed on its device:", cause)
            return
        for task, outcome in self._outcomes.failed_on_device(given.task, code).items():
            self.mark(task, outcome)

    def _lose(self, given: Given, verb: str, cause: BaseException) -> None:
        """Note that something did not run: its task failed, and of a copy all that reads what it was to bring."""
        self._outcomes.failed(given.task, verb, cause, "copy" if given.entry.kind == "copy" else "submission")
        entry = given.entry
        if entry.kind != "copy":
            return
        entry.record = entry.record or Record(now_ns())
        entry.record.outcome = "failed"
        destination = entry.spaces[1]
        for piece in entry.pieces:
            if destination in self.directory.valid[piece]:
                self.directory.valid[piece].remove(destination)
        later = self.log.entries[self.log.entries.index(entry) + 1 :]
        for other in later:
            if other.kind in ("launch", "host") and any(
                touch.reads and touch.piece in entry.pieces and space == destination
                for touch, space in zip(self._layout.touches[other.task], other.spaces, strict=False)
            ):
                self._outcomes.failed(other.task, verb, cause, "copy")
                self.mark(other.task, "failed")
        if later:  # what has read what these wrote may have been submitted, too
            for task, outcome in self._outcomes.spoilt().items():
                self.mark(task, outcome)

    def mark(self, task: int, outcome: Outcome) -> None:
        """Note in the log what became of a task."""
        for entry in self.log.entries:
            if entry.task == task and entry.kind in ("launch", "host", "barrier"):
                entry.record = entry.record or Record(now_ns())
                entry.record.outcome = outcome

    # --- stamps -----------------------------------------------------------------------------------

    def _next(self, lane: int) -> Stamp:
        place = self._given[lane]
        self._given[lane] = place + 1
        return lane, place

    def _waits(self, lane: int, stamps: set[Stamp]) -> tuple[tuple[Stamp, ...], tuple[int, ...]]:
        """Return what something on a lane waits for, of each other lane the last only, and the slots of these.

        What has completed, or what something before it on the lane has waited for, has no slot to wait for.
        """
        latest: dict[int, int] = {}
        for other, place in stamps:
            if other != lane and place >= self._ordered_after[lane][other] and place > latest.get(other, -1):
                latest[other] = place
        slots = []
        for other, place in latest.items():
            self._ordered_after[lane][other] = place + 1
            slot = None if self.is_done(other, place) else self._slots.get((other, place))
            if slot is not None:
                slots.append(slot)
        return tuple(latest.items()), tuple(slots)

    def _wanted(self, piece: int) -> bool:
        """Return whether the value of a piece may still be asked for."""
        return self._kept[piece] or self._reads_left[piece] > 0


def _first_items(layout: Layout) -> list[int]:
    """Return the item that each piece is when the run begins, -1 for none."""
    found = [-1] * len(layout.pieces)
    problem = layout.problem
    for item, space in enumerate(problem.tables.item_space.tolist()):
        if space != NOTHING:
            found[layout.piece[problem.arrays[int(problem.item_array[item])]]] = item
    return found


def _measured_s(record: Record | None) -> float | None:
    """Return how long something took that was done; None if that is not known."""
    if record is None or record.outcome != "done" or record.start_ns is None or record.finish_ns is None:
        return None
    return (record.finish_ns - record.start_ns) * 1e-9
