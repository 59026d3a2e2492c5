# SPDX-License-Identifier: Apache-2.0
"""Direct convolution in OpenCL C for both layouts: register blocks of neighbouring pixels by output channels.

A block's pixels lie in one line of the last spatial axis. In the common case that all of them are within the array at
every kernel position, they are read with a constant stride. At the edges every element is bounds-checked.

Depthwise convolutions have no sums over channels; see `syclsched.kernels.nn.convolution.depthwise_opencl`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
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
    body = _direct(_DirectConvolution.of(signature, window, groups, last_, block), dtype, activation, bias, residual)
    head = header(dtype) + panels.preamble(block, dtype)
    return OpenCLSource(f"{head}WHOLE_VECTORS __kernel void conv({parameters}) {{\n{body}}}\n", "conv")


@dataclass(frozen=True, slots=True)
class _DirectConvolution:
    """Extents, strides in elements, and register block of a direct convolution."""

    window: Window
    block: RegisterBlock
    groups: int
    #: Extents along the spatial axes, of which `geometry` has merged as many as possible.
    batch: int
    inputs: Ints
    outputs: Ints
    kernel: Ints
    #: Input and output channels of a group.
    in_channels: int
    out_channels: int
    #: Strides along the spatial axes, the channels and the batch.
    x_strides: tuple[Ints, int, int]
    y_strides: tuple[Ints, int, int]
    is_packed: bool  # whether the weights are packed into panels
    is_dense: bool  # whether a line of kernel positions with its channels is contiguous in the array

    @classmethod
    def of(
        cls, signature: Signature, window: Window, groups: int, last: bool, block: RegisterBlock
    ) -> _DirectConvolution:
        """Return the convolution of a signature."""
        w = signature.shapes["w"]
        batch, inputs, outputs, kernel, window = geometry(signature, window, last)
        return cls(
            window,
            block,
            groups,
            batch,
            inputs,
            outputs,
            kernel,
            in_channels=w[1],
            out_channels=w[0] // groups,
            x_strides=strides_of(inputs, w[1] * groups, last),
            y_strides=strides_of(outputs, w[0], last),
            is_packed="w" in signature.constants,
            # With several groups, a pixel's channels are not contiguous with the next pixel's.
            is_dense=last and window.dilations[-1] == 1 and groups == 1,
        )

    @property
    def outer_axes(self) -> range:
        """All spatial axes but the last."""
        return range(len(self.kernel) - 1)

    @property
    def line_blocks(self) -> int:
        """Blocks along the last axis."""
        return panels.block_count(self.outputs[-1], self.block.rows)

    @property
    def span(self) -> int:
        """Offset of the last kernel position along the last axis from the first."""
        return (self.kernel[-1] - 1) * self.window.dilations[-1]


def _direct(conv: _DirectConvolution, dtype: str, activation: Activation, bias: bool, residual: str) -> str:
    """Return the body of the kernel."""
    located, overlap = _block_location(conv, residual)
    out = [*located, f"  {panels.declare(conv.block)}", *_kernel_lines(conv), *_line_sums(conv)]
    out.extend("  }" for _ in conv.outer_axes)
    out.extend(_stores(conv, dtype, activation, bias, residual, overlap))
    return "\n".join(filter(str.strip, out)) + "\n"


def _block_location(conv: _DirectConvolution, residual: str) -> tuple[list[str], panels.BlockOverlap]:
    """Return the code that finds a work-item's block, and its overlap with its predecessors."""
    block, blocks, line, outside = conv.block, conv.line_blocks, conv.outputs[-1], conv.out_channels
    count = panels.block_count(outside, block.columns)
    total = conv.batch * math.prod(conv.outputs[:-1]) * blocks
    _, xc, xn = conv.x_strides
    out = [f"  size_t id = get_global_id(0);\n  if (id >= {total * conv.groups * count}) return;"]
    out.append(f"  const int panel = id / {total}, g = panel / {count};\n  int rest = id % {total};")
    out.append(f"  const int o = min(panel % {count} * {block.columns}, {outside - block.columns});")
    # An in-place residual must be added only once, so blocks must not store the same element twice.
    first = f"rest % {blocks} * {block.rows}", f"panel % {count} * {block.columns}"
    guard, overlap = (
        panels.overlap_guard(block, line, outside, *first) if residual == "y" else ("", panels.BlockOverlap())
    )
    out.append(f"  {guard}")
    out.append(f"  const int ox = min(rest % {blocks} * {block.rows}, {line - block.rows}); rest /= {blocks};")
    out.extend(
        f"  const int o{axis} = rest % {conv.outputs[axis]}; rest /= {conv.outputs[axis]};"
        for axis in reversed(conv.outer_axes)
    )
    out.append(f"  x += (size_t)rest * {xn} + g * {conv.in_channels * xc};")
    if conv.is_packed:
        out.append(f"  w += (size_t)panel * {size(conv.kernel) * conv.in_channels * block.columns};")
    else:
        out.append(f"  w += ((size_t)g * {outside} + o) * {conv.in_channels * size(conv.kernel)};")
    return out, overlap


def _kernel_lines(conv: _DirectConvolution) -> list[str]:
    """Return the heads of the loops over the kernel's lines, which track the kernel position, and each line's start."""
    window, kernel, axes = conv.window, conv.kernel, conv.outer_axes
    xs, _, _ = conv.x_strides
    out = []
    for axis in axes:
        place = " + ".join([f"place{axis - 1} * {kernel[axis]}"] * (axis > 0) + [f"k{axis}"])
        out.append(f"  for (int k{axis} = 0; k{axis} < {kernel[axis]}; ++k{axis}) {{")
        out.append(f"    const int place{axis} = {place};")
        at = f"o{axis} * {window.strides[axis]} - {window.begins[axis]} + k{axis} * {window.dilations[axis]}"
        out.append(f"    const int i{axis} = {at}; if ((uint)i{axis} >= {conv.inputs[axis]}u) continue;")
    row = " + ".join([f"(size_t)i{axis} * {xs[axis]}" for axis in axes] or ["0"])
    first = f"place{len(kernel) - 2} * {kernel[-1]}" if axes else "0"
    out.append(f"    __global const T* row = x + {row}; const int first = {first};")
    out.append(f"    const int ix = ox * {window.strides[-1]} - {window.begins[-1]};")
    return out


def _line_sums(conv: _DirectConvolution) -> list[str]:
    """Return the code that adds the terms of one line of the kernel, bounds-checked where pixels may need it."""
    window, extent, span = conv.window, conv.inputs[-1], conv.span
    shift = window.strides[-1]
    xs, xc, _ = conv.x_strides
    unchecked = [f"p[c * {xc} + {r * shift * xs[-1]}]" for r in range(conv.block.rows)]
    over = f"for (int k = 0; k < {conv.kernel[-1]}; ++k)"
    if conv.is_dense and conv.is_packed:
        # Kernel positions along the last axis and channels form one contiguous run, in the array and in the weights.
        fast = f"""{{
      __global const T* p = row + ix * {xs[-1]};
      __global const T* wk = {_weights(conv, "first")};
      for (int c = 0; c < {conv.kernel[-1] * conv.in_channels}; ++c) {{
      {_term(conv, unchecked)}
      }} }}"""
    else:
        fast = f"""{over} {{
      __global const T* p = row + (ix + k * {window.dilations[-1]}) * {xs[-1]};
      __global const T* wk = {_weights(conv, "first + k")};
      for (int c = 0; c < {conv.in_channels}; ++c) {{
      {_term(conv, unchecked)}
      }} }}"""
    if window.begins[-1] <= 0 and (conv.outputs[-1] - 1) * shift + span - window.begins[-1] < extent:
        return [f"    {fast}"]
    return [
        f"    if (ix >= 0 && ix + {(conv.block.rows - 1) * shift + span} < {extent}) {fast}",
        f"""    else {over} {{
      const int at = ix + k * {window.dilations[-1]};
      __global const T* p = row + at * {xs[-1]};
      __global const T* wk = {_weights(conv, "first + k")};
      for (int c = 0; c < {conv.in_channels}; ++c) {{
      {_term(conv, _bounds_checked(conv, unchecked))}
      }} }}""",
    ]


def _bounds_checked(conv: _DirectConvolution, values: list[str]) -> list[str]:
    """Return a block's input values, 0 beyond the array; only its first and last pixels can need a check."""
    rows, shift, extent = conv.block.rows, conv.window.strides[-1], conv.inputs[-1]
    starts = {min(b * rows, conv.outputs[-1] - rows) for b in range(conv.line_blocks)}
    begins = {start * shift - conv.window.begins[-1] for start in starts}
    offsets = range(0, conv.span + 1, conv.window.dilations[-1])
    return [
        f"((uint)(at + {r * shift}) < {extent}u ? {value} : (T)0)"
        if any(not 0 <= begin + r * shift + k < extent for begin in begins for k in offsets)
        else value
        for r, value in enumerate(values)
    ]


def _weights(conv: _DirectConvolution, position: str) -> str:
    """Return the pointer to the weights of a kernel position."""
    return f"w + ({position}) * {conv.in_channels * conv.block.columns}" if conv.is_packed else f"w + ({position})"


def _term(conv: _DirectConvolution, values: list[str]) -> str:
    """Return the code that adds the term of one kernel position and channel to all sums."""
    if conv.is_packed:
        return panels.step(conv.block, values, f"wk + c * {conv.block.columns}")
    positions = size(conv.kernel)
    return panels.step(conv.block, values, f"wk + c * {positions}", lanes=conv.in_channels * positions)


def _stores(
    conv: _DirectConvolution,
    dtype: str,
    activation: Activation,
    bias: bool,
    residual: str,
    overlap: panels.BlockOverlap,
) -> list[str]:
    """Return the code that stores the block."""
    ys, yc, yn = conv.y_strides
    position = " + ".join([f"(size_t)rest * {yn}", *(f"(size_t)o{axis} * {ys[axis]}" for axis in conv.outer_axes)])
    to = f"{position} + (size_t)ox * {ys[-1]} + (size_t)(g * {conv.out_channels} + o) * {yc}"
    added = f"b + g * {conv.out_channels} + o" if bias else ""
    stored = panels.stored(conv.block, activation, sum_dtype(dtype), ys[-1], yc, added, residual, overlap)
    return [f"  const size_t to = {to};", *stored]
