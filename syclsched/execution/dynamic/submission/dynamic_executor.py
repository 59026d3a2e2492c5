# SPDX-License-Identifier: Apache-2.0
"""Executor of the dynamic engine: submits tasks and copies, allocates and frees memory, polls completions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from syclsched.devices.programs.executables import Executable, calls_library
from syclsched.errors import MemoryLimitError
from syclsched.execution.core.clock import now_ns
from syclsched.execution.core.execution_records import Outcome, Record
from syclsched.execution.core.program import ProgramNode
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.dynamic.data.capacity import Block, Capacity
from syclsched.execution.dynamic.data.coherence import CoherenceDirectory, Stamp
from syclsched.execution.dynamic.data.data_manager import DataManager, ResidentInputs
from syclsched.execution.dynamic.data.remaining_uses import RemainingUses
from syclsched.execution.dynamic.data.submission_lookahead import InFlightQueue
from syclsched.execution.dynamic.submission.execution_log import ExecutionLog, LogEntry, instruction_of
from syclsched.execution.dynamic.submission.in_flight import CompletedTask, InFlightTask, measured_s
from syclsched.execution.dynamic.submission.lane_sequence import LaneSequences
from syclsched.execution.dynamic.submission.polled_durations import PolledDurations
from syclsched.execution.dynamic.submission.run_resources import RunResources
from syclsched.execution.dynamic.submission.submitter import Submitter
from syclsched.execution.dynamic.submission.task_outcomes import FailurePropagator, TaskOutcomes
from syclsched.execution.lanes.instruction_submitter import SubmissionRequest
from syclsched.execution.lanes.lanes import Completion
from syclsched.model.plan import InstructionKind
from syclsched.scheduling.dynamic.policy_state import PolicyState

#: Copies that may be in flight at once.
COPY_SLOTS = 512


class DynamicExecutor:
    """Carries out the decisions of one run; implements `syclsched.execution.dynamic.data.data_manager.MemoryOps`."""

    def __init__(
        self,
        run: RunResources,
        state: PolicyState,
        limits: Sequence[int],
        outcomes: TaskOutcomes,
        submitted: Callable[[int, int], None],
        lock: threading.RLock,
        pinned: set[Block],
    ) -> None:
        layout, queues = run.layout, run.queues
        self._layout, self._state, self._work, self._buffers = layout, state, run.work, run.buffers
        self.hosts, self._outcomes, self.counts = run.hosts, outcomes, run.counts
        self.submitter = Submitter(run, self)
        self._submitted = submitted
        lanes = len(layout.lanes)
        self._stamps = LaneSequences(lanes)
        self.is_done = self._stamps.is_done
        self._demand = RemainingUses(layout)
        self._observed = PolledDurations(lanes)
        self.log = ExecutionLog()
        self._lock = lock
        self.directory = CoherenceDirectory(len(layout.pieces), len(layout.spaces))
        self.capacity = Capacity(
            [whole.nbytes for whole in layout.arrays],
            layout.parts,
            limits,
            self.directory,
            self.is_done,
            self._demand.is_wanted,
            pinned,
        )
        self.failure_propagator = FailurePropagator(layout, self.log, self.directory, outcomes)
        self.data_manager = DataManager(layout, self.directory, self.capacity, self)
        tasks = len(layout.tasks)
        self.stamp: list[Stamp | None] = [None] * tasks
        self.in_flight: list[InFlightQueue[InFlightTask]] = [InFlightQueue() for _ in range(lanes)]
        self.status_work: dict[int, InstructionWork] = {}
        self._contexts = [None if lane not in queues else queues[lane].sycl_context for lane in range(lanes)]
        self._free_slots = list(range(tasks + COPY_SLOTS - 1, tasks - 1, -1))
        #: In-flight tasks and copies on device lanes, by event slot.
        self._on_devices: dict[int, InFlightTask] = {}
        #: In-flight tasks on host lanes.
        self._on_hosts: dict[int, InFlightTask] = {}
        self._current_task = 0
        self._item = layout.first_items()
        #: By piece, the stamps of skipped tasks that access it: they carry the order between their predecessors and
        #: successors.
        self._gaps: dict[int, list[Stamp]] = {}
        #: Number of tasks cancelled, or failed before submission.
        self.left_out = 0
        for number, piece in enumerate(layout.pieces):
            if piece.is_input:
                self.directory.put(number, layout.given_in[number])
                block = (layout.array_of[number], layout.given_in[number])
                if not self.capacity.has(block):
                    self.capacity.pin_user_block(block)

    # --- a task -----------------------------------------------------------------------------------

    def attempt(self, task: int, processor: int) -> bool:
        """Make the inputs of a task resident and submit it; return False if that is not possible yet."""
        self._current_task = task
        if self._outcomes.has_failed(task):  # earlier, but its placeholder had to wait
            return self._skip(task, processor, "failed")
        if self._outcomes.cancels(task):
            return self._skip(task, processor, "cancelled")
        before = [stamp for other in self._layout.after[task] if (stamp := self.stamp[other]) is not None]
        if self._gaps:
            before += [stamp for touch in self._layout.touches[task] for stamp in self._gaps.get(touch.piece, ())]
        try:
            resident = self.data_manager.make_resident(task, processor, before)
        except MemoryLimitError as error:
            self._outcomes.failed(task, "no memory:", error, "memory")
            return self._skip(task, processor, "failed")
        if resident is None:
            return False
        if self._outcomes.has_failed(task):  # a copy for it was refused
            return self._skip(task, processor, "failed")
        if processor in self.hosts:
            self.flush()  # before the task is in flight: if this raises, nothing would start it
            if self._outcomes.cancels(task):  # a gathered predecessor was refused
                return self._skip(task, processor, "cancelled")
        self._submit_task(task, processor, resident)
        return True

    def _submit_task(self, task: int, processor: int, resident: ResidentInputs) -> None:
        """Submit a task whose data is resident."""
        layout, state = self._layout, self._state
        device = layout.lanes[processor].number
        barrier = layout.tasks[task].kind == "barrier"
        seconds = 0.0 if barrier else state.seconds(task, device)
        start_s = max(state.now_s, state.lanes[processor].until_s)
        waits, slots = self._stamps.waits(processor, resident.before)
        stamp = self._stamps.next(processor)
        touched = tuple([touch.piece for touch in layout.touches[task]])
        kind: InstructionKind = "barrier" if barrier else "host" if processor in self.hosts else "launch"
        entry = LogEntry(
            kind, processor, task, touched, resident.spaces, stamp, waits, start_s, start_s + seconds, None, device
        )
        work, executable = self._work.work(task, device, resident.spaces), self._work.executable(task, device)
        if work is not None and work.status is not None:
            self.status_work[task] = work
        instruction = self._work.instruction(task, device, resident.spaces, task)
        node = ProgramNode(instruction, processor, processor in self.hosts, (), (), slots)
        pending = self._record_task(entry, stamp)
        if node.on_host:
            self._expect(pending)
            self.hosts[processor].start(node, work, executable, self.submitter.events_before(node))
        else:
            self.submitter.take(self._request(pending, node, work, executable))
        self.stamp[task] = stamp
        self._submitted(task, processor)

    def _expect(self, pending: InFlightTask) -> None:
        """Expect the host lane's completion of a task."""
        pending.entry.record = Record(now_ns())
        self._on_hosts[pending.task] = pending

    def adopt(self, entry: LogEntry, *, ended: bool) -> None:
        """Take over a task that compiled code has submitted, with its log entry."""
        task, processor, stamp = entry.task, entry.lane, entry.stamp
        assert stamp is not None
        self._stamps.adopt(stamp, entry.waits)
        pending = self._record_task(entry, stamp)
        pending.ended = ended
        if processor not in self.hosts:
            instruction = self._work.instruction(task, entry.device, entry.spaces, task)
            self.submitter.adopt(self._request(pending, ProgramNode(instruction, processor, False)))
        elif not ended:
            self._expect(pending)
        self.stamp[task] = stamp
        self._submitted(task, processor)

    def adopt_copy(self, entry: LogEntry, slot: int) -> None:
        """Take over a copy that compiled code has submitted, with its log entry."""
        assert entry.stamp is not None
        self._stamps.adopt(entry.stamp, entry.waits)
        self.submitter.adopt(self._record_copy(entry, entry.stamp, slot, ()))

    def _record_task(self, entry: LogEntry, stamp: Stamp) -> InFlightTask:
        """Record the accesses, the results and the estimated times of a task that is submitted or about to be."""
        self.log.add(entry)
        for touch, space in zip(self._layout.touches[entry.task], entry.spaces, strict=True):
            if touch.writes:
                self.directory.written(touch.piece, space, stamp)
            else:
                self.directory.read(touch.piece, space, stamp)
        self._record_writes(entry.task, entry.spaces, entry.finish_s)
        pending = InFlightTask(entry.task, stamp[1], entry)
        self.in_flight[entry.lane].add(pending, entry.finish_s - entry.start_s)
        self._outcomes.done(entry.task)
        return pending

    def _record_copy(self, entry: LogEntry, stamp: Stamp, slot: int, waits: tuple[int, ...]) -> SubmissionRequest:
        """Record a copy that is submitted or about to be, with the slots it waits for; return its request."""
        self.log.add(entry)
        source, destination = entry.spaces
        for piece in entry.pieces:
            self.directory.copied(piece, source, destination, stamp)
            if self._item[piece] >= 0:
                self._state.where[self._item[piece]][destination] = entry.finish_s
        pending = InFlightTask(entry.task, stamp[1], entry)
        self.in_flight[entry.lane].add(pending, entry.finish_s - entry.start_s)
        instruction = instruction_of(entry, slot, self._layout, self._work.instruction)
        return self._request(pending, ProgramNode(instruction, entry.lane, False, (), (), waits))

    def _request(
        self,
        pending: InFlightTask,
        node: ProgramNode,
        work: InstructionWork | None = None,
        executable: Executable | None = None,
    ) -> SubmissionRequest:
        """Return the submission request of a task or copy on a device lane."""
        entry = pending.entry
        assert entry.stamp is not None
        entry.record = entry.record or Record(0)
        pending.request = SubmissionRequest(node, work, executable, entry.record)
        self._on_devices[node.id], self._stamps.slots[entry.stamp] = pending, node.id
        return pending.request

    def _skip(self, task: int, processor: int, outcome: Outcome) -> bool:
        """Submit a placeholder for a task that does not run: successors by explicit edges wait for its stamp.

        Return False if a predecessor must complete first, because the lane cannot wait for it by itself.
        """
        layout = self._layout
        behind = {s for o in layout.after[task] if (s := self.stamp[o]) is not None}
        behind.update(s for touch in layout.touches[task] for s in self._gaps.get(touch.piece, ()))
        if processor not in self.hosts and any(self.needs_host_sync(s, processor) for s in behind):
            return False
        waits, slots = self._stamps.waits(processor, behind)
        stamp = self._stamps.next(processor)
        entry = self.log.add(LogEntry("barrier", processor, task, (), (), stamp, waits))
        entry.record = Record(now_ns(), outcome)
        self.left_out += 1
        self._outcomes.left_out(task)
        self._record_writes(task, (layout.home[layout.lanes[processor].number],) * len(layout.touches[task]), 0.0)
        pending = InFlightTask(task, stamp[1], entry)
        self.in_flight[processor].add(pending, 0.0)
        if processor in self.hosts:
            pending.ended, pending.behind = True, tuple(behind)
        else:
            instruction = self._work.instruction(task, -1, None, task)
            self.flush()
            self.submitter.put_noop(self._request(pending, ProgramNode(instruction, processor, False, (), (), slots)))
        self.stamp[task] = stamp
        for touch in layout.touches[task]:
            self._gaps.setdefault(touch.piece, []).append(stamp)
        self._submitted(task, processor)
        return True

    def _record_writes(self, task: int, spaces: Sequence[int], when_s: float) -> None:
        """Record the accesses of a submitted task, and the locations and times of the items it writes."""
        layout, state = self._layout, self._state
        made = iter(layout.makes[task])
        for touch, space in zip(layout.touches[task], spaces, strict=True):
            self._demand.touched(touch)
            if touch.writes:
                item = self._item[touch.piece] = next(made)
                state.origin[item], state.where[item] = space, {space: when_s}

    # --- memory and copies ------------------------------------------------------------------------

    def needs_host_sync(self, stamp: Stamp, lane: int) -> bool:
        """Return whether a lane cannot wait for a command by itself, so that the host must see it complete first."""
        other = stamp[0]
        if other == lane and lane not in self.hosts:
            return False
        if self.is_done(*stamp):
            return False
        if other in self.hosts:
            return True
        return lane not in self.hosts and bool(self._contexts[other] != self._contexts[lane])

    def allocate(self, block: Block, lane: int) -> None:
        """Allocate an array in a space."""
        array, space = block
        self._buffers.allocate((self._layout.arrays[array].name, self._layout.spaces[space]))
        self.capacity.take(block)
        self.log.add(LogEntry("alloc", lane, self._current_task, (array,), (space,)))

    def free(self, block: Block) -> None:
        """Free an array in a space; all commands that access it have completed."""
        layout, (array, space) = self._layout, block
        users = self.directory.users(layout.parts[array], space)
        with self._lock:
            if block in self.capacity.pinned:
                return
            self.directory.left(layout.parts[array], space)
            self._buffers.free((layout.arrays[array].name, layout.spaces[space]))
        self.capacity.give(block)
        lane = next(iter(users), 0)
        self.log.add(LogEntry("free", lane, self._current_task, (array,), (space,), waits=tuple(users.items())))
        for piece in layout.parts[array]:
            item = self._item[piece]
            if item >= 0:
                arrivals = self._state.where[item]
                arrivals.pop(space, None)
                if self._state.origin[item] == space and arrivals:
                    self._state.origin[item] = next(iter(arrivals))

    def copy(self, pieces: Sequence[int], source: int, destination: int, lane: int, before: set[Stamp]) -> bool:
        """Submit a copy to a lane, ordered after other commands; return False if too many copies are in flight."""
        if not self._free_slots:
            return False
        layout, state = self._layout, self._state
        slot = self._free_slots.pop()
        waits, slots = self._stamps.waits(lane, before)
        stamp = self._stamps.next(lane)
        nbytes = sum(layout.pieces[piece].nbytes for piece in pieces)
        seconds = state.known.latency_s[source][destination] + nbytes * state.known.s_per_byte[source][destination]
        start_s = max(state.now_s, state.now_s + self.in_flight[lane].seconds)
        between, times = (source, destination), (start_s, start_s + seconds)
        entry = LogEntry("copy", lane, self._current_task, tuple(pieces), between, stamp, waits, *times)
        self.submitter.take(self._record_copy(entry, stamp, slot, slots))
        return True

    def idle(self) -> bool:
        """Return whether nothing is in flight."""
        return not any(len(each) for each in self.in_flight)

    # --- completions ------------------------------------------------------------------------------

    def flush(self) -> None:
        """Submit the gathered tasks and copies."""
        self.submitter.flush()

    def poll(self) -> list[CompletedTask]:
        """Return the tasks completed since the last call, and retire them from their lanes."""
        ended: list[CompletedTask] = []
        finished: list[tuple[int, InFlightTask]] = []
        for lane, in_flight in enumerate(self.in_flight):
            items = in_flight.items
            while items:
                pending = items[0][0]
                if pending.request is None:
                    if not pending.ended or not all(self.is_done(*stamp) for stamp in pending.behind):
                        break
                else:
                    status = self.submitter.status(pending.request.node.id)
                    if status == 0:
                        break
                    if status < 0:
                        self.failure_propagator.failed_on_device(pending, status)
                    finished.append((lane, pending))
                in_flight.pop()
                self._stamps.end(lane, pending.place)
                if pending.request is None:
                    seconds = measured_s(pending.entry.record)
                    ended.append(CompletedTask(pending.task, lane, seconds))
        if finished:
            self._note_finished(finished, ended)
        if self._demand.dead_arrays and (ended or finished):
            self._free_dead_arrays()
        return ended

    def _note_finished(self, finished: Sequence[tuple[int, InFlightTask]], ended: list[CompletedTask]) -> None:
        requests = [pending.request for _, pending in finished if pending.request is not None]
        seen_ns, untimed = now_ns(), dict[int, list[InFlightTask]]()
        for (lane, pending), request, times in zip(finished, requests, self.submitter.times(requests), strict=True):
            slot, record = request.node.id, _record_of(request)
            del self._stamps.slots[lane, pending.place], self._on_devices[slot]
            if record.submit_ns:
                record.device_ns = times
                record.event = record.first_event = None
            else:
                self._broken_off(pending, request)
            if slot < len(self._layout.tasks):
                good = times is not None and record.outcome == "done"
                taken_ns = times[1] - times[0] if good and times else 0
                if good and not taken_ns and request.executable is not None and calls_library(request.executable):
                    untimed.setdefault(lane, []).append(pending)
                else:
                    ended.append(CompletedTask(pending.task, lane, taken_ns * 1e-9 if taken_ns > 0 else None))
            else:
                self.submitter.forget(slot)
                self._free_slots.append(slot)
        for lane in {lane for lane, _ in finished}:
            on_lane = untimed.get(lane, [])
            submit_ns = _record_of(on_lane[0].request).submit_ns if on_lane and on_lane[0].request is not None else 0
            spans_ns = self._observed.estimate_spans(lane, submit_ns, len(on_lane), seen_ns)
            for pending, span_ns in zip(on_lane, spans_ns, strict=True):
                assert pending.entry.record is not None
                pending.entry.record.device_ns = None
                pending.entry.record.start_ns, pending.entry.record.finish_ns = span_ns
                ended.append(CompletedTask(pending.task, lane, (span_ns[1] - span_ns[0]) * 1e-9))

    def _broken_off(self, pending: InFlightTask, request: SubmissionRequest) -> None:
        """Record a submission that was broken off, by an error or a cancellation: its values are missing."""
        record = _record_of(request)
        record.submit_ns, record.outcome = now_ns(), "cancelled"
        if request.node.id < len(self._layout.tasks):
            self.left_out += 1
            self._outcomes.broken_off(pending.task)

    def handle(self, completion: Completion) -> None:
        """Handle a completion that a host lane reports."""
        if not completion.unexecuted:
            self._ended_on_host(self._on_hosts.pop(completion.node.id), completion)
        lane = self.hosts[completion.node.lane]
        for node in lane.take_unexecuted(completion):
            self._on_hosts[node.id].entry.record = Record(now_ns())
            lane.restart(node)

    def _ended_on_host(self, pending: InFlightTask, completion: Completion) -> None:
        assert pending.entry.record is not None
        completion.record_in(pending.entry.record)
        if completion.error is not None:
            self._outcomes.failed(pending.task, "raised", completion.error, "raised")
        elif completion.start_ns is None:
            self._outcomes.left_out(pending.task)
        pending.ended = True

    def _free_dead_arrays(self) -> None:
        """Free arrays without remaining accesses, once their last users have completed."""
        remaining = []
        for array in self._demand.dead_arrays:
            blocks = [(array, space) for space in range(len(self._layout.spaces))]
            blocks = [block for block in blocks if self.capacity.has(block) and block not in self.capacity.pinned]
            idle = [block for block in blocks if self.capacity.is_idle(block)]
            for block in idle:
                self.free(block)
            if len(idle) < len(blocks):
                remaining.append(array)
        self._demand.dead_arrays = remaining

    # --- for the submitter: implements `SubmissionHandler` ----------------------------------------

    def must_skip(self, node: ProgramNode) -> bool:
        """Return whether a task must not start: a predecessor has failed, or the run is ending."""
        if self.submitter.loop.stopped:
            return True
        task = node.id
        return task < len(self._layout.tasks) and (self._outcomes.has_failed(task) or self._outcomes.cancels(task))

    def skip(self, request: SubmissionRequest) -> None:
        """Record a task that is not submitted, and order its successors."""
        if self.submitter.loop.stopped:
            return  # polling records it as broken off
        task, record = request.node.id, _record_of(request)
        record.submit_ns, record.outcome = now_ns(), "failed" if self._outcomes.has_failed(task) else "cancelled"
        self.left_out += 1
        self._outcomes.left_out(task)
        self.submitter.put_noop(request)

    def submitted(self, request: SubmissionRequest, submit_ns: int) -> None:
        """Record the time of a submission."""
        _record_of(request).submit_ns = submit_ns

    def refused(self, request: SubmissionRequest, error: Exception) -> None:
        """Record a task or copy that the runtime refuses, and order its successors."""
        pending = self._on_devices[request.node.id]
        if pending.entry.kind != "copy" and (request.work is None or request.work.implementation.is_kernel):
            self._outcomes.never_begun.add(pending.task)
        self.failure_propagator.lose(pending, "could not be submitted:", error)
        self.submitter.put_noop(request)


def _record_of(request: SubmissionRequest) -> Record:
    assert request.record is not None, request.node
    return request.record
