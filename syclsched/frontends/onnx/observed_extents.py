# SPDX-License-Identifier: Apache-2.0
"""Extents observed in earlier calls where they depend on values of inputs, and the next plan's assumptions.

A number of which every call had the same value is taken as constant, others get an upper bound: the least power of two
that no call exceeded. The plan's run says what the numbers were (`syclsched.frontends.onnx.network.ExtentGuard`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from syclsched.errors import ValueNeededError

#: Least upper bound.
_LEAST: Final = 2


class UnseenExtentError(ValueNeededError):
    """A number that decides shapes has not been computed before; an import with the inputs' values computes it."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Values that a number had."""

    least: int
    most: int

    @property
    def bound(self) -> int:
        """The least power of two that none of them exceeds."""
        return max(_LEAST, 1 << max(self.most - 1, 0).bit_length())

    @property
    def is_positive(self) -> bool:
        """Whether none of them was 0 or a marker such as -1."""
        return self.least > 0


class ObservedExtents:
    """Numbers that decide shapes, by node and use; `version` increases when plans must change."""

    def __init__(self) -> None:
        self.version = 0
        self._seen: dict[str, Observed] = {}

    def copy(self) -> ObservedExtents:
        """Return the same numbers, to which others can be added."""
        made = ObservedExtents()
        made.version, made._seen = self.version, dict(self._seen)
        return made

    def get(self, key: str) -> Observed | None:
        """Return the observation of a number; None if there is none."""
        return self._seen.get(key)

    def record(self, key: str, value: int, *, marks: bool = False) -> None:
        """Add a value of a number; ``marks``: 0 or less may stand for something else than an extent."""
        seen = self._seen.get(key)
        now = Observed(value, value) if seen is None else Observed(min(seen.least, value), max(seen.most, value))
        if now == seen:
            return
        self._seen[key] = now
        is_fixed = seen is not None and seen.least == seen.most
        if seen is None or is_fixed or now.bound != seen.bound or (marks and now.is_positive != seen.is_positive):
            self.version += 1
