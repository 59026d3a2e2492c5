# SPDX-License-Identifier: Apache-2.0
"""Ranges of windows and of their positions along an axis, in kernels of a `KernelWriter` with signed indices."""

from __future__ import annotations

from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter
from syclsched.kernels.tensor.writing.lines import least
from syclsched.kernels.windows import Window


def clipped_range(w: KernelWriter, low: str, high: str, step: int, count: int) -> tuple[str, str]:
    """Emit the range of the numbers i of ``count`` with low <= i * step <= high; return its begin and end."""
    begin = w.index(w.select(f"({low} > 0)", w.div(f"({low} + {step - 1})", str(step)), "0"))
    end = w.index(w.select(f"({high} >= 0)", f"({w.div(high, str(step))} + 1)", "0"))
    return begin, least(w, end, str(count))


def seen_windows(w: KernelWriter, window: Window, axis: int, tap: str, extent: int, windows: int) -> tuple[str, str]:
    """Emit the range of the windows whose position ``tap`` is within an axis."""
    low = w.index(f"{window.begins[axis]} - {tap} * {window.dilations[axis]}")
    high = w.index(f"{low} + {extent - 1}")
    return clipped_range(w, low, high, window.strides[axis], windows)


def covering_windows(
    w: KernelWriter, window: Window, axis: int, places: tuple[str, str], positions: int, windows: int
) -> tuple[str, str]:
    """Emit the range of the windows that extend over some of the places from the first to the last."""
    low = w.index(f"{places[0]} + {window.begins[axis] - (positions - 1) * window.dilations[axis]}")
    high = w.index(f"{places[1]} + {window.begins[axis]}")
    return clipped_range(w, low, high, window.strides[axis], windows)


def inner_positions(
    w: KernelWriter, window: Window, axis: int, begin: str, positions: int, bounds: tuple[str, str]
) -> tuple[str, str]:
    """Emit the range of a window's positions within the bounds (low, high) of an axis; ``begin`` is its first place."""
    low, high = w.index(f"{bounds[0]} - {begin}"), w.index(f"{bounds[1]} - 1 - {begin}")
    return clipped_range(w, low, high, window.dilations[axis], positions)
