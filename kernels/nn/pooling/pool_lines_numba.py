# SPDX-License-Identifier: Apache-2.0
"""Channels-first pooling in Python, in vectors along lines of windows.

A work-item computes whole lines of the last axis. Windows that lie within the array along that axis are computed in
vectors, the last of which starts where it still fits; windows at the edges, one by one.
"""

from __future__ import annotations

from syclsched.kernels.common import Ints, ceil_div
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.activation_numba import applied, applied_wide
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.rows_numba import indented, rows_launch
from syclsched.kernels.vectors.vector_functions import LANES
from syclsched.kernels.windows import Window
from syclsched.model.operation import DeviceLimits, Launch, Signature

#: Window stride -> the function that loads a vector of elements that far apart.
_LOADS = {1: "load_vector", 2: "load_second"}


def has_full_vectors(signature: Signature, window: Window, kernel: Ints) -> bool:
    """Return whether lines contain at least a vector of windows within the array."""
    x, y = signature.shapes["x"][-1], signature.shapes["y"][-1]
    first, stride = _first(window), window.strides[-1]
    return stride in _LOADS and min((x + _last_start(window, kernel)) // stride + 1, y) - first >= LANES


def _first(window: Window) -> int:
    """Return the first window of a line that starts within the array."""
    return ceil_div(window.begins[-1], window.strides[-1])


def _last_start(window: Window, kernel: Ints) -> int:
    """Return the extra positions, beyond a line's length, at which the last window may start, from the first start."""
    return window.begins[-1] - window.reach(kernel)[-1]


def lines_text(
    ndim: int,
    *,
    mode: str,
    window: Window,
    kernel: Ints,
    count_include_pad: bool,
    activation: Activation,
    lowest: str,
    real: bool,
) -> str:
    """Return the kernel of pooling along lines."""
    last, stride, apart = ndim - 1, window.strides[-1], window.dilations[-1]
    text = "def pool(item, y, x):\n"
    text += "".join(f"    {letter}{a} = {letter}.shape[{a + 2}]\n" for letter in "yx" for a in range(ndim))
    text += f"""    first = {_first(window)}
    end = min((x{last} + {_last_start(window, kernel)}) // {stride} + 1, y{last})
    pieces = (end - first + {LANES - 1}) // {LANES}
    lines = y.size // y{last}
    i = item.get_global_id(0)
    items = item.get_global_range(0)
    each = (lines + items - 1) // items
    for line in range(i * each, min(i * each + each, lines)):
        rest = line
"""
    outer = range(last)
    for axis in reversed(outer):
        text += indented(f"b{axis} = rest % y{axis} * {window.strides[axis]} - {window.begins[axis]}", 2)
        text += indented(f"rest = rest // y{axis}", 2)
    start = lowest if mode == "max" else "0"
    text += indented("count = 1", 2)
    if mode == "average":
        for axis in outer:
            text += _counted("count", axis, f"b{axis}", window, kernel, 2, pads=count_include_pad)
    wide_larger = "choose(~(v <= s) & (s == s), v, s)" if real else "choose(v > s, v, s)"
    larger = "v if v > t or v != v else t" if real else "v if v > t else t"
    # Windows within the array along the last axis; only the other axes have edges.
    text += indented(f"for q in range(pieces):\n    o = min(first + q * {LANES}, end - {LANES})", 2)
    text += indented(f"s = splat(real({start}))", 3)
    taps = "".join(
        f"v = {_LOADS[stride]}(x, e + {tap * apart})\ns = {wide_larger if mode == 'max' else 's + v'}\n"
        for tap in range(kernel[last])
    )
    text += _over(
        outer, window, kernel, f"e = {_line(outer)} * x{last} + o * {stride} - {window.begins[last]}\n{taps}", 3
    )
    text += indented(f"s = s / real(count * {kernel[last]})", 3) if mode == "average" else ""
    text += indented(f"v = s\n{applied_wide(activation)}store_vector(y, line * y{last} + o, v)", 3)
    # The windows before and after them.
    text += indented(f"for q in range(first + y{last} - end):\n    o = q if q < first else q - first + end", 2)
    text += indented(f"b{last} = o * {stride} - {window.begins[last]}\nt = real({start})", 3)
    found = f"t = real({larger})" if mode == "max" else "t = t + v"
    tap = f"v = load(x, {_line(range(ndim))})\n{found}"
    text += _over(range(ndim), window, kernel, tap, 3)
    if mode == "average":
        text += _counted("n", last, f"b{last}", window, kernel, 3, pads=count_include_pad, begin="count")
        text += indented("t = t / real(n)", 3)
    return text + indented(f"v = t\n{applied(activation, '')}store(y, line * y{last} + o, v)", 3)


def _line(axes: range) -> str:
    where = "rest"
    for axis in axes:
        where = f"({where} * x{axis} + i{axis})"
    return where


def _over(axes: range, window: Window, kernel: Ints, lines: str, depth: int) -> str:
    """Return loops over a window's elements along some axes; ``b<axis>`` is its start."""
    text = ""
    for axis in axes:
        text += indented(f"for k{axis} in range({kernel[axis]}):", depth)
        text += indented(f"i{axis} = b{axis} + k{axis} * {window.dilations[axis]}", depth + 1)
        text += indented(f"if i{axis} >= 0 and i{axis} < x{axis}:", depth + 1)
        depth += 2
    return text + indented(lines, depth)


def _counted(
    name: str, axis: int, begin_at: str, window: Window, kernel: Ints, depth: int, *, pads: bool, begin: str = ""
) -> str:
    """Return source lines that multiply a count by the counted positions along an axis."""
    low, high = (window.begins[axis], window.ends[axis]) if pads else (0, 0)
    text = f"""m = 0
for k in range({kernel[axis]}):
    p = {begin_at} + k * {window.dilations[axis]}
    if p >= -{low} and p < x{axis} + {high}:
        m += 1
{name} = {begin or name} * m"""
    return indented(text, depth)


def launch(signature: Signature, limits: DeviceLimits) -> Launch:
    """Return the index space; a line is a row."""
    y, x = signature.shapes["y"], signature.shapes["x"]
    lines = size(y[:-1])
    return rows_launch(limits, lines, size(x) // lines)
