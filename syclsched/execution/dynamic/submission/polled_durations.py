# SPDX-License-Identifier: Apache-2.0
"""Durations of events without timestamps, estimated from the times at which polling saw them complete. Pure.

Library calls have no timestamps unless the lane waits for each of them, which would stall all lanes: one thread submits
to all.
"""

from __future__ import annotations

from itertools import pairwise


class PolledDurations:
    """The last observed completion of each lane."""

    def __init__(self, lanes: int) -> None:
        self._seen_ns = [0] * lanes

    def estimate_spans(self, lane: int, submit_ns: int, count: int, now_ns: int) -> list[tuple[int, int]]:
        """Return the spans of events seen complete together on a lane; they share the elapsed time equally."""
        begun_ns = max(submit_ns, self._seen_ns[lane])
        self._seen_ns[lane] = now_ns
        ends = [begun_ns + (now_ns - begun_ns) * n // max(1, count) for n in range(count + 1)]
        return list(pairwise(ends))
