# SPDX-License-Identifier: Apache-2.0
"""Remaining uses of the pieces and arrays of a run: liveness as tasks are submitted. Pure."""

from __future__ import annotations

from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph, PieceAccess


class RemainingUses:
    """Counts the remaining accesses of a run."""

    def __init__(self, layout: IndexedGraph) -> None:
        self._layout = layout
        self._reads_left = [0] * len(layout.pieces)
        self._uses_left = [0] * len(layout.arrays)
        for touches in layout.touches:
            for touch in touches:
                self._reads_left[touch.piece] += touch.reads
                self._uses_left[layout.array_of[touch.piece]] += 1
        self._kept = [not p.temporary or n in layout.statuses for n, p in enumerate(layout.pieces)]
        self.dead_arrays: list[int] = []

    def touched(self, touch: PieceAccess) -> None:
        """Record an access of a task that was submitted or skipped."""
        array = self._layout.array_of[touch.piece]
        self._reads_left[touch.piece] -= touch.reads
        self._uses_left[array] -= 1
        if not self._uses_left[array] and not any(self._kept[piece] for piece in self._layout.parts[array]):
            self.dead_arrays.append(array)

    def is_wanted(self, piece: int) -> bool:
        """Return whether the value of a piece may still be read."""
        return self._kept[piece] or self._reads_left[piece] > 0
