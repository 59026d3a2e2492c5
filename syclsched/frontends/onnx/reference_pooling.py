# SPDX-License-Identifier: Apache-2.0
"""MaxPool for onnx's reference implementation, in place of its own.

That (1.23) gives other places of maxima, and other results with ``auto_pad``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@cache
def max_pool_operator() -> Any:
    """Return the operator as a class that onnx's reference implementation takes."""
    from onnx.reference.op_run import OpRun

    class _MaxPool(OpRun):
        op_domain = ""

        def _run(self, x: Array, **_: Any) -> tuple[Array, ...]:
            rank = x.ndim - 2
            kernel = self._numbers("kernel_shape", rank, 1)
            strides, dilations = self._numbers("strides", rank, 1), self._numbers("dilations", rank, 1)
            spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
            axes = []
            for axis, (begin, count) in enumerate(self._windows(x.shape[2:], spans, strides)):
                first = np.arange(count) * strides[axis] - begin
                axes.append([first + number * dilations[axis] for number in range(kernel[axis])])
            best, at = _maxima(x, axes, by_columns=bool(getattr(self, "storage_order", 0)))
            return (best, at)[: max(1, len(self.onnx_node.output))]

        def _windows(
            self, extents: Sequence[int], spans: Sequence[int], strides: Sequence[int]
        ) -> list[tuple[int, int]]:
            """Return the pads before each axis, and the number of windows along it."""
            rank, auto = len(extents), getattr(self, "auto_pad", None) or "NOTSET"
            pads = self._numbers("pads", 2 * rank, 0) if auto == "NOTSET" else (0,) * (2 * rank)
            found = []
            for axis, (n, span, stride) in enumerate(zip(extents, spans, strides, strict=True)):
                if auto.startswith("SAME"):
                    count = -(-n // stride)
                    missing = max((count - 1) * stride + span - n, 0)
                    found.append(((missing + (auto == "SAME_LOWER")) // 2, count))
                    continue
                begin, room = pads[axis], n + pads[axis] + pads[axis + rank] - span
                count = (-(-room // stride) if getattr(self, "ceil_mode", 0) else room // stride) + 1
                count -= (count - 1) * stride >= n + begin  # a window in the pads alone
                found.append((begin, max(count, 0)))
            return found

        def _numbers(self, name: str, count: int, otherwise: int) -> Sequence[int]:
            return tuple(getattr(self, name, None) or (otherwise,) * count)

    _MaxPool.__name__ = "MaxPool"
    return _MaxPool


def _maxima(x: Array, axes: Sequence[Sequence[Array]], *, by_columns: bool) -> tuple[Array, Array]:
    """Return the maxima of windows and their places in the whole value, of equal ones the first.

    ``axes`` has for each axis the places of each element of the windows.
    """
    extents, counts = x.shape[2:], tuple(len(each[0]) for each in axes)
    steps = [math.prod(extents[:i] if by_columns else extents[i + 1 :]) for i in range(len(extents))]
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    best = np.full((*x.shape[:2], *counts), lowest, x.dtype)
    at = np.full(best.shape, -1, np.int64)
    for offset in np.ndindex(*(len(each) for each in axes)):
        places = [each[number] for each, number in zip(axes, offset, strict=True)]
        within = [(each >= 0) & (each < n) for each, n in zip(places, extents, strict=True)]
        if not x.size or not all(each.any() for each in within):
            continue
        is_in = np.all(np.broadcast_arrays(*_crossed(within)), axis=0)
        picked = _crossed([each.clip(0, n - 1) for each, n in zip(places, extents, strict=True)])
        place: Any = (slice(None), slice(None), *picked)
        values = x[place]
        is_better = is_in & ((at < 0) | (values > best))
        best[is_better] = values[is_better]
        number: Any = sum(each * step for each, step in zip(picked, steps, strict=True))
        at[is_better] = np.broadcast_to(number, at.shape)[is_better]
    first = np.arange(math.prod(x.shape[:2])).reshape(*x.shape[:2], *(1,) * len(extents)) * math.prod(extents)
    return best, np.where(at < 0, at, at + first)


def _crossed(lines: Sequence[Array]) -> list[Array]:
    """Return one-dimensional arrays as arrays along one axis each."""
    return [each.reshape([-1 if i == axis else 1 for i in range(len(lines))]) for axis, each in enumerate(lines)]
