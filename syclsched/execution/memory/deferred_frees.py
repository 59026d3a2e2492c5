# SPDX-License-Identifier: Apache-2.0
"""Deferred frees, which take effect once all their predecessors have completed. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from syclsched.execution.core.program import Buffer


@dataclass(frozen=True, slots=True)
class DeferredFree:
    """One deferred free."""

    buffer: Buffer
    after: tuple[int, ...]  # instructions that must have completed before


class DeferredFrees:
    """Deferred frees by lane; only the first of each lane is checked, because lanes complete in order."""

    def __init__(self, lane_count: int) -> None:
        self._lanes: list[deque[DeferredFree]] = [deque() for _ in range(lane_count)]

    def add(self, lane: int, free: DeferredFree) -> None:
        """Append a free of a lane."""
        self._lanes[lane].append(free)

    def take(self, completed: Callable[[int], bool]) -> list[DeferredFree]:
        """Remove and return the frees whose predecessors have completed."""
        due: list[DeferredFree] = []
        for lane in self._lanes:
            while lane and all(completed(number) for number in lane[0].after):
                due.append(lane.popleft())
        return due

    def waitable(self, submitted: Callable[[int], bool]) -> DeferredFree | None:
        """Return a free whose predecessors have all been submitted; None if there is none."""
        for lane in self._lanes:
            if lane and all(submitted(number) for number in lane[0].after):
                return lane[0]
        return None

    def __len__(self) -> int:
        return sum(len(lane) for lane in self._lanes)
