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
from syclsched.devices.commands import CommandSequence, CommandStructure
from syclsched.execution.batches import command_of
from syclsched.execution.buffers import BufferTable
from syclsched.execution.clock import now_ns
from syclsched.execution.lanes import Completion, HostLane
from syclsched.execution.live.carrier import COPY_SLOTS, Carrier
from syclsched.execution.live.coherence import Stamp
from syclsched.execution.live.happened import Entry
from syclsched.execution.live.layout import Layout
from syclsched.execution.live.lookahead import Lookahead
from syclsched.execution.live.replanner import Replanner
from syclsched.execution.live.submitter import Submitter
from syclsched.execution.live.tasks import TaskWork
from syclsched.execution.program import Node
from syclsched.execution.records import Record
from syclsched.execution.stuck import Position
from syclsched.scheduling.dynamic.board import CENTRAL, HYBRID, LOCALITY, STARTED, STEALING, advance, begin, complete
from syclsched.scheduling.dynamic.board import new_board as make_board
from syclsched.scheduling.dynamic.family import DYNAMIC_POLICIES
from syclsched.scheduling.dynamic.hybrid import Hybrid
from syclsched.scheduling.dynamic.state import DynamicPolicy, Known

#: Spaces of unknown size are believed to hold this much, and others this share of what they hold.
_UNKNOWN_BYTES, _SHARE = 1 << 30, 0.25

#: The compiled form of each policy.
_COMPILED = {"eager": CENTRAL, "priority": CENTRAL, "dmdas": LOCALITY, "stealing": STEALING, "hybrid": HYBRID}

_WORDS = ctypes.sizeof(CommandStructure) // 8
_LANE, _WAITS, _COUNT = (getattr(CommandStructure, name).offset // 8 for name in ("lane", "waits", "waits_count"))


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
        self._copied = [n for n, piece in enumerate(layout.pieces) if piece.is_input and space != layout.host_space]
        self.board = make_board(
            layout.problem, known,
            lanes=len(layout.lanes), things=self.tasks + COPY_SLOTS,
            is_host=[lane.kind == "host" for lane in layout.lanes[: self._processors]],
            bound=bound, lookahead=(lookahead.fewest, lookahead.most, lookahead.seconds),
            before=self._copies_before(),
        )  # fmt: skip
        self._commands = np.zeros((self.tasks, self._processors, _WORDS), np.int64)
        self._kept: list[Any] = []
        self._pointers = (ctypes.c_void_p * (self.tasks + 1))()
        self._pointer_view = np.frombuffer(memoryview(self._pointers), np.int64)
        self._submit_ns = (ctypes.c_int64 * (self.tasks + 1))()
        self._made = self._loop.room_for_events(2 * (self.tasks + 1))
        self._handed = self._submitted = 0
        #: Tasks in the order of their submission to devices.
        self._by_submission: list[Any] = []
        self._times = np.zeros((2, self.tasks), np.int64)
        self._reports: dict[int, Completion] = {}
        #: What the host's thread was given, by task.
        self.given_to_host: dict[int, tuple[Node, Any, Any]] = {}
        #: What was said that this could not deal with.
        self.troubled: Any = None
        self._now: Callable[[], float] = lambda: 0.0
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
        for task in range(self.tasks):
            made: dict[int, Any] = {}
            for lane in range(self._processors):
                device = layout.lanes[lane].number
                if lane in self._hosts or not np.isfinite(layout.problem.tables.seconds[task, device]):
                    continue
                if device not in made:
                    made[device] = self._command(task, lane, device)
                    if made[device] is None:
                        return False
                ctypes.memmove(address + (task * self._processors + lane) * step, made[device].address, step)
        self._commands[:, :, _LANE] = np.arange(self._processors)
        self._commands[:, :, _WAITS] = waits.ctypes.data + np.arange(self.tasks)[:, None] * waits.strides[0]
        return True

    def _command(self, task: int, lane: int, device: int) -> Any:
        work = self._work.work(task, device, (self._space,) * len(self._layout.touches[task]))
        executable = self._work.executable(task, device)
        if work is None or executable is None or work.writes_nothing:
            command: Any = self._loop.fence(task, lane, ())
        else:
            if work.status is not None:
                self._carrier.pieces_of_work[task] = work
            queue_here = self._submitter.queue(lane)
            submission = executable.bind(work.bound(lane, queue_here, self._table.__getitem__))
            command = command_of(self._loop, task, lane, (), submission, queue_here)
        if command is None or isinstance(command, CommandSequence):
            return None
        self._kept.append(command)
        return command

    # --- the run ----------------------------------------------------------------------------------

    def run(self, now_s: Callable[[], float], cancelled: Callable[[], bool], nap: Callable[[int], Any]) -> bool:
        """Do the whole run; return False if the engine has to go on, as something went wrong.

        Parameters
        ----------
        now_s : callable
            Returns the time, from the run's beginning.
        cancelled : callable
            Whether the run was cancelled.
        nap : callable
            Sleeps for a while; returns a message that has come meanwhile, or None. Told how often it was called without
            anything having happened in between.
        """
        try:
            return self._turns(now_s, cancelled, nap)
        finally:
            if self._replanner is not None:
                self._replanner.stop()

    def _turns(self, now_s: Callable[[], float], cancelled: Callable[[], bool], nap: Callable[[int], Any]) -> bool:
        board = self.board
        self._now = now_s
        self._copy_inputs()
        begin(board)
        idle = 0
        while not cancelled():
            started = advance(board, self._policy, now_s())
            fresh = started > self._handed
            if fresh and not self._hand_on(started):
                return False
            if started == self.tasks and (board.done == board.given).all():
                return True
            progress = self._poll()
            if progress is None:
                return False
            if self._replanner is not None:
                self._replanner.turn()
            idle = 0 if fresh or progress or not self._inbox.empty() else idle + 1
            message = nap(idle) if idle else None
            while message is not None or not self._inbox.empty():
                message = self._inbox.get() if message is None else message
                if message != "cancel" and not (isinstance(message, Completion) and self._report(message)):
                    self.troubled = message
                    return False
                message = None
        return False

    def _copy_inputs(self) -> None:
        layout, carrier, board = self._layout, self._carrier, self.board
        host = layout.host_space
        for n, piece in enumerate(self._copied):
            lane = layout.lane_of_copy(host, self._space, 0)
            carrier.copy([piece], host, self._space, lane, set())
            slot, place = self.tasks + n, int(board.given[lane])
            board.lane[slot], board.place[slot], board.flight[lane, place] = lane, place, slot
            board.given[lane] += 1
        carrier.flush()

    def _hand_on(self, started: int) -> bool:
        """Submit the tasks that were started since the last time; return False if one was refused."""
        board, processors = self.board, self._processors
        tasks = board.started[self._handed : started]
        self._handed = started
        lanes = board.lane[tasks]
        on_host = board.is_host[lanes]
        here = tasks[~on_host] if self._hosts and on_host.any() else tasks
        lanes_here = board.lane[here]
        self._commands[here, lanes_here, _COUNT] = board.waits_count[here]
        begin_at, count = self._submitted, len(here)
        self._pointer_view[begin_at : begin_at + count] = (
            self._commands.ctypes.data + (here * processors + lanes_here) * 8 * _WORDS
        )
        self._by_submission.append(here)
        if count:
            begun_ns = now_ns()
            done, events = self._loop.submit_listed(self._pointers, self._submit_ns, self._made, begin_at, count)
            self._carrier.counts.submission_ns += now_ns() - begun_ns
            self._submitted += done
            self._submitter.lend(self._made, 2 * begin_at, events)
            if done < count:
                return False
        for task in tasks[on_host].tolist() if here is not tasks else ():
            self._give_to_host(task, int(board.lane[task]))
        return True

    def _give_to_host(self, task: int, lane: int) -> None:
        board, device = self.board, self._layout.lanes[lane].number
        spaces = (self._space,) * len(self._layout.touches[task])
        waits = board.waits[task, : board.waits_count[task]].tolist()
        events = [event for slot in waits if (event := self._submitter.event(slot)) is not None]
        node = Node(self._work.instruction(task, device, spaces, task), lane, True)
        work, executable = self._work.work(task, device, spaces), self._work.executable(task, device)
        self.given_to_host[task] = node, work, executable
        self._hosts[lane].start(node, work, executable, events)

    def _poll(self) -> bool | None:
        """Note what has completed; return whether anything has, None if something failed."""
        board, progress = self.board, False
        for lane in np.flatnonzero(board.given > board.done).tolist():
            if lane in self._hosts:
                continue
            slots = board.flight[lane, board.done[lane] : board.given[lane]]
            start_ns, end_ns = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
            done, code = self._loop.completed(slots, start_ns, end_ns)
            if done:
                finished = slots[:done]
                if finished[0] < self.tasks:
                    self._times[0, finished], self._times[1, finished] = start_ns[:done], end_ns[:done]
                complete(board, lane, done, start_ns, end_ns, self._now())
                progress = True
            if code:
                return None
        return progress

    def _report(self, completion: Completion) -> bool:
        """Note what the host's thread reports; return False if it failed, or was not tried."""
        lane, task = completion.node.lane, completion.node.id
        if completion.error is not None or completion.returned or completion.start_ns is None:
            return False
        self._reports[task] = completion
        for _ in self._hosts[lane].take_returned(completion):
            return False
        times = np.array([completion.start_ns]), np.array([completion.finish_ns])
        complete(self.board, lane, 1, *times, self._now())
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
        return layout.host_space if layout.pieces[piece].is_input else None

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
        there = set(np.concatenate(self._by_submission)[: self._submitted].tolist()) if self._by_submission else set()
        there |= self.given_to_host.keys()
        every = self.board.started[: int(self.board.counters[STARTED])].tolist()
        return [task for task in every if task in there]

    def entries(self) -> list[Entry]:
        """Return what was done after the inputs had been copied, for the log; once the run is over."""
        board, layout = self.board, self._layout
        ordered = [[0] * len(layout.lanes) for _ in layout.lanes]
        submitted = np.concatenate(self._by_submission) if self._by_submission else np.zeros(0, np.int64)
        submit_ns = dict(zip(submitted.tolist(), list(self._submit_ns), strict=False))
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
        board, layout = self.board, self._layout
        report = self._reports.get(task)
        if report is None:
            times = (int(self._times[0, task]), int(self._times[1, task]))
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
