# SPDX-License-Identifier: Apache-2.0
"""Checksums of memory blocks, which locate a change. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

NumpyArray = np.ndarray[Any, np.dtype[Any]]
#: Bytes of a block: the resolution with which a change is located.
BLOCK_BYTES = 256
#: First byte and one past the last.
Extent = tuple[int, int]


def _block_sums(data: NumpyArray) -> NumpyArray:
    """Return a checksum of each block.

    Each 32-bit word is multiplied by an odd weight of its position; the products are added modulo 2**64 (multilinear
    hashing: Lemire and Kaser, Strongly universal string hashing is fast, 2014). A change of one word always changes the
    sum. Words are half as wide as sums, because otherwise two sign flips would cancel each other.
    """
    whole = data.size // BLOCK_BYTES * BLOCK_BYTES
    sums = np.empty(-(-data.size // BLOCK_BYTES), np.uint64)
    words = np.ascontiguousarray(data[:whole]).view(np.uint32).reshape(-1, BLOCK_BYTES // 4)
    np.einsum("ij,j->i", words, _weights(), out=sums[: len(words)])
    if whole < data.size:
        last = np.zeros(BLOCK_BYTES, np.uint8)
        last[: data.size - whole] = data[whole:]
        sums[-1] = np.dot(last.view(np.uint32).astype(np.uint64), _weights())
    return sums


def extent_sums(data: NumpyArray, extents: Iterable[Extent]) -> list[NumpyArray]:
    """Return the block checksums of each extent."""
    return [_block_sums(data[start:stop]) for start, stop in extents]


def first_change(extents: Sequence[Extent], before: Sequence[NumpyArray], after: Sequence[NumpyArray]) -> Extent | None:
    """Return the first block that has changed, or None."""
    for (start, stop), old, new in zip(extents, before, after, strict=True):
        changed = np.flatnonzero(old != new)
        if changed.size:
            begin = start + int(changed[0]) * BLOCK_BYTES
            return begin, min(stop, begin + BLOCK_BYTES)
    return None


def complement_of(nbytes: int, written: Iterable[Extent]) -> list[Extent]:
    """Return the extents of ``nbytes`` bytes outside the written extents, in order."""
    found: list[Extent] = []
    at = 0
    for start, stop in sorted(written):
        if start > at:
            found.append((at, start))
        at = max(at, stop)
    if at < nbytes:
        found.append((at, nbytes))
    return found


@lru_cache(maxsize=1)
def _weights() -> NumpyArray:
    random = np.random.default_rng(20240229)
    return random.integers(0, 2**63, BLOCK_BYTES // 4, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
