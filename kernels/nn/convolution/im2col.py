# SPDX-License-Identifier: Apache-2.0
"""`im2col`: the elements of every window as a row or column, so that convolution becomes a matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from syclsched.kernels.common import OPENCL_C, Ints, ceil_div
from syclsched.kernels.nn import lane_shuffles
from syclsched.kernels.nn.convolution import im2col_numba
from syclsched.kernels.nn.geometry import channels, last, size, spatial, strides_of
from syclsched.kernels.nn.line_operations import lines_launch
from syclsched.kernels.nn.opencl_types import BYTES, FLOATS, empty_kernel
from syclsched.kernels.nn.rows_opencl import RowCode
from syclsched.kernels.windows import Window, times
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, OpenCLSource, Operation, Parameter, Signature, Split, Work


def _check(signature: Signature, *, window: Window, kernel: Ints, last_: bool) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if len(x) != len(kernel) + 2:
        return f"x {x} has {len(kernel) + 2} axes"
    windows, seen = size(window.extents(spatial(x, last_), kernel)), channels(x, last_) * size(kernel)
    wanted = (x[0], windows, seen) if last_ else (x[0], seen, windows)
    return None if y == wanted else f"y of x {x} is {wanted}, not {y}"


def _work(signature: Signature) -> Work:
    dtype = signature.dtypes["y"]
    results = size(signature.shapes["y"])
    return Work(0.0, float((results + size(signature.shapes["x"])) * BYTES[dtype]), dtype, float(max(1, results)))


def _host(*, y: Any, x: Any, window: Window, kernel: Ints, last_: bool) -> None:
    source = last(x, last_)
    outputs = window.extents(source.shape[1:-1], kernel)
    count = source.shape[-1]
    padded = window.padded(source, kernel, outputs, 0)
    shape = (x.shape[0], *outputs, *kernel, count) if last_ else (x.shape[0], count, *kernel, *outputs)
    target = y.reshape(shape)
    for place, cut in window.places(kernel, outputs):
        seen = padded[(slice(None), *cut)]
        if last_:
            target[(slice(None),) * (1 + len(kernel)) + place] = seen
        else:
            target[(slice(None), slice(None), *place)] = seen.transpose(0, source.ndim - 1, *range(1, source.ndim - 1))


def _outputs(signature: Signature, window: Window, kernel: Ints, last_: bool) -> Ints:
    return window.extents(spatial(signature.shapes["x"], last_), kernel)


#: Target number of work-items, channels first.
_WANTED = 256


def _parts(signature: Signature, kernel: Ints, outputs: Ints) -> tuple[int, int]:
    """Return the number of parts that lines of windows are divided into, channels first, and the lines per part."""
    lines = size(outputs[:-1])
    each = ceil_div(lines, max(1, min(lines, _WANTED // max(1, size(signature.shapes["x"][:2]) * size(kernel[:-1])))))
    return ceil_div(lines, each), each


def _count(signature: Signature, *, window: Window, kernel: Ints, last_: bool) -> int:
    x, outputs = signature.shapes["x"], _outputs(signature, window, kernel, last_)
    if not size(signature.shapes["y"]):
        return 1
    if last_:
        return x[0] * size(outputs) * size(kernel)
    return size(x[:2]) * size(kernel[:-1]) * _parts(signature, kernel, outputs)[0]


def _load_opencl(signature: Signature, *, window: Window, kernel: Ints, last_: bool) -> OpenCLSource:
    x, dtype = signature.shapes["x"], signature.dtypes["y"]
    if not size(signature.shapes["y"]):
        return empty_kernel("im2col", _PARAMETERS.replace("T*", "uchar*"))
    outputs = _outputs(signature, window, kernel, last_)
    items, axes = _count(signature, window=window, kernel=kernel, last_=last_), range(len(kernel))
    out = [f"const size_t i = get_global_id(0);\n  if (i >= {items}) return;"]
    if not last_:
        head, more = _first(signature, window, kernel, outputs)
        return _kernel(head, [*out, *more])
    line = RowCode(x[-1], dtype)
    out.append(f"size_t rest = i; y += i * {line.length};")
    out += _taken([(f"o{axis}", outputs[axis]) for axis in axes] + [(f"k{axis}", kernel[axis]) for axis in axes])
    guard, where = _seen(window, x, axes, last_)
    copied, zero = ("STOREV(y + j, LOADV(x + j));", "STOREV(y + j, (AV)0);")
    out.append(f"{guard} {{ x += rest * {size(x[1:])} + {where}; {line.along(copied)} }} else {{ {line.along(zero)} }}")
    return _kernel(line.head, out)


_PARAMETERS = "__global T* restrict y, __global const T* restrict x"


def _kernel(head: str, out: list[str]) -> OpenCLSource:
    body = "\n  ".join(out)
    source = f"{head}WHOLE_VECTORS __kernel void im2col({_PARAMETERS}) {{\n  {body}\n}}\n"
    return OpenCLSource(source, "im2col")


def _taken(names: list[tuple[str, int]]) -> list[str]:
    return [f"const int {name} = rest % {extent}; rest /= {extent};" for name, extent in reversed(names)]


def _seen(window: Window, x: Ints, axes: range, last_: bool) -> tuple[str, str]:
    """Return a bounds check along some axes, and the offset of the source element."""
    sizes = spatial(x, last_)
    xs, _, _ = strides_of(sizes, channels(x, last_), last_)
    at = [f"(o{a} * {window.strides[a]} - {window.begins[a]} + k{a} * {window.dilations[a]})" for a in axes]
    guard = " && ".join(f"(uint){each} < {sizes[axis]}u" for axis, each in zip(axes, at, strict=True)) or "1"
    where = " + ".join(f"(size_t){each} * {xs[axis]}" for axis, each in zip(axes, at, strict=True)) or "0"
    return f"if ({guard})", where


def _first(signature: Signature, window: Window, kernel: Ints, outputs: Ints) -> tuple[str, list[str]]:
    """Return types and code for channels first: lines of windows at all positions of the kernel's last axis."""
    x, line = signature.shapes["x"], RowCode(outputs[-1], signature.dtypes["y"])
    parts, each = _parts(signature, kernel, outputs)
    reading = RowCode(x[-1], line.dtype)
    outer = range(len(kernel) - 1)
    out = [f"const int part = i % {parts} * {each}; size_t rest = i / {parts};"]
    out.append(f"y += rest * {kernel[-1] * size(outputs)};")
    out += _taken([(f"k{axis}", kernel[axis]) for axis in outer])
    out.append(f"x += rest * {size(x[2:])};")
    out.append(f"for (int line = part; line < min(part + {each}, {size(outputs[:-1])}); ++line) {{ rest = line;")
    out += _taken([(f"o{axis}", outputs[axis]) for axis in outer])
    guard, where = _seen(window, x, outer, False)
    seen, missing = [], []
    for place in range(kernel[-1]):
        into = f"y + {place * size(outputs)} + line * {line.length}"
        begin = place * window.dilations[-1] - window.begins[-1]
        seen.append(_copied(line, reading, begin, window.strides[-1], into))
        missing.append(line.along(f"STOREV({into} + j, (AV)0);"))
    out.append(f"{guard} {{ __global const T* x0 = x + {where};\n  {' '.join(seen)} }}")
    out.append(f"else {{ {' '.join(missing)} }} }}")
    return line.head + lane_shuffles.reader(line.dtype, reading.block.width), out


def _copied(line: RowCode, source: RowCode, begin: int, stride: int, into: str) -> str:
    """Return code that copies a line of elements with a stride; positions outside the source become 0."""
    places = [[at if 0 <= at < source.length else -1] for at in range(begin, begin + line.length * stride, stride)]
    block = line.block.width, source.block.width
    found = lane_shuffles.shuffled_vectors(places, [[1.0]] * line.length, source.length, *block)
    store = f"STOREV({into} + {{0}}, v);"
    code = lane_shuffles.code(found, line.dtype, block, "LOADR(x0 + {0})", store) if found else None
    each = f"const int at = j * {stride} + {begin}; ({into})[j] = (uint)at < {source.length}u ? x0[at] : (T)0;"
    return code or f"for (int j = 0; j < {line.length}; ++j) {{ {each} }}"


def _load_host(signature: Signature, **attributes: Any) -> Any:
    return partial(_host, **attributes)


@cache
def _im2col(kernel: Ints, window: Window, channels_last: bool) -> Operation:
    names = ["im2col", times(kernel), window.label(), "last" if channels_last else ""]
    attributes = {"window": window, "kernel": kernel, "last_": channels_last}
    launch = partial(lines_launch, count=partial(_count, **attributes))
    load = partial(_load_opencl, **attributes)
    opencl = Implementation("opencl-c", "opencl-c", load, launch, OPENCL_C, efficiency=0.4, revision="2")
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=(
            Parameter("y", AccessMode.WRITE, ndim=3, dtypes=FLOATS),
            Parameter("x", AccessMode.READ, ndim=len(kernel) + 2, like="y"),
        ),
        implementations=(
            opencl,
            im2col_numba.im2col(**attributes),
            Implementation("numpy", "host", partial(_load_host, **attributes), efficiency=0.2),
        ),
        work=_work,
        check=partial(_check, **attributes),
        split=Split(rows=("y", "x")),
    )


def im2col(
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    channels_last: bool = False,
) -> Operation:
    """Return the operation that writes the elements of each window."""
    sizes = tuple(map(int, kernel))
    return _im2col(sizes, Window.of(len(sizes), strides, pads, dilations), bool(channels_last))
