# SPDX-License-Identifier: Apache-2.0
"""What was given to each lane in which place, how much of it has completed, and what has to be waited for. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from syclsched.execution.live.coherence import Stamp


class Stamps:
    """The places of one run's lanes."""

    def __init__(self, lanes: int) -> None:
        self._given = [0] * lanes
        #: Of each lane, how many of those given to it have completed: all before that place.
        self._done = [0] * lanes
        self._ordered_after: list[list[int]] = [[0] * lanes for _ in range(lanes)]
        self.slots: dict[Stamp, int] = {}

    def next(self, lane: int) -> Stamp:
        """Return the next place of a lane, which is taken."""
        place = self._given[lane]
        self._given[lane] = place + 1
        return lane, place

    def adopt(self, stamp: Stamp, waits: Iterable[Stamp]) -> None:
        """Note a place that was taken by others, and what came before it."""
        lane, place = stamp
        self._given[lane] = place + 1
        for other, before in waits:
            self._ordered_after[lane][other] = max(self._ordered_after[lane][other], before + 1)

    def end(self, lane: int, place: int) -> None:
        """Note that all of a lane has completed, up to a place."""
        self._done[lane] = place + 1

    def is_done(self, lane: int, place: int) -> bool:
        """Return whether what was given to a lane in a place has completed."""
        return place < self._done[lane]

    def waits(self, lane: int, stamps: set[Stamp]) -> tuple[tuple[Stamp, ...], tuple[int, ...]]:
        """Return what something on a lane waits for, of each other lane the last only, and the slots of these.

        What has completed, or what something before it on the lane has waited for, has no slot to wait for.
        """
        latest: dict[int, int] = {}
        for other, place in stamps:
            if other != lane and place >= self._ordered_after[lane][other] and place > latest.get(other, -1):
                latest[other] = place
        slots = []
        for other, place in latest.items():
            self._ordered_after[lane][other] = place + 1
            slot = None if self.is_done(other, place) else self.slots.get((other, place))
            if slot is not None:
                slots.append(slot)
        return tuple(latest.items()), tuple(slots)
