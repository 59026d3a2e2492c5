# SPDX-License-Identifier: Apache-2.0
"""`pool`: maximum or average over sliding windows of the spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import C_TYPES, ITEM_BYTES, OPENCL_C, Ints, numpy_implementation, with_recipe
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.geometry import channels, last, size, spatial
from syclsched.kernels.nn.line_operations import lines_launch
from syclsched.kernels.nn.opencl_types import FLOATS, empty_kernel, sum_dtype
from syclsched.kernels.nn.pooling import pool_channels_opencl, pool_lines_opencl, pool_numba, pool_whole_channels
from syclsched.kernels.onednn.operations import pool as onednn
from syclsched.kernels.tensor.writing.extent_arguments import ExtentArguments
from syclsched.kernels.tensor.writing.opencl_writer import opencl_writer
from syclsched.kernels.windows import Window, times
from syclsched.model.access import AccessMode
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Operation,
    Parameter,
    Signature,
    Split,
    Work,
)

#: Maximum pooling supports integers, too.
MAX_DTYPES = (*FLOATS, "int8", "uint8", "int32", "int64")


def _check(signature: Signature, *, window: Window, kernel: Ints, last_: bool) -> str | None:
    return check_windows(signature.shapes["y"], signature.shapes["x"], window=window, kernel=kernel, last_=last_)


def check_windows(y: Ints, x: Ints, *, window: Window, kernel: Ints, last_: bool) -> str | None:
    """Return the error in the shapes of a pooling's result and its input, or None."""
    if not len(x) == len(y) == len(kernel) + 2:
        return f"y {y} and x {x} have {len(kernel) + 2} axes each"
    sizes = spatial(x, last_)
    least, most = (window.extents(sizes, kernel, ceil=ceil) for ceil in (False, True))
    got = spatial(y, last_)
    if y[0] != x[0] or channels(y, last_) != channels(x, last_):
        return f"y {y} has another batch or other channels than x {x}"
    if not all(a <= b <= c for a, b, c in zip(least, got, most, strict=True)):
        return f"there are {least} windows in {sizes}, or {most} rounded up, not {got}"
    return None


def _work(signature: Signature, *, kernel: Ints, extra: int) -> Work:
    y, x, dtype = signature.shapes["y"], signature.shapes["x"], signature.dtypes["y"]
    flops = float(size(y)) * (size(kernel) + extra)
    return Work(flops, float((size(y) + size(x)) * ITEM_BYTES[dtype]), dtype, float(max(1, size(y))))


def counts(window: Window, kernel: Ints, sizes: Ints, outputs: Ints, *, pads: bool) -> list[list[int]]:
    """Return, for each axis and each window along it, the number of positions within the array (or its pads)."""
    found = []
    for axis, (n, span, s, d) in enumerate(zip(sizes, kernel, window.strides, window.dilations, strict=True)):
        begin, end = window.begins[axis], window.ends[axis]
        low, high = (-begin, n + end) if pads else (0, n)
        found.append([sum(low <= o * s - begin + k * d < high for k in range(span)) for o in range(outputs[axis])])
    return found


def _host(
    *,
    y: Any,
    x: Any,
    mode: str,
    window: Window,
    kernel: Ints,
    last_: bool,
    count_include_pad: bool,
    activation: Activation,
) -> None:
    import numpy as np

    target, source = last(y, last_), last(x, last_)
    outputs = target.shape[1:-1]
    if mode == "max":
        lowest = -np.inf if y.dtype.kind == "f" else np.iinfo(y.dtype).min
        padded = window.padded(source, kernel, outputs, lowest)
        target[...] = lowest
        for _, cut in window.places(kernel, outputs):
            np.maximum(target, padded[(slice(None), *cut)], out=target)
        if activation:
            target[...] = act.numpy(activation, target)
        return
    padded = window.padded(source, kernel, outputs, 0)
    total = np.zeros(target.shape, sum_dtype(str(y.dtype)))
    for _, cut in window.places(kernel, outputs):
        total += padded[(slice(None), *cut)]
    for axis, line in enumerate(counts(window, kernel, source.shape[1:-1], outputs, pads=count_include_pad)):
        shape = [1] * total.ndim
        shape[axis + 1] = -1
        total /= np.asarray(line, total.dtype).reshape(shape)
    target[...] = act.numpy(activation, total)


def _is_global(signature: Signature, *, window: Window, kernel: Ints, last_: bool) -> bool:
    """Return whether a single window covers each channel."""
    sizes = spatial(signature.shapes["x"], last_)
    return not last_ and kernel == sizes and not any(window.pads) and size(spatial(signature.shapes["y"], last_)) == 1


def _generator(
    signature: Signature, window: Window, kernel: Ints, last_: bool
) -> pool_lines_opencl.PooledLines | pool_channels_opencl.PooledChannels:
    """Return the kernel generator for non-empty windows: along lines, or along channels."""
    y, x = signature.shapes["y"], signature.shapes["x"]
    lines = None if last_ else pool_lines_opencl.PooledLines.of(signature, window, kernel)
    if lines is not None:
        return lines
    if not last_:
        y, x = ((size(shape[:2]), *shape[2:], 1) for shape in (y, x))
    return pool_channels_opencl.PooledChannels(y, x, signature.dtypes["y"], window, kernel)


def _launch_opencl(signature: Signature, limits: DeviceLimits, *, window: Window, kernel: Ints, last_: bool) -> Launch:
    if not size(signature.shapes["y"]):
        return Launch((1,), (1,))
    if _is_global(signature, window=window, kernel=kernel, last_=last_) and signature.dtypes["y"] in FLOATS:
        return pool_whole_channels.launch(signature, limits)
    items = _generator(signature, window, kernel, last_).items
    return lines_launch(signature, limits, count=lambda _: items)


_PARAMETERS = "__global T* restrict y, __global const T* restrict x"


def _load_opencl(
    signature: Signature,
    *,
    mode: str,
    window: Window,
    kernel: Ints,
    last_: bool,
    count_include_pad: bool,
    activation: Activation,
) -> OpenCLSource:
    y, dtype = signature.shapes["y"], signature.dtypes["y"]
    sizes = spatial(signature.shapes["x"], last_)
    if not size(y):
        return empty_kernel("pool", _PARAMETERS.replace("T*", "uchar*"))
    if _is_global(signature, window=window, kernel=kernel, last_=last_) and dtype in FLOATS:
        return pool_whole_channels.load(signature, opencl_writer, mode=mode, activation=activation)
    generator, kind, tables, value = _generator(signature, window, kernel, last_), sum_dtype(dtype), "", "v"
    join, least, given = "{0} + {1}", "(A)0", ExtentArguments()
    if mode == "max":
        join = "larger_{kind}({0}, {1})"
        least = "-INFINITY" if dtype in FLOATS else f"({C_TYPES[dtype]})({_lowest(dtype)})"
        larger = "(a >= b) | (a != a) ? a : b" if dtype in FLOATS else "max(a, b)"
        for vector in ("AR", "AV"):
            tables += f"inline {vector} larger_{vector}({vector} a, {vector} b) {{ return {larger}; }}\n"
    else:
        for axis, line in enumerate(counts(window, kernel, sizes, spatial(y, last_), pads=count_include_pad)):
            table, share = pool_lines_opencl.reciprocals(
                axis, line, kind, *generator.place(axis), given, in_array=not count_include_pad
            )
            tables += table
            value += f" * {share}"
    finish = f"AV u = {value}; {act.opencl(activation, 'u', kind, 'AV', given)}"
    start = f"const size_t i = get_global_id(0);\n  if (i >= {given('items', generator.items)}) return;"
    functions, body = generator.code(join, least, finish, given)
    head = f"{generator.head}{tables}{functions}WHOLE_VECTORS __kernel void pool({_PARAMETERS}{given.declared})"
    return OpenCLSource(f"{head} {{\n  {start}\n  {body}\n}}\n", "pool", extents=given.values)


def _lowest(dtype: str) -> str:
    import numpy as np

    lowest = np.iinfo(dtype).min
    return f"{lowest + 1} - 1" if lowest else "0"


@cache
def _pool(
    mode: str, kernel: Ints, window: Window, count_include_pad: bool, channels_last: bool, activation: Activation
) -> Operation:
    names = [
        f"{mode}_pool",
        times(kernel),
        window.label(),
        "pads" if count_include_pad else "",
        "last" if channels_last else "",
        act.label(activation),
    ]
    ndim = len(kernel) + 2
    dtypes = MAX_DTYPES if mode == "max" and not activation else FLOATS
    how = {"mode": mode, "count_include_pad": count_include_pad, "activation": activation}
    attributes = {"window": window, "kernel": kernel, "last_": channels_last}
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=(
            Parameter("y", AccessMode.WRITE, ndim=ndim, dtypes=dtypes),
            Parameter("x", AccessMode.READ, ndim=ndim, like="y"),
        ),
        implementations=(
            onednn.pool(
                mode,
                kernel,
                window,
                count_include_pad=count_include_pad,
                channels_last=channels_last,
                activation=activation,
            ),
            Implementation(
                "opencl-c",
                "opencl-c",
                partial(_load_opencl, **how, **attributes),
                partial(_launch_opencl, **attributes),
                OPENCL_C,
                efficiency=0.4,
                revision="5",
            ),
            pool_numba.pool(dtypes=dtypes, **how, **attributes),
            numpy_implementation(partial(_host, **how, **attributes), efficiency=0.1),
        ),
        work=partial(_work, kernel=kernel, extra=act.cost(activation)),
        check=partial(_check, **attributes),
        split=Split(rows=("y", "x")),
    )


@with_recipe
def pool(
    mode: str,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    count_include_pad: bool = False,
    channels_last: bool = False,
    activation: Activation = (),
) -> Operation:
    """Return the operation that computes the maximum or the average of windows.

    The number of windows follows from y: as many as fit, or one more if the last one does not fit completely.
    """
    if mode not in ("max", "average"):
        raise ArgumentError(f"mode is max or average, not {mode!r}", where="mode")
    sizes = tuple(map(int, kernel))
    window = Window.of(len(sizes), strides, pads, dilations)
    include = bool(count_include_pad) and mode == "average"
    return _pool(mode, sizes, window, include, bool(channels_last), act.checked(activation))
