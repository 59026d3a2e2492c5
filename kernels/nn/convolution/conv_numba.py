# SPDX-License-Identifier: Apache-2.0
"""Direct convolution in numba-dpex for both layouts, with sums in registers and coalesced access.

Channels last: work-items of a group compute neighbouring output channels of the same pixels. Each loaded weight is used
for all pixels of a work-item, each loaded element by all work-items. Channels first: they compute neighbouring pixels
of a line, for several output channels each. A depthwise convolution with constant weights runs along lines in vectors
of channels; otherwise it is like channels last, but each work-item reads its own channel.

With channels last, constant weights are repacked once so that neighbouring output channels are contiguous. Shapes are
read at run time. Bounds are checked only at the edges of the array.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from syclsched.kernels.common import block_launch, ceil_div
from syclsched.kernels.nn import dpex
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.activation_numba import applied, applied_wide
from syclsched.kernels.nn.convolution.conv_opencl import is_depthwise
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.pooling.pool_numba import (
    at,
    extents,
    lines_launch,
    lines_text,
    place,
    split_index,
    taps_text,
    vectors_of_channels,
)
from syclsched.kernels.nn.rows_numba import BLOCK, per_vector
from syclsched.kernels.windows import Window
from syclsched.model.operation import DeviceLimits, Implementation, Launch, Requirements, Signature

#: Pixels per work-item, channels last: more are hardly faster and take seconds to compile.
PIXELS = 8
#: Output channels per work-item, channels first: a divisor of most networks' channel counts.
CHANNELS = 8


def _refuses(signature: Signature) -> str | None:
    empty = any(0 in shape for shape in signature.shapes.values())
    return "arrays must not be empty" if empty else None


REQUIRES = Requirements(packages=dpex.REQUIRES.packages, dtypes=dpex.REQUIRES.dtypes, refuses=_refuses)


def _head(window: Window, groups: int, last: bool, bias: bool, residual: str) -> str:
    names = ["y", "x", "w", *(["b"] if bias else []), *(["r"] if residual == "r" else [])]
    text = f"def conv(item, {', '.join(names)}):\n"
    for letter in "yx":
        text += extents(letter, letter, window.ndim, last=last)
    return text + f"    outside = yc // {groups}\n    inside = xc // {groups}\n"


def _taps(signature: Signature) -> tuple[int, ...]:
    return signature.shapes["w"][2:]


def _finish(
    total: str, where: str, channel: str, activation: Activation, bias: bool, residual: str, indent: str
) -> str:
    """Return source lines that finish and store a sum."""
    text = f"{indent}e = {where}\n{indent}v = {total}"
    text += (f" + load(b, {channel})" if bias else "") + (f" + load({residual}, e)" if residual else "")
    return f"{text}\n{applied(activation, indent)}{indent}store(y, e, v)\n"


def _terms_last(indent: str, *, depthwise: bool, packed: bool, taps: int, edge: bool) -> str:
    """Return source lines that add one term to all sums, channels last."""
    where = "(tap * inside + i) * yc + q" if packed else f"(q * inside + i) * {taps} + tap"
    text = f"{indent}weight = load(w, {where})\n"
    for p in range(PIXELS):
        text += f"{indent}v = load(x, a{p} + {'q' if depthwise else 'i'})\n"
        text += f"{indent}v = v if t{p} else real(0)\n" if edge else ""
        text += f"{indent}s{p} = fma(v, weight, s{p})\n"
    return text


def _text_last(
    kernel: tuple[int, ...],
    *,
    window: Window,
    groups: int,
    depthwise: bool,
    packed: bool,
    activation: Activation,
    bias: bool,
    residual: str,
) -> str:
    axes, pixels = range(window.ndim), range(PIXELS)
    text = _head(window, groups, True, bias, residual)
    text += f"    line = {'yc' if depthwise else 'outside'}\n" + BLOCK.format(length="line")
    text += f"    g = {'0' if depthwise else f'row % {groups}'}\n"
    text += f"    first = row // {1 if depthwise else groups} * {PIXELS}\n"
    text += "    count = y.size // yc\n    q = g * outside + j\n    if j < line:\n"
    indent = " " * 8
    for p in pixels:
        # Pixels beyond the last one repeat it and are not stored.
        lines = split_index([(f"o{axis}", f"y{axis}") for axis in axes], f"min(first + {p}, count - 1)")
        text += lines.replace("    ", indent) + f"{indent}image{p} = rest\n{indent}s{p} = real(0)\n"
        text += "".join(f"{indent}o{axis}_{p} = {at(window, axis, '0')}\n" for axis in axes)
        channel = "0" if depthwise else "g * inside"
        where = place("x", [f"o{axis}_{p}" for axis in axes], channel, last=True, batch=f"image{p}")
        text += f"{indent}first{p} = {where}\n"
    tap = apart = "0"
    for axis in axes:
        text += f"{indent}for k{axis} in range({kernel[axis]}):\n"
        indent += "    "
        tap = f"({tap} * {kernel[axis]} + k{axis})"
        apart = f"({apart} * x{axis} + k{axis} * {window.dilations[axis]})"
    text += f"{indent}tap = {tap}\n{indent}apart = {apart} * xc\n"
    for p in pixels:
        seen = [f"o{axis}_{p} + k{axis} * {window.dilations[axis]}" for axis in axes]
        inner = " and ".join(f"{index} >= 0 and {index} < x{axis}" for axis, index in enumerate(seen))
        text += f"{indent}t{p} = {inner}\n{indent}a{p} = first{p} + apart if t{p} else 0\n"
    for condition, edge in ((f"if {' and '.join(f't{p}' for p in pixels)}:", False), ("else:", True)):
        text += f"{indent}{condition}\n{indent}    for i in range({1 if depthwise else 'inside'}):\n"
        text += _terms_last(f"{indent}        ", depthwise=depthwise, packed=packed, taps=size(kernel), edge=edge)
    for p in pixels:
        text += f"        if first + {p} < count:\n"
        text += _finish(f"s{p}", f"(first + {p}) * yc + q", "q", activation, bias, residual, " " * 12)
    return text


def _text_depthwise(
    kernel: tuple[int, ...],
    vectors: int,
    *,
    window: Window,
    groups: int,
    activation: Activation,
    bias: bool,
    residual: str,
) -> str:
    """Return the depthwise kernel for channels last and packed weights: vectors of channels along lines."""
    text = _head(window, groups, True, bias, residual) + lines_text(window, vectors)
    text += per_vector(vectors, "s{0} = splat(real(0))", 2)
    tap = "0"
    for axis in range(window.ndim):
        tap = f"({tap} * {kernel[axis]} + k{axis})"
    weight = f"load_vector(w, {tap} * yc + c + {{1}})"
    text += taps_text(window, kernel, vectors, f"s{{0}} = vfma(load_vector(x, e + {{1}}), {weight}, s{{0}})")
    finish = f"e = start + o{window.ndim - 1} * yc + {{1}}\nv = s{{0}}"
    finish += (" + load_vector(b, c + {1})" if bias else "") + (f" + load_vector({residual}, e)" if residual else "")
    return text + per_vector(vectors, f"{finish}\n{applied_wide(activation, '')}store_vector(y, e, v)", 2)


def _text_first(
    kernel: tuple[int, ...],
    *,
    window: Window,
    groups: int,
    activation: Activation,
    bias: bool,
    residual: str,
) -> str:
    axes, ways, last = range(window.ndim), range(CHANNELS), window.ndim - 1
    text = _head(window, groups, False, bias, residual)
    text += BLOCK.format(length=f"y{last}")
    known = [("g", str(groups)), ("t", f"((outside + {CHANNELS - 1}) // {CHANNELS})")]
    text += split_index([*known, *((f"o{axis}", f"y{axis}") for axis in axes[:-1])], "row")
    text += f"    image = rest\n    o{last} = j\n    if j < y{last}:\n"
    text += f"        area = x.size // (x.shape[0] * xc)\n        terms = inside * {size(kernel)}\n"
    for p in ways:
        text += f"        c{p} = g * outside + min(t * {CHANNELS} + {p}, outside - 1)\n        s{p} = real(0)\n"
    text += f"        begin = j - l\n        end = min(begin + width, y{last}) - 1\n"
    indent = " " * 8
    tap = "0"
    for axis in axes:
        text += f"{indent}for k{axis} in range({kernel[axis]}):\n"
        indent += "    "
        text += f"{indent}i{axis} = {at(window, axis, f'k{axis}')}\n"
        if axis != last:
            text += f"{indent}if i{axis} >= 0 and i{axis} < x{axis}:\n"
            indent += "    "
        tap = f"({tap} * {kernel[axis]} + k{axis})"
    where = place("x", [f"i{axis}" for axis in axes[:-1]] + ["0"], "g * inside", last=False)
    text += f"{indent}tap = {tap}\n{indent}a = {where}\n"
    low, high = (f"i{last} + ({edge} - j) * {window.strides[last]}" for edge in ("begin", "end"))
    # The group checks bounds only if one of its work-items may be out of bounds.
    text += f"{indent}low = {low}\n{indent}high = {high}\n{indent}if low >= 0 and high < x{last}:\n"
    text += f"{indent}    for i in range(inside):\n{indent}        v = load(x, a + i * area + i{last})\n"
    products = "".join(
        f"{indent}        s{p} = fma(v, load(w, c{p} * terms + i * {size(kernel)} + tap), s{p})\n" for p in ways
    )
    text += f"{products}{indent}else:\n{indent}    there = i{last} >= 0 and i{last} < x{last}\n"
    text += f"{indent}    a = a + (i{last} if there else 0)\n{indent}    for i in range(inside):\n"
    text += f"{indent}        v = load(x, a + i * area)\n{indent}        v = v if there else real(0)\n{products}"
    for p in ways:
        text += f"        if t * {CHANNELS} + {p} < outside:\n"
        where = place("y", [f"o{axis}" for axis in axes], f"c{p}", last=False)
        text += _finish(f"s{p}", where, f"c{p}", activation, bias, residual, " " * 12)
    return text


def _vectors(signature: Signature, groups: int, residual: str) -> int:
    """Return how many vectors of channels a work-item computes in a depthwise convolution; 0 if not applicable."""
    if not is_depthwise(signature, groups) or "w" not in signature.constants:
        return 0
    # The last work-item of a line recomputes some channels; in place, the residual would be added twice.
    return vectors_of_channels(signature, whole=residual == "y")


def _load(signature: Signature, *, groups: int, last_: bool, residual: str, **attributes: Any) -> Any:
    kernel = _taps(signature)
    vectors = _vectors(signature, groups, residual) if last_ else 0
    attributes["residual"] = residual
    if vectors:
        text = _text_depthwise(kernel, vectors, groups=groups, **attributes)
    elif last_:
        known = {"depthwise": is_depthwise(signature, groups), "packed": "w" in signature.constants}
        text = _text_last(kernel, groups=groups, **known, **attributes)
    else:
        text = _text_first(kernel, groups=groups, **attributes)
    return dpex.compiled(text, "conv", signature.dtypes["y"])


def _launch(signature: Signature, limits: DeviceLimits, *, groups: int, last_: bool, residual: str) -> Launch:
    y, outside = signature.shapes["y"], signature.shapes["w"][0]
    vectors = _vectors(signature, groups, residual) if last_ else 0
    if vectors:
        return lines_launch(signature, vectors)
    if last_:
        blocks = ceil_div(size(y[:-1]), PIXELS)
        if is_depthwise(signature, groups):
            return block_launch(limits, blocks, outside)
        return block_launch(limits, blocks * groups, outside // groups)
    return block_launch(limits, y[0] * groups * ceil_div(outside // groups, CHANNELS) * size(y[2:-1]), y[-1])


def _prepare(signature: Signature, queue: Any, constants: Mapping[str, Any], *, last_: bool) -> Mapping[str, Any]:
    if not last_ or "w" not in constants:
        return constants
    import numpy as np

    # (O, C, *kernel) -> (*kernel, C, O)
    w = constants["w"]
    return {**constants, "w": np.ascontiguousarray(np.moveaxis(w, (1, 0), (-2, -1)))}


def conv(
    *, window: Window, groups: int, last_: bool, activation: Activation, bias: bool, residual: str
) -> Implementation:
    """Return the numba-dpex implementation of convolution."""
    attributes = {"groups": groups, "last_": last_, "residual": residual}
    extra = {"window": window, "activation": activation, "bias": bias}
    return Implementation(
        "numba-dpex",
        "numba-dpex",
        partial(_load, **attributes, **extra),
        partial(_launch, **attributes),
        REQUIRES,
        efficiency=0.3,
        revision="2",
        prepare=partial(_prepare, last_=last_),
    )
