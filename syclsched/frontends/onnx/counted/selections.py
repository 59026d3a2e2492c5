# SPDX-License-Identifier: Apache-2.0
"""Selections of elements by their values, in NumPy: NonZero, Compress, Unique and NonMaxSuppression.

Each function returns arrays whose extents depend on values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]


def _nonzero(x: Array) -> list[Array]:
    return [np.stack(np.nonzero(x)).astype(np.int64)]


def _compress(x: Array, condition: Array, *, axis: int | None) -> list[Array]:
    return [np.compress(condition, x, axis)]


def _unique(x: Array, *, axis: int | None, ordered: bool) -> list[Array]:
    found, first, inverse, counts = np.unique(x, True, True, True, axis)
    inverse = inverse.reshape(-1)
    if not ordered:
        order = np.argsort(first, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        found, first, counts = np.take(found, order, axis or 0), first[order], counts[order]
        inverse = place[inverse]
    return [found, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)]


def _non_max_suppression(
    boxes: Array,
    scores: Array,
    most: Array | None = None,
    overlap: Array | None = None,
    least: Array | None = None,
    *,
    centered: bool,
) -> list[Array]:
    count = 0 if most is None else int(most.reshape(-1)[0])
    limit = np.float32(0 if overlap is None else overlap.reshape(-1)[0])
    found: list[Array] = []
    for batch, lines in enumerate(boxes):
        low, high = _corners(lines, centered)
        areas = np.prod(high - low, axis=1)
        for kind, line in enumerate(scores[batch]):
            order = np.argsort(-line, kind="stable")
            if least is not None:
                order = order[line[order] > least.reshape(-1)[0]]
            taken = 0
            while len(order) and taken < count:
                best, order = order[0], order[1:]
                found.append(np.array([batch, kind, best]))
                taken += 1
                sides = np.minimum(high[order], high[best]) - np.maximum(low[order], low[best])
                shared = np.prod(np.maximum(sides, 0), axis=1)
                joined = areas[order] + areas[best] - shared
                is_real = (areas[order] > 0) & (areas[best] > 0) & (joined > 0)
                order = order[~(is_real & (shared > limit * joined))]
    return [np.array(found, np.int64).reshape(-1, 3)]


def _corners(boxes: Array, centered: bool) -> tuple[Array, Array]:
    """Return the lower and upper corners of boxes."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if centered:
        return first - second / 2, first + second / 2
    return np.minimum(first, second), np.maximum(first, second)


#: Operator -> function of its inputs (None for missing ones) and the attributes of its node.
SELECTIONS: Final[dict[str, Callable[..., list[Array]]]] = {
    "NonZero": _nonzero,
    "Compress": _compress,
    "Unique": _unique,
    "NonMaxSuppression": _non_max_suppression,
}
