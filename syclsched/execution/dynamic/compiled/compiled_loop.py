# SPDX-License-Identifier: Apache-2.0
"""Compiled event loop of a fast-path run: polls completions, decides, submits and waits, without Python.

It returns to Python for everything else: messages of other threads, host functions, replanning, refusals and failures,
and the end of the run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from syclsched.compiled import call_address, lean, precompile, specialised
from syclsched.compiled.machine_code import is_built
from syclsched.devices.native.submission_library import SubmissionLibrary
from syclsched.devices.native.wakeup import Wakeup
from syclsched.devices.submission.command_maker import EventStructure, LaneStructure
from syclsched.devices.submission.commands import COPY, FENCE, CommandStructure
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.execution.dynamic.compiled.called_rule import address_of_rule, call_rule, with_address
from syclsched.execution.dynamic.compiled.helper_loop import BELL as IDLE_BELL
from syclsched.execution.dynamic.compiled.helper_loop import MADE as EVENTS_MADE
from syclsched.execution.dynamic.compiled.helper_loop import SLEEP, SubmittedEvents, compiled_backoff
from syclsched.execution.dynamic.compiled.helper_loop import WAIT as WAIT_FOR
from syclsched.scheduling.dynamic.compiled.data_directory import COPY_FROM, COPY_PIECE, COPY_TO, FIRST_COPY, NBYTES
from syclsched.scheduling.dynamic.compiled.policy_turn import turn_of
from syclsched.scheduling.dynamic.compiled.run_state import BOUND, DEVIATION, N_COMMANDS, RunState
from syclsched.scheduling.tables import Ints

#: Reasons why the loop returns; `_ON` continues it.
ASKED, BATCH_SUBMITTED, REFUSED, FAILED, ALL_DONE, PLAN, _ON = range(7)

#: Indices of `_LoopState.state`: commands processed, and the number of these submitted to devices; time slept since
#: the last change of state, and whether the state has just changed; whether lanes signal the wake-up counter, and its
#: last value; number of started tasks from which to replan (or `NEVER`); whether to return after every submission; and
#: total submission time.
PROCESSED, SUBMITTED, IDLE_NS, CHANGED, RUNG, RINGS, PLAN_FROM, RETURN_AFTER_BATCH, SUBMISSION_NS = range(9)
NEVER = 1 << 62

#: Indices of `_LoopState.at`: addresses, and other arguments of C functions.
(
    CLOCK, SUBMIT, COMPLETED, WAIT, LANES, LANES_COUNT, GIVEN_LANES, POINTERS, EVENTS, SUBMIT_NS, MADE, MADE_COUNT,
    STOP, FLIGHT, ROOM, DONE, GIVEN, COUNTS, START_NS, END_NS, FAILED_CODE, BELL, COMMANDS, BEGAN_NS, COPY_COMMANDS,
    WAIT_LISTS,
) = range(26)  # fmt: skip
#: Idle back-off, shortest and longest; and the longest sleep when lanes signal the wake-up counter.
_SHORTEST_NAP_NS, _LONGEST_NAP_NS, _SLEEP_NS = 20_000, 500_000, 5_000_000

WORDS = ctypes.sizeof(CommandStructure) // 8
_KIND, _LANE, _SLOT, _WAITS, _COUNT, _TO, _SOURCE, _NBYTES = (
    getattr(CommandStructure, name).offset // 8
    for name in ("kind", "lane", "slot", "waits", "waits_count", "to", "source", "nbytes")
)
_EVENT_BYTES = ctypes.sizeof(EventStructure)


class _LoopState(NamedTuple):
    """State of the event loop: T tasks on P lanes for tasks, L lanes in all, C copies, and S commands to submit."""

    words: Ints  # the command of each task on each lane, in C layout
    copies: Ints  # commands of copies, filled in when they are created
    addresses: Ints  # of each piece by space; 0 where it is not allocated
    pointers: Ints  # to commands, in the order of submission
    counts: Ints  # completions of each lane that the board does not know yet
    #: Start and end of completed commands, on their device's clock.
    start_ns: Ints
    end_ns: Ints
    batches: Ints  # first event and number of events of each submission
    lent: Ints  # number of submissions, and whether the run is over: see `SubmittedEvents`
    #: Set by C: number of events of a submission, and the error code of a failed command.
    made_count: Ints
    code: Ints
    asked: Ints  # set by other threads to make the loop return
    state: Ints  # indexed by `PROCESSED` and following
    at: Ints  # indexed by `CLOCK` and following


class EventLoop:
    """The event loop of one run, and its state."""

    def __init__(
        self,
        board: RunState,
        rule: Callable[[Any, Any], None],
        library: SubmissionLibrary,
        loop: SubmissionLoop,
        bell: Wakeup,
        words: Ints,
        addresses: Ints,
        lanes: Any,
    ) -> None:
        things = len(board.lane)
        self._board, self._rule, self._drive, self._loop, self._lanes = board, rule, loop_of(rule), loop, lanes
        self._library = library
        self._made = loop.new_event_array(2 * (things + 1))
        self.submit_ns = np.zeros(things + 1, np.int64)
        lanes_at, lanes_count, events, stop = loop.addresses
        machine = self.machine = _LoopState(
            words=words,
            copies=np.zeros((len(board.places.copies), WORDS), np.int64),
            addresses=addresses,
            pointers=np.zeros(things + 1, np.int64),
            counts=np.zeros(len(board.done), np.int64),
            start_ns=np.zeros(things, np.int64),
            end_ns=np.zeros(things, np.int64),
            batches=np.zeros((things + 1, 2), np.int64),
            lent=np.zeros(2, np.int64),
            made_count=np.zeros(1, np.int64),
            code=np.zeros(1, np.int64),
            asked=np.zeros(1, np.int64),
            state=np.zeros(9, np.int64),
            at=np.zeros(26, np.int64),
        )
        machine.state[CHANGED], machine.state[PLAN_FROM], machine.state[RUNG] = 1, NEVER, lanes is not None
        places = {
            CLOCK: library.now_address, SUBMIT: library.submit_address, COMPLETED: library.completed_address,
            WAIT: library.bell_wait_address, BELL: bell.address, EVENTS: events, STOP: stop,
            LANES: lanes_at if lanes is None else ctypes.addressof(lanes), LANES_COUNT: lanes_count,
            POINTERS: machine.pointers.ctypes.data, SUBMIT_NS: self.submit_ns.ctypes.data,
            MADE: ctypes.addressof(self._made), MADE_COUNT: machine.made_count.ctypes.data,
            FLIGHT: board.flight.ctypes.data, ROOM: board.flight.shape[1], DONE: board.done.ctypes.data,
            GIVEN: board.given.ctypes.data, GIVEN_LANES: len(board.done), COUNTS: machine.counts.ctypes.data,
            START_NS: machine.start_ns.ctypes.data, END_NS: machine.end_ns.ctypes.data,
            FAILED_CODE: machine.code.ctypes.data, COMMANDS: words.ctypes.data,
            COPY_COMMANDS: machine.copies.ctypes.data, WAIT_LISTS: board.waits.ctypes.data,
        }  # fmt: skip
        machine.at[list(places)] = list(places.values())

    def make_ready(self) -> None:
        """Load the loop's machine code; for a rule that was not there when the package was built, compile the rule.

        The loop then calls the rule through its address.
        """
        if not _has_loop(self._rule, self._board, self.machine):
            parameters = with_address(self._board.parameters, address_of_rule(self._rule, self._board))
            self._board, self._drive = self._board._replace(parameters=parameters), loop_of(call_rule)
        precompile(self._drive, self._board, self.machine)

    def drive(self) -> int:
        """Run the loop until Python has to act; return the reason, such as `ASKED`."""
        first = int(self.machine.lent[0])
        try:
            return self._drive(self._board, self.machine)
        finally:
            for begin, count in self.machine.batches[first : self.machine.lent[0]].tolist():
                self._loop.keep(self._made, 2 * begin, ctypes.c_int64(count), self._lanes)

    def lent(self, quiet: Wakeup) -> SubmittedEvents:
        """Return the submitted events, for helper threads that wait for them until `end_lending`.

        Helper threads sleep on a wake-up counter that is never signalled.
        """
        machine, at = self.machine, np.zeros(4, np.int64)
        at[[WAIT_FOR, SLEEP, IDLE_BELL, EVENTS_MADE]] = (
            self._library.wait_address, self._library.bell_wait_address, quiet.address, machine.at[MADE],
        )  # fmt: skip
        events = np.frombuffer(self._made, np.int64).reshape(-1, _EVENT_BYTES // 8)
        return SubmittedEvents(events, machine.batches, machine.lent, at)

    def lane_addresses(self, lanes: Sequence[int]) -> Ints:
        """Return the addresses of some lanes."""
        first, step = int(self.machine.at[LANES]), ctypes.sizeof(LaneStructure)
        return np.array([first + lane * step for lane in lanes], np.int64)

    def stop_helpers(self) -> None:
        """Make helper threads end once all submitted events have completed."""
        self.machine.lent[1] = 1


#: By rule: whether the package has machine code of its loop. States of runs are all of the same types.
_HAS_LOOP: dict[Any, bool] = {}


def _has_loop(rule: Any, board: RunState, machine: _LoopState) -> bool:
    if rule not in _HAS_LOOP:
        _HAS_LOOP[rule] = is_built(loop_of(rule), (board, machine))
    return _HAS_LOOP[rule]


@lean
def _poll(machine: _LoopState) -> int:
    """Wait for a change of state, unless one just happened; poll completions."""
    state, at = machine.state, machine.at
    idle = not state[CHANGED]
    state[CHANGED] = 0
    if machine.asked[0]:
        return ASKED
    nap_ns = _SLEEP_NS
    if idle or state[RUNG]:
        if not state[RUNG]:
            nap_ns = int(compiled_backoff(state[IDLE_NS], _SHORTEST_NAP_NS, _LONGEST_NAP_NS, 1.0))
        state[RINGS] = call_address(at[WAIT], (at[BELL], state[RINGS], nap_ns))
    state[IDLE_NS] = state[IDLE_NS] + nap_ns if idle else 0
    found = call_address(
        at[COMPLETED],
        (
            at[EVENTS], at[FLIGHT], at[ROOM], at[DONE], at[GIVEN], at[GIVEN_LANES], at[COUNTS], at[START_NS],
            at[END_NS], at[FAILED_CODE],
        ),
    )  # fmt: skip
    if found:
        state[CHANGED] = 1
    return FAILED if machine.code[0] else ASKED if machine.asked[0] else _ON


@lean
def _copy_command(board: RunState, machine: _LoopState, thing: int) -> int:
    """Build the command of a copy; return its address."""
    places, at = board.places, machine.at
    number = thing - places.counters[FIRST_COPY]
    piece, row = places.copies[number, COPY_PIECE], machine.copies[number]
    row[_KIND] = COPY if places.pieces[piece, NBYTES] else FENCE
    row[_LANE], row[_SLOT] = board.lane[thing], thing
    row[_WAITS] = at[WAIT_LISTS] + thing * board.waits.shape[1] * 8
    row[_COUNT] = board.waits_count[thing]
    row[_TO] = machine.addresses[piece, places.copies[number, COPY_TO]]
    row[_SOURCE] = machine.addresses[piece, places.copies[number, COPY_FROM]]
    row[_NBYTES] = places.pieces[piece, NBYTES]
    return int(at[COPY_COMMANDS] + number * WORDS * 8)


@lean
def _submit_started(board: RunState, machine: _LoopState, started: int) -> int:
    """Submit the commands started since the last call."""
    state, at, words = machine.state, machine.at, machine.words
    machine.counts[:] = 0
    things = board.counters[N_COMMANDS]
    if things > state[PROCESSED]:
        state[CHANGED] = 1
        first, count, hosts = state[SUBMITTED], 0, 0
        for task in board.started[state[PROCESSED] : things]:
            lane = board.lane[task]
            if task >= len(board.waiting):
                machine.pointers[first + count] = _copy_command(board, machine, task)
                count += 1
                continue
            if board.is_host[lane]:
                hosts += 1
                continue
            words[task, lane, _COUNT] = board.waits_count[task]
            machine.pointers[first + count] = at[COMMANDS] + (task * words.shape[1] + lane) * words.shape[2] * 8
            count += 1
        state[PROCESSED] = things
        if count:
            begun_ns = call_address(at[CLOCK], (0,))
            events = at[MADE] + 2 * first * _EVENT_BYTES
            done = call_address(
                at[SUBMIT],
                (
                    at[LANES], at[LANES_COUNT], at[POINTERS] + first * 8, count, at[EVENTS], at[SUBMIT_NS] + first * 8,
                    events, at[MADE_COUNT], at[STOP],
                ),
            )  # fmt: skip
            state[SUBMISSION_NS] += call_address(at[CLOCK], (0,)) - begun_ns
            machine.batches[machine.lent[0], 0], machine.batches[machine.lent[0], 1] = first, machine.made_count[0]
            machine.lent[0] += 1
            state[SUBMITTED] += done
            if done < count:
                return REFUSED
        if hosts or (count and state[RETURN_AFTER_BATCH]):
            return BATCH_SUBMITTED
    if started == len(board.waiting):
        for lane in range(len(board.done)):
            if board.done[lane] < board.given[lane]:
                return _ON
        return ALL_DONE
    if started >= state[PLAN_FROM] and board.scalars[DEVIATION] > board.scalars[BOUND]:
        return PLAN
    return _ON


@lean
def _now_s(machine: _LoopState) -> float:
    return float((call_address(machine.at[CLOCK], (0,)) - machine.at[BEGAN_NS]) * 1e-9)


@cache
def loop_of(rule: Callable[[Any, Any], None]) -> Callable[[RunState, _LoopState], int]:
    """Return the event loop, compiled for a policy's rule: a function that returns the reason for its return."""
    turn = turn_of(rule)

    def drive(board: RunState, machine: _LoopState) -> int:
        reason = _ON
        while reason == _ON:
            # Decisions stand until the state changes; while idle, lanes may overrun their estimates.
            if machine.state[CHANGED] or machine.state[IDLE_NS] > _SHORTEST_NAP_NS:
                started = turn(board, machine.counts, machine.start_ns, machine.end_ns, _now_s(machine))
                reason = _submit_started(board, machine, started)
            if reason == _ON:
                reason = _poll(machine)
        return reason

    return specialised(drive, turn)
