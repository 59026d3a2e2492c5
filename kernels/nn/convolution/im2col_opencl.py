# SPDX-License-Identifier: Apache-2.0
"""im2col with channels first in OpenCL C: lines of windows by lane shuffles."""

from __future__ import annotations

from syclsched.kernels.common import Ints, ceil_div
from syclsched.kernels.nn import lane_shuffles
from syclsched.kernels.nn.geometry import size, strides_of
from syclsched.kernels.nn.opencl_types import empty_kernel
from syclsched.kernels.nn.rows_opencl import RowCode
from syclsched.kernels.windows import Window
from syclsched.model.operation import OpenCLSource, Signature

#: Target number of work-items, channels first.
_WANTED = 256


def _parts(signature: Signature, kernel: Ints, outputs: Ints) -> tuple[int, int]:
    """Return the number of parts that lines of windows are divided into, channels first, and the lines per part."""
    lines = size(outputs[:-1])
    each = ceil_div(lines, max(1, min(lines, _WANTED // max(1, size(signature.shapes["x"][:2]) * size(kernel[:-1])))))
    return ceil_div(lines, each), each


def count(signature: Signature, *, window: Window, kernel: Ints) -> int:
    """Return the number of work-items."""
    x = signature.shapes["x"]
    if not size(signature.shapes["y"]):
        return 1
    return size(x[:2]) * size(kernel[:-1]) * _parts(signature, kernel, window.extents(x[2:], kernel))[0]


def load(signature: Signature, *, window: Window, kernel: Ints) -> OpenCLSource:
    """Return the kernel of a signature: a work-item copies lines at all positions of the kernel's last axis."""
    parameters = "__global T* restrict y, __global const T* restrict x"
    if not size(signature.shapes["y"]):
        return empty_kernel("im2col", parameters.replace("T*", "uchar*"))
    x = signature.shapes["x"]
    outputs = window.extents(x[2:], kernel)
    line, reading = (RowCode(each[-1], signature.dtypes["y"]) for each in (outputs, x))
    (parts, each), outer = _parts(signature, kernel, outputs), range(len(kernel) - 1)
    out = [f"const size_t i = get_global_id(0);\n  if (i >= {count(signature, window=window, kernel=kernel)}) return;"]
    out.append(f"const int part = i % {parts} * {each}; size_t rest = i / {parts};")
    out.append(f"y += rest * {kernel[-1] * size(outputs)};")
    out += _taken([(f"k{axis}", kernel[axis]) for axis in outer])
    out.append(f"x += rest * {size(x[2:])};")
    out.append(f"for (int line = part; line < min(part + {each}, {size(outputs[:-1])}); ++line) {{ rest = line;")
    out += _taken([(f"o{axis}", outputs[axis]) for axis in outer])
    guard, where = _seen(window, x, outer)
    seen, missing = [], []
    for place in range(kernel[-1]):
        into = f"y + {place * size(outputs)} + line * {line.length}"
        begin = place * window.dilations[-1] - window.begins[-1]
        seen.append(_copied(line, reading, begin, window.strides[-1], into))
        missing.append(line.along(f"WRITEV(__global, {into} + j, (AV)0);"))
    out.append(f"{guard} {{ __global const T* x0 = x + {where};\n  {' '.join(seen)} }}")
    out.append(f"else {{ {' '.join(missing)} }} }}")
    head, body = line.head + lane_shuffles.reader(line.dtype, reading.block.width), "\n  ".join(out)
    return OpenCLSource(f"{head}WHOLE_VECTORS __kernel void im2col({parameters}) {{\n  {body}\n}}\n", "im2col")


def _taken(names: list[tuple[str, int]]) -> list[str]:
    return [f"const int {name} = rest % {extent}; rest /= {extent};" for name, extent in reversed(names)]


def _seen(window: Window, x: Ints, axes: range) -> tuple[str, str]:
    """Return a bounds check along some axes, and the offset of the source element."""
    sizes = x[2:]
    xs, _, _ = strides_of(sizes, x[1], False)
    at = [f"(o{a} * {window.strides[a]} - {window.begins[a]} + k{a} * {window.dilations[a]})" for a in axes]
    guard = " && ".join(f"(uint){each} < {sizes[axis]}u" for axis, each in zip(axes, at, strict=True)) or "1"
    where = " + ".join(f"(size_t){each} * {xs[axis]}" for axis, each in zip(axes, at, strict=True)) or "0"
    return f"if ({guard})", where


def _copied(line: RowCode, source: RowCode, begin: int, stride: int, into: str) -> str:
    """Return code that copies a line of elements with a stride; positions outside the source become 0."""
    places = [[at if 0 <= at < source.length else -1] for at in range(begin, begin + line.length * stride, stride)]
    block = line.block.width, source.block.width
    found = lane_shuffles.shuffled_vectors(places, [[1.0]] * line.length, source.length, *block)
    store = f"WRITEV(__global, {into} + {{0}}, v);"
    code = lane_shuffles.code(found, line.dtype, block, "LOADR(x0 + {0})", store) if found else None
    each = f"const int at = j * {stride} + {begin}; ({into})[j] = (uint)at < {source.length}u ? x0[at] : (T)0;"
    return code or f"for (int j = 0; j < {line.length}; ++j) {{ {each} }}"
