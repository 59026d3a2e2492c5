# SPDX-License-Identifier: Apache-2.0
"""The distinct values among small integers, by marking them instead of sorting."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def distinct(codes: Ints, bound: int) -> tuple[Ints, Ints]:
    """Return the distinct codes, rising, and the place of each code among them; codes are from 0 to ``bound - 1``."""
    if bound > 16 * (len(codes) + 64):
        found, which = np.unique(codes, return_inverse=True)
        return found, which.astype(np.int64)
    present = np.zeros(bound, np.bool_)
    present[codes] = True
    place = np.cumsum(present) - 1
    return np.flatnonzero(present), place[codes]
