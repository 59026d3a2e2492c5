# SPDX-License-Identifier: Apache-2.0
"""Balance of the work of a training step: samples by the speed of devices, and consecutive layers as stages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations
from typing import Any, Final

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]

#: With more devices than this their order in a pipeline is not varied.
_ORDERED: Final = 4


def samples_by_speed(samples: int, fixed_s: Sequence[float], each_s: Sequence[float]) -> list[int]:
    """Return whole numbers of samples for devices so that all end together.

    A device takes ``fixed_s`` and ``each_s`` for each sample. One that would get less than one sample gets none.
    """
    used = [d for d, each in enumerate(each_s) if math.isfinite(fixed_s[d]) and math.isfinite(each)]
    least = max(max(each_s[d] for d in used) * 1e-9, 1e-12) if used else 0.0
    rates = {d: 1.0 / max(each_s[d], least) for d in used}
    shares: dict[int, float] = {}
    while used:
        end_s = (samples + sum(fixed_s[d] * rates[d] for d in used)) / sum(rates[d] for d in used)
        shares = {d: (end_s - fixed_s[d]) * rates[d] for d in used}
        slowest = min(used, key=shares.__getitem__)
        if shares[slowest] >= 1.0 or len(used) == 1:
            break
        used.remove(slowest)
    found = [0] * len(each_s)
    for d in used:
        found[d] = math.floor(shares[d])
    # The largest remainders are rounded up.
    for d in sorted(used, key=lambda d: found[d] - shares[d])[: samples - sum(found)]:
        found[d] += 1
    return found


def line_through(whole: tuple[int, float], half: tuple[int, float]) -> tuple[float, float]:
    """Return the fixed seconds, and those of each sample, of steps of two numbers of samples with their seconds."""
    if not all(math.isfinite(seconds) for _, seconds in (whole, half)):
        return math.inf, math.inf
    each_s = max(whole[1] - half[1], 0.0) / (whole[0] - half[0])
    return max(whole[1] - each_s * whole[0], 0.0), each_s


def parts_by_speed(counts: Sequence[int], fixed_s: Sequence[float], each_s: Sequence[float]) -> list[int]:
    """Return the device of each part of given samples: the largest first, each where it ends first."""
    ends_s = list(fixed_s)
    found = [0] * len(counts)
    for part in sorted(range(len(counts)), key=lambda part: -counts[part]):
        after_s = [end_s + counts[part] * each for end_s, each in zip(ends_s, each_s, strict=True)]
        found[part] = after_s.index(min(after_s))
        ends_s[found[part]] = after_s[found[part]]
    return found


def stage_ends(seconds: Floats) -> tuple[list[int], list[int]]:
    """Return the devices of a pipeline in order, and one past the last layer of each, so that the longest is least.

    ``seconds`` has a row for each device, and a column for each layer. A contiguous partition by dynamic programming.
    """
    count, layers = seconds.shape
    orders = permutations(range(count)) if count <= _ORDERED else [tuple(range(count))]
    best: tuple[float, tuple[int, ...], list[int]] | None = None
    seen: set[bytes] = set()
    for order in orders:
        sums = np.concatenate((np.zeros((count, 1)), np.cumsum(seconds[list(order)], axis=1)), axis=1)
        key = sums.tobytes()
        if key in seen:
            continue
        seen.add(key)
        longest_s, ends = _partition(sums, layers)
        if best is None or longest_s < best[0]:
            best = longest_s, order, ends
    assert best is not None
    return list(best[1]), best[2]


def _partition(sums: Floats, layers: int) -> tuple[float, list[int]]:
    """Return the longest stage of the best partition, and its ends; ``sums`` are cumulated seconds by stage."""
    reached = sums[0].copy()
    reached[0] = math.inf  # no stage is empty
    begins: list[list[int]] = []
    for row in sums[1:]:
        stage = row[None, :] - row[:, None]  # of the layers from the first to the second index
        stage[np.tril_indices(len(row))] = math.inf
        longest = np.maximum(reached[:, None], stage)
        begins.append(longest.argmin(axis=0).tolist())
        reached = longest.min(axis=0)
    ends = [layers]
    for begin in reversed(begins):
        ends.append(begin[ends[-1]])
    return float(reached[layers]), ends[::-1]
