# SPDX-License-Identifier: Apache-2.0
"""How much a lane is given ahead, so that it never runs dry and decisions are still made as late as can be. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lookahead:
    """A lane has enough if it has so many tasks, or so many seconds of work and not too few.

    What is submitted cannot be moved any more: the less is ahead, the better decisions are; the more, the longer a lane
    works on while nobody looks.
    """

    #: Of tasks.
    fewest: int = 2
    most: int = 64
    seconds: float = 1e-3  # of work, by the estimates

    def enough(self, count: int, seconds: float) -> bool:
        """Return whether a lane that has this has enough."""
        return count >= self.most or (count >= self.fewest and seconds >= self.seconds)


class InFlight(Generic[T]):
    """What a lane has been given and has not completed, in order."""

    __slots__ = ("items", "seconds")

    def __init__(self) -> None:
        self.items: deque[tuple[T, float]] = deque()
        self.seconds = 0.0

    def add(self, item: T, seconds: float) -> None:
        """Put something behind the others."""
        self.items.append((item, seconds))
        self.seconds += seconds

    def pop(self) -> T:
        """Take the first out."""
        item, seconds = self.items.popleft()
        self.seconds = self.seconds - seconds if self.items else 0.0
        return item

    def __len__(self) -> int:
        return len(self.items)
