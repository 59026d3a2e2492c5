# SPDX-License-Identifier: Apache-2.0
"""Divisible-load theory: how many rows each device should get, and in how many chunks.

Workers on a load that can be cut anywhere should all finish at the same time (Bharadwaj, Ghose, Mani and Robertazzi,
"Scheduling Divisible Loads in Parallel and Distributed Systems", 1996). A device that gets its ``n`` rows in ``r``
chunks copies a chunk while it computes the previous one, and finishes after

    b + r a + n max(g, w) + (n / r) min(g, w)

seconds: ``b`` once, ``a`` per chunk (latency of links, launches, host overhead), ``g`` and ``w`` per row for copying
and computing; the last term is the chunk at one end that nothing overlaps. The minimum is at
``r = sqrt(n min(g, w) / a)``: more chunks pipeline better, and cost more latency.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: Most chunks of one device.
MAX_CHUNKS = 32

#: Workers with less than this fraction of the largest share are left out.
_LEAST_SHARE = 0.05

#: Bisection steps for the common finish time: enough for double precision.
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class LoadWorker:
    """Cost of rows on one device."""

    setup_s: float  # once, if it takes part
    chunk_s: float  # per chunk
    copy_s: float  # per row
    compute_s: float  # per row

    def finish_s(self, rows: float, chunks: int) -> float:
        """Return the time for some rows in some chunks; see the module's formula."""
        slow, fast = max(self.copy_s, self.compute_s), min(self.copy_s, self.compute_s)
        return self.setup_s + chunks * self.chunk_s + rows * slow + rows / chunks * fast

    def best_chunks(self, rows: int, grain: int) -> int:
        """Return the number of chunks with the least time for some rows."""
        most = max(1, min(MAX_CHUNKS, rows // grain))
        fast = min(self.copy_s, self.compute_s)
        ideal = math.sqrt(rows * fast / self.chunk_s) if self.chunk_s > 0 else math.inf if fast > 0 else 1.0
        near = {1, *(max(1, min(most, chunks)) for chunks in _neighbours(min(ideal, MAX_CHUNKS)))}
        return min(sorted(near), key=lambda chunks: self.finish_s(rows, chunks))

    def rows_within(self, seconds: float) -> float:
        """Return how many rows fit into a time with the best number of chunks; rows may be fractional."""
        slow, fast = max(self.copy_s, self.compute_s), min(self.copy_s, self.compute_s)
        left_s = seconds - self.setup_s
        if left_s <= self.chunk_s:
            return 0.0
        if slow <= 0:
            return math.inf
        at_once = (left_s - self.chunk_s) / (slow + fast)
        # With the best number of chunks: slow n + 2 sqrt(fast n a) = left, a quadratic equation in sqrt(n).
        half = math.sqrt(fast * self.chunk_s) / slow
        pipelined = (math.sqrt(half * half + left_s / slow) - half) ** 2
        # The optimum is at least one chunk only if the copies of all rows take longer than a chunk's latency.
        return max(at_once, pipelined) if pipelined * fast >= self.chunk_s else at_once


def _neighbours(ideal: float) -> tuple[int, int]:
    return math.floor(ideal), math.ceil(ideal)


def shares(workers: Sequence[LoadWorker], rows: int, grain: int) -> tuple[int, ...]:
    """Return how many rows each worker should get so that all finish together."""
    ideal = _ideal_shares(workers, rows)
    least = _LEAST_SHARE * max(ideal)
    if any(0 < share < least for share in ideal):
        useful = [i for i, share in enumerate(ideal) if share >= least]
        among = shares([workers[i] for i in useful], rows, grain)
        found = dict(zip(useful, among, strict=True))
        return tuple(found.get(i, 0) for i in range(len(workers)))
    return _rounded(workers, ideal, rows, grain)


def _ideal_shares(workers: Sequence[LoadWorker], rows: int) -> list[float]:
    """Return each worker's fractional share so that all workers finish together."""
    low, high = 0.0, min(w.finish_s(rows, 1) for w in workers)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if sum(w.rows_within(middle) for w in workers) < rows:
            low = middle
        else:
            high = middle
    return [min(float(rows), w.rows_within(high)) for w in workers]


def _rounded(workers: Sequence[LoadWorker], ideal: Sequence[float], rows: int, grain: int) -> tuple[int, ...]:
    """Return shares in whole blocks: rounded down, then up for the largest remainders."""
    blocks, total = rows // grain, sum(ideal)
    exact = [blocks * share / total if total > 0 else blocks / len(workers) for share in ideal]
    whole = [math.floor(share) for share in exact]
    by_remainder = sorted(range(len(workers)), key=lambda i: (whole[i] - exact[i], i))
    for index in by_remainder[: blocks - sum(whole)]:
        whole[index] += 1
    found = [grain * count for count in whole]
    taking = [i for i, count in enumerate(found) if count]
    first = min(taking, key=lambda i: workers[i].finish_s(found[i], workers[i].best_chunks(found[i], grain)))
    found[first] += rows - blocks * grain
    return tuple(found)


def chunk_rows(rows: int, chunks: int, grain: int) -> tuple[int, ...]:
    """Return a worker's rows in chunks as equal as whole grains allow."""
    blocks, rest = divmod(rows, grain)
    sizes = [grain * (blocks // chunks + (1 if index < blocks % chunks else 0)) for index in range(chunks)]
    sizes[-1] += rest
    return tuple(sizes)


@dataclass(frozen=True, slots=True)
class Division:
    """A load cut into chunks."""

    rows: tuple[int, ...]  # of each chunk, worker after worker
    workers: tuple[int, ...]  # intended worker of each chunk
    finish_s: float  # of the last worker


def divide(workers: Sequence[LoadWorker], rows: int, grain: int) -> Division:
    """Cut a load for some workers."""
    sizes: list[int] = []
    meant_for: list[int] = []
    finish_s = 0.0
    for index, (worker, share) in enumerate(zip(workers, shares(workers, rows, grain), strict=True)):
        if not share:
            continue
        chunks = worker.best_chunks(share, grain)
        sizes += chunk_rows(share, chunks, grain)
        meant_for += [index] * chunks
        finish_s = max(finish_s, worker.finish_s(share, chunks))
    return Division(tuple(sizes), tuple(meant_for), finish_s)
