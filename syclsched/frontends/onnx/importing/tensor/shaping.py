# SPDX-License-Identifier: Apache-2.0
"""Importers of operators that change shape or element order: Reshape, Transpose, Expand, Tile, ..."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from syclsched.errors import ModelError
from syclsched.frontends.onnx.importing.extents import (
    Extent,
    Number,
    bounded,
    bounded_numbers,
    bounds_of,
    extents_of,
    is_fixed,
    is_length,
    is_same,
    numbers,
    value_needed,
    with_extents,
    with_lengths,
)
from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.lengths import Length, LengthError
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode
from syclsched.frontends.onnx.shapes import broadcast


@imports("Reshape")
def _reshape(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Reshape: 0 keeps an extent, -1 is inferred."""
    x, name = inputs.required(0, "data"), inputs.required(1, "shape")
    given = numbers(b, name, "the shape")
    shape = b.shape(x)
    if x in b.lengths or any(isinstance(each, str) for each in given):
        return [_open_reshape(b, x, given, keeps=not node.flag("allowzero"))]
    wanted = tuple(each for each in given if isinstance(each, int))
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


def _open_reshape(b: NetworkBuilder, x: str, given: Sequence[Number], *, keeps: bool) -> str:
    """Return a value reshaped, where its extents or those of the result are known only at run time."""
    before, shape = extents_of(b, x), b.shape(x)
    found: list[Extent | None] = []  # None: to be inferred
    for axis, number in enumerate(given):
        if number == 0 and keeps and axis < len(before):
            found.append(before[axis])
        elif isinstance(number, int):
            found.append(None if number == -1 else Extent(number))
        elif x not in b.lengths:  # with one extent the others vary, too
            raise value_needed(b, number, "the shape")
        else:
            found.append(bounded(b, number, f"the shape, extent {axis}") if is_length(b, number) else None)
    rest, total = math.prod(each.bound for each in found if each is not None), math.prod(shape)
    if found.count(None) > 1 or not rest or total % rest or (None not in found and total != rest):
        raise LengthError("a reshape of axes whose lengths are known only at run time", where=b.place())
    whole = [Extent(total // rest) if each is None else each for each in found]
    made = bounds_of(whole)
    lengths = {}
    for length in b.lengths.get(x, ()):
        axis, count = _reshaped_length(b, x, length, made)
        wanted = found[axis]
        if wanted is not None and (wanted.count is None or not is_same(b, wanted.count, count)):
            raise LengthError("a reshape parts the axis whose length is known only at run time", where=b.place())
        lengths[axis] = Length(axis, count if wanted is None or wanted.count is None else wanted.count)
    if any(each is not None and each.count is not None and axis not in lengths for axis, each in enumerate(found)):
        raise LengthError("a reshape to an extent that is known only at run time", where=b.place())
    result = b.with_all(x, made)
    b.give_lengths(result, lengths.values())
    return result


def _reshaped_length(b: NetworkBuilder, x: str, length: Length, made: tuple[int, ...]) -> tuple[int, str]:
    """Return along which axis of a new shape a length is, and its count."""
    before = b.shape(x)
    extent, outer = before[length.axis], math.prod(before[: length.axis])
    places = [axis for axis, n in enumerate(made) if n > 1 and math.prod(made[:axis]) == outer]
    others = [each.axis for each in b.lengths[x] if each is not length]
    if len(places) == 1 and extent:
        (axis,) = places
        n = made[axis]
        is_joined = any(a > length.axis and math.prod(before[:a]) < outer * n for a in others)
        if n % extent == 0 and not is_joined:
            return axis, Extent(extent, length.count).times(b, n // extent).count or ""
        if extent % n == 0:  # whole lines count: else the numbers would not fill the shape
            return axis, b.elementwise(("div", 0, ("const", extent // n, "int64")), length.count)
    raise LengthError("a reshape joins the axis whose length is known only at run time with others", where=b.place())


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
