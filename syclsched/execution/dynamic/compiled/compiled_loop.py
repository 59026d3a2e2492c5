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
from syclsched.execution.dynamic.compiled.helper_loop import NEW_EVENTS as HELPER_EVENTS
from syclsched.execution.dynamic.compiled.helper_loop import SLEEP, SubmittedEvents, compiled_backoff
from syclsched.execution.dynamic.compiled.helper_loop import WAIT as WAIT_FOR
from syclsched.execution.dynamic.compiled.helper_loop import WAKEUP as IDLE_WAKEUP
from syclsched.scheduling.dynamic.compiled.data_directory import COPY_FROM, COPY_PIECE, COPY_TO, FIRST_COPY, NBYTES
from syclsched.scheduling.dynamic.compiled.policy_turn import turn_of
from syclsched.scheduling.dynamic.compiled.run_state import BOUND, DEVIATION, N_COMMANDS, RunState
from syclsched.scheduling.tables import Ints

#: Reasons why the loop returns; `_ON` continues it.
ASKED, BATCH_SUBMITTED, REFUSED, FAILED, ALL_DONE, REPLAN, _ON = range(7)

#: Indices of `_LoopState.state`: commands processed, and the number of these submitted to devices; time slept since
#: the last change of state, and whether the state has just changed; whether lanes signal the wake-up counter, and its
#: last value; number of started tasks from which to replan (or `NEVER`); whether to return after every submission; and
#: total submission time.
PROCESSED, SUBMITTED, IDLE_NS, CHANGED, SIGNALLED, SIGNALS, REPLAN_FROM, RETURN_AFTER_BATCH, SUBMISSION_NS = range(9)
NEVER = 1 << 62

#: Indices of `_LoopState.at`: addresses, and other arguments of C functions.
(
    CLOCK, SUBMIT, COMPLETED, WAIT, LANES, LANES_COUNT, FLIGHT_LANES, POINTERS, EVENTS, SUBMIT_NS, NEW_EVENTS,
    NEW_EVENTS_COUNT, STOP, FLIGHT, FLIGHT_WIDTH, DONE, N_SUBMITTED, COUNTS, START_NS, END_NS, FAILED_CODE,
    WAKEUP, COMMANDS, BEGAN_NS, COPY_COMMANDS, WAIT_LISTS,
) = range(26)  # fmt: skip
#: Idle back-off, shortest and longest; and the longest sleep when lanes signal the wake-up counter.
_SHORTEST_SLEEP_NS, _LONGEST_SLEEP_NS, _SIGNALLED_SLEEP_NS = 20_000, 500_000, 5_000_000

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
    counts: Ints  # completions of each lane that the run state does not know yet
    #: Start and end of completed commands, on their device's clock.
    start_ns: Ints
    end_ns: Ints
    batches: Ints  # first event and number of events of each submission
    helper_counters: Ints  # number of submissions, and whether the run is over: see `SubmittedEvents`
    #: Set by C: number of events of a submission, and the error code of a failed command.
    new_events_count: Ints
    code: Ints
    asked: Ints  # set by other threads to make the loop return
    state: Ints  # indexed by `PROCESSED` and following
    at: Ints  # indexed by `CLOCK` and following


class EventLoop:
    """The event loop of one run, and its state."""

    def __init__(
        self,
        run_state: RunState,
        rule: Callable[[Any, Any], None],
        library: SubmissionLibrary,
        loop: SubmissionLoop,
        wakeup: Wakeup,
        words: Ints,
        addresses: Ints,
        lanes: Any,
    ) -> None:
        commands = len(run_state.lane)
        self._run_state, self._rule, self._drive, self._loop, self._lanes = run_state, rule, loop_of(rule), loop, lanes
        self._library = library
        self._made = loop.new_event_array(2 * (commands + 1))
        self.submit_ns = np.zeros(commands + 1, np.int64)
        lanes_at, lanes_count, events, stop = loop.addresses
        machine = self.machine = _LoopState(
            words=words,
            copies=np.zeros((len(run_state.places.copies), WORDS), np.int64),
            addresses=addresses,
            pointers=np.zeros(commands + 1, np.int64),
            counts=np.zeros(len(run_state.done), np.int64),
            start_ns=np.zeros(commands, np.int64),
            end_ns=np.zeros(commands, np.int64),
            batches=np.zeros((commands + 1, 2), np.int64),
            helper_counters=np.zeros(2, np.int64),
            new_events_count=np.zeros(1, np.int64),
            code=np.zeros(1, np.int64),
            asked=np.zeros(1, np.int64),
            state=np.zeros(9, np.int64),
            at=np.zeros(26, np.int64),
        )
        machine.state[CHANGED], machine.state[REPLAN_FROM], machine.state[SIGNALLED] = 1, NEVER, lanes is not None
        places = {
            CLOCK: library.now_address, SUBMIT: library.submit_address, COMPLETED: library.completed_address,
            WAIT: library.wakeup_wait_address, WAKEUP: wakeup.address, EVENTS: events, STOP: stop,
            LANES: lanes_at if lanes is None else ctypes.addressof(lanes), LANES_COUNT: lanes_count,
            POINTERS: machine.pointers.ctypes.data, SUBMIT_NS: self.submit_ns.ctypes.data,
            NEW_EVENTS: ctypes.addressof(self._made), NEW_EVENTS_COUNT: machine.new_events_count.ctypes.data,
            FLIGHT: run_state.flight.ctypes.data, FLIGHT_WIDTH: run_state.flight.shape[1],
            DONE: run_state.done.ctypes.data, N_SUBMITTED: run_state.submitted.ctypes.data,
            FLIGHT_LANES: len(run_state.done), COUNTS: machine.counts.ctypes.data,
            START_NS: machine.start_ns.ctypes.data, END_NS: machine.end_ns.ctypes.data,
            FAILED_CODE: machine.code.ctypes.data, COMMANDS: words.ctypes.data,
            COPY_COMMANDS: machine.copies.ctypes.data, WAIT_LISTS: run_state.waits.ctypes.data,
        }  # fmt: skip
        machine.at[list(places)] = list(places.values())

    def make_ready(self) -> None:
        """Load the loop's machine code; for a rule that was not there when the package was built, compile the rule.

        The loop then calls the rule through its address.
        """
        if not _has_loop(self._rule, self._run_state, self.machine):
            parameters = with_address(self._run_state.parameters, address_of_rule(self._rule, self._run_state))
            self._run_state, self._drive = self._run_state._replace(parameters=parameters), loop_of(call_rule)
        precompile(self._drive, self._run_state, self.machine)

    def drive(self) -> int:
        """Run the loop until Python has to act; return the reason, such as `ASKED`."""
        first = int(self.machine.helper_counters[0])
        try:
            return self._drive(self._run_state, self.machine)
        finally:
            for begin, count in self.machine.batches[first : self.machine.helper_counters[0]].tolist():
                self._loop.keep(self._made, 2 * begin, ctypes.c_int64(count), self._lanes)

    def events_for_helpers(self, idle: Wakeup) -> SubmittedEvents:
        """Return the submitted events, for helper threads that wait for them until `stop_helpers`.

        Idle helper threads sleep on the given wake-up counter.
        """
        machine, at = self.machine, np.zeros(4, np.int64)
        at[[WAIT_FOR, SLEEP, IDLE_WAKEUP, HELPER_EVENTS]] = (
            self._library.wait_address, self._library.wakeup_wait_address, idle.address, machine.at[NEW_EVENTS],
        )  # fmt: skip
        events = np.frombuffer(self._made, np.int64).reshape(-1, _EVENT_BYTES // 8)
        return SubmittedEvents(events, machine.batches, machine.helper_counters, at)

    def lane_addresses(self, lanes: Sequence[int]) -> Ints:
        """Return the addresses of some lanes."""
        first, step = int(self.machine.at[LANES]), ctypes.sizeof(LaneStructure)
        return np.array([first + lane * step for lane in lanes], np.int64)

    def stop_helpers(self) -> None:
        """Make helper threads end once all submitted events have completed."""
        self.machine.helper_counters[1] = 1


#: By rule: whether the package has machine code of its loop. States of runs are all of the same types.
_HAS_LOOP: dict[Any, bool] = {}


def _has_loop(rule: Any, run_state: RunState, machine: _LoopState) -> bool:
    if rule not in _HAS_LOOP:
        _HAS_LOOP[rule] = is_built(loop_of(rule), (run_state, machine))
    return _HAS_LOOP[rule]


@lean
def _poll(machine: _LoopState) -> int:
    """Wait for a change of state, unless one just happened; poll completions."""
    state, at = machine.state, machine.at
    idle = not state[CHANGED]
    state[CHANGED] = 0
    if machine.asked[0]:
        return ASKED
    sleep_ns = _SIGNALLED_SLEEP_NS
    if idle or state[SIGNALLED]:
        if not state[SIGNALLED]:
            sleep_ns = int(compiled_backoff(state[IDLE_NS], _SHORTEST_SLEEP_NS, _LONGEST_SLEEP_NS, 1.0))
        state[SIGNALS] = call_address(at[WAIT], (at[WAKEUP], state[SIGNALS], sleep_ns))
    state[IDLE_NS] = state[IDLE_NS] + sleep_ns if idle else 0
    found = call_address(
        at[COMPLETED],
        (
            at[EVENTS], at[FLIGHT], at[FLIGHT_WIDTH], at[DONE], at[N_SUBMITTED], at[FLIGHT_LANES], at[COUNTS],
            at[START_NS], at[END_NS], at[FAILED_CODE],
        ),
    )  # fmt: skip
    if found:
        state[CHANGED] = 1
    return FAILED if machine.code[0] else ASKED if machine.asked[0] else _ON


@lean
def _copy_command(run_state: RunState, machine: _LoopState, thing: int) -> int:
    """Build the command of a copy; return its address."""
    places, at = run_state.places, machine.at
    number = thing - places.counters[FIRST_COPY]
    piece, row = places.copies[number, COPY_PIECE], machine.copies[number]
    row[_KIND] = COPY if places.pieces[piece, NBYTES] else FENCE
    row[_LANE], row[_SLOT] = run_state.lane[thing], thing
    row[_WAITS] = at[WAIT_LISTS] + thing * run_state.waits.shape[1] * 8
    row[_COUNT] = run_state.waits_count[thing]
    row[_TO] = machine.addresses[piece, places.copies[number, COPY_TO]]
    row[_SOURCE] = machine.addresses[piece, places.copies[number, COPY_FROM]]
    row[_NBYTES] = places.pieces[piece, NBYTES]
    return int(at[COPY_COMMANDS] + number * WORDS * 8)


@lean
def _submit_started(run_state: RunState, machine: _LoopState, started: int) -> int:
    """Submit the commands started since the last call."""
    state, at, words = machine.state, machine.at, machine.words
    machine.counts[:] = 0
    commands = run_state.counters[N_COMMANDS]
    if commands > state[PROCESSED]:
        state[CHANGED] = 1
        first, count, hosts = state[SUBMITTED], 0, 0
        for task in run_state.started[state[PROCESSED] : commands]:
            lane = run_state.lane[task]
            if task >= len(run_state.waiting):
                machine.pointers[first + count] = _copy_command(run_state, machine, task)
                count += 1
                continue
            if run_state.is_host[lane]:
                hosts += 1
                continue
            words[task, lane, _COUNT] = run_state.waits_count[task]
            machine.pointers[first + count] = at[COMMANDS] + (task * words.shape[1] + lane) * words.shape[2] * 8
            count += 1
        state[PROCESSED] = commands
        if count:
            begun_ns = call_address(at[CLOCK], (0,))
            events = at[NEW_EVENTS] + 2 * first * _EVENT_BYTES
            done = call_address(
                at[SUBMIT],
                (
                    at[LANES], at[LANES_COUNT], at[POINTERS] + first * 8, count, at[EVENTS], at[SUBMIT_NS] + first * 8,
                    events, at[NEW_EVENTS_COUNT], at[STOP],
                ),
            )  # fmt: skip
            state[SUBMISSION_NS] += call_address(at[CLOCK], (0,)) - begun_ns
            batch = machine.helper_counters[0]
            machine.batches[batch, 0], machine.batches[batch, 1] = first, machine.new_events_count[0]
            machine.helper_counters[0] = batch + 1
            state[SUBMITTED] += done
            if done < count:
                return REFUSED
        if hosts or (count and state[RETURN_AFTER_BATCH]):
            return BATCH_SUBMITTED
    if started == len(run_state.waiting):
        for lane in range(len(run_state.done)):
            if run_state.done[lane] < run_state.submitted[lane]:
                return _ON
        return ALL_DONE
    if started >= state[REPLAN_FROM] and run_state.scalars[DEVIATION] > run_state.scalars[BOUND]:
        return REPLAN
    return _ON


@lean
def _now_s(machine: _LoopState) -> float:
    return float((call_address(machine.at[CLOCK], (0,)) - machine.at[BEGAN_NS]) * 1e-9)


@cache
def loop_of(rule: Callable[[Any, Any], None]) -> Callable[[RunState, _LoopState], int]:
    """Return the event loop, compiled for a policy's rule: a function that returns the reason for its return."""
    turn = turn_of(rule)

    def drive(run_state: RunState, machine: _LoopState) -> int:
        reason = _ON
        while reason == _ON:
            # Decisions stand until the state changes; while idle, lanes may overrun their estimates.
            if machine.state[CHANGED] or machine.state[IDLE_NS] > _SHORTEST_SLEEP_NS:
                started = turn(run_state, machine.counts, machine.start_ns, machine.end_ns, _now_s(machine))
                reason = _submit_started(run_state, machine, started)
            if reason == _ON:
                reason = _poll(machine)
        return reason

    return specialised(drive, turn)
