# SPDX-License-Identifier: Apache-2.0
"""Commands that are handed to the submission loop again and again, hundreds in one call."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from syclsched.devices.commands import CallCommand, Command
from syclsched.devices.submission_loop import SubmissionLoop

Times = np.ndarray[Any, np.dtype[np.int64]]
#: What was submitted in one call: the room its events are in, where they begin there, and how many they are.
Portion = tuple[Any, int, int]

#: Commands a call hands on. Lanes start, and the stop flag and finished events are looked at, in between.
PORTION = 128
#: Submitted commands that are not known to have completed, at most: each holds memory of the runtime's.
MOST_IN_FLIGHT = 64 * PORTION
#: The same where functions of libraries are called, of all lists together that are submitted to the same queues: each
#: unfinished one in SYCL's queue makes each of the next take longer, and with 2,000 it takes a millisecond and more.
CALLS_IN_FLIGHT = 2 * PORTION
#: Each of them may have so many on their way all the same, or lanes would have nothing to do now and then.
LEAST_CALLS_IN_FLIGHT = 16


class CommandList:
    """All the commands of a run that is done more than once."""

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
        self._made = loop.room_for_events(2 * count)
        self._portions: list[Portion] = []
        #: The slots of all commands, in order.
        self.slots = [slot for command in self.commands for slot in command.slots]
        #: For each of them: the position of its submission, and which of how many that are done by it it is.
        counts = np.array([len(c.slots) for c in self.commands], np.int64)
        self._first_parts = np.repeat(np.array(list(self._first_part.values()), np.int64), counts)
        self._commands_of = np.repeat(np.arange(len(self.commands)), counts)
        self.slot_numbers: Times = np.array(self.slots, np.int64)
        shared = [(i, len(c.slots)) for c in self.commands for i in range(len(c.slots))]
        self._shared = np.array(shared, np.int64).reshape(-1, 2)
        #: Slot and position of what is several submissions; its start is that of the first.
        several = {c.slot for c in self.commands if len(c.parts) > 1}
        self._sequences = [(slot, i) for i, slot in enumerate(self.slots) if slot in several]
        self._events: tuple[Any, Any] | None = None
        #: Positions of commands that are calls, by lane; all positions of such lanes.
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
        """How many submissions there are, without fences."""
        return len(self._parts)

    @property
    def parts(self) -> list[Command]:
        """All submissions, in order."""
        return self._parts

    @property
    def address(self) -> int:
        """Where C finds the addresses of all submissions; they change with `replace`."""
        return ctypes.addressof(self._pointers)

    def share(self, lists: int) -> None:
        """Have no more on its way than its part, of so many lists that are submitted to the same queues at once."""
        most = max(LEAST_CALLS_IN_FLIGHT, CALLS_IN_FLIGHT // lists) if self._calls else MOST_IN_FLIGHT
        self._most_in_flight, self._portion = most, max(1, min(PORTION, most // 2))

    def adopt(self, done: int, portions: Sequence[Portion]) -> None:
        """Go on from what was submitted by others: so many of the first, with these events."""
        self.begin()
        self._portions.extend(portions)
        self.done, self.fences = done, sum(count for _, _, count in portions) - done
        for room, begin, count in portions:
            self._loop.keep(room, begin, ctypes.c_int64(count))

    def replace(self, command: Command) -> None:
        """Put a command in the place of the one with its slot, which was one submission, too."""
        position = self._first_part[command.slot]
        self._parts[position] = command
        self._pointers[position] = command.address
        self.commands[self._position[command.slot]] = command

    def first_part(self, command: Command) -> int:
        """Return the number of the first submission of a command."""
        return self._first_part[command.slot]

    def submissions_of(self, count: int) -> int:
        """Return how many submissions the first so many commands are."""
        return self._starts[count]

    def from_submission(self, number: int, end: int | None = None) -> list[Command]:
        """Return the commands that begin with the submission with this number or behind it, and before an end."""
        end = len(self._parts) if end is None else end
        return [command for command in self.commands if number <= self._first_part[command.slot] < end]

    def begun_at(self, number: int) -> Command | None:
        """Return the command of which this submission is one of those after the first; None if it is a first one."""
        for command in self.commands:
            first = self._first_part[command.slot]
            if first < number < first + len(command.parts):
                return command
        return None

    def take_new_room(self) -> None:
        """Leave the room that events are in to whoever still waits for them, or gives them back later."""
        self._made = self._loop.room_for_events(2 * len(self._parts))

    def begin(self) -> None:
        """Be ready to submit from the start."""
        self._portions.clear()
        self.fences = self.done = self._waited = self._waited_parts = 0

    def submit(self, end: int | None = None) -> int:
        """Go on submitting, without the GIL.

        Nobody waits meanwhile for what was submitted first: on devices that compute on the host's cores the waiting
        thread would take the core of the one that submits.
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
            here, events = self._loop.submit_listed(self._pointers, self._submit_ns, self._made, self.done, portion)
            self._portions.append((self._made, at, events))
            self.fences += events - here
            self.done += here
            if here < portion:
                break
        return self.done

    def portions(self, begin: int = 0) -> list[Portion]:
        """Return what stands for what was submitted in each call from some call on, for `wait`."""
        return self._portions[begin:]

    def wait(self, portions: Sequence[Portion] | None = None) -> None:
        """Wait for everything that was submitted, or for these portions of it, one after another, without the GIL."""
        if portions is None:
            self._loop.wait_for_all()
        for portion in portions or ():
            self._loop.wait_for(*portion)
        self._waited_ns = time.monotonic_ns()

    def submit_ns(self) -> Times:
        """Return the host's clock at the submission for each of `slots`, all of which were submitted."""
        times: Times = np.asarray(self._submit_ns, np.int64)[self._first_parts]
        return times

    def times(self) -> tuple[Times, Times]:
        """Return start and end for each of `slots`, on its device's clock; all of them must have completed.

        What is done by one submission is taken to share its time equally, one after another. So are calls of libraries
        of which it is not known when each has ended: they share the time until something on their lane is known, as
        they were predicted to.
        """
        if self._events is None:
            begun = [slot for slot, first in self._sequences]
            self._events = self._loop.listed([c.slot for c in self.commands]), self._loop.listed_first(begun)
        by_command = self._loop.times_listed(self._events[0])
        if self._calls:
            self._share_out(*by_command)
        start_ns, end_ns = (times[self._commands_of] for times in by_command)
        if self._sequences:
            begun_ns = self._loop.times_listed(self._events[1])[0]
            start_ns[[position for _, position in self._sequences]] = begun_ns
        position, count = self._shared.T
        share_ns = (end_ns - start_ns) // count
        start_ns = start_ns + position * share_ns
        return start_ns, np.where(position + 1 < count, start_ns + share_ns, end_ns)

    def _share_out(self, start_ns: Times, end_ns: Times) -> None:
        """Fill in the times of calls of which only the beginning is known, by command."""
        for positions in self._on_lane.values():
            before_ns, waiting = 0, list[int]()
            for n in [*positions, -1]:
                if n in self._calls and start_ns[n] == end_ns[n]:
                    waiting.append(n)
                    continue
                if waiting:
                    first_ns = max(before_ns, int(start_ns[waiting[0]]))
                    last_ns = max(first_ns, self._waited_ns if n < 0 else int(start_ns[n]))
                    shares = np.array([self._predicted_s.get(self.commands[w].slot, 0.0) for w in waiting]) + 1e-9
                    ends = first_ns + (np.cumsum(shares) / shares.sum() * (last_ns - first_ns)).astype(np.int64)
                    start_ns[waiting], end_ns[waiting] = [first_ns, *ends[:-1]], ends
                    waiting.clear()
                before_ns = int(end_ns[n])
