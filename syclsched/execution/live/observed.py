# SPDX-License-Identifier: Apache-2.0
"""What took how long that has no times of its own, by when it was seen to have ended. Pure.

Calls of libraries that are not waited for one by one have none: a lane that waited for each would stand still, and the
other lanes with it, as one thread submits to all.
"""

from __future__ import annotations

from itertools import pairwise


class Observed:
    """The ends that were seen on each lane."""

    def __init__(self, lanes: int) -> None:
        self._seen_ns = [0] * lanes

    def see(self, lane: int, submit_ns: int, count: int, now_ns: int) -> list[tuple[int, int]]:
        """Return from when to when things ran that were seen to have ended together; they share the time."""
        begun_ns = max(submit_ns, self._seen_ns[lane])
        self._seen_ns[lane] = now_ns
        ends = [begun_ns + (now_ns - begun_ns) * n // max(1, count) for n in range(count + 1)]
        return list(pairwise(ends))
