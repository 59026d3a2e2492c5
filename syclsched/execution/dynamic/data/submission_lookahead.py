# SPDX-License-Identifier: Apache-2.0
"""Lookahead: the amount of work submitted to a lane ahead of its execution. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SubmissionLookahead:
    """A lane has enough work with ``most`` tasks, or with at least ``fewest`` tasks and ``seconds`` of work.

    A submitted task cannot be moved: a short lookahead gives better decisions, a long one keeps the lane busy while the
    engine does not poll.
    """

    #: Numbers of tasks.
    fewest: int = 2
    most: int = 64
    seconds: float = 1e-3  # estimated work

    def enough(self, count: int, seconds: float) -> bool:
        """Return whether a lane with this many tasks and seconds of work has enough."""
        return count >= self.most or (count >= self.fewest and seconds >= self.seconds)


class InFlightQueue(Generic[T]):
    """FIFO of the work in flight on a lane, with its estimated seconds."""

    __slots__ = ("items", "seconds")

    def __init__(self) -> None:
        self.items: deque[tuple[T, float]] = deque()
        self.seconds = 0.0

    def add(self, item: T, seconds: float) -> None:
        """Append an item."""
        self.items.append((item, seconds))
        self.seconds += seconds

    def pop(self) -> T:
        """Remove and return the oldest item."""
        item, seconds = self.items.popleft()
        self.seconds = self.seconds - seconds if self.items else 0.0
        return item

    def __len__(self) -> int:
        return len(self.items)
