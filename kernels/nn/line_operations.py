# SPDX-License-Identifier: Apache-2.0
"""Helpers shared by operations on lines: work estimate, index space, and numbers in names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syclsched.kernels.common import ITEM_BYTES
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.geometry import size
from syclsched.model.operation import DeviceLimits, Launch, Signature, Work


def work(signature: Signature, *, flops: float, parallelism: float = float("inf")) -> Work:
    """Return the work of an operation that reads every array and writes ``y`` once, with ``flops`` per element of y."""
    dtype = signature.dtypes["y"]
    moved = sum(map(size, signature.shapes.values())) * ITEM_BYTES[dtype]
    results = size(signature.shapes["y"])
    return Work(flops * results, float(moved), dtype, max(1.0, min(parallelism, float(results))))


def lines_launch(signature: Signature, limits: DeviceLimits, *, count: Callable[[Signature], int]) -> Launch:
    """Return an index space of one work-item for each of ``count(signature)`` lines."""
    return panels.launch(limits, max(1, count(signature)), most=64)


def number(value: float) -> str:
    """Return a number as written in an operation's name: the shortest float32 notation, such as 1e-05."""
    import numpy as np

    single = np.float32(value)
    return str(single).removesuffix(".0") if single == value else f"{value:.9g}"


def standardised(x: Any, axes: tuple[int, ...], epsilon: float, *, centred: bool = True) -> Any:
    """Return x normalised to variance 1 and, if centred, mean 0 over the axes; x has the dtype of sums."""
    import numpy as np

    difference = x - x.mean(axis=axes, keepdims=True) if centred else x
    variance = np.square(difference).mean(axis=axes, keepdims=True)
    return difference / np.sqrt(variance + x.dtype.type(epsilon))
