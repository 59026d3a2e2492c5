# SPDX-License-Identifier: Apache-2.0
"""What of a run's data is still wanted, and which arrays nobody will touch any more. Pure."""

from __future__ import annotations

from syclsched.execution.live.layout import Layout, Touch


class Demand:
    """Counts what is left of a run's touches."""

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
        """Note that a task was submitted, or left out, that touches something."""
        array = self._layout.whole_of[touch.piece]
        self._reads_left[touch.piece] -= touch.reads
        self._uses_left[array] -= 1
        if not self._uses_left[array] and not any(self._kept[piece] for piece in self._layout.parts[array]):
            self.dying.append(array)

    def is_wanted(self, piece: int) -> bool:
        """Return whether the value of a piece may still be asked for."""
        return self._kept[piece] or self._reads_left[piece] > 0
