# SPDX-License-Identifier: Apache-2.0
"""Run-time limit that keeps memory use within the peak the plan was proved with. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter

from syclsched.model.plan import Instruction

_ID = attrgetter("id")


class PeakMemoryLimit:
    """Keeps the memory held in each space within the plan's peak, in whatever order lanes reach their allocations.

    An allocation ahead of the plan's global order is allowed only if capacity remains for all earlier pending ones.
    The earliest pending allocation therefore always fits once the frees before it have taken effect: delaying
    allocations cannot deadlock the run.
    """

    def __init__(
        self, allocations: Iterable[Instruction], peak_bytes: Mapping[str, int], prepared: Collection[int] = ()
    ) -> None:
        self._peak_bytes = peak_bytes
        self._prepared = prepared
        self._held_bytes: dict[str, int] = {}
        self._pending: dict[str, dict[int, int]] = {}
        held, waiting = self._held_bytes, self._pending
        for allocation in sorted(allocations, key=_ID):
            space = allocation.uses[0].space
            if space not in waiting:
                waiting[space] = {}
            if allocation.id in prepared:
                held[space] = held.get(space, 0) + allocation.nbytes
            else:
                waiting[space][allocation.id] = allocation.nbytes

    def allows(self, allocation: Instruction) -> bool:
        """Return whether an allocation may be made now."""
        space = allocation.uses[0].space
        limit = self._peak_bytes.get(space)
        if limit is None or allocation.id in self._prepared:
            return True
        needed = self._held_bytes.get(space, 0) + allocation.nbytes
        for number, nbytes in self._pending[space].items():
            if number >= allocation.id:
                break
            needed += nbytes
        return needed <= limit

    def allocated(self, allocation: Instruction) -> None:
        """Note that an allocation has been made."""
        space = allocation.uses[0].space
        self._pending[space].pop(allocation.id, None)
        if allocation.id not in self._prepared:
            self._held_bytes[space] = self._held_bytes.get(space, 0) + allocation.nbytes

    def skipped(self, allocation: Instruction) -> None:
        """Note that an allocation will not be made."""
        self._pending[allocation.uses[0].space].pop(allocation.id, None)

    def freed(self, space: str, nbytes: int) -> None:
        """Note that memory has been freed."""
        self._held_bytes[space] -= nbytes
