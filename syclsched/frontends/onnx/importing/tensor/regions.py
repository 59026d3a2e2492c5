# SPDX-License-Identifier: Apache-2.0
"""Importer of RoiAlign: means or maxima of interpolated elements in the cells of regions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode


@imports("RoiAlign")
def _roi_align(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import RoiAlign; where numbers of samples follow from the regions, the host computes it."""
    x, regions, of = inputs.first("X", "rois", "batch_indices")
    shape, samples, mode = b.shape(x), node.integer("sampling_ratio"), node.text("mode", "avg").lower()
    is_plain = b.dtype(x) in ("float32", "float64") and not any(each in b.lengths for each in inputs.given())
    if not is_plain or mode not in ("avg", "max") or 0 in shape or 0 in b.shape(regions):
        raise UnsupportedFormError
    count = b.shape(regions)[0]
    if len(shape) != 4 or b.shape(regions) != (count, 4) or b.shape(of) != (count,):
        raise b.wrong(f"regions of shape {b.shape(regions)} of pictures {b.shape(of)} for an input of shape {shape}")
    made = [node.integer(name, 1) for name in ("output_height", "output_width")]
    if min(made) < 1:
        raise b.wrong(f"cells of {made}")
    of = _pictures(b, of, shape[0])
    if samples < 1:
        return [b.emit("roi_align", [x, regions, of], **_attributes(b, node, mode, made))]
    down, right = (_SampledAxis(b, node, regions, axis, cells, shape[2 + axis]) for axis, cells in enumerate(made))
    batch = b.reshape(of, (count, 1, 1))
    rows = b.reshape(b.transpose(x, (0, 2, 3, 1)), (shape[0] * shape[2] * shape[3], shape[1]))
    whole = (count, made[0] * samples, made[1] * samples)
    place = ("add", ("mul", ("add", ("mul", 0, _int(shape[2])), 1), _int(shape[3])), 2)
    add = ("max" if mode == "max" else "add", 0, 1)
    total: str | None = None
    for row, by_row in down.neighbours(b, (count, whole[1], 1)):
        for column, by_column in right.neighbours(b, (count, 1, whole[2])):
            index = b.reshape(b.elementwise(place, batch, row, column), (math.prod(whole),))
            weight = b.reshape(b.elementwise(("mul", 0, 1), by_row, by_column), (math.prod(whole), 1))
            part = b.elementwise(("mul", 0, 1), b.gather(rows, index), weight)
            total = part if total is None else b.elementwise(add, total, part)
    cells = b.reshape(total or "", (count, made[0], samples, made[1], samples, shape[1]))
    return [b.transpose(b.reduce("max" if mode == "max" else "mean", cells, (2, 4), keepdims=False), (0, 3, 1, 2))]


def _pictures(b: NetworkBuilder, of: str, samples: int) -> str:
    """Return the pictures of regions: those out of range are refused, or picked as by Gather if they are computed."""
    known = b.known(of)
    if known is None:
        return b.gather(b.constant(np.arange(samples), "int64"), of)
    if known.min() < 0 or known.max() >= samples:
        wrong = known.min() if known.min() < 0 else known.max()
        raise b.wrong(f"a region of picture {wrong}, and there are {samples}")
    return b.cast(of, "int64")


def _attributes(b: NetworkBuilder, node: ModelNode, mode: str, cells: Sequence[int]) -> dict[str, Any]:
    """Return the attributes of a node whose numbers of samples follow from the regions."""
    half_pixel = _is_half_pixel(b, node)
    return {"mode": mode, "cells": tuple(cells), "scale": node.number("spatial_scale", 1.0), "half_pixel": half_pixel}


def _is_half_pixel(b: NetworkBuilder, node: ModelNode) -> bool:
    """Return whether places of elements are those of their centres."""
    mode = node.text("coordinate_transformation_mode", "half_pixel" if b.opset >= 16 else "output_half_pixel")
    return mode.lower() == "half_pixel"


def _int(value: int) -> Any:
    return ("const", value, "int64")


class _SampledAxis:
    """Places of samples along one axis of pictures: an array (regions, samples)."""

    def __init__(self, b: NetworkBuilder, node: ModelNode, regions: str, axis: int, cells: int, extent: int) -> None:
        kind, samples, (count, _) = b.dtype(regions), node.integer("sampling_ratio"), b.shape(regions)
        scale, offset = ("const", node.number("spatial_scale", 1.0), kind), ("const", 0.5, kind)
        is_half = _is_half_pixel(b, node)
        start: Any = ("mul", 0, scale)
        end: Any = ("mul", 1, scale)
        if is_half:
            start, end = ("sub", start, offset), ("sub", end, offset)
        size = ("sub", end, start) if is_half else ("max", ("sub", end, start), ("const", 1.0, kind))
        # Rows of regions are x and y of the first corner, and of the last.
        first, last = (b.slice(regions, (0, column), (count, 1)) for column in (1 - axis, 3 - axis))
        steps = (np.arange(cells * samples) // samples + (np.arange(cells * samples) % samples + 0.5) / samples) / cells
        self._place = b.elementwise(("add", start, ("mul", size, 2)), first, last, b.constant(steps[None].astype(kind)))
        self._extent, self._kind = extent, kind

    def neighbours(self, b: NetworkBuilder, shape: tuple[int, ...]) -> list[tuple[str, str]]:
        """Return the index and the weight of both neighbours of each place; beyond the picture weights are 0."""
        kind, most = self._kind, ("const", float(self._extent - 1), self._kind)
        zero, one = ("const", 0.0, kind), ("const", 1.0, kind)
        held: Any = ("min", ("max", 0, zero), most)
        inside = (
            "and",
            ("greater_equal", 0, ("const", -1.0, kind)),
            ("less_equal", 0, ("const", float(self._extent), kind)),
        )
        place = b.reshape(self._place, shape)
        low = b.elementwise(("floor", held), place)
        share = ("sub", held, 1)
        return [
            (
                b.elementwise(("cast", "int64", low_or_next), low),
                b.elementwise(("where", inside, part, zero), place, low),
            )
            for low_or_next, part in ((0, ("sub", one, share)), (("min", ("add", 0, one), most), share))
        ]
