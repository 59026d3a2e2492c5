# SPDX-License-Identifier: Apache-2.0
"""Sequence numbers of lanes: submitted, completed, and already ordered by earlier waits. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from syclsched.execution.dynamic.data.coherence import Stamp


class LaneSequences:
    """Sequence numbers of one run's lanes; removes waits that earlier ones imply, as a vector clock does."""

    def __init__(self, lanes: int) -> None:
        self._given = [0] * lanes
        #: By lane, the number of completed commands.
        self._done = [0] * lanes
        self._ordered_after: list[list[int]] = [[0] * lanes for _ in range(lanes)]
        self.slots: dict[Stamp, int] = {}

    def next(self, lane: int) -> Stamp:
        """Reserve and return the next stamp of a lane."""
        place = self._given[lane]
        self._given[lane] = place + 1
        return lane, place

    def adopt(self, stamp: Stamp, waits: Iterable[Stamp]) -> None:
        """Record a stamp of a command submitted by compiled code, and its waits."""
        lane, place = stamp
        self._given[lane] = place + 1
        for other, before in waits:
            self._ordered_after[lane][other] = max(self._ordered_after[lane][other], before + 1)

    def end(self, lane: int, place: int) -> None:
        """Record that a lane has completed up to and including a sequence number."""
        self._done[lane] = place + 1

    def is_done(self, lane: int, place: int) -> bool:
        """Return whether the command with this sequence number has completed on its lane."""
        return place < self._done[lane]

    def waits(self, lane: int, stamps: set[Stamp]) -> tuple[tuple[Stamp, ...], tuple[int, ...]]:
        """Return the stamps a command must wait for, at most one per other lane, and their event slots.

        Completed commands have no slot; commands that the lane has already waited for are left out.
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
