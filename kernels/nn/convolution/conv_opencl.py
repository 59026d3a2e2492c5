# SPDX-License-Identifier: Apache-2.0
"""Direct convolution in OpenCL C for both layouts: register blocks of neighbouring pixels by output channels.

A block's pixels lie in one line of the last spatial axis. In the common case that all of them are within the array at
every kernel position, they are read with a constant stride. At the edges every element is bounds-checked.

Depthwise convolutions have no sums over channels; see `syclsched.kernels.nn.convolution.depthwise_opencl`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from syclsched.kernels.common import Ints
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.convolution import depthwise_opencl
from syclsched.kernels.nn.geometry import size, spatial, strides_of
from syclsched.kernels.nn.opencl_types import empty_kernel, header, sum_dtype
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.kernels.windows import Window
from syclsched.model.operation import DeviceLimits, Launch, OpenCLSource, Signature

#: Most pixels of a block. With twice as many, as in matrix products, compilers run out of registers and more blocks
#: lie at the edges of an image: 3x3 took 1.4 to 1.7 times as long.
PIXELS: Final = 7


def is_depthwise(signature: Signature, groups: int) -> bool:
    """Return whether each output channel sees only its own input channel."""
    w = signature.shapes["w"]
    return w[1] == 1 and w[0] == groups and groups > 1


def is_pointwise(signature: Signature, window: Window, last: bool) -> bool:
    """Return whether every pixel sees only itself, so that all spatial axes can be merged."""
    kernel = signature.shapes["w"][2:]
    return size(kernel) == 1 and not any(window.pads) and size(window.strides) == 1


def geometry(signature: Signature, window: Window, last: bool) -> tuple[int, Ints, Ints, Ints, Window]:
    """Return batch, extents of input, output and kernel, and the window, with as few axes as possible."""
    y, x, w = (signature.shapes[name] for name in ("y", "x", "w"))
    if is_pointwise(signature, window, last):
        pixels = size(spatial(x, last))
        one = Window((1,), (0, 0), (1,))
        # With channels last, the batch merges with the pixels.
        return (1, (x[0] * pixels,), (x[0] * pixels,), (1,), one) if last else (x[0], (pixels,), (pixels,), (1,), one)
    return x[0], spatial(x, last), spatial(y, last), w[2:], window


def _block(signature: Signature, window: Window, groups: int, last: bool) -> RegisterBlock:
    _, _, outputs, _, _ = geometry(signature, window, last)
    return RegisterBlock.of(outputs[-1], signature.shapes["w"][0] // groups, signature.dtypes["y"], PIXELS)


def _items(signature: Signature, window: Window, groups: int, last: bool) -> int:
    batch, _, outputs, _, _ = geometry(signature, window, last)
    block = _block(signature, window, groups, last)
    lines = batch * math.prod(outputs[:-1]) * panels.block_count(outputs[-1], block.rows)
    return lines * groups * panels.block_count(signature.shapes["w"][0] // groups, block.columns)


def launch(signature: Signature, limits: DeviceLimits, *, window: Window, groups: int, last_: bool) -> Launch:
    """Return the index space."""
    if not size(signature.shapes["y"]):
        return Launch((1,), (1,))
    if is_depthwise(signature, groups):
        return depthwise_opencl.launch(signature, limits, last=last_)
    return panels.launch(limits, _items(signature, window, groups, last_))


def prepare(
    signature: Signature, queue: Any, constants: Mapping[str, Any], *, window: Window, groups: int, last_: bool
) -> Mapping[str, Any]:
    """Return the constants with the weights packed into panels."""
    if "w" not in constants or not size(signature.shapes["y"]):
        return constants
    w = constants["w"]
    if is_depthwise(signature, groups):
        return {**constants, "w": depthwise_opencl.packed(w, last=last_)}
    outside, inside = w.shape[0] // groups, w.shape[1]
    # (groups, O, C, positions) -> (groups, O, positions, C): the order of summation.
    terms = w.reshape(groups, outside, inside, -1).transpose(0, 1, 3, 2).reshape(groups, outside, -1)
    return {**constants, "w": panels.packed(terms, outside, _block(signature, window, groups, last_))}


def load(
    signature: Signature,
    *,
    window: Window,
    groups: int,
    last_: bool,
    activation: Activation,
    bias: bool,
    residual: str,
) -> OpenCLSource:
    """Return the kernel of a signature."""
    parameters = "__global T* restrict y, __global const T* restrict x, __global const T* restrict w"
    parameters += ", __global const T* restrict b" if bias else ""
    parameters += ", __global const T* restrict r" if residual == "r" else ""
    dtype = signature.dtypes["y"]
    if not size(signature.shapes["y"]):
        return empty_kernel("conv", parameters.replace("T*", "uchar*"))
    if is_depthwise(signature, groups):
        return depthwise_opencl.load(signature, parameters, window, last_, activation, bias, residual)
    block = _block(signature, window, groups, last_)
    body = _direct(signature, window, groups, last_, activation, bias, residual, block)
    head = header(dtype) + panels.preamble(block, dtype)
    return OpenCLSource(f"{head}WHOLE_VECTORS __kernel void conv({parameters}) {{\n{body}}}\n", "conv")


def _direct(
    signature: Signature,
    window: Window,
    groups: int,
    last: bool,
    activation: Activation,
    bias: bool,
    residual: str,
    block: RegisterBlock,
) -> str:
    dtype, w = signature.dtypes["y"], signature.shapes["w"]
    batch, inputs, outputs, kernel, window = geometry(signature, window, last)
    inside, outside = w[1], w[0] // groups
    places, axes = size(kernel), range(len(kernel) - 1)
    xs, xc, xn = strides_of(inputs, inside * groups, last)
    ys, yc, yn = strides_of(outputs, w[0], last)
    line, count = outputs[-1], panels.block_count(outside, block.columns)
    blocks = panels.block_count(line, block.rows)
    total = batch * math.prod(outputs[:-1]) * blocks
    is_packed = "w" in signature.constants
    # With several groups, a pixel's channels are not contiguous with the next pixel's.
    dense = last and window.dilations[-1] == 1 and groups == 1

    out = [f"  size_t id = get_global_id(0);\n  if (id >= {total * groups * count}) return;"]
    out.append(f"  const int panel = id / {total}, g = panel / {count};\n  int rest = id % {total};")
    out.append(f"  const int o = min(panel % {count} * {block.columns}, {outside - block.columns});")
    # An in-place residual must be added only once, so blocks must not store the same element twice.
    first = f"rest % {blocks} * {block.rows}", f"panel % {count} * {block.columns}"
    guard, again = (
        panels.overlap_guard(block, line, outside, *first) if residual == "y" else ("", panels.BlockOverlap())
    )
    out.append(f"  {guard}")
    out.append(f"  const int ox = min(rest % {blocks} * {block.rows}, {line - block.rows}); rest /= {blocks};")
    out.extend(f"  const int o{axis} = rest % {outputs[axis]}; rest /= {outputs[axis]};" for axis in reversed(axes))
    out.append(f"  x += (size_t)rest * {xn} + g * {inside * xc};")
    if is_packed:
        out.append(f"  w += (size_t)panel * {places * inside * block.columns};")
    else:
        out.append(f"  w += ((size_t)g * {outside} + o) * {inside * places};")
    out.append(f"  {panels.declare(block)}")

    # Loops over all kernel axes but the last, tracking the kernel position.
    for axis in axes:
        place = " + ".join([f"place{axis - 1} * {kernel[axis]}"] * (axis > 0) + [f"k{axis}"])
        out.append(f"  for (int k{axis} = 0; k{axis} < {kernel[axis]}; ++k{axis}) {{")
        out.append(f"    const int place{axis} = {place};")
        at = f"o{axis} * {window.strides[axis]} - {window.begins[axis]} + k{axis} * {window.dilations[axis]}"
        out.append(f"    const int i{axis} = {at}; if ((uint)i{axis} >= {inputs[axis]}u) continue;")
    row = " + ".join([f"(size_t)i{axis} * {xs[axis]}" for axis in axes] or ["0"])
    first = f"place{len(kernel) - 2} * {kernel[-1]}" if axes else "0"
    out.append(f"    __global const T* row = x + {row}; const int first = {first};")
    out.append(f"    const int ix = ox * {window.strides[-1]} - {window.begins[-1]};")

    shift, span = window.strides[-1], (kernel[-1] - 1) * window.dilations[-1]
    end = (block.rows - 1) * shift

    def inner(values: list[str]) -> str:
        if is_packed:
            return panels.step(block, values, f"wk + c * {block.columns}")
        return panels.step(block, values, f"wk + c * {places}", lanes=inside * places)

    def weights(place: str) -> str:
        return f"w + ({place}) * {inside * block.columns}" if is_packed else f"w + ({place})"

    plain = [f"p[c * {xc} + {r * shift * xs[-1]}]" for r in range(block.rows)]
    # Only a block's first and last pixels can read beyond the array.
    begins = {min(b * block.rows, line - block.rows) * shift - window.begins[-1] for b in range(blocks)}
    reach = range(0, span + 1, window.dilations[-1])
    careful = [
        f"((uint)(at + {r * shift}) < {inputs[-1]}u ? {value} : (T)0)"
        if any(not 0 <= begin + r * shift + k < inputs[-1] for begin in begins for k in reach)
        else value
        for r, value in enumerate(plain)
    ]
    loop = f"for (int c = 0; c < {inside}; ++c)"
    over = f"for (int k = 0; k < {kernel[-1]}; ++k)"
    safe = window.begins[-1] <= 0 and (line - 1) * shift + span - window.begins[-1] < inputs[-1]
    if dense and is_packed:
        # Kernel positions along the last axis and channels form one contiguous run, in the array and in the weights.
        fast = f"""{{
      __global const T* p = row + ix * {xs[-1]};
      __global const T* wk = {weights("first")};
      for (int c = 0; c < {kernel[-1] * inside}; ++c) {{
      {inner(plain)}
      }} }}"""
    else:
        fast = f"""{over} {{
      __global const T* p = row + (ix + k * {window.dilations[-1]}) * {xs[-1]};
      __global const T* wk = {weights("first + k")};
      {loop} {{
      {inner(plain)}
      }} }}"""
    if safe:
        out.append(f"    {fast}")
    else:
        out.append(f"    if (ix >= 0 && ix + {end + span} < {inputs[-1]}) {fast}")
        out.append(f"""    else {over} {{
      const int at = ix + k * {window.dilations[-1]};
      __global const T* p = row + at * {xs[-1]};
      __global const T* wk = {weights("first + k")};
      {loop} {{
      {inner(careful)}
      }} }}""")
    out.extend("  }" for _ in axes)

    position = " + ".join([f"(size_t)rest * {yn}", *(f"(size_t)o{axis} * {ys[axis]}" for axis in axes)])
    out.append(f"  const size_t to = {position} + (size_t)ox * {ys[-1]} + (size_t)(g * {outside} + o) * {yc};")
    added = f"b + g * {outside} + o" if bias else ""
    out += panels.stored(block, activation, sum_dtype(dtype), ys[-1], yc, added, residual, again)
    return "\n".join(filter(str.strip, out)) + "\n"
