# SPDX-License-Identifier: Apache-2.0
"""What is still to come for each array, as the passes go through a schedule's tasks."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

from syclsched.model.plan import PlannedTask
from syclsched.model.platform import Device
from syclsched.model.schedule import Assignment
from syclsched.planning.steps import READING, WRITING

#: Later than any task.
NEVER: Final = 1 << 62


class Touch(NamedTuple):
    """One task's access to an array: the task's position, its device's home space, and how.

    Tasks have odd positions, in global order; what is done again for the sake of a task, the even one before it.
    """

    position: int
    home: str
    reads: bool
    writes: bool


class Upcoming:
    """Per array, the accesses that are still to come."""

    def __init__(
        self, assignments: Sequence[Assignment], tasks: Mapping[str, PlannedTask], devices: Mapping[str, Device]
    ) -> None:
        #: Position of the first task whose accesses are still to come.
        self.now = 0
        self._touches: dict[str, list[Touch]] = {}
        for position, assignment in zip(count(1, 2), assignments, strict=False):
            home = devices[assignment.device].space
            for access in tasks[assignment.task].accesses:
                mode = id(access.mode)
                self._touches.setdefault(access.array, []).append(Touch(position, home, READING[mode], WRITING[mode]))

    def _from(self, array: str, position: int) -> Iterator[Touch]:
        touches = self._touches[array]
        for index in range(bisect_left(touches, (position,)), len(touches)):
            yield touches[index]

    def over(self, array: str) -> bool:
        """Return whether no access is left."""
        return self._touches[array][-1].position < self.now

    def needed(self, array: str) -> bool:
        """Return whether the present value will be read by a task."""
        following = next(self._from(array, self.now), None)
        return following is not None and following.reads

    def readers(self, array: str) -> Iterator[str]:
        """Yield the home spaces of those who read what the present task writes, in order."""
        for touch in self._from(array, self.now + 1):
            if touch.reads:
                yield touch.home
            if touch.writes:
                return

    def next_in(self, array: str, space: str) -> int:
        """Return the position at which the present value is next read from a device at home in a space, or `NEVER`."""
        for touch in self._from(array, self.now):
            if touch.reads and touch.home == space:
                return touch.position
            if touch.writes:
                break
        return NEVER

    # --- what is made again -----------------------------------------------------------------------

    def first_reader(self, array: str) -> Touch | None:
        """Return the first access to come if it reads the present value."""
        following = next(self._from(array, self.now), None)
        return following if following is not None and following.reads else None

    def written_within(self, array: str, first: int, last: int) -> bool:
        """Return whether an array is written by a task from one position to before another."""
        for touch in self._from(array, first):
            if touch.position >= last:
                break
            if touch.writes:
                return True
        return False

    def expect(self, array: str, touch: Touch) -> None:
        """Add an access that the schedule does not know of."""
        insort(self._touches[array], touch)

    def forget(self, array: str, touch: Touch) -> None:
        """Take an access that was added with `expect` away again."""
        self._touches[array].remove(touch)
