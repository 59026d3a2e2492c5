# SPDX-License-Identifier: Apache-2.0
"""Shares of a divisible load: their sum, multiples of the grain, and equal finish times."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.rewrites.divisible import MAX_CHUNKS, LoadWorker, chunk_rows, divide, shares

SECONDS = st.sampled_from([0.0, 1e-7, 1e-6, 5e-6, 1e-5, 1e-4])
WORKERS = st.lists(st.builds(LoadWorker, SECONDS, SECONDS, SECONDS, SECONDS), min_size=1, max_size=5)


@given(workers=WORKERS, grain=st.integers(1, 48), blocks=st.integers(1, 500), rest=st.integers(0, 47))
def test_chunks_sum_up_and_none_is_below_the_grain(
    workers: list[LoadWorker], grain: int, blocks: int, rest: int
) -> None:
    rows = grain * blocks + rest % grain
    found = divide(workers, rows, grain)
    assert sum(found.rows) == rows
    assert min(found.rows) >= grain
    assert sum(1 for n in found.rows if n % grain) <= 1
    assert len(found.rows) == len(found.workers) <= MAX_CHUNKS * len(workers)
    # Compared with the best device alone, division may lose one grain to rounding.
    alone = min(w.finish_s(rows, w.best_chunks(rows, grain)) for w in workers)
    coarse = max(2 * grain * (w.copy_s + w.compute_s) for w in workers)
    assert found.finish_s <= alone * (1 + 1e-9) + coarse


@given(workers=WORKERS, rows=st.integers(1, 10**7))
def test_shares_finish_together(workers: list[LoadWorker], rows: int) -> None:
    taken = shares(workers, rows, 1)
    working = [(w, n) for w, n in zip(workers, taken, strict=True) if n]
    if any(w.copy_s + w.compute_s == 0 for w in workers):
        return
    times = [(math.inf if not n else _least(w, n), w) for w, n in working]
    latest = max(t for t, _ in times)
    # Except for the rows that rounding gave to either worker.
    slack = 2 * max(v.copy_s + v.compute_s for v in workers)
    assert all(t >= latest - slack - 1e-9 * latest or t <= _least(w, 1) + slack for t, w in times)


def _least(worker: LoadWorker, rows: float) -> float:
    """Return the finish of a worker with the best real number of chunks from one on."""
    fast = min(worker.copy_s, worker.compute_s)
    ideal = math.sqrt(rows * fast / worker.chunk_s) if worker.chunk_s else (1e12 if fast else 1.0)
    chunks = max(1.0, ideal)
    return worker.setup_s + chunks * worker.chunk_s + rows * max(worker.copy_s, worker.compute_s) + rows / chunks * fast


def test_unequal_devices_get_shares_in_the_ratio_of_their_speeds() -> None:
    fast, slow = LoadWorker(0, 0, 0, 1e-6), LoadWorker(0, 0, 0, 3e-6)
    assert shares([fast, slow], 4000, 1) == (3000, 1000)
    assert shares([fast, slow, fast], 7000, 1) == (3000, 1000, 3000)


def test_late_or_very_slow_workers_get_no_share() -> None:
    assert shares([LoadWorker(0, 0, 0, 1e-6), LoadWorker(1.0, 0, 0, 1e-9)], 1000, 1) == (1000, 0)
    assert shares([LoadWorker(0, 0, 0, 1e-6), LoadWorker(0, 0, 0, 1e-4)], 1000, 1) == (1000, 0)
    assert shares([LoadWorker(0, 0, 0, 1e-6)] * 100, 1000, 1) == (10,) * 100


def test_the_number_of_chunks_is_the_best_there_is() -> None:
    worker = LoadWorker(1e-3, 1e-5, 2e-8, 3e-8)
    rows = 10**5
    found = worker.best_chunks(rows, 1)
    assert 1 < found < MAX_CHUNKS
    assert worker.finish_s(rows, found) == min(worker.finish_s(rows, n) for n in range(1, MAX_CHUNKS + 1))


def test_one_worker_divides_only_if_copies_overlap() -> None:
    assert divide([LoadWorker(0, 1e-5, 0, 1e-6)], 10**6, 1).rows == (10**6,)  # nothing to copy
    assert divide([LoadWorker(0, 1.0, 1e-7, 1e-7)], 10**6, 1).rows == (10**6,)  # latency is worse
    assert len(divide([LoadWorker(0, 1e-5, 1e-7, 1e-7)], 10**6, 1).rows) > 5


@pytest.mark.parametrize(("rows", "chunks", "grain"), [(100, 3, 8), (17, 2, 8), (5, 5, 1), (1000, 7, 16)])
def test_chunks_of_one_worker_are_as_equal_as_can_be(rows: int, chunks: int, grain: int) -> None:
    sizes = chunk_rows(rows, chunks, grain)
    assert (len(sizes), sum(sizes)) == (chunks, rows)
    assert max(sizes) - min(sizes) < 2 * grain
