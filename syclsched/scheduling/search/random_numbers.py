# SPDX-License-Identifier: Apache-2.0
"""Random numbers of compiled searches: the generator xorshift64* (Vigna 2016), with its state in an array."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from syclsched.compiled import lean

Words = npt.NDArray[np.uint64]


def seeded(seed: int) -> Words:
    """Return the state of a generator for a seed."""
    # Any state but 0 is valid; the multiplier spreads small seeds over all bits.
    return np.array([(seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**64 or 1], np.uint64)


@lean
def random_unit(words: Words) -> float:
    """Return a random number in [0, 1)."""
    x = words[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    words[0] = x
    return float((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@lean
def random_below(words: Words, count: int) -> int:
    """Return a random integer from 0 to ``count`` - 1."""
    return int(random_unit(words) * count)
