# SPDX-License-Identifier: Apache-2.0
"""What the normalisations have in common: work, names, and how numbers stand in names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syclsched.kernels.nn import panels
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.source import BYTES
from syclsched.model.operation import DeviceLimits, Launch, Signature, Work


def work(signature: Signature, *, flops: float, parallelism: float = float("inf")) -> Work:
    """Return the work of an operation that reads every array and writes ``y`` once, for ``flops`` an element of y."""
    dtype = signature.dtypes["y"]
    moved = sum(map(size, signature.shapes.values())) * BYTES[dtype]
    results = size(signature.shapes["y"])
    return Work(flops * results, float(moved), dtype, max(1.0, min(parallelism, float(results))))


def lines_launch(signature: Signature, limits: DeviceLimits, *, count: Callable[[Signature], int]) -> Launch:
    """Return an index space of one work-item for each of ``count(signature)`` lines."""
    return panels.launch(limits, max(1, count(signature)), most=64)


def number(value: float) -> str:
    """Return a number as it stands in an operation's name: 1e-05, where that is what a float32 was written as."""
    import numpy as np

    single = np.float32(value)
    return str(single).removesuffix(".0") if single == value else f"{value:.9g}"


def centred(x: Any, axes: tuple[int, ...], epsilon: float) -> Any:
    """Return x with mean 0 and variance 1 over the axes, in the dtype sums are kept in."""
    import numpy as np

    mean = x.mean(axis=axes, keepdims=True)
    difference = x - mean
    variance = np.square(difference).mean(axis=axes, keepdims=True)
    return difference / np.sqrt(variance + x.dtype.type(epsilon))
