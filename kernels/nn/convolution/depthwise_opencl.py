# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution in OpenCL C, which is bound by memory bandwidth.

Channels last, a vector is neighbouring channels of one pixel; channels first, neighbouring pixels of one line.
"""

from __future__ import annotations

import math
from typing import Any

from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.geometry import channels, size, spatial, strides_of
from syclsched.kernels.nn.opencl_types import header, sum_dtype
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.kernels.windows import Window
from syclsched.model.operation import DeviceLimits, Launch, OpenCLSource, Signature


def _block(signature: Signature, last: bool) -> RegisterBlock:
    y = signature.shapes["y"]
    return RegisterBlock(1, 1, RegisterBlock.of(1, channels(y, last) if last else y[-1], signature.dtypes["y"]).width)


def _items(signature: Signature, last: bool) -> int:
    y = signature.shapes["y"]
    line = channels(y, last) if last else y[-1]
    return size(y) // line * panels.block_count(line, _block(signature, last).width)


def launch(signature: Signature, limits: DeviceLimits, *, last: bool) -> Launch:
    """Return the index space."""
    return panels.launch(limits, _items(signature, last), most=256)


def packed(w: Any, *, last: bool) -> Any:
    """Return weights (C, 1, *kernel) as (positions, C) for channels last; unchanged for channels first."""
    import numpy as np

    return np.ascontiguousarray(w.reshape(w.shape[0], -1).T) if last else w


def load(
    signature: Signature,
    parameters: str,
    window: Window,
    last: bool,
    activation: Activation,
    bias: bool,
    residual: str,
) -> OpenCLSource:
    """Return the kernel of a signature."""
    y, x, w = (signature.shapes[name] for name in ("y", "x", "w"))
    dtype, block = signature.dtypes["y"], _block(signature, last)
    count, kernel, inputs, outputs = channels(x, last), w[2:], spatial(x, last), spatial(y, last)
    xs, xc, xn = strides_of(inputs, count, last)
    ys, yc, yn = strides_of(outputs, count, last)
    axes, width, kind = [*range(len(kernel))], block.width, sum_dtype(dtype)
    line = count if last else outputs[-1]
    pieces, begin = panels.block_count(line, width), f"{line - width}"
    inner = axes if last else axes[:-1]

    out = [f"  size_t id = get_global_id(0);\n  if (id >= {_items(signature, last)}) return;"]
    # An in-place residual must be added only once.
    first = f"(int)(id % {pieces}) * {width}"
    guard, again = panels.overlap_guard(block, 1, line, "0", first) if residual == "y" else ("", panels.BlockOverlap())
    out.append(f"  {guard}")
    out.append(f"  const int l = min((int)(id % {pieces}) * {width}, {begin}); size_t rest = id / {pieces};")
    out.append(f"  const int {'c' if last else f'o{axes[-1]}'} = l;")
    out.extend(f"  const int o{axis} = rest % {outputs[axis]}; rest /= {outputs[axis]};" for axis in reversed(inner))
    if not last:
        out.append(f"  const int c = rest % {count}; rest /= {count};")
    out.append(f"  x += rest * {xn} + (size_t)c * {xc}; AV s = (AV)0;")
    places = math.prod(kernel)
    for axis in axes:
        at = f"o{axis} * {window.strides[axis]} - {window.begins[axis]} + k{axis} * {window.dilations[axis]}"
        out.append(f"  for (int k{axis} = 0; k{axis} < {kernel[axis]}; ++k{axis}) {{ const int i{axis} = {at};")
        if axis in inner:
            out.append(f"  if ((uint)i{axis} >= {inputs[axis]}u) continue;")
    place = "0"
    for axis in axes:
        place = f"({place}) * {kernel[axis]} + k{axis}"
    where = " + ".join(f"(size_t)i{axis} * {xs[axis]}" for axis in inner) or "0"
    if last:
        if "w" in signature.constants:
            weights = f"LOADV(w + ({place}) * {count} + c)"
        else:
            weights = panels.strided_vector(f"w + c * {places} + {place}", places, width)
        out.append(f"    s = fma(LOADV(x + {where}), {weights}, s);")
    else:
        step, limit, axis = window.strides[-1], inputs[-1], axes[-1]
        plain = "LOADV(p)" if step == 1 else panels.strided_vector("p", step, width)
        lanes = [f"((uint)(i{axis} + {lane * step}) < {limit}u ? (A)p[{lane * step}] : (A)0)" for lane in range(width)]
        careful = f"(AV)({', '.join(lanes)})"
        out.append(f"    __global const T* p = x + {where} + i{axis}; const AV v = (AV)(A)w[c * {places} + {place}];")
        out.append(f"    if (i{axis} >= 0 && i{axis} + {(width - 1) * step} < {limit}) s = fma({plain}, v, s);")
        out.append(f"    else s = fma({careful}, v, s);")
    out.append("  " + "}" * len(axes))
    position = " + ".join(["rest * " + str(yn), *(f"(size_t)o{axis} * {ys[axis]}" for axis in axes)])
    out.append(f"  const size_t to = {position} + (size_t)c * {yc};")
    if bias:
        out.append("  s += LOADV(b + c);" if last else "  s += (AV)(A)b[c];")
    out.append(f"  s += LOADV({residual} + to);" if residual else "")
    out.append(f"  {act.opencl(activation, 's', kind, 'AV')} {panels.stored_once(block, 's', 0, 0, 'to', 1, again)}")
    body = "\n".join(filter(str.strip, out))
    head = header(dtype) + panels.preamble(block, dtype)
    return OpenCLSource(f"{head}WHOLE_VECTORS __kernel void conv({parameters}) {{\n{body}\n}}\n", "conv")
