# SPDX-License-Identifier: Apache-2.0
"""Importers of Slice, Split, Concat and Pad."""

from __future__ import annotations

import math

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.lengths import Length
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.window_parameters import crop_negative_pads
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode


@imports("Slice")
def _slice_of(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Slice; its parameters are attributes before opset 10, then inputs."""
    x = inputs.required(0, "data")
    shape = b.shape(x)
    if b.opset < 10:
        starts, ends = node.integers_or("starts"), node.integers_or("ends")
        axes, steps = node.integers("axes"), None
    else:
        first = _first_elements(b, x, inputs)
        if first is not None:
            return [first]
        starts = b.integers(inputs.required(1, "starts"), "the starts")
        ends = b.integers(inputs.required(2, "ends"), "the ends")
        axes_name, steps_name = inputs.optional(3), inputs.optional(4)
        axes = None if axes_name is None else b.integers(axes_name, "the axes")
        steps = None if steps_name is None else b.integers(steps_name, "the steps")
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise b.wrong(f"{len(starts)} starts, {len(ends)} ends, {len(axes)} axes and {len(steps)} steps")
    firsts, extents, strides = [0] * len(shape), list(shape), [1] * len(shape)
    b.axes(axes, len(shape))
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        at = b.axis(axis, len(shape))
        if step == 0:
            raise b.wrong("a step is 0")
        if step < 0 and shape[at]:
            start = max(start, -shape[at])  # unlike in Python, a start before the first element means the first
        places = range(*slice(start, end, step).indices(shape[at]))
        # For ends below -n and negative steps, ONNX has Python's rule: clamp to just before the first element.
        firsts[at], extents[at], strides[at] = (places[0], len(places), step) if places else (0, 0, 1)
    return [b.slice(x, firsts, extents, strides)]


def _first_elements(b: NetworkBuilder, x: str, inputs: Inputs) -> str | None:
    """Return the first elements along an axis, as many as follows from floating-point inputs at run time.

    None for other slices: the values of integers, which decide them, repeat, and a plan for each value is faster.
    """
    starts, ends = inputs.required(1, "starts"), inputs.required(2, "ends")
    axes, steps = inputs.optional(3), inputs.optional(4)
    is_floating = any(b.dtype(each) in FLOATS for each in b.sources(ends))
    is_first = all(
        name is None or (b.known(name) is not None and b.integers(name, "the bounds") == (wanted,))
        for name, wanted in ((starts, 0), (steps, 1))
    )
    if not is_floating or not is_first or x in b.lengths or ends in b.lengths or math.prod(b.shape(ends)) != 1:
        return None
    shape = b.shape(x)
    axis = b.axis(0 if axes is None else b.integer(axes, "the axes"), len(shape))
    kind = b.dtype(ends)
    extent, zero = ("const", shape[axis], kind), ("const", 0, kind)
    from_front = ("where", ("less", 0, zero), ("add", 0, extent), 0)
    most = ("cast", "int64", ("min", ("max", from_front, zero), extent))
    count = b.elementwise(most, b.reshape(ends, ()), dtype="int64")
    made = b.emit("reshape", [x], shape=shape)
    b.lengths[made] = (Length(axis, count),)
    return made


@imports("Split")
def _split(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Split; the sizes are an attribute before opset 13, then an input; by default they are equal."""
    x, sizes_name = inputs.required(0, "input"), inputs.optional(1)
    shape = b.shape(x)
    axis = b.axis(node.integer("axis"), len(shape))
    sizes = node.integers("split") if sizes_name is None else b.integers(sizes_name, "the sizes")
    if not sizes:
        count = node.integer("num_outputs", len(node.outputs))
        chunk = -(-shape[axis] // count) if count > 0 else 0
        if count < 1 or (b.opset < 18 and shape[axis] % count):
            raise b.wrong(f"axis {axis} of {shape} cannot be split into {count} equal parts")
        sizes = tuple(min(chunk, max(shape[axis] - i * chunk, 0)) for i in range(count))
    if sum(sizes) != shape[axis] or min(sizes) < 0 or len(sizes) < len(node.outputs):
        raise b.wrong(f"parts {sizes} of axis {axis} of {shape}, for {len(node.outputs)} outputs")
    parts: list[str | None] = []
    start = 0
    for size, name in zip(sizes, node.outputs, strict=False):
        parts.append(b.part(x, axis, start, size) if name else None)
        start += size
    return parts


@imports("Concat")
def _concat(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    values = inputs.all("inputs_")
    axis = b.axis(node.integer("axis"), len(b.shape(values[0])))
    if len({len(b.shape(value)) for value in values}) > 1:
        raise b.wrong(f"shapes {', '.join(str(b.shape(v)) for v in values)} cannot be joined along axis {axis}")
    return [b.concat(values, axis)]


@imports("Pad")
def _pad(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Pad; its parameters are attributes before opset 11, then inputs; negative pads crop."""
    x = inputs.required(0, "data")
    shape = b.shape(x)
    rank = len(shape)
    value: float = 0
    if b.opset < 11:
        pads, value = node.integers_or("pads"), node.number("value", 0.0)
    else:
        pads = b.integers(inputs.required(1, "pads"), "the margins")
        value_name, axes_name = inputs.optional(2), inputs.optional(3)
        if value_name is not None:
            number = b.require(value_name, "the value of a margin").reshape(-1)
            if number.size:
                value = number[0].item()
        if axes_name is not None:
            axes = b.integers(axes_name, "the axes")
            if len(pads) != 2 * len(axes):
                raise b.wrong(f"{len(pads)} margins for {len(axes)} axes")
            b.axes(axes, rank)
            spread = [0] * (2 * rank)
            for i, axis in enumerate(axes):
                at = b.axis(axis, rank)
                spread[at], spread[at + rank] = pads[i], pads[i + len(axes)]
            pads = tuple(spread)
    if len(pads) != 2 * rank:
        raise b.wrong(f"{len(pads)} margins for {rank} dimensions")
    mode = node.text("mode", "constant")
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise b.wrong(f"mode is {mode!r}, expected constant, reflect, edge or wrap")
    x, pads = crop_negative_pads(b, x, pads)
    if mode != "constant" and any(n == 0 and pads[i] + pads[i + rank] for i, n in enumerate(b.shape(x))):
        raise b.wrong(f"{b.shape(x)} has no elements to fill a margin with")
    return [b.pad(x, pads, mode, value)]
