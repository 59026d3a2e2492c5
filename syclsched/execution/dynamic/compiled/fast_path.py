# SPDX-License-Identifier: Apache-2.0
"""Fast path of dynamic runs whose data fits into memory: decided and submitted by compiled code.

Memory is allocated once, so kernel arguments on each lane are known before the run starts. In one memory space a task
waits for its dependencies in the graph; over several, a compiled directory adds copies and their dependencies. When a
command is refused or fails, the engine takes over the submitted work and continues without the fast path.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from syclsched.compiled import precompile
from syclsched.devices.programs.executables import KernelSubmission
from syclsched.devices.submission.commands import Command, CommandSequence, CommandStructure
from syclsched.execution.core.clock import now_ns
from syclsched.execution.core.program import ProgramNode
from syclsched.execution.dynamic.compiled.compiled_loop import (
    ALL_DONE,
    ASKED,
    BATCH_SUBMITTED,
    BEGAN_NS,
    CHANGED,
    NEVER,
    PROCESSED,
    REPLAN,
    REPLAN_FROM,
    RETURN_AFTER_BATCH,
    SUBMISSION_NS,
    SUBMITTED,
    WORDS,
    EventLoop,
)
from syclsched.execution.dynamic.compiled.fast_path_eligibility import MemoryPlacement
from syclsched.execution.dynamic.compiled.fast_path_log import FastPathLog
from syclsched.execution.dynamic.compiled.helper_loop import wait_for_events
from syclsched.execution.dynamic.compiled.inbox import Inbox
from syclsched.execution.dynamic.compiled.replanner import Replanner
from syclsched.execution.dynamic.data.submission_lookahead import SubmissionLookahead
from syclsched.execution.dynamic.submission.dynamic_executor import COPY_SLOTS, DynamicExecutor
from syclsched.execution.dynamic.submission.execution_log import LogEntry
from syclsched.execution.dynamic.submission.run_resources import RunResources
from syclsched.execution.lanes.instruction_commands import command_of
from syclsched.execution.lanes.lanes import Completion
from syclsched.scheduling.dynamic.compiled.run_state import new_run_state
from syclsched.scheduling.dynamic.compiled.run_state_updates import complete, release_sources
from syclsched.scheduling.dynamic.policy_state import StaticInfo
from syclsched.scheduling.dynamic.rule_policy import RulePolicy

#: Polling interval while lane threads finish their work.
_LOOK_EVERY_S = 1e-3

_LANE, _WAITS, _COUNT, _KERNEL = (
    getattr(CommandStructure, name).offset // 8 for name in ("lane", "waits", "waits_count", "kernel")
)


class CompiledRun:
    """Fast path of one run, until a failure."""

    def __init__(
        self,
        run: RunResources,
        executor: DynamicExecutor,
        lookahead: SubmissionLookahead,
        policy: RulePolicy,
        known: StaticInfo,
        placement: MemoryPlacement,
        inbox: Inbox[Any],
    ) -> None:
        layout, submitter = run.layout, executor.submitter
        self._layout, self._work, self._table, self._submitter = layout, run.work, run.buffers, submitter
        self._hosts, self._executor, self._placement, self._inbox = run.hosts, executor, placement, inbox
        self._loop = submitter.loop
        self._policy = policy
        self.tasks = len(layout.tasks)
        self._processors = len(known.device_of)
        space = placement.single_space
        inputs = [n for n, piece in enumerate(layout.pieces) if piece.is_input]
        self._copied = [] if space is None else [n for n in inputs if layout.given_in[n] != space]
        spread = layout.spread if space is None else None
        copies_from = self.tasks + COPY_SLOTS
        self.run_state = new_run_state(
            layout.problem, policy, known,
            lanes=len(layout.lanes), commands=copies_from + (0 if spread is None else spread.most_copies),
            is_host=[lane.kind == "host" for lane in layout.lanes[: self._processors]],
            lookahead=(lookahead.fewest, lookahead.most, lookahead.seconds),
            before=self._copies_before(), contexts=placement.contexts, spread=spread,
            after=None if spread is None else layout.after, copies_from=copies_from,
        )  # fmt: skip
        self._commands = np.zeros((self.tasks, self._processors, WORDS), np.int64)
        self._kept: list[Any] = []
        self._reports: dict[int, Completion] = {}
        #: Tasks given to host lanes.
        self.host_tasks: set[int] = set()
        #: Number of started commands already searched for host tasks.
        self._searched = 0
        #: The message that ended the fast path.
        self.failed_message: Any = None
        self._driver: EventLoop
        #: By lane: completion counts for one more completed task.
        self._one = np.eye(len(layout.lanes), dtype=np.int64)
        self.log = FastPathLog(layout, self.run_state, placement.single_space)
        replans = policy.replans_above < math.inf
        self._replanner = Replanner(self.run_state, layout.problem, executor.counts) if replans else None

    def _copies_before(self) -> list[list[int]]:
        """Return, by task, the copies of initial values that it reads and therefore waits for."""
        layout = self._layout
        slot = {piece: self.tasks + n for n, piece in enumerate(self._copied)}
        given = layout.problem.tables.item_producer < 0
        found: list[list[int]] = []
        for task, touches in enumerate(layout.touches):
            reading = [touch.piece for touch in touches if touch.reads]
            items = zip(reading, layout.reads[task], strict=True)
            found.append([slot[piece] for piece, item in items if given[item] and piece in slot])
        return found

    def prepare(self) -> bool:
        """Allocate memory and build all commands; return whether every task is a single command."""
        layout, executor = self._layout, self._executor
        for block in self._placement.blocks:
            if not executor.capacity.has(block):
                executor.allocate(block, 0)
        address, step = self._commands.ctypes.data, 8 * WORDS
        waits = self.run_state.waits
        submitter = self._submitter
        submitter.keep(self)
        submitter.begin_threads()
        threads, wakeup = submitter.threads, submitter.wakeup
        assert wakeup is not None
        self._driver = EventLoop(
            self.run_state, self._policy.rule, submitter.library, self._loop, wakeup, self._commands, self._addresses(),
            None if threads is None else threads.lanes,
        )  # fmt: skip
        able = np.isfinite(layout.problem.tables.task_seconds())
        for task in range(self.tasks):
            made: dict[int, tuple[Command, Any] | None] = {}
            for lane in range(self._processors):
                device = layout.lanes[lane].number
                if lane in self._hosts or not able[task, device]:
                    continue
                if device not in made:
                    made[device] = self._command(task, lane, device)
                found = made[device]
                if found is None:
                    return False
                command, kernel = found
                ctypes.memmove(address + (task * self._processors + lane) * step, command.address, step)
                if threads is not None and kernel is not None:
                    self._commands[task, lane, _KERNEL] = self._loop.lane_kernel(lane, kernel)
        self._commands[:, :, _LANE] = np.arange(self._processors)
        self._commands[:, :, _WAITS] = waits.ctypes.data + np.arange(self.tasks)[:, None] * waits.strides[0]
        precompile(release_sources, self.run_state)
        machine = self._driver.machine
        if self._hosts:
            precompile(complete, self.run_state, self._one[0], machine.start_ns, machine.end_ns, 0.0)
        self._driver.make_ready()
        return True

    def _addresses(self) -> Any:
        """Return the address of each piece in each space; 0 where it is not allocated."""
        layout, capacity = self._layout, self._executor.capacity
        found = np.zeros((len(layout.pieces), len(layout.spaces)), np.int64)
        for piece, array in enumerate(layout.array_of) if self._placement.single_space is None else ():
            for space, name in enumerate(layout.spaces):
                if capacity.has((array, space)):
                    found[piece, space] = self._table[layout.pieces[piece].name, name].address
        return found

    def _spaces(self, task: int, device: int) -> tuple[int, ...]:
        space = self._layout.home[device] if self._placement.single_space is None else self._placement.single_space
        return (space,) * len(self._layout.touches[task])

    def _command(self, task: int, lane: int, device: int) -> tuple[Command, Any] | None:
        """Return the command of a task and its kernel, if any; None if it takes several commands."""
        work = self._work.work(task, device, self._spaces(task, device))
        executable = self._work.executable(task, device)
        kernel = None
        if work is None or executable is None or work.writes_nothing:
            command: Command | None = self._loop.fence(task, lane, ())
        else:
            if work.status is not None:
                self._executor.status_work[task] = work
            queue_here = self._submitter.queue(lane)
            submission = executable.bind(work.bound(lane, queue_here, self._table.__getitem__))
            command = command_of(self._loop, task, lane, (), submission, queue_here)
            kernel = submission.kernel if isinstance(submission, KernelSubmission) else None
        if command is None or isinstance(command, CommandSequence):
            return None
        self._kept.append(command)
        return command, kernel

    # --- the run ----------------------------------------------------------------------------------

    def run(self, began_ns: int, cancelled: Callable[[], bool], watched: Callable[[], bool]) -> bool:
        """Execute the run; on failure return False, then the engine must call `settle` and take over."""
        machine = self._driver.machine
        machine.at[BEGAN_NS] = began_ns
        self._copy_inputs()
        release_sources(self.run_state)
        driver = self._driver
        try:
            self._start_helpers()
            while not cancelled():
                machine.state[RETURN_AFTER_BATCH] = watched()
                machine.state[REPLAN_FROM] = NEVER if self._replanner is None else self._replanner.poll(machine.asked)
                reason = self._driver.drive()
                if reason == ALL_DONE:
                    return True
                if reason == BATCH_SUBMITTED:
                    self._after_batch()
                elif reason != REPLAN and not (reason == ASKED and self._handle_messages()):
                    return False
            return False
        finally:
            driver.stop_helpers()
            counts = self._executor.counts
            counts.submission_ns += int(machine.state[SUBMISSION_NS])
            counts.submissions += int(machine.state[SUBMITTED])
            if self._replanner is not None:
                self._replanner.stop()

    def _start_helpers(self) -> None:
        """Lend helper threads to devices that compute on host cores, until the loop ends."""
        driver, quiet = self._driver, self._submitter.idle_wakeup
        if self._submitter.needs_helpers:
            assert quiet is not None
            events = driver.events_for_helpers(quiet)

            def work(lanes: Sequence[int]) -> None:
                wait_for_events(events, driver.lane_addresses(lanes))

            self._submitter.run_on_helpers(work)

    def ask(self) -> None:
        """Make the loop read its messages; for any thread."""
        self._driver.machine.asked[0] = 1

    def _handle_messages(self) -> bool:
        """Handle messages of other threads; return False if the engine has to handle one."""
        machine = self._driver.machine
        machine.asked[0] = 0
        while not self._inbox.empty():
            message = self._inbox.get()
            if message != "cancel" and not (isinstance(message, Completion) and self._report(message)):
                self.failed_message = message
                return False
        machine.state[CHANGED] = 1
        return True

    def _after_batch(self) -> None:
        """Start the host tasks among the commands started since the last call."""
        run_state, handed = self.run_state, int(self._driver.machine.state[PROCESSED])
        for task in run_state.started[self._searched : handed].tolist() if self._hosts else ():
            if task < self.tasks and run_state.is_host[run_state.lane[task]]:
                self._give_to_host(task, int(run_state.lane[task]))
        self._searched = handed

    def settle(self, given_up: Callable[[], bool]) -> None:
        """Wait until the lane threads are idle: work submitted to SYCL queues is not ordered after theirs."""
        wakeup, run_state = self._submitter.wakeup, self.run_state
        if self._submitter.threads is None or wakeup is None:
            return
        slots = [
            s
            for row, a, b in zip(run_state.flight, run_state.done, run_state.submitted, strict=True)
            for s in row[a:b].tolist()
        ]
        while any(self._loop.is_pending(slot) for slot in slots) and not given_up():
            wakeup.wait(_LOOK_EVERY_S)

    def _copy_inputs(self) -> None:
        layout, executor, run_state = self._layout, self._executor, self.run_state
        for n, piece in enumerate(self._copied):
            assert self._placement.single_space is not None
            given = layout.given_in[piece]
            lane = layout.lane_of_copy(given, self._placement.single_space, 0)
            executor.copy([piece], given, self._placement.single_space, lane, set())
            slot, place = self.tasks + n, int(run_state.submitted[lane])
            run_state.lane[slot], run_state.place[slot], run_state.flight[lane, place] = lane, place, slot
            run_state.submitted[lane] += 1
        executor.flush()

    def _give_to_host(self, task: int, lane: int) -> None:
        run_state, device = self.run_state, self._layout.lanes[lane].number
        spaces = self.log.spaces(task)
        waits = run_state.waits[task, : run_state.waits_count[task]].tolist()
        events = [event for slot in waits if (event := self._submitter.event(slot)) is not None]
        node = ProgramNode(self._work.instruction(task, device, spaces, task), lane, True)
        work, executable = self._work.work(task, device, spaces), self._work.executable(task, device)
        self.host_tasks.add(task)
        self._hosts[lane].start(node, work, executable, events)

    def _report(self, completion: Completion) -> bool:
        """Record a completion of a host task; return False if it failed or did not start."""
        lane, task, ended = completion.node.lane, completion.node.id, self._driver.machine
        if completion.error is not None or completion.unexecuted or completion.start_ns is None:
            return False
        self._reports[task] = completion
        for _ in self._hosts[lane].take_unexecuted(completion):
            return False
        ended.start_ns[task], ended.end_ns[task] = completion.start_ns, completion.finish_ns
        now_s = (now_ns() - int(ended.at[BEGAN_NS])) * 1e-9
        complete(self.run_state, self._one[lane], ended.start_ns, ended.end_ns, now_s)
        return True

    # --- afterwards -------------------------------------------------------------------------------

    def slot_of(self, entry: LogEntry) -> int:
        """Return the event slot of a log entry."""
        assert entry.stamp is not None
        return int(self.run_state.flight[entry.stamp])

    def has_ended(self, task: int) -> bool:
        """Return whether a host task has completed."""
        return task in self._reports

    def entries(self) -> list[LogEntry]:
        """Return the log entries after the input copies; once the run is over."""
        return self.log.entries(self._driver, self._reports, self.host_tasks)
