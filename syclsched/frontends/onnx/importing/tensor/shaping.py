# SPDX-License-Identifier: Apache-2.0
"""Importers of operators that change shape or element order: Reshape, Transpose, Expand, Tile, ..."""

from __future__ import annotations

import math

from syclsched.errors import ModelError
from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode
from syclsched.frontends.onnx.shapes import broadcast


@imports("Reshape")
def _reshape(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Reshape: 0 keeps an extent, -1 is inferred."""
    x = inputs.required(0, "data")
    wanted = b.integers(inputs.required(1, "shape"), "the shape")
    shape = b.shape(x)
    extents = list(wanted)
    if not node.flag("allowzero"):
        for axis, extent in enumerate(wanted):
            if extent == 0:
                if axis >= len(shape):
                    raise b.wrong(f"shape {wanted} keeps axis {axis}, which {shape} does not have")
                extents[axis] = shape[axis]
    if extents.count(-1) > 1 or any(n < -1 for n in extents):
        raise b.wrong(f"{wanted} is no shape")
    if -1 in extents:
        rest = math.prod(n for n in extents if n != -1)
        total = math.prod(shape)
        if rest == 0 or total % rest:
            raise b.wrong(f"{shape} cannot be reshaped to {wanted}")
        extents[extents.index(-1)] = total // rest
    return [b.reshape(x, tuple(extents))]


@imports("Flatten")
def _flatten(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x = inputs.required(0, "input")
    shape = b.shape(x)
    axis = node.integer("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise b.wrong(f"there is no axis {axis} in {len(shape)} dimensions")
    axis = axis + len(shape) if axis < 0 else axis
    return [b.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))]


@imports("Squeeze")
def _squeeze(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Squeeze; the axes are an attribute before opset 13, then an input."""
    x, axes_name = inputs.required(0, "data"), inputs.optional(1)
    shape = b.shape(x)
    axes = node.integers("axes") if axes_name is None else b.integers(axes_name, "the axes")
    if axes is None:
        axes = tuple(axis for axis, extent in enumerate(shape) if extent == 1)
    removed = b.axes(axes, len(shape))
    for axis in removed:
        if shape[axis] != 1:
            raise b.wrong(f"axis {axis} of {shape} cannot be left out: its extent is not 1")
    return [b.reshape(x, tuple(n for axis, n in enumerate(shape) if axis not in removed))]


@imports("Unsqueeze")
def _unsqueeze(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Unsqueeze; the axes are an attribute before opset 13, then an input."""
    x, axes_name = inputs.required(0, "data"), inputs.optional(1)
    axes = node.integers("axes", ()) if axes_name is None else b.integers(axes_name, "the axes")
    shape = list(b.shape(x))
    for axis in b.axes(axes or (), len(shape) + len(axes or ())):
        shape.insert(axis, 1)
    return [b.reshape(x, tuple(shape))]


@imports("Transpose")
def _transpose(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x = inputs.required(0, "data")
    rank = len(b.shape(x))
    permutation = node.integers("perm", tuple(range(rank))[::-1])
    return [b.transpose(x, permutation or ())]


@imports("Expand")
def _expand(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Expand: input and shape are broadcast against each other."""
    x = inputs.required(0, "input")
    wanted = b.integers(inputs.required(1, "shape"), "the shape")
    if any(n < 0 for n in wanted):
        raise b.wrong(f"{wanted} is no shape")
    try:
        shape = broadcast([b.shape(x), wanted])
    except ModelError as error:
        raise b.wrong(error.what) from None
    return [b.expand(x, shape)]


@imports("Tile")
def _tile(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Tile as padding that wraps around."""
    x = inputs.required(0, "input")
    repeats = b.integers(inputs.required(1, "repeats"), "the repeats")
    shape = b.shape(x)
    if len(repeats) != len(shape) or any(n < 0 for n in repeats):
        raise b.wrong(f"repeats {repeats} do not fit shape {shape}")
    made = tuple(n * times for n, times in zip(shape, repeats, strict=True))
    if 0 in made:
        return [b.filled(made, b.dtype(x))]
    margins = tuple(m - n for m, n in zip(made, shape, strict=True))
    return [b.pad(x, (*(0,) * len(shape), *margins), "wrap")]


@imports("DepthToSpace", "SpaceToDepth")
def _space(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, size = inputs.required(0, "input"), node.integer("blocksize")
    shape = b.shape(x)
    if len(shape) != 4 or size < 1:
        raise b.wrong(f"blocks of {size} and an input of shape {shape}, expected (batch, channels, height, width)")
    mode = node.text("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise b.wrong(f"its mode is {mode!r}, expected DCR or CRD")
    dcr = mode == "DCR"
    n, c, h, w = shape
    if node.operator == "SpaceToDepth":
        if h % size or w % size:
            raise b.wrong(f"{h} by {w} cannot be divided into blocks of {size}")
        parts = b.reshape(x, (n, c, h // size, size, w // size, size))
        order = (0, 3, 5, 1, 2, 4) if dcr else (0, 1, 3, 5, 2, 4)
        return [b.reshape(b.transpose(parts, order), (n, c * size * size, h // size, w // size))]
    if c % (size * size):
        raise b.wrong(f"{c} channels are no blocks of {size} by {size}")
    depth = c // (size * size)
    if dcr:
        turned = b.transpose(b.reshape(x, (n, size, size, depth, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        turned = b.transpose(b.reshape(x, (n, depth, size, size, h, w)), (0, 1, 4, 2, 5, 3))
    return [b.reshape(turned, (n, depth, h * size, w * size))]
