# SPDX-License-Identifier: Apache-2.0
"""Frees that have been passed and take effect once everything before them has completed. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from syclsched.execution.program import Buffer


@dataclass(frozen=True, slots=True)
class PendingFree:
    """One free."""

    buffer: Buffer  # what to give back
    after: tuple[int, ...]  # instructions that must have completed


class PendingFrees:
    """Pending frees lane by lane; of each lane only the first is looked at, because lanes complete in order."""

    def __init__(self, lane_count: int) -> None:
        self._lanes: list[deque[PendingFree]] = [deque() for _ in range(lane_count)]

    def add(self, lane: int, free: PendingFree) -> None:
        """Remember a free of a lane."""
        self._lanes[lane].append(free)

    def take(self, completed: Callable[[int], bool]) -> list[PendingFree]:
        """Return the frees that take effect now, and forget them."""
        due: list[PendingFree] = []
        for lane in self._lanes:
            while lane and all(completed(number) for number in lane[0].after):
                due.append(lane.popleft())
        return due

    def waitable(self, submitted: Callable[[int], bool]) -> PendingFree | None:
        """Return a free of which everything before it has at least been submitted, or None."""
        for lane in self._lanes:
            if lane and all(submitted(number) for number in lane[0].after):
                return lane[0]
        return None

    def __len__(self) -> int:
        return sum(len(lane) for lane in self._lanes)
