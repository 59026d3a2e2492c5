# SPDX-License-Identifier: Apache-2.0
"""Pooling in Python, and source fragments for sliding windows.

Neighbouring work-items compute neighbouring elements: channels if they come last, else a line of the last spatial axis.
The position on all other axes is computed once per group. Shapes are read at run time.
"""

# Not shared with OpenCL C: one kernel for both took 1.1 times as long there (3x3 at 28x28), and up to 1.4 to compile.

from __future__ import annotations

from functools import partial
from typing import Any

from syclsched.kernels.common import PYTHON_KERNEL, Ints, block_launch, ceil_div
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.activation_numba import applied, applied_wide
from syclsched.kernels.nn.geometry import size, spatial
from syclsched.kernels.nn.pooling import pool_lines_numba, pool_whole_channels
from syclsched.kernels.nn.rows_numba import BLOCK, indented, per_vector
from syclsched.kernels.tensor.writing.numba_writer import numba_writer, python_kernel
from syclsched.kernels.vectors.vector_functions import LANES
from syclsched.kernels.windows import Window
from syclsched.model.operation import DeviceLimits, Implementation, Launch, Requirements, Signature


def extents(array: str, letter: str, ndim: int, *, last: bool) -> str:
    """Return source lines that read channels and spatial extents: ``xc``, ``x0``, ``x1``, ... for letter x."""
    text = f"    {letter}c = {array}.shape[{ndim + 1 if last else 1}]\n"
    return text + "".join(f"    {letter}{a} = {array}.shape[{a + (1 if last else 2)}]\n" for a in range(ndim))


def place(letter: str, indices: list[str], channel: str, *, last: bool, batch: str = "image") -> str:
    """Return an element's offset, for an array whose extents `extents` reads."""
    where = batch if last else f"({batch} * {letter}c + {channel})"
    for axis, index in enumerate(indices):
        where = f"({where} * {letter}{axis} + {index})"
    return f"{where} * {letter}c + {channel}" if last else where


def _split_index(names: list[tuple[str, str]], source: str = "rest") -> str:
    """Return source lines that split a linear index, last name fastest; the remaining quotient is ``rest``."""
    text = f"    rest = {source}\n"
    for name, extent in reversed(names):
        text += f"    {name} = rest % {extent}\n    rest = rest // {extent}\n"
    return text


def at(window: Window, axis: int, tap: str) -> str:
    """Return the source index of a window along an axis, at a kernel position."""
    return f"o{axis} * {window.strides[axis]} - {window.begins[axis]} + {tap} * {window.dilations[axis]}"


def _pool_text(
    ndim: int,
    dtype: str,
    *,
    mode: str,
    window: Window,
    kernel: Ints,
    last_: bool,
    count_include_pad: bool,
    activation: Activation,
) -> str:
    axes = range(ndim)
    line = "yc" if last_ else f"y{ndim - 1}"
    text = "def pool(item, y, x):\n" + extents("y", "y", ndim, last=last_) + extents("x", "x", ndim, last=last_)
    text += BLOCK.format(length=line)
    known = [(f"o{axis}", f"y{axis}") for axis in (axes if last_ else axes[:-1])]
    text += _split_index(known if last_ else [("c", "yc"), *known], "row")
    text += f"    image = rest\n    {'c' if last_ else f'o{ndim - 1}'} = j\n    if j < {line}:\n"
    lowest = "-inf" if dtype.startswith("float") else _lowest(dtype)
    text += f"        s = real({lowest if mode == 'max' else '0'})\n"
    text += f"        begin = j - l\n        end = min(begin + width, {line}) - 1\n"
    indent = " " * 8
    for axis in axes:
        text += f"{indent}for k{axis} in range({kernel[axis]}):\n{indent}    i{axis} = {at(window, axis, f'k{axis}')}\n"
        indent += "    "
        if last_ or axis != axes[-1]:
            text += f"{indent}if i{axis} >= 0 and i{axis} < x{axis}:\n"
            indent += "    "
    where = place("x", [f"i{axis}" for axis in axes], "c", last=last_)
    seen = f"v = load(x, {where})\n{{0}}s = {'real(v if v > s or v != v else s)' if mode == 'max' else 's + v'}\n"
    if last_:
        text += indent + seen.format(indent)
    else:
        # If no work-item of the group reads beyond an edge, there is no bounds check.
        index, step = f"i{axes[-1]}", window.strides[-1]
        text += f"{indent}low = {index} + (begin - j) * {step}\n{indent}high = {index} + (end - j) * {step}\n"
        for condition in (f"if low >= 0 and high < x{axes[-1]}", f"elif {index} >= 0 and {index} < x{axes[-1]}"):
            text += f"{indent}{condition}:\n{indent}    {seen.format(indent + '    ')}"
    if mode == "average":
        for axis in axes:
            low, high = (window.begins[axis], window.ends[axis]) if count_include_pad else (0, 0)
            text += f"        n = 0\n        for k in range({kernel[axis]}):\n            i = {at(window, axis, 'k')}\n"
            text += f"            if i >= -{low} and i < x{axis} + {high}:\n                n += 1\n"
            text += "        s = s / real(n)\n"
    if activation:
        text += f"        v = s\n{applied(activation, ' ' * 8)}        s = v\n"
    return text + f"        store(y, {place('y', [f'o{axis}' for axis in axes], 'c', last=last_)}, s)\n"


def lines_text(window: Window, vectors: int) -> str:
    """Return source lines that open the loop over a line's pixels, channels last, for vectors of channels from ``c``.

    The line starts at offset ``start`` of y; the loop variable is the last axis' index.
    """
    axes, width = range(window.ndim), vectors * LANES
    text = f"""    pieces = (yc + {width - 1}) // {width}
    i = item.get_global_id(0)
    c = min(i % pieces * {width}, yc - {width})
    line = i // pieces
    start = line * y{axes[-1]} * yc + c
"""
    text += _split_index([(f"o{axis}", f"y{axis}") for axis in axes[:-1]], "line")
    return text + f"    image = rest\n    for o{axes[-1]} in range(y{axes[-1]}):\n"


def _taps_text(window: Window, kernel: Ints, vectors: int, lines: str) -> str:
    """Return loops, inside `lines_text`, over kernel positions within the array; ``e`` is the offset in x."""
    text, depth = "", 2
    for axis in range(window.ndim):
        text += indented(f"for k{axis} in range({kernel[axis]}):\n    i{axis} = {at(window, axis, f'k{axis}')}", depth)
        text += indented(f"    if i{axis} >= 0 and i{axis} < x{axis}:", depth)
        depth += 2
    text += indented(f"e = {place('x', [f'i{axis}' for axis in range(window.ndim)], 'c', last=True)}", depth)
    return text + per_vector(vectors, lines, depth)


def _vectors_of_channels(signature: Signature) -> int:
    """Return the vectors of channels per work-item, channels last; 0 if there are too few channels."""
    count = signature.shapes["y"][-1]
    return max((k for k in (1, 2, 4) if k * LANES <= count), default=0)


def lines_launch(signature: Signature, vectors: int) -> Launch:
    """Return the index space of `lines_text`: groups of one work-item, each vectorised by itself."""
    y = signature.shapes["y"]
    return Launch((size(y[:-2]) * ceil_div(y[-1], vectors * LANES),), (1,))


def _pool_lines_text(
    ndim: int,
    dtype: str,
    vectors: int,
    *,
    mode: str,
    window: Window,
    kernel: Ints,
    count_include_pad: bool,
    activation: Activation,
) -> str:
    axes, real = range(ndim), dtype.startswith("float")
    text = "def pool(item, y, x):\n" + extents("y", "y", ndim, last=True) + extents("x", "x", ndim, last=True)
    text += lines_text(window, vectors)
    lowest = ("-inf" if real else _lowest(dtype)) if mode == "max" else "0"
    text += per_vector(vectors, f"s{{0}} = splat(real({lowest}))", 2)
    larger = "choose(~(v <= s{0}) & (s{0} == s{0}), v, s{0})" if real else "choose(v > s{0}, v, s{0})"
    change = f"s{{0}} = {larger if mode == 'max' else 's{0} + v'}"
    text += _taps_text(window, kernel, vectors, f"v = load_vector(x, e + {{1}})\n{change}")
    if mode == "average":
        text += indented("total_count = 1", 2)
        for axis in axes:
            low, high = (window.begins[axis], window.ends[axis]) if count_include_pad else (0, 0)
            text += indented(
                f"n = 0\nfor k in range({kernel[axis]}):\n    j = {at(window, axis, 'k')}\n"
                f"    if j >= -{low} and j < x{axis} + {high}:\n        n += 1\ntotal_count = total_count * n",
                2,
            )
        text += per_vector(vectors, "s{0} = s{0} / real(total_count)", 2)
    finish = f"v = s{{0}}\n{applied_wide(activation)}s{{0}} = v\n" if activation else ""
    return text + per_vector(vectors, f"{finish}store_vector(y, start + o{axes[-1]} * yc + {{1}}, s{{0}})", 2)


def _lowest(dtype: str) -> str:
    import numpy as np

    return str(np.iinfo(dtype).min)


def _strategy(signature: Signature, window: Window, kernel: Ints, last_: bool) -> str | None:
    """Return the strategy for channels first in vectors: whole channels, lines, or None."""
    sizes = spatial(signature.shapes["x"], last_)
    whole = kernel == sizes and not any(window.pads) and size(signature.shapes["y"][2:]) == 1
    if last_ or (whole and not signature.dtypes["y"].startswith("float")):
        return None
    return "channels" if whole else "lines" if pool_lines_numba.has_full_vectors(signature, window, kernel) else None


def _pool_load(signature: Signature, *, kernel: Ints, last_: bool, **attributes: Any) -> Any:
    dtype, vectors = signature.dtypes["y"], _vectors_of_channels(signature) if last_ else 0
    strategy = _strategy(signature, attributes["window"], kernel, last_)
    if strategy == "channels":
        known = {"mode": attributes["mode"], "activation": attributes["activation"]}
        return pool_whole_channels.load(signature, numba_writer, **known)
    if strategy == "lines":
        real = dtype.startswith("float")
        lowest = "-inf" if real else _lowest(dtype)
        text = pool_lines_numba.lines_text(len(kernel), kernel=kernel, lowest=lowest, real=real, **attributes)
    elif vectors:
        text = _pool_lines_text(len(kernel), dtype, vectors, kernel=kernel, **attributes)
    else:
        text = _pool_text(len(kernel), dtype, kernel=kernel, last_=last_, **attributes)
    return python_kernel(text, "pool", real=dtype)


def _pool_launch(signature: Signature, limits: DeviceLimits, *, window: Window, kernel: Ints, last_: bool) -> Launch:
    strategy = _strategy(signature, window, kernel, last_)
    if strategy:
        return (pool_whole_channels if strategy == "channels" else pool_lines_numba).launch(signature, limits)
    vectors = _vectors_of_channels(signature) if last_ else 0
    if vectors:
        return lines_launch(signature, vectors)
    y = signature.shapes["y"]
    return block_launch(limits, size(y[:-1]), y[-1])


def _refuses_empty(signature: Signature) -> str | None:
    return "the result must not be empty" if 0 in signature.shapes["y"] else None


def pool(
    *,
    mode: str,
    window: Window,
    kernel: Ints,
    last_: bool,
    count_include_pad: bool,
    activation: Activation,
    dtypes: tuple[str, ...],
) -> Implementation:
    """Return the Python implementation of pooling for the given dtypes except float16."""
    attributes = {"mode": mode, "window": window, "kernel": kernel, "last_": last_, "activation": activation}
    load = partial(_pool_load, count_include_pad=count_include_pad, **attributes)
    known = Requirements(
        packages=PYTHON_KERNEL.packages,
        dtypes=tuple(name for name in dtypes if name != "float16"),
        refuses=_refuses_empty,
    )
    launch = partial(_pool_launch, window=window, kernel=kernel, last_=last_)
    return Implementation("python", "python", load, launch, known, efficiency=0.3, revision="4")
