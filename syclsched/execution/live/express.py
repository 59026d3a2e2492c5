# SPDX-License-Identifier: Apache-2.0
"""Runs whose data fits into one memory space that all their lanes share: decided and submitted by compiled code.

There nothing has to be moved but inputs, so that what a kernel is given is known before the run starts, and what it
waits for are the graph's dependencies. A turn polls, decides and submits for all lanes in a few calls. When anything is
refused or fails, the engine goes on by itself, from where this has come to.
"""

from __future__ import annotations

import ctypes
import math
import queue
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from syclsched.devices import faultpoints
from syclsched.devices.commands import Command, CommandSequence, CommandStructure
from syclsched.devices.executables import KernelSubmission
from syclsched.execution.batches import command_of
from syclsched.execution.buffers import BufferTable
from syclsched.execution.clock import now_ns
from syclsched.execution.lanes import Completion, HostLane
from syclsched.execution.live.carrier import COPY_SLOTS, Carrier
from syclsched.execution.live.coherence import Stamp
from syclsched.execution.live.driving import (
    ASKED,
    BEGAN_NS,
    BY_BATCH,
    CHANGED,
    HANDED,
    HANDED_ON,
    NEVER,
    PLAN,
    PLAN_FROM,
    SUBMISSION_NS,
    SUBMITTED,
    THROUGH,
    Driver,
)
from syclsched.execution.live.happened import Entry
from syclsched.execution.live.layout import Layout
from syclsched.execution.live.lookahead import Lookahead
from syclsched.execution.live.replanner import Replanner
from syclsched.execution.live.submitter import Submitter
from syclsched.execution.live.tasks import TaskWork
from syclsched.execution.program import Node
from syclsched.execution.records import Record
from syclsched.execution.stuck import Position
from syclsched.scheduling.dynamic.board import new_board as make_board
from syclsched.scheduling.dynamic.compiled_policies import CENTRAL, HYBRID, LOCALITY, STEALING
from syclsched.scheduling.dynamic.family import DYNAMIC_POLICIES
from syclsched.scheduling.dynamic.hybrid import Hybrid
from syclsched.scheduling.dynamic.moves import begin, complete
from syclsched.scheduling.dynamic.state import DynamicPolicy, Known

#: Spaces of unknown size are believed to hold this much, and others this share of what they hold.
_UNKNOWN_BYTES, _SHARE = 1 << 30, 0.25

#: The compiled form of each policy.
_COMPILED = {"eager": CENTRAL, "priority": CENTRAL, "dmdas": LOCALITY, "stealing": STEALING, "hybrid": HYBRID}

#: How often threads of our own are looked at that have something to end.
_LOOK_EVERY_S = 1e-3

_WORDS = ctypes.sizeof(CommandStructure) // 8
_LANE, _WAITS, _COUNT, _KERNEL = (
    getattr(CommandStructure, name).offset // 8 for name in ("lane", "waits", "waits_count", "kernel")
)


def one_space(
    layout: Layout, work: TaskWork, limits: Sequence[int], policy: DynamicPolicy, submitter: Submitter
) -> int | None:
    """Return the space in which all of a run can be done; None if it cannot be done in one, or not by compiled code.

    Parameters
    ----------
    layout, work, limits, submitter
        Of the run.
    policy : DynamicPolicy
        Who decides.
    """
    if not any(policy == known for known in DYNAMIC_POLICIES) and not isinstance(policy, Hybrid):
        return None
    if submitter.loop is None or faultpoints.active is not None:
        return None
    seconds = layout.problem.tables.seconds
    used = [d for d in range(len(layout.devices)) if np.isfinite(seconds[:, d]).any()]
    homes = {layout.home[d] for d in used if not layout.devices[d].is_host}
    if len(homes) != 1 or len(layout.pieces) > COPY_SLOTS:
        return None
    space = homes.pop()
    known = limits[space] * _SHARE if limits[space] else _UNKNOWN_BYTES
    if any(space not in layout.reaches[d] for d in used) or sum(a.nbytes for a in layout.wholes) > known:
        return None
    if len({submitter.context(lane) for lane, each in enumerate(layout.lanes) if each.number in used} - {None}) != 1:
        return None
    return None if work.has_libraries else space


class Express:
    """Decides and submits a run in one space, as long as nothing goes wrong.

    Parameters
    ----------
    layout, work, table, submitter, hosts, carrier, lookahead
        Of the run.
    known : Known
        What the policy knows.
    policy : str
        Its name.
    bound : float
        From which deviation a plan is left.
    space : int
        From `one_space`.
    inbox : queue.SimpleQueue
        Where the host's thread reports.
    """

    def __init__(
        self,
        layout: Layout,
        work: TaskWork,
        table: BufferTable,
        submitter: Submitter,
        hosts: Mapping[int, HostLane],
        carrier: Carrier,
        lookahead: Lookahead,
        known: Known,
        policy: str,
        bound: float,
        space: int,
        inbox: queue.SimpleQueue[Any],
    ) -> None:
        assert submitter.loop is not None
        self._layout, self._work, self._table, self._submitter = layout, work, table, submitter
        self._hosts, self._carrier, self._space, self._inbox = hosts, carrier, space, inbox
        self._loop = submitter.loop
        self._policy = _COMPILED[policy]
        self.tasks = len(layout.tasks)
        self._processors = len(known.device_of)
        self._copied = [n for n, piece in enumerate(layout.pieces) if piece.is_input and space != layout.given_in[n]]
        self.board = make_board(
            layout.problem, known,
            lanes=len(layout.lanes), things=self.tasks + COPY_SLOTS,
            is_host=[lane.kind == "host" for lane in layout.lanes[: self._processors]],
            bound=bound, lookahead=(lookahead.fewest, lookahead.most, lookahead.seconds),
            before=self._copies_before(),
        )  # fmt: skip
        self._commands = np.zeros((self.tasks, self._processors, _WORDS), np.int64)
        self._kept: list[Any] = []
        self._reports: dict[int, Completion] = {}
        #: What the host's thread was given, by task.
        self.given_to_host: dict[int, tuple[Node, Any, Any]] = {}
        #: How many started tasks were looked at for what the host is to do.
        self._looked_at = 0
        #: What was said that this could not deal with.
        self.troubled: Any = None
        self._driver: Driver
        #: By lane: that one more of its tasks has completed.
        self._one = np.eye(len(layout.lanes), dtype=np.int64)
        replans = self._policy == HYBRID and bound < math.inf
        self._replanner = Replanner(self.board, carrier.counts) if replans else None

    def _copies_before(self) -> list[list[int]]:
        """Return for each task the copies that it waits for: those of inputs that it reads as they were given."""
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
        """Get memory and make all commands; return whether all work can be submitted like this."""
        layout, carrier, space = self._layout, self._carrier, self._space
        for array in range(len(layout.wholes)):
            if not carrier.capacity.has((array, space)):
                carrier.allocate((array, space), 0)
        address, step = self._commands.ctypes.data, 8 * _WORDS
        waits = self.board.waits
        submitter = self._submitter
        submitter.begin_threads()
        threads, bell = submitter.threads, submitter.bell
        assert bell is not None
        self._driver = Driver(
            self.board, self._policy, submitter.library, self._loop, bell, self._commands,
            None if threads is None else threads.lanes,
        )  # fmt: skip
        for task in range(self.tasks):
            made: dict[int, tuple[Command, Any] | None] = {}
            for lane in range(self._processors):
                device = layout.lanes[lane].number
                if lane in self._hosts or not np.isfinite(layout.problem.tables.seconds[task, device]):
                    continue
                if device not in made:
                    made[device] = self._command(task, lane, device)
                found = made[device]
                if found is None:
                    return False
                command, kernel = found
                ctypes.memmove(address + (task * self._processors + lane) * step, command.address, step)
                if threads is not None and kernel is not None:
                    self._commands[task, lane, _KERNEL] = self._loop.kernel_of_lane(lane, kernel)
        self._commands[:, :, _LANE] = np.arange(self._processors)
        self._commands[:, :, _WAITS] = waits.ctypes.data + np.arange(self.tasks)[:, None] * waits.strides[0]
        return True

    def _command(self, task: int, lane: int, device: int) -> tuple[Command, Any] | None:
        """Return the command of a task, and its kernel if it has one; None if it is not one command."""
        work = self._work.work(task, device, (self._space,) * len(self._layout.touches[task]))
        executable = self._work.executable(task, device)
        kernel = None
        if work is None or executable is None or work.writes_nothing:
            command: Command | None = self._loop.fence(task, lane, ())
        else:
            if work.status is not None:
                self._carrier.pieces_of_work[task] = work
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
        """Do the whole run; return False if the engine has to go on, after `settle`, as something went wrong.

        Parameters
        ----------
        began_ns : int
            When it began.
        cancelled : callable
            Whether the run was cancelled.
        watched : callable
            Whether somebody wants to be told when tasks have been submitted; tells them of those that have been.
        """
        machine = self._driver.machine
        machine.at[BEGAN_NS] = began_ns
        self._copy_inputs()
        begin(self.board)
        try:
            while not cancelled():
                machine.state[BY_BATCH] = watched() or self._submitter.lends
                machine.state[PLAN_FROM] = NEVER if self._replanner is None else self._replanner.turn(machine.asked)
                why = self._driver.drive()
                if why == THROUGH:
                    return True
                if why == HANDED:
                    self._after_batch()
                elif why != PLAN and not (why == ASKED and self._listen()):
                    return False
            return False
        finally:
            counts = self._carrier.counts
            counts.submission_ns += int(machine.state[SUBMISSION_NS])
            counts.submissions += int(machine.state[SUBMITTED])
            if self._replanner is not None:
                self._replanner.stop()

    def ask(self) -> None:
        """Have the loop look at what was said; for any thread."""
        self._driver.machine.asked[0] = 1

    def _listen(self) -> bool:
        """Do as other threads say; return False if that cannot be done here."""
        machine = self._driver.machine
        machine.asked[0] = 0
        while not self._inbox.empty():
            message = self._inbox.get()
            if message != "cancel" and not (isinstance(message, Completion) and self._report(message)):
                self.troubled = message
                return False
        machine.state[CHANGED] = 1
        return True

    def _after_batch(self) -> None:
        """Give the host its part of what was started, and lend threads for the rest."""
        board, handed = self.board, int(self._driver.machine.state[HANDED_ON])
        for task in board.started[self._looked_at : handed].tolist() if self._hosts else ():
            if board.is_host[board.lane[task]]:
                self._give_to_host(task, int(board.lane[task]))
        self._looked_at = handed
        if self._submitter.lends:
            self._submitter.lend(*self._driver.last_batch())

    def settle(self, given_up: Callable[[], bool]) -> None:
        """Wait until our own threads have done all they were handed: what others submit is not ordered behind that."""
        bell, board = self._submitter.bell, self.board
        if self._submitter.threads is None or bell is None:
            return
        slots = [s for row, a, b in zip(board.flight, board.done, board.given, strict=True) for s in row[a:b].tolist()]
        while any(self._loop.is_pending(slot) for slot in slots) and not given_up():
            bell.wait(_LOOK_EVERY_S)

    def _copy_inputs(self) -> None:
        layout, carrier, board = self._layout, self._carrier, self.board
        for n, piece in enumerate(self._copied):
            given = layout.given_in[piece]
            lane = layout.lane_of_copy(given, self._space, 0)
            carrier.copy([piece], given, self._space, lane, set())
            slot, place = self.tasks + n, int(board.given[lane])
            board.lane[slot], board.place[slot], board.flight[lane, place] = lane, place, slot
            board.given[lane] += 1
        carrier.flush()

    def _give_to_host(self, task: int, lane: int) -> None:
        board, device = self.board, self._layout.lanes[lane].number
        spaces = (self._space,) * len(self._layout.touches[task])
        waits = board.waits[task, : board.waits_count[task]].tolist()
        events = [event for slot in waits if (event := self._submitter.event(slot)) is not None]
        node = Node(self._work.instruction(task, device, spaces, task), lane, True)
        work, executable = self._work.work(task, device, spaces), self._work.executable(task, device)
        self.given_to_host[task] = node, work, executable
        self._hosts[lane].start(node, work, executable, events)

    def _report(self, completion: Completion) -> bool:
        """Note what the host's thread reports; return False if it failed, or was not tried."""
        lane, task, ended = completion.node.lane, completion.node.id, self._driver.machine
        if completion.error is not None or completion.returned or completion.start_ns is None:
            return False
        self._reports[task] = completion
        for _ in self._hosts[lane].take_returned(completion):
            return False
        ended.start_ns[task], ended.end_ns[task] = completion.start_ns, completion.finish_ns
        now_s = (now_ns() - int(ended.at[BEGAN_NS])) * 1e-9
        complete(self.board, self._one[lane], ended.start_ns, ended.end_ns, now_s)
        return True

    # --- afterwards -------------------------------------------------------------------------------

    def is_done(self, task: int) -> bool:
        """Return whether a task has completed."""
        board = self.board
        return bool(board.place[task] >= 0 and board.place[task] < board.done[board.lane[task]])

    def is_submitted(self, task: int) -> bool:
        """Return whether a task was submitted."""
        return bool(self.board.place[task] >= 0)

    def where(self, piece: int) -> int | None:
        """Return the space in which a value is; None if there is none."""
        layout = self._layout
        if layout.last_writer[piece] >= 0:
            return self._space
        return layout.given_in[piece] if layout.pieces[piece].is_input else None

    def has_ended(self, task: int) -> bool:
        """Return whether the host's thread has ended a task."""
        return task in self._reports

    def positions(self) -> list[Position]:
        """Return what each lane is at that is not done; on any thread."""
        board, layout, found = self.board, self._layout, []
        for lane, each in enumerate(layout.lanes):
            done, given = int(board.done[lane]), int(board.given[lane])
            thing = int(board.flight[lane, done]) if given > done else self.tasks
            if thing < self.tasks:
                task = layout.tasks[thing].name
                found.append(
                    Position(each.name, each.device, thing, f"task {task!r}", task, 1, given - done, None, True, 0.0)
                )
        return found

    @property
    def started(self) -> list[int]:
        """The tasks that were started and given to their lanes, in order."""
        there = set(self._given_to_devices.tolist()) | self.given_to_host.keys()
        return [task for task in self.board.started[: self._handed].tolist() if task in there]

    @property
    def _handed(self) -> int:
        return int(self._driver.machine.state[HANDED_ON])

    @property
    def _given_to_devices(self) -> Any:
        """The tasks that were submitted, in order."""
        handed = self.board.started[: self._handed]
        return handed[~self.board.is_host[self.board.lane[handed]]][: self._driver.machine.state[SUBMITTED]]

    def entries(self) -> list[Entry]:
        """Return what was done after the inputs had been copied, for the log; once the run is over."""
        board, layout = self.board, self._layout
        ordered = [[0] * len(layout.lanes) for _ in layout.lanes]
        submit_ns = dict(zip(self._given_to_devices.tolist(), self._driver.submit_ns.tolist(), strict=False))
        found = []
        for task in self.started:
            lane = int(board.lane[task])
            latest: dict[int, int] = {}
            for before in board.pred_task[board.pred_start[task] : board.pred_start[task + 1]].tolist():
                other, place = int(board.lane[before]), int(board.place[before])
                if other != lane and place >= ordered[lane][other] and place > latest.get(other, -1):
                    latest[other] = place
            for other, place in latest.items():
                ordered[lane][other] = place + 1
            found.append(self._entry(task, lane, tuple(latest.items()), submit_ns))
        return found

    def _entry(self, task: int, lane: int, waits: tuple[Stamp, ...], submit_ns: Mapping[int, int]) -> Entry:
        board, layout, machine = self.board, self._layout, self._driver.machine
        report = self._reports.get(task)
        if report is None:
            times = (int(machine.start_ns[task]), int(machine.end_ns[task]))
            record = Record(submit_ns.get(task, 0), device_ns=times if self.is_done(task) else None)
        else:
            start_ns = report.start_ns or 0
            record = Record(start_ns, start_ns=start_ns, finish_ns=report.finish_ns)
        barrier = layout.tasks[task].kind == "barrier"
        start_s = float(board.start_s[task])
        return Entry(
            "barrier" if barrier else "host" if lane in self._hosts else "launch",
            lane,
            task,
            tuple([touch.piece for touch in layout.touches[task]]),
            (self._space,) * len(layout.touches[task]),
            (lane, int(board.place[task])),
            waits,
            start_s,
            start_s + float(board.estimate_s[task]),
            record,
            layout.lanes[lane].number,
        )
