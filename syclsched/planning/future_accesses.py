# SPDX-License-Identifier: Apache-2.0
"""Future accesses to each array while the passes walk through a schedule's tasks."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

from syclsched.model.plan import PlannedTask
from syclsched.model.platform import Device
from syclsched.model.schedule import Assignment
from syclsched.planning.draft import READING, WRITING

#: Later than any task.
NEVER: Final = 1 << 62


class FutureAccess(NamedTuple):
    """An access of a task to an array: the task's position, its device's own space, and the mode.

    Tasks have odd positions, in global order. Tasks run again right before another one have the even position before
    it.
    """

    position: int
    home: str
    reads: bool
    writes: bool


class FutureAccesses:
    """Future accesses to each array."""

    def __init__(
        self, assignments: Sequence[Assignment], tasks: Mapping[str, PlannedTask], devices: Mapping[str, Device]
    ) -> None:
        #: Current position: earlier accesses are past.
        self.now = 0
        self._touches: dict[str, list[FutureAccess]] = {}
        for position, assignment in zip(count(1, 2), assignments, strict=False):
            home = devices[assignment.device].space
            for access in tasks[assignment.task].accesses:
                mode = id(access.mode)
                self._touches.setdefault(access.array, []).append(
                    FutureAccess(position, home, READING[mode], WRITING[mode])
                )

    def _from(self, array: str, position: int) -> Iterator[FutureAccess]:
        touches = self._touches[array]
        for index in range(bisect_left(touches, (position,)), len(touches)):
            yield touches[index]

    def over(self, array: str) -> bool:
        """Return whether no access is left."""
        return self._touches[array][-1].position < self.now

    def will_be_read(self, array: str) -> bool:
        """Return whether a task will read the current value."""
        following = next(self._from(array, self.now), None)
        return following is not None and following.reads

    def readers(self, array: str) -> Iterator[str]:
        """Yield, in order, the device spaces of the readers of the current task's value."""
        for touch in self._from(array, self.now + 1):
            if touch.reads:
                yield touch.home
            if touch.writes:
                return

    def next_read_in(self, array: str, space: str) -> int:
        """Return the position of the current value's next read by a device of a space, or `NEVER`."""
        for touch in self._from(array, self.now):
            if touch.reads and touch.home == space:
                return touch.position
            if touch.writes:
                break
        return NEVER

    # --- rematerialisation ------------------------------------------------------------------------

    def first_reader(self, array: str) -> FutureAccess | None:
        """Return the next access, if it reads the current value."""
        following = next(self._from(array, self.now), None)
        return following if following is not None and following.reads else None

    def written_within(self, array: str, first: int, last: int) -> bool:
        """Return whether a task writes an array from one position to before another."""
        for touch in self._from(array, first):
            if touch.position >= last:
                break
            if touch.writes:
                return True
        return False

    def expect(self, array: str, touch: FutureAccess) -> None:
        """Add an access that is not in the schedule."""
        insort(self._touches[array], touch)

    def forget(self, array: str, touch: FutureAccess) -> None:
        """Remove an access added with `expect`."""
        self._touches[array].remove(touch)
