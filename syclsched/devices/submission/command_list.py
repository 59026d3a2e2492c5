# SPDX-License-Identifier: Apache-2.0
"""A list of commands that is submitted repeatedly, hundreds of commands in one call of C."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from syclsched.devices.submission.commands import CallCommand, Command
from syclsched.devices.submission.submission_loop import SubmissionLoop

Times = np.ndarray[Any, np.dtype[np.int64]]
#: The events of one submission call: their array, the index of the first, and their number.
EventRange = tuple[Any, int, int]

#: Commands submitted by one call. Between calls lanes are flushed and finished events are checked.
COMMANDS_PER_CALL = 128
#: Most submitted commands that are not known to have completed: each holds memory of the runtime.
MAX_IN_FLIGHT = 64 * COMMANDS_PER_CALL
#: The same limit where library functions are called, for all lists on the same queues together: every unfinished call
#: in SYCL's queue makes the next one slower; with 2,000 of them a call takes more than a millisecond.
MAX_CALLS_IN_FLIGHT = 2 * COMMANDS_PER_CALL
#: Each list may have at least this many in flight, or lanes would run empty sometimes.
MIN_CALLS_IN_FLIGHT = 16


class CommandList:
    """All commands of a run that is repeated."""

    def __init__(
        self, loop: SubmissionLoop, commands: Sequence[Command], predicted_s: Mapping[int, float] | None = None
    ) -> None:
        self._loop = loop
        self.commands = list(commands)
        self._predicted_s = predicted_s or {}
        self._parts = [part for command in commands for part in command.parts]
        self._starts = list(accumulate((len(command.parts) for command in commands), initial=0))
        self._first_part = {command.slot: start for command, start in zip(commands, self._starts, strict=False)}
        self._position = {command.slot: position for position, command in enumerate(commands)}
        count = len(self._parts)
        self._pointers = (ctypes.c_void_p * count)(*[part.address for part in self._parts])
        self._submit_ns = (ctypes.c_int64 * count)()
        self._made = loop.new_event_array(2 * count)
        self._portions: list[EventRange] = []
        #: The slots of all commands, in order.
        self.slots = [slot for command in self.commands for slot in command.slots]
        #: For each slot: the position of its submission, its index among that submission's slots, their number.
        counts = np.array([len(c.slots) for c in self.commands], np.int64)
        self._first_parts = np.repeat(np.array(list(self._first_part.values()), np.int64), counts)
        self._commands_of = np.repeat(np.arange(len(self.commands)), counts)
        self.slot_numbers: Times = np.array(self.slots, np.int64)
        shared = [(i, len(c.slots)) for c in self.commands for i in range(len(c.slots))]
        self._shared = np.array(shared, np.int64).reshape(-1, 2)
        #: Slot and position of commands made of several submissions; the start time is that of the first.
        several = {c.slot for c in self.commands if len(c.parts) > 1}
        self._sequences = [(slot, i) for i, slot in enumerate(self.slots) if slot in several]
        self._events: tuple[Any, Any] | None = None
        #: Positions of commands that are library calls, and by lane all positions of the lanes that have some.
        self._calls = {n for n, c in enumerate(self.commands) if isinstance(c.parts[-1], CallCommand)}
        lanes = {self.commands[n].parts[-1].lane for n in self._calls}
        self._on_lane = {
            lane: [n for n, c in enumerate(self.commands) if c.parts[-1].lane == lane] for lane in sorted(lanes)
        }
        self._most_in_flight = self._portion = 0
        self.share(1)
        self._waited_ns = 0
        self._waited = self._waited_parts = 0
        self.fences = self.done = 0

    def __len__(self) -> int:
        """Return the number of submissions, without fences."""
        return len(self._parts)

    @property
    def parts(self) -> list[Command]:
        """All submissions, in order."""
        return self._parts

    @property
    def address(self) -> int:
        """Address of the array of the addresses of all submissions; `replace` changes its contents."""
        return ctypes.addressof(self._pointers)

    def share(self, lists: int) -> None:
        """Set the limit of commands in flight, given how many lists are submitted to the same queues at once."""
        most = max(MIN_CALLS_IN_FLIGHT, MAX_CALLS_IN_FLIGHT // lists) if self._calls else MAX_IN_FLIGHT
        self._most_in_flight, self._portion = most, max(1, min(COMMANDS_PER_CALL, most // 2))

    def adopt(self, done: int, portions: Sequence[EventRange]) -> None:
        """Continue after another submitter: the first ``done`` commands were submitted, with these events."""
        self.begin()
        self._portions.extend(portions)
        self.done, self.fences = done, sum(count for _, _, count in portions) - done
        for events, begin, count in portions:
            self._loop.keep(events, begin, ctypes.c_int64(count))

    def replace(self, command: Command) -> None:
        """Replace the command with the same slot, which must have the same number of submissions."""
        first = self._first_part[command.slot]
        for position, part in enumerate(command.parts, first):
            self._parts[position] = part
            self._pointers[position] = part.address
        self.commands[self._position[command.slot]] = command

    def first_part(self, command: Command) -> int:
        """Return the position of a command's first submission."""
        return self._first_part[command.slot]

    def submissions_of(self, count: int) -> int:
        """Return how many submissions the first ``count`` commands have together."""
        return self._starts[count]

    def commands_from(self, number: int, end: int | None = None) -> list[Command]:
        """Return the commands whose first submission is at or after a position, and before an end."""
        end = len(self._parts) if end is None else end
        return [command for command in self.commands if number <= self._first_part[command.slot] < end]

    def sequence_around(self, number: int) -> Command | None:
        """Return the command that a submission belongs to, unless it is the command's first; then None."""
        for command in self.commands:
            first = self._first_part[command.slot]
            if first < number < first + len(command.parts):
                return command
        return None

    def use_new_events(self) -> None:
        """Use a new event array from now on; the old one is left to its waiters."""
        self._made = self._loop.new_event_array(2 * len(self._parts))

    def begin(self) -> None:
        """Reset the progress, to submit from the start."""
        self._portions.clear()
        self.fences = self.done = self._waited = self._waited_parts = 0

    def submit(self, end: int | None = None) -> int:
        """Submit further commands, up to ``end``, without the GIL; return how many are submitted in all.

        No thread waits for the first commands meanwhile: on devices that compute on the host's cores a waiting thread
        would take the core of the submitting one.
        """
        count = len(self._parts) if end is None else min(end, len(self._parts))
        while self.done < count:
            portion = min(self._portion, count - self.done)
            while self.done + portion - self._waited_parts > self._most_in_flight:
                self._loop.wait_for(*self._portions[self._waited])
                self._waited += 1
                following = self._waited < len(self._portions)
                self._waited_parts = self._portions[self._waited][1] // 2 if following else self.done
            at = 2 * self.done
            sent, events = self._loop.submit_listed(self._pointers, self._submit_ns, self._made, self.done, portion)
            self._portions.append((self._made, at, events))
            self.fences += events - sent
            self.done += sent
            if sent < portion:
                break
        return self.done

    def event_ranges(self, begin: int = 0) -> list[EventRange]:
        """Return the event ranges of all submission calls from a given one on, for `wait`."""
        return self._portions[begin:]

    def wait(self, portions: Sequence[EventRange] | None = None) -> None:
        """Wait for all submissions, or for these event ranges in order, without the GIL."""
        if portions is None:
            self._loop.wait_for_all()
        for portion in portions or ():
            self._loop.wait_for(*portion)
        self._waited_ns = time.monotonic_ns()

    def submit_ns(self) -> Times:
        """Return the host's clock at the submission of each of `slots`; all must have been submitted."""
        times: Times = np.asarray(self._submit_ns, np.int64)[self._first_parts]
        return times

    def times(self) -> tuple[Times, Times]:
        """Return start and end for each of `slots`, on its device's clock; all of them must have completed.

        Slots that share a submission are taken to share its time equally, one after another. Library calls whose end is
        not known share the time until the next known event on their lane, in proportion to their predicted durations.
        """
        if self._events is None:
            begun = [slot for slot, first in self._sequences]
            self._events = self._loop.listed([c.slot for c in self.commands]), self._loop.first_event_array(begun)
        by_command = self._loop.event_times(self._events[0])
        if self._calls:
            self._share_out(*by_command)
        start_ns, end_ns = (times[self._commands_of] for times in by_command)
        if self._sequences:
            begun_ns = self._loop.event_times(self._events[1])[0]
            start_ns[[position for _, position in self._sequences]] = begun_ns
        position, count = self._shared.T
        share_ns = (end_ns - start_ns) // count
        start_ns = start_ns + position * share_ns
        return start_ns, np.where(position + 1 < count, start_ns + share_ns, end_ns)

    def _share_out(self, start_ns: Times, end_ns: Times) -> None:
        """Fill in the times of calls of which only the start is known, by command."""
        for positions in self._on_lane.values():
            before_ns, unknown = 0, list[int]()
            for n in [*positions, -1]:
                if n in self._calls and start_ns[n] == end_ns[n]:
                    unknown.append(n)
                    continue
                if unknown:
                    first_ns = max(before_ns, int(start_ns[unknown[0]]))
                    last_ns = max(first_ns, self._waited_ns if n < 0 else int(start_ns[n]))
                    shares = np.array([self._predicted_s.get(self.commands[w].slot, 0.0) for w in unknown]) + 1e-9
                    ends = first_ns + (np.cumsum(shares) / shares.sum() * (last_ns - first_ns)).astype(np.int64)
                    start_ns[unknown], end_ns[unknown] = [first_ns, *ends[:-1]], ends
                    unknown.clear()
                before_ns = int(end_ns[n])
