# SPDX-License-Identifier: Apache-2.0
"""Shapes of arrays with a batch, channels and spatial axes, for both channel layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from syclsched.kernels.common import Ints


def spatial(shape: Ints, channels_last: bool) -> Ints:
    """Return the spatial extents of an array (N, C, *spatial) or (N, *spatial, C)."""
    return shape[1:-1] if channels_last else shape[2:]


def channels(shape: Ints, channels_last: bool) -> int:
    """Return the number of channels of an array (N, C, *spatial) or (N, *spatial, C)."""
    return shape[-1] if channels_last else shape[1]


def arranged(batch: int, extents: Ints, count: int, channels_last: bool) -> Ints:
    """Return the shape with a batch, spatial extents and a number of channels."""
    return (batch, *extents, count) if channels_last else (batch, count, *extents)


def last(array: Any, channels_last: bool) -> Any:
    """Return a view (N, *spatial, C) of an array in either layout."""
    import numpy as np

    return array if channels_last else np.moveaxis(array, 1, -1)


def size(shape: Sequence[int]) -> int:
    """Return the number of elements."""
    return math.prod(shape)


def strides_of(extents: Ints, count: int, channels_last: bool) -> tuple[Ints, int, int]:
    """Return the strides of the spatial axes, the channels and the batch, in elements."""
    found, step = [], count if channels_last else 1
    for extent in reversed(extents):
        found.append(step)
        step *= extent
    return tuple(reversed(found)), (1 if channels_last else step), (step if channels_last else step * count)
