# SPDX-License-Identifier: Apache-2.0
"""Importers of operators that change shape or element order: Reshape, Transpose, Expand, Tile, ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from syclsched.errors import ModelError
from syclsched.frontends.onnx.importing.equal_extents import assume, with_extent
from syclsched.frontends.onnx.importing.extents import (
    Extent,
    bounded_numbers,
    bounds_of,
    extents_of,
    is_fixed,
    value_needed,
    with_extents,
    with_lengths,
)
from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.lengths import LengthError
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode
from syclsched.frontends.onnx.shapes import broadcast


@imports("Squeeze")
def _squeeze(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Squeeze; the axes are an attribute before opset 13, then an input."""
    x, axes_name = inputs.required(0, "data"), inputs.optional(1)
    shape = b.shape(x)
    axes = node.integers("axes") if axes_name is None else b.integers(axes_name, "the axes")
    if axes is None:
        axes = tuple(axis for axis, extent in enumerate(shape) if extent == 1)
        for length in b.lengths.get(x, ()) if b.observed is not None else ():
            if length.axis in axes:
                continue
            kept = b.elementwise(("cast", "int64", ("not_equal", 0, ("const", 1, "int64"))), length.count)
            assume(b, kept, f"whether it keeps axis {length.axis}", 1)
    removed = b.axes(axes, len(shape))
    for axis in removed if b.observed is not None else ():
        x = with_extent(b, x, axis, 1)
    shape = b.shape(x)
    for axis in removed:
        if shape[axis] != 1:
            raise b.wrong(f"axis {axis} of {shape} cannot be left out: its extent is not 1")
    return [b.without_axes(x, removed)]


@imports("Unsqueeze")
def _unsqueeze(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Unsqueeze; the axes are an attribute before opset 13, then an input."""
    x, axes_name = inputs.required(0, "data"), inputs.optional(1)
    axes = node.integers("axes", ()) if axes_name is None else b.integers(axes_name, "the axes")
    return [b.with_axes(x, b.axes(axes or (), len(b.shape(x)) + len(axes or ())))]


@imports("Transpose")
def _transpose(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x = inputs.required(0, "data")
    rank = len(b.shape(x))
    permutation = node.integers("perm", tuple(range(rank))[::-1])
    return [b.transpose(x, permutation or ())]


@imports("Expand")
def _expand(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Expand: input and shape are broadcast against each other."""
    x, name = inputs.required(0, "input"), inputs.required(1, "shape")
    wanted = bounded_numbers(b, name, "the shape")
    if any(each.bound < 0 for each in wanted):
        raise b.wrong(f"{bounds_of(wanted)} is no shape")
    own = extents_of(b, x)
    if is_fixed((*wanted, *own)):
        try:
            shape = broadcast([b.shape(x), bounds_of(wanted)])
        except ModelError as error:
            raise b.wrong(error.what) from None
        return [b.expand(x, shape)]
    rank = max(len(own), len(wanted))
    own, wanted = ([Extent(1)] * (rank - len(each)) + each for each in (own, wanted))
    made = []
    for mine, asked in zip(own, wanted, strict=True):
        if mine == Extent(1):
            made.append(asked)
        elif asked in (mine, Extent(1)):
            made.append(mine)
        elif asked.count is None and b.observed is not None:
            x = with_extent(b, x, len(made) + len(b.shape(x)) - rank, asked.bound, broadcasts=True)
            made.append(asked)
        elif asked.count is not None and x not in b.lengths:
            raise value_needed(b, name, "the shape")
        else:
            raise LengthError("it expands an axis whose length is known only at run time", where=b.place())
    found = b.elementwise(0, x, shape=bounds_of(made), folded=is_fixed(made))
    return [with_extents(b, found, made)]


@imports("Tile")
def _tile(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Tile as padding that wraps around."""
    x = inputs.required(0, "input")
    given = bounded_numbers(b, inputs.required(1, "repeats"), "the repeats")
    shape, repeats = b.shape(x), bounds_of(given)
    if len(repeats) != len(shape) or any(n < 0 for n in repeats):
        raise b.wrong(f"repeats {repeats} do not fit shape {shape}")
    if x in b.lengths or not is_fixed(given):
        return [_open_tile(b, x, given)]
    made = tuple(n * times for n, times in zip(shape, repeats, strict=True))
    if 0 in made:
        return [b.filled(made, b.dtype(x))]
    margins = tuple(m - n for m, n in zip(made, shape, strict=True))
    return [b.pad(x, (*(0,) * len(shape), *margins), "wrap")]


def _open_tile(b: NetworkBuilder, x: str, repeats: Sequence[Extent]) -> str:
    """Return a value repeated along its axes, as often as values say or with lengths along others."""
    for axis, times in enumerate(repeats):
        n = b.shape(x)[axis]
        if times == Extent(1) or not n:
            continue
        own = b.length_along(x, axis)
        extent, used = times.times(b, n), []
        whole: Any = ("const", n, "int64")
        if own is not None:
            whole, used = 0, [own]
            factor: Any = ("const", times.bound, "int64") if times.count is None else 1
            counts = [own] if times.count is None else [own, times.count]
            extent = Extent(extent.bound, b.elementwise(("mul", 0, factor), *counts))
        places = b.elementwise(("mod", ("index", -1), whole), *used, shape=(extent.bound,), dtype="int64")
        x = with_lengths(b, b.gather(x, places, axis), axis, extent)
    return x


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
