# SPDX-License-Identifier: Apache-2.0
"""Commands that are handed to the submission loop again and again, hundreds in one call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import accumulate

from syclsched.devices.commands import Command
from syclsched.devices.submission_loop import SubmissionLoop

#: Commands a call hands on. Lanes start, and the stop flag and finished events are looked at, in between.
PORTION = 128
#: Submitted commands that are not known to have completed, at most: each holds memory of the runtime's.
MOST_IN_FLIGHT = 64 * PORTION


class CommandList:
    """All the commands of a run that is done more than once.

    Parameters
    ----------
    loop : SubmissionLoop
        Theirs; it is used for nothing else while they are on their way.
    commands : sequence of Command
        In an order in which none comes before what it waits for.
    """

    def __init__(self, loop: SubmissionLoop, commands: Sequence[Command]) -> None:
        self._loop = loop
        self.commands = list(commands)
        self._parts = [part for command in commands for part in command.parts]
        starts = accumulate((len(command.parts) for command in commands), initial=0)
        self._first_part = {command.slot: start for command, start in zip(commands, starts, strict=False)}
        self._position = {command.slot: position for position, command in enumerate(commands)}
        count = len(self._parts)
        self._pointers = (ctypes.c_void_p * count)(*[part.address for part in self._parts])
        self._submit_ns = (ctypes.c_int64 * count)()
        self._made = loop.room_for_events(2 * count)
        #: Where in `_made` each portion begins, and how many events it has.
        self._portions: list[tuple[int, int]] = []
        self.fences = 0

    def __len__(self) -> int:
        """How many submissions there are, without fences."""
        return len(self._parts)

    def replace(self, command: Command) -> None:
        """Put a command in the place of the one with its slot, which was one submission, too."""
        position = self._first_part[command.slot]
        self._parts[position] = command
        self._pointers[position] = command.address
        self.commands[self._position[command.slot]] = command

    def from_submission(self, number: int) -> list[Command]:
        """Return the commands of which nothing comes before the submission with this number."""
        return [command for command in self.commands if self._first_part[command.slot] >= number]

    def begun_at(self, number: int) -> Command | None:
        """Return the command of which this submission is one of those after the first; None if it is a first one."""
        for command in self.commands:
            first = self._first_part[command.slot]
            if first < number < first + len(command.parts):
                return command
        return None

    def submit(self) -> int:
        """Submit everything, without the GIL.

        Nobody waits meanwhile for what was submitted first: on devices that compute on the host's cores the waiting
        thread would take the core of the one that submits.

        Returns
        -------
        int
            How many submissions were made: fewer than there are if one was refused, or the loop was stopped.
        """
        self._portions.clear()
        self.fences = done = 0
        count = len(self._parts)
        while done < count:
            portion = min(PORTION, count - done)
            at = 2 * done
            here, events = self._loop.submit_listed(self._pointers, self._submit_ns, self._made, done, portion)
            self._portions.append((at, events))
            self.fences += events - here
            done += here
            if here < portion:
                break
            behind = len(self._portions) - MOST_IN_FLIGHT // PORTION
            if behind >= 0:
                self._loop.wait_for(self._made, *self._portions[behind])
        return done

    def wait(self) -> None:
        """Wait for everything that `submit` submitted, one after another, without the GIL."""
        for at, events in self._portions:
            self._loop.wait_for(self._made, at, events)

    def submit_ns(self) -> dict[int, int]:
        """Return the host's clock at the submission of each command, by slot."""
        times = list(self._submit_ns)
        return {slot: times[position] for slot, position in self._first_part.items()}
