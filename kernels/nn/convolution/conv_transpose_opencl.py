# SPDX-License-Identifier: Apache-2.0
"""Transposed convolution in OpenCL C, as one convolution for each phase of the output stride.

Pixels of a line with the same remainder modulo the stride see the same kernel positions, and neighbouring elements
there. So a block consists of such pixels, and its sums are those of a convolution.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from syclsched.kernels.common import ceil_div
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.geometry import size, spatial, strides_of
from syclsched.kernels.nn.opencl_types import empty_kernel, header, sum_dtype
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.kernels.windows import Window
from syclsched.model.operation import DeviceLimits, Launch, OpenCLSource, Signature


def _block(signature: Signature, window: Window, last: bool) -> RegisterBlock:
    line = spatial(signature.shapes["y"], last)[-1]
    return RegisterBlock.of(max(1, line // window.strides[-1]), signature.shapes["w"][1], signature.dtypes["y"])


def _phases(signature: Signature, window: Window, last: bool) -> tuple[int, int]:
    """Return the number of remainders along the last axis and the number of blocks for each."""
    line = spatial(signature.shapes["y"], last)[-1]
    step = window.strides[-1]
    return min(step, line), ceil_div(ceil_div(line, step), _block(signature, window, last).rows)


def _items(signature: Signature, window: Window, groups: int, last: bool) -> int:
    y, outside = signature.shapes["y"], signature.shapes["w"][1]
    lines = y[0] * math.prod(spatial(y, last)[:-1]) * math.prod(_phases(signature, window, last))
    return lines * groups * panels.block_count(outside, _block(signature, window, last).columns)


def launch(signature: Signature, limits: DeviceLimits, *, window: Window, groups: int, last_: bool) -> Launch:
    """Return the index space."""
    if not size(signature.shapes["y"]):
        return Launch((1,), (1,))
    return panels.launch(limits, _items(signature, window, groups, last_))


def prepare(
    signature: Signature, queue: Any, constants: Mapping[str, Any], *, window: Window, groups: int, last_: bool
) -> Mapping[str, Any]:
    """Return the constants with the weights packed into panels."""
    if "w" not in constants or not size(signature.shapes["y"]):
        return constants
    w = constants["w"]
    inside, outside = w.shape[0] // groups, w.shape[1]
    terms = w.reshape(groups, inside, outside, size(w.shape[2:])).transpose(0, 2, 3, 1)
    terms = terms.reshape(groups, outside, inside * size(w.shape[2:]))
    return {**constants, "w": panels.packed(terms, outside, _block(signature, window, last_))}


def load(
    signature: Signature, *, window: Window, groups: int, last_: bool, activation: Activation, bias: bool
) -> OpenCLSource:
    """Return the kernel of a signature."""
    y, x, w = (signature.shapes[name] for name in ("y", "x", "w"))
    dtype, kernel = signature.dtypes["y"], w[2:]
    parameters = "__global T* restrict y, __global const T* restrict x, __global const T* restrict w"
    parameters += ", __global const T* restrict b" if bias else ""
    if not size(y):
        return empty_kernel("conv_transpose", parameters.replace("T*", "uchar*"))
    block, inside, outside = _block(signature, window, last_), w[0] // groups, w[1]
    inputs, outputs, places, axes = spatial(x, last_), spatial(y, last_), size(kernel), range(len(kernel))
    xs, xc, xn = strides_of(inputs, inside * groups, last_)
    ys, yc, yn = strides_of(outputs, outside * groups, last_)
    phases, blocks = _phases(signature, window, last_)
    count, step = panels.block_count(outside, block.columns), window.strides[-1]
    total = _items(signature, window, groups, last_) // (groups * count)
    is_packed = "w" in signature.constants

    out = [f"  size_t id = get_global_id(0);\n  if (id >= {total * groups * count}) return;"]
    out.append(f"  const int panel = id / {total}, g = panel / {count};\n  int rest = id % {total};")
    out.append(f"  const int o = min(panel % {count} * {block.columns}, {outside - block.columns});")
    out.append(f"  const int block = rest % {blocks} * {block.rows}; rest /= {blocks};")
    out.append(f"  const int phase = rest % {phases}; rest /= {phases};")
    # The number of pixels of the line in this phase, and the first pixel of the block.
    out.append(f"  const int count = ({outputs[-1] - 1} - phase) / {step} + 1;")
    out.append(f"  const int ox = phase + min(block, count - {block.rows}) * {step};")
    out.extend(
        f"  const int o{axis} = rest % {outputs[axis]}; rest /= {outputs[axis]};" for axis in reversed(axes[:-1])
    )
    out.append(f"  x += (size_t)rest * {xn} + g * {inside * xc};")
    if is_packed:
        out.append(f"  w += (size_t)panel * {places * inside * block.columns};")
    else:
        out.append(f"  w += ((size_t)g * {inside * outside} + o) * {places};")
    out.append(f"  {panels.declare(block)}")
    place = "0"
    for axis in axes:
        name, position = f"i{axis}", "ox" if axis == axes[-1] else f"o{axis}"
        at = f"{position} + {window.begins[axis]} - k{axis} * {window.dilations[axis]}"
        out.append(f"  for (int k{axis} = 0; k{axis} < {kernel[axis]}; ++k{axis}) {{")
        out.append(f"    const int t{axis} = {at}; if (t{axis} % {window.strides[axis]}) continue;")
        out.append(f"    const int {name} = t{axis} / {window.strides[axis]};")
        if axis != axes[-1]:
            out.append(f"    if ((uint){name} >= {inputs[axis]}u) continue;")
        place = f"({place}) * {kernel[axis]} + k{axis}"
    at, limit = f"i{axes[-1]}", inputs[-1]
    where = " + ".join(["0", *(f"(size_t)i{axis} * {xs[axis]}" for axis in axes[:-1])])
    out.append(f"    __global const T* p = x + {where} + {at} * {xs[-1]};")
    if is_packed:
        out.append(f"    __global const T* wk = w + ({place}) * {inside * block.columns};")
        weights, lanes = f"wk + c * {block.columns}", 1
    else:
        out.append(f"    __global const T* wk = w + {place};")
        weights, lanes = f"wk + (size_t)c * {outside * places}", places
    plain = [f"p[c * {xc} + {row * xs[-1]}]" for row in range(block.rows)]
    careful = [f"((uint)({at} + {row}) < {limit}u ? {value} : (T)0)" for row, value in enumerate(plain)]
    out.append(f"    if ({at} >= 0 && {at} + {block.rows - 1} < {limit}) for (int c = 0; c < {inside}; ++c) {{")
    out.append(f"      {panels.step(block, plain, weights, lanes=lanes)}")
    out.append(f"    }} else if ({at} + {block.rows} > 0 && {at} < {limit}) for (int c = 0; c < {inside}; ++c) {{")
    out.append(f"      {panels.step(block, careful, weights, lanes=lanes)}\n    }}")
    out.append("  " + "}" * len(kernel))
    position = " + ".join([f"(size_t)rest * {yn}", *(f"(size_t)o{axis} * {ys[axis]}" for axis in axes[:-1])])
    out.append(f"  const size_t to = {position} + (size_t)ox * {ys[-1]} + (size_t)(g * {outside} + o) * {yc};")
    added = f"b + g * {outside} + o" if bias else ""
    out += panels.stored(block, activation, sum_dtype(dtype), ys[-1] * step, yc, added)
    head, body = header(dtype) + panels.preamble(block, dtype), "\n".join(filter(str.strip, out))
    source = f"{head}WHOLE_VECTORS __kernel void conv_transpose({parameters}) {{\n{body}\n}}\n"
    return OpenCLSource(source, "conv_transpose")
