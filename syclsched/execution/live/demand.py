# SPDX-License-Identifier: Apache-2.0
"""Remaining uses of the pieces and arrays of a run: liveness as tasks are submitted. Pure."""

from __future__ import annotations

from syclsched.execution.live.layout import Layout, Touch


class Demand:
    """Counts the remaining accesses of a run."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._reads_left = [0] * len(layout.pieces)
        self._uses_left = [0] * len(layout.wholes)
        for touches in layout.touches:
            for touch in touches:
                self._reads_left[touch.piece] += touch.reads
                self._uses_left[layout.whole_of[touch.piece]] += 1
        self._kept = [not p.temporary or n in layout.statuses for n, p in enumerate(layout.pieces)]
        self.dying: list[int] = []

    def touched(self, touch: Touch) -> None:
        """Record an access of a task that was submitted or skipped."""
        array = self._layout.whole_of[touch.piece]
        self._reads_left[touch.piece] -= touch.reads
        self._uses_left[array] -= 1
        if not self._uses_left[array] and not any(self._kept[piece] for piece in self._layout.parts[array]):
            self.dying.append(array)

    def is_wanted(self, piece: int) -> bool:
        """Return whether the value of a piece may still be read."""
        return self._kept[piece] or self._reads_left[piece] > 0
