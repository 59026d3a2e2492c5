# SPDX-License-Identifier: Apache-2.0
"""Convolution by work-groups: implicit matrix products with both operands staged in local memory.

Columns are contiguous in the result: output channels, or pixels if channels come first. (Chetlur et al., "cuDNN:
efficient primitives for deep learning", 2014.) A summation term is a kernel position and a channel, in the memory order
of the array or, with channels first, of the weights. The im2col matrix never exists in memory.

Depthwise convolutions have few terms, and results share no data beyond what a cache holds: each work-item computes one
result, and neighbours compute neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from syclsched.kernels.common import Ints, ceil_div
from syclsched.kernels.groups import head, implementation, lanes
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.convolution.conv_blocks import geometry, is_depthwise
from syclsched.kernels.nn.geometry import channels, size, strides_of
from syclsched.kernels.nn.opencl_types import sum_dtype
from syclsched.kernels.nn.product.tiled_products import GroupTiling, Operand, ProductExtents, source
from syclsched.kernels.windows import Convolution, Window
from syclsched.model.operation import DeviceLimits, Implementation, Launch, OpenCLSource, Signature


def conv(convolution: Convolution, *, bias: bool, residual: str) -> Implementation:
    """Return the implementation of `syclsched.kernels.nn.convolution.conv`."""
    known = {"window": convolution.window, "groups": convolution.groups, "last": convolution.channels_last}
    return implementation(
        partial(_source, activation=convolution.activation, bias=bias, residual=residual, **known),
        partial(_launch, **known),
        refuses=_refuses,
        prepare=partial(_prepare, last=convolution.channels_last),
        form=lambda signature, queue: ("conv of groups", convolution.channels_last),
    )


def _refuses(signature: Signature) -> str | None:
    if size(signature.shapes["y"]) and size(signature.shapes["x"]):
        return None
    return "neither the result nor x may be empty"


def _prepare(signature: Signature, queue: Any, constants: Mapping[str, Any], *, last: bool) -> Mapping[str, Any]:
    """Return the constants with the weights' channels innermost if the array's channels are."""
    import numpy as np

    w = constants.get("w")
    if w is None or not last:
        return constants
    return {**constants, "w": np.ascontiguousarray(np.moveaxis(w, 1, -1)).reshape(w.shape)}


def _extents(signature: Signature, window: Window, groups: int, last: bool) -> ProductExtents:
    w = signature.shapes["w"]
    batch, _, outputs, kernel, _ = geometry(signature, window, last)
    outside, terms = w[0] // groups, w[1] * size(kernel)
    if last:
        return ProductExtents(batch * size(outputs), outside, terms, groups)
    return ProductExtents(outside, size(outputs), terms, batch * groups)


def _launch(signature: Signature, limits: DeviceLimits, *, window: Window, groups: int, last: bool) -> Launch:
    if is_depthwise(signature, groups):
        wide = lanes(limits)
        return Launch((ceil_div(size(signature.shapes["y"]), wide) * wide,), (wide,))
    extents = _extents(signature, window, groups, last)
    return GroupTiling.of(extents, sum_dtype(signature.dtypes["y"]), limits).launch(extents)


def _source(
    signature: Signature,
    limits: DeviceLimits,
    *,
    window: Window,
    groups: int,
    last: bool,
    activation: Activation,
    bias: bool,
    residual: str,
) -> OpenCLSource:
    dtype, w = signature.dtypes["y"], signature.shapes["w"]
    names = ["__global T* restrict y", "__global const T* restrict x", "__global const T* restrict w"]
    names += ["__global const T* restrict b"] * bias + ["__global const T* restrict r"] * (residual == "r")
    finish = "v += READ(b, o); " if bias else ""
    finish += f"v += READ({residual}, to); " if residual else ""
    finish += f"{act.opencl(activation, 'v', sum_dtype(dtype))} WRITE(y, to, v);"
    seen = _WindowReader.of(signature, window, last)
    if is_depthwise(signature, groups):
        return _depthwise(signature, ", ".join(names), seen, finish)
    inside, outside, places = w[1], w[0] // groups, size(seen.kernel)
    extents = _extents(signature, window, groups, last)
    o, pixel = ("column", "row") if last else ("row", "column")
    # Term order: kernel position outer and channel inner if channels are last, else the reverse.
    channel, place = (f"term % {inside}", f"term / {inside}") if last else (f"term / {places}", f"term % {places}")
    within = f"({channel}) * {places} + {place}" if last and "w" not in signature.constants else "term"
    image = f"({pixel}) / {seen.pixels}" if last else "image"
    pixels = Operand(
        f"const I place = {place}, pixel = {pixel} % {seen.pixels}; " + seen.read(image, f"g * {inside} + {channel}"),
        by_term=last,
    )
    weights = Operand(f"v = READ(w, (g * {outside} + {o}) * {inside * places} + {within});", by_term=True)
    return source(
        "conv",
        ", ".join(names),
        dtype,
        max(map(size, signature.shapes.values())),
        extents,
        GroupTiling.of(extents, sum_dtype(dtype), limits),
        begin="const I g = product;" if last else f"const I g = product % {groups}, image = product / {groups};",
        left=pixels if last else weights,
        right=weights if last else pixels,
        finish=f"const I o = g * {outside} + {o}, to = "
        + (f"{pixel} * {w[0]} + o" if last else f"(image * {w[0]} + o) * {seen.pixels} + {pixel}")
        + f"; {finish}",
    )


def _depthwise(signature: Signature, parameters: str, seen: _WindowReader, finish: str) -> OpenCLSource:
    dtype, count, places = signature.dtypes["y"], signature.shapes["w"][0], size(seen.kernel)
    results = size(signature.shapes["y"])
    pixel, o = (f"id / {count}", f"id % {count}") if seen.last else ("id", f"id / {seen.pixels} % {count}")
    text = f"""{head(dtype, sum_dtype(dtype), max(map(size, signature.shapes.values())))}
__kernel void conv({parameters}) {{
  const I id = get_global_id(0), to = id;
  if (id >= {results}) return;
  const I pixel = {pixel} % {seen.pixels}, o = {o}, image = id / {seen.pixels * count};
  A s = 0;
  for (int place = 0; place < {places}; ++place) {{
    A v = 0;
    {seen.read("image", "o")}
    s = fma(v, READ(w, o * {places} + place), s);
  }}
  A v = s;
  {finish}
}}
"""
    return OpenCLSource(text, "conv")


@dataclass(frozen=True, slots=True)
class _WindowReader:
    """The input elements that output pixels see, with as few axes as possible."""

    #: Spatial extents.
    inputs: Ints
    outputs: Ints
    kernel: Ints
    window: Window
    strides: Ints  # of x's spatial axes, in elements
    #: Strides of x's channels and images, in elements.
    channel: int
    image: int
    last: bool  # channels last

    @classmethod
    def of(cls, signature: Signature, window: Window, last: bool) -> _WindowReader:
        """Return the access pattern of a convolution."""
        _, inputs, outputs, kernel, window = geometry(signature, window, last)
        strides, channel, image = strides_of(inputs, channels(signature.shapes["x"], last), last)
        return cls(inputs, outputs, kernel, window, strides, channel, image, last)

    @property
    def pixels(self) -> int:
        """Pixels of an image of the result."""
        return size(self.outputs)

    def read(self, image: str, channel: str) -> str:
        """Return statements that set ``v`` to the element that ``pixel`` sees at kernel ``place``, if it exists."""
        code, conditions, terms = [], [], [f"({image}) * {self.image}", f"({channel}) * {self.channel}"]
        pixels = places = 1
        window = self.window
        for axis in reversed(range(len(self.outputs))):
            o, k = f"pixel / {pixels} % {self.outputs[axis]}", f"place / {places} % {self.kernel[axis]}"
            at = f"({o}) * {window.strides[axis]} - {window.begins[axis]} + ({k}) * {window.dilations[axis]}"
            code.append(f"const I i{axis} = {at};")
            conditions.append(f"i{axis} >= 0 && i{axis} < {self.inputs[axis]}")
            terms.append(f"i{axis} * {self.strides[axis]}")
            pixels, places = pixels * self.outputs[axis], places * self.kernel[axis]
        return f"{' '.join(code)} if ({' && '.join(conditions)}) v = READ(x, {' + '.join(terms)});"
