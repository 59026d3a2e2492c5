# SPDX-License-Identifier: Apache-2.0
"""Computing on all cores of a process, whose progress shows how much of them other work takes."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from dataclasses import dataclass
from typing import Final

#: Bytes of one step of the computing, some 50 us of a core; it does not hold Python's global lock.
_STEP: Final = bytes(64 << 10)
#: Seconds of computing alone, to which computing beside other work is compared.
_ALONE_S: Final = 0.05
#: With more cores than this, other work is taken to need none: it finds a free one, or slows all a little.
_MOST_CORES: Final = 8
#: Largest part of the cores that other work is taken to get.
_MOST_PART: Final = 0.9


@dataclass(frozen=True, slots=True)
class CoreUse:
    """Processor time of pieces of other work."""

    lost_s: float = 0.0  # of a core, for each piece
    cores: int = 1  # of the process

    def core_demand(self, seconds: float) -> float:
        """Return how many cores a piece of this length wants, if it shares them with computing on all as threads do.

        Work that wants ``w`` cores beside ``c`` threads on ``c`` cores gets ``c * w / (c + w)``.
        """
        got = min(self.lost_s / seconds, _MOST_PART * self.cores)
        return got * self.cores / (self.cores - got)


class CoreLoad:
    """Threads that compute on all cores of this process; a context manager, which measures them alone first."""

    def __init__(self) -> None:
        self._cores = len(os.sched_getaffinity(0))
        count = self._cores if self._cores <= _MOST_CORES else 0
        self._steps = [0] * count
        self._ended = False
        self._threads = [
            threading.Thread(target=self._compute, args=(number,), name=f"syclsched load {number}", daemon=True)
            for number in range(count)
        ]

    def __enter__(self) -> CoreLoad:
        for thread in self._threads:
            thread.start()
        self.start_measurement()
        if self._threads:
            time.sleep(_ALONE_S)
        steps, seconds = self._since()
        self._steps_per_s = steps / seconds
        return self

    def __exit__(self, *error: object) -> None:
        self._ended = True
        for thread in self._threads:
            thread.join()

    def start_measurement(self) -> None:
        """Begin to count the use by other work."""
        self._from_s, self._from_steps = time.perf_counter(), sum(self._steps)

    def measured_use(self, pieces: int) -> CoreUse:
        """Return the use by other work since `start_measurement`, in a number of pieces."""
        steps, seconds = self._since()
        if not steps or not self._steps_per_s:
            return CoreUse()
        lost_s = max(0.0, seconds - steps / self._steps_per_s) * self._cores
        return CoreUse(lost_s / pieces, self._cores)

    def _since(self) -> tuple[int, float]:
        return sum(self._steps) - self._from_steps, time.perf_counter() - self._from_s

    def _compute(self, number: int) -> None:
        while not self._ended:
            hashlib.sha256(_STEP).digest()
            self._steps[number] += 1
