# SPDX-License-Identifier: Apache-2.0
"""Dynamic engine: one thread per run that asks the policy, moves data, submits tasks and polls completions.

A task is offered to the policy once its predecessors on device queues have been *submitted* and its predecessors on the
host have completed: in-order queues and event lists then order it without waiting. `Lookahead` limits the submitted
work of each lane. Where no event list can express a dependency (host functions, another SYCL context), the successor is
deferred until its predecessor has completed. Events are polled; there is no thread per task.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from syclsched.backoff import backoff
from syclsched.devices.memory.constant_uploads import uploaded_bytes
from syclsched.devices.native.submission_library import load_library
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import DeadlineError
from syclsched.execution.core.clock import ClockMap, now_ns
from syclsched.execution.core.events import EventTable
from syclsched.execution.core.execution_records import Record
from syclsched.execution.core.progress import LaneCount, LaneProgress
from syclsched.execution.core.safeguards import Safeguards
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.dispatch.base_engines import ThreadedEngine
from syclsched.execution.dispatch.turns import TURNS, Turn, devices_of, message_lanes
from syclsched.execution.dynamic.compiled.fast_path import CompiledRun
from syclsched.execution.dynamic.compiled.fast_path_eligibility import fast_path_placement
from syclsched.execution.dynamic.compiled.inbox import Inbox
from syclsched.execution.dynamic.data.capacity import Block, limits_beside_constants
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph
from syclsched.execution.dynamic.data.submission_lookahead import SubmissionLookahead
from syclsched.execution.dynamic.learning import Learn, measured_durations
from syclsched.execution.dynamic.live_clock import POLL_INTERVALS_S, LiveClock
from syclsched.execution.dynamic.run_turns import RunTurns
from syclsched.execution.dynamic.submission.dynamic_executor import COPY_SLOTS, DynamicExecutor
from syclsched.execution.dynamic.submission.dynamic_program import DynamicBuffers, DynamicProgram
from syclsched.execution.dynamic.submission.execution_log import ExecutionLog, plan_from_log
from syclsched.execution.dynamic.submission.finished_run import FinishedRun
from syclsched.execution.dynamic.submission.in_flight import progress_of
from syclsched.execution.dynamic.submission.run_resources import RunResources
from syclsched.execution.dynamic.submission.submitter import Submitter
from syclsched.execution.dynamic.submission.task_outcomes import TaskOutcomes
from syclsched.execution.dynamic.submission.tasks import TaskWork, with_current_status
from syclsched.execution.lanes.lane_set import LaneSet
from syclsched.execution.lanes.lanes import Completion
from syclsched.execution.memory.buffers import BufferTable
from syclsched.execution.memory.statuses import failed_status
from syclsched.model.plan import Lane, Plan
from syclsched.scheduling.dynamic.policy_state import DynamicPolicy
from syclsched.scheduling.dynamic.rule_policy import policy_with_rule
from syclsched.scheduling.dynamic.run_loop import run_policy
from syclsched.scheduling.dynamic.state_tracker import StateTracker
from syclsched.scheduling.tables import NOTHING

#: A host lane's completion, a cancellation, a turn that has come, or a task (by its index) past its deadline.
_Message: TypeAlias = Completion | Literal["cancel", "turn"] | tuple[int, DeadlineError]


class DynamicEngine(ThreadedEngine):
    """Runs one graph, once, under a dynamic policy; implements `syclsched.execution.handle.engine.Engine`."""

    failing = "the engine failed"

    def __init__(
        self,
        layout: IndexedGraph,
        policy: DynamicPolicy,
        work: TaskWork,
        buffers: BufferTable,
        queues: Mapping[int, SyclQueue],
        limits: Sequence[int],
        *,
        record: bool,
        learn: Learn | None = None,
        sharing: Safeguards | None = None,
    ) -> None:
        super().__init__(f"syclsched {layout.graph.name}", f"graph {layout.graph.name!r}", record=record)
        self.clocks: dict[str, ClockMap] = {}
        self.program = DynamicProgram(layout, f"dynamic:{policy.name}", self._where)
        self._empty = self.program.plan
        self._made: tuple[Plan, dict[int, Record]] | None = None
        self._layout, self._policy, self._work, self._queues = layout, policy, work, queues
        self._table, self._limits = buffers, limits
        self._lookahead = SubmissionLookahead()
        self._learn = learn
        self._tracker = StateTracker(layout.problem, policy.prepare(layout.problem), policy.sorts_queues)
        self._state = self._tracker.state
        self._outcomes = TaskOutcomes(self.program.tasks, work.unplaced_instruction)
        self.failures = self._outcomes.failures
        self._inbox: Inbox[_Message] = Inbox()
        self._submitter: Submitter | None = None
        self._executor: DynamicExecutor | None = None
        self._fast_path: CompiledRun | None = None
        self._logged = False
        self._lock = threading.RLock()  # reentrant: garbage collected under it may hold this run
        self._pinned: set[Block] = set()
        self.buffers = DynamicBuffers(buffers, layout, self._where, self._pinned.add, self._lock)
        self._clock: LiveClock | None = None
        #: The run's turns on devices that it shares; None if it takes none, or has not begun.
        self.turn: Turn | None = None
        self._turns: RunTurns | None = None
        self._sharing = sharing  # its priority and share; None if it takes no turns

    @property
    def takes_turns(self) -> bool:
        """Whether each task waits for the run's turn."""
        return self._sharing is not None

    # --- for other threads ------------------------------------------------------------------------

    def event(self, number: int) -> object:
        """Return a value other than None if a task, by its index, has been submitted."""
        return True if self.passed(number) else None

    def passed(self, number: int) -> bool:
        """Return whether a task, by its index, has been submitted, has completed or was cancelled."""
        if self._fast_path is not None:
            return self._fast_path.log.is_submitted(number)
        return self._executor is not None and self._executor.stamp[number] is not None

    def is_complete(self, number: int) -> bool:
        """Return whether a task, by its index, has completed or was cancelled."""
        if self.finished.is_set():
            return True
        if self._fast_path is not None:
            return self._fast_path.log.is_done(number)
        stamp = None if self._executor is None else self._executor.stamp[number]
        return stamp is not None and self._executor is not None and self._executor.is_done(*stamp)

    def any_failed(self) -> bool:
        """Return False: device failures are recorded when polling sees them."""
        return False

    @property
    def completed(self) -> bool:
        """Whether every task was executed, none cancelled."""
        if self._clock is None or self._executor is None:
            return False
        return self._clock.left == 0 and not self._executor.left_out

    @property
    def records(self) -> dict[int, Record]:
        """The record of each instruction, by number; once the run is over."""
        return self._happened()[1]

    def _happened(self) -> tuple[Plan, dict[int, Record]]:
        """Return the executed plan and its records; built on first use."""
        with self._lock:
            if self._made is None:
                executor = self._executor
                log = ExecutionLog() if executor is None else self._whole_log(executor)
                self._made = plan_from_log(log, self._layout, self._empty, self._work.instruction)
            return self._made

    def _whole_log(self, executor: DynamicExecutor) -> ExecutionLog:
        """Return the log, including the entries of compiled code."""
        if self._fast_path is not None and not self._logged:
            self._logged = True
            executor.log.entries += self._fast_path.entries()
        return executor.log

    def ended(self) -> FinishedRun:
        """Return the finished run for recovery."""
        plan, records = self._happened()
        names = self._layout.tasks
        return FinishedRun(
            plan,
            records,
            self.failures.all,
            {names[task].name for task in self._outcomes.never_begun},
            self._table,
            cancelled=self.cancelled,
            error=self.error,
        )

    def statuses_behind(self, array: str) -> list[InstructionWork]:
        """Return the tasks with a status that an array's last value depends on, in order of submission."""
        writer = self._layout.last_writer[self._layout.piece[array]]
        if not self._work.with_status or writer == NOTHING or self._executor is None:
            return []
        ancestors = self.program.ancestors(self._layout.tasks[writer].name)
        found = sorted(self._executor.status_work.items(), key=lambda each: self._layout.submission[each[0]])
        return [with_current_status(piece) for _, piece in found if piece.task.name in ancestors]

    def positions(self) -> list[LaneProgress]:
        """Return the progress of unfinished lanes, tasks numbered by index; for any thread."""
        if self._fast_path is not None:
            return self._fast_path.log.positions()
        return [] if self._executor is None else progress_of(self._layout, self._executor.in_flight)

    def lane_counts(self) -> list[LaneCount]:
        """Return the number of completed tasks of each lane; for any thread."""
        fast_path, executor = self._fast_path, self._executor
        done: Mapping[int, int] = {}
        if fast_path is not None:
            done = fast_path.log.tasks_done()
        elif executor is not None:
            done = Counter(stamp[0] for stamp in executor.stamp if stamp is not None and executor.is_done(*stamp))
        lanes = self._layout.lanes
        return [
            LaneCount(each.name, each.device, each.kind, done.get(lane, 0), None) for lane, each in enumerate(lanes)
        ]

    @property
    def first_submission_ns(self) -> int | None:
        """Host's clock at the first decision; None before it."""
        return None if self._clock is None else self._clock.began_ns

    def overdue(self, number: int, error: DeadlineError) -> None:
        """Fail a task past its deadline, and cancel its descendants."""
        self._tell((number, error))

    def what_is_left(self) -> str:
        """Return the progress of the lanes as text."""
        if self._clock is None:
            return "nothing has been submitted yet"
        at = [f"lane {p.lane} is at {p.name}, the first of {p.of} given to it" for p in self.positions()]
        if self._fast_path is None and self._clock.left:
            at.append(f"{self._clock.left} of {len(self._layout.tasks)} tasks are yet to be submitted")
        return "; ".join(at) or "everything is done but the end"

    def _be_cancelled(self) -> None:
        submitter = self._submitter
        if submitter is not None:
            submitter.loop.stop()
        self._tell("cancel")

    def _be_watched(self) -> None:
        """Make the compiled loop return, so that watched tasks are checked."""
        if (fast_path := self._fast_path) is not None:
            fast_path.ask()

    # --- the thread -------------------------------------------------------------------------------

    def _go(self) -> None:
        clock = self._clock = self._prepare()
        begun_ns = time.thread_time_ns()
        self._loop(clock)
        self.counts.dispatch_ns = time.thread_time_ns() - begun_ns
        self.counts.loop_ns = now_ns() - clock.began_ns

    def _prepare(self) -> LiveClock:
        """Compile the tasks, create the lanes, and read the clocks."""
        layout = self._layout
        with self._reporting() as progress:
            self._work.compile(self._queues, self._table.uploads, progress)
        self.counts.constant_bytes = uploaded_bytes(self._work.executables())
        self._limits = limits_beside_constants(layout, self._limits, self.counts.constant_bytes)
        slots = len(layout.tasks) + COPY_SLOTS + layout.most_copies
        devices = {index: lane.device for index, lane in enumerate(layout.lanes)}
        loop = SubmissionLoop(load_library(), dict(self._queues), slots, devices)
        if not self._work.needs_python:
            loop.use_native_queues()
            loop.time_calls(self._work.has_libraries)  # policies decide by measured task times
        events = EventTable(loop)
        lanes = LaneSet(
            [Lane(lane.name, lane.device, lane.kind) for lane in layout.lanes],
            self._queues, self._table, events, self.counts, self._on_completion, lambda: self._ending,
            layout.platform.host_threads,
        )  # fmt: skip
        for item, space in enumerate(layout.problem.tables.item_space.tolist()):
            if space != NOTHING:
                self._state.where[item][space] = 0.0
                self._state.origin[item] = space
        run = RunResources(layout, self._work, self._table, self._queues, lanes, events, self.counts)
        self._executor = DynamicExecutor(
            run, self._state, self._limits, self._outcomes, self._submitted, self._lock, self._pinned
        )
        self._submitter = self._executor.submitter
        self._fast_path = None if self.takes_turns else self._make_fast_path(run, self._executor)
        self._turns = self._join_turns()
        if self.recording:
            self.clocks = lanes.with_new_last_anchor(self.clocks, loop.stamp)
        return LiveClock(
            self._tracker, self._executor, self._lookahead, self._policy.name, self._receive, lambda: self._ending,
            self._turns,
        )  # fmt: skip

    def _join_turns(self) -> RunTurns | None:
        """Join the runs of this process that take turns; return None if this one takes none."""
        if self._sharing is None or self._executor is None:
            return None
        how, layout, hosts = self._sharing, self._layout, self._executor.hosts
        messages = message_lanes(layout.platform, [Lane(each.name, each.device, each.kind) for each in layout.lanes])
        in_flight = [each for lane, each in enumerate(self._executor.in_flight) if lane not in messages]
        devices, owner = devices_of(self._empty), id(layout.problem)
        self.turn = TURNS.join(
            how.priority, how.share or 1.0, devices, lambda: any(len(each) for each in in_flight), owner
        )
        return RunTurns(self.turn, hosts, messages, lambda: self._tell("turn"))

    def _make_fast_path(self, run: RunResources, executor: DynamicExecutor) -> CompiledRun | None:
        """Return the compiled fast path of this run; None if it is not eligible."""
        policy = policy_with_rule(self._policy)
        placement = fast_path_placement(run.layout, run.work, self._limits, executor.submitter)
        if policy is None or placement is None:
            return None
        fast_path = CompiledRun(run, executor, self._lookahead, policy, self._state.known, placement, self._inbox)
        return fast_path if fast_path.prepare() else None

    def _run_fast_path(self, fast_path: CompiledRun, clock: LiveClock, executor: DynamicExecutor) -> bool:
        """Run on the fast path; on failure take over all its submitted work and return False."""

        def watched() -> bool:
            for number in tuple(self._watched) if self._watched else ():
                if fast_path.log.is_submitted(number):
                    self._notify_waiters(number)
            return bool(self._watched)

        if fast_path.run(clock.began_ns, lambda: self.cancelled, watched):
            clock.left = 0
            return True
        fast_path.settle(lambda: self.cancelled)
        for entry in fast_path.entries():
            if entry.kind == "copy":
                executor.adopt_copy(entry, fast_path.slot_of(entry))
                continue
            task, processor = entry.task, entry.lane
            while task not in self._state.ready:
                clock.poll()  # its predecessor on the host has completed, but was not polled yet
            self._tracker.begin(task, processor, entry.start_s)
            executor.adopt(entry, ended=fast_path.has_ended(task))
            clock.report_lookahead(processor)
        self._fast_path = None
        clock.poll()
        if fast_path.failed_message is not None:
            self._handle(executor, fast_path.failed_message)
        return False

    def _tell(self, message: _Message) -> None:
        """Post a message to the engine's thread; for other threads."""
        self._inbox.put(message)
        self._be_watched()

    def _on_completion(self, completion: Completion) -> None:
        """Forward a completion from a host lane's thread; that thread ends before the wake-up counter is freed."""
        self._tell(completion)
        if self._submitter is not None and self._submitter.wakeup is not None:
            self._submitter.wakeup.signal()

    def _loop(self, clock: LiveClock) -> None:
        executor = self._executor
        assert executor is not None
        for task in self._tracker.sources():
            self._tracker.arrive(task)
        if self._fast_path is None or not self._run_fast_path(self._fast_path, clock, executor):
            run_policy(self._policy, self._tracker, clock)

    @property
    def _ending(self) -> bool:
        """Whether no further task may start."""
        return self.cancelled or self.failures.halted

    def _receive(self, longest_s: float) -> bool:
        """Wait at most this long for a message, and handle it; return whether there was one."""
        if longest_s:
            self._inbox.wait(longest_s)
        if self._inbox.empty() or self._executor is None:
            return False
        self._handle(self._executor, self._inbox.get())
        return True

    def _handle(self, executor: DynamicExecutor, message: _Message) -> None:
        if isinstance(message, Completion):
            executor.handle(message)
        elif message == "turn":
            if self._turns is not None:
                self._turns.ask_again()
        elif message != "cancel":
            number, error = message
            if number < len(self._layout.tasks):
                for task, outcome in self._outcomes.past_deadline(number, error).items():
                    executor.failure_propagator.set_outcome(task, outcome)
            else:
                self.error = self.error or error

    def _submitted(self, task: int, processor: int) -> None:
        """Notify waiting threads and the clock that a task was submitted."""
        self._notify_waiters(task)
        if self._clock is not None:
            self._clock.submitted(task, processor)

    # --- the end ----------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Wait for all submitted work, and read the status of tasks that report one."""
        if self._turns is not None:
            self._turns.end()
        executor, submitter = self._executor, self._submitter
        if executor is not None and submitter is not None:
            try:
                executor.flush()
                reports = True
                while reports:  # tasks returned after a failure start again, and report in turn
                    for host in submitter.lanes.hosts.values():
                        host.worker.stop()
                    reports = self._receive(0.0)
                    while self._receive(0.0):
                        pass
            finally:  # submitted work uses the run's memory until it completes
                submitter.lanes.finish()
                if self.error is not None:  # work of compiled code may not have been taken over
                    submitter.wait_for_all()
                waited_s = 0.0
                while not executor.idle():
                    if executor.poll():
                        waited_s = 0.0
                    else:
                        pause_s = backoff(waited_s, *POLL_INTERVALS_S, share=1.0)
                        time.sleep(pause_s)
                        waited_s += pause_s
            try:
                if self.recording and self.error is None:
                    self.clocks = submitter.lanes.with_new_last_anchor(self.clocks, submitter.loop.stamp)
                self._read_statuses(executor)
            finally:  # ends its threads
                submitter.close()
            if self._learn is not None and self.error is None and not self.failures.halted:
                drift = self._tracker.drift if self._fast_path is None else self._fast_path.run_state.drift
                self._learn(measured_durations(self._layout, self._work, self._state.known, drift))
        self.counts.peak_bytes, self.counts.held_bytes = dict(self._table.peak_bytes), dict(self._table.held_bytes)
        self.program.get_executed_plan = lambda: self._happened()[0]

    def _read_statuses(self, executor: DynamicExecutor) -> None:
        for task, piece in sorted(executor.status_work.items()):
            if self._outcomes.failures.lost_task(piece.task.name):
                continue
            error = failed_status(with_current_status(piece), self.buffers)
            if error is not None:
                self._whole_log(executor)
                self._outcomes.note(task, error)
                executor.failure_propagator.set_outcome(task, "failed")

    def _where(self, piece: int) -> int | None:
        """Return a space in which the current value of a piece can be read now, host memory if possible."""
        executor, layout = self._executor, self._layout
        if executor is None:
            return None
        if self._fast_path is not None:
            return self._fast_path.log.where(piece)
        return executor.directory.where(piece, layout.host_space, executor.is_done)
