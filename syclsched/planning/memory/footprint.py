# SPDX-License-Identifier: Apache-2.0
"""Memory held by steps in a given order, computed without placing the allocations."""

from __future__ import annotations

import numpy as np

from syclsched.model.platform import Platform
from syclsched.planning.draft import Ints, PlanDraft
from syclsched.planning.instruction_rows import Touches


class Footprint:
    """Memory held by steps in a given order, each memory from its first use to its last."""

    def __init__(self, draft: PlanDraft, touched: Touches, platform: Platform) -> None:
        self._starts, self._touched = touched.starts, draft.memory_of[touched.blocks]
        self._count = len(draft.steps)
        self._nbytes, self._spaces = draft.memory_nbytes, draft.memory.space
        self._names = [s.name for s in platform.spaces]
        self._kept = draft.kept
        self._ours = np.ones(len(draft.memory_nbytes), np.bool_)
        self._ours[draft.foreign] = False
        self._capacity = {s.name: s.capacity_bytes for s in platform.spaces if s.capacity_bytes}

    def fits(self, order: Ints | None = None) -> bool:
        """Return whether every space has enough memory."""
        if not self._capacity:
            return True
        return all(peak <= self._capacity.get(space, peak) for space, peak in self.peak_bytes(order).items())

    def peak_bytes(self, order: Ints | None = None) -> dict[str, int]:
        """Return the most memory held at once in each space with allocations."""
        position = np.empty(self._count, np.int64)
        position[slice(None) if order is None else order] = np.arange(self._count)
        when = np.repeat(position, np.diff(self._starts))
        first = np.full(len(self._nbytes), self._count, np.int64)
        last = np.full(len(self._nbytes), -1, np.int64)
        np.minimum.at(first, self._touched, when)
        np.maximum.at(last, self._touched, when)
        ours = self._ours & (last >= 0)
        last[self._kept] = self._count
        peaks = {}
        for space in np.unique(self._spaces[ours]):
            in_space = np.flatnonzero(ours & (self._spaces == space))
            held = np.zeros(self._count + 2, np.int64)
            np.add.at(held, first[in_space], self._nbytes[in_space])
            np.subtract.at(held, last[in_space] + 1, self._nbytes[in_space])
            peaks[self._names[space]] = int(np.cumsum(held).max())
        return peaks
