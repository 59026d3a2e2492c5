# SPDX-License-Identifier: Apache-2.0
"""Importers of Resize and Upsample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.antialiasing import antialiased, check_antialiased
from syclsched.frontends.onnx.importing.nn.open_resampling import ResizeInputs, resized_by_values
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

Numbers = tuple[float, ...]
#: Integers that float32 interpolates exactly enough.
_SHORT: Final = ("int8", "uint8")


@imports("Resize", "Upsample")
def _resize(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Resize of all opsets and its predecessor Upsample; integers are interpolated as floating-point numbers.

    They are truncated after linear interpolation, as ONNX Runtime does; of cubic ones, which it refuses, onnx's
    reference implementation rounds.
    """
    x = inputs.required(0, "X")
    mode, kind = node.text("mode", "nearest"), b.dtype(x)
    if mode == "nearest" or kind in FLOATS or kind == "bool" or node.flag("antialias"):
        return [_resize_of(b, node, inputs, x)]
    made = _resize_of(b, node, inputs, b.cast(x, "float32" if kind in _SHORT else "float64"))
    if mode == "cubic":
        info = np.iinfo(kind)
        made = b.elementwise(("clip", float(info.min), float(info.max), ("round", 0)), made)
    return [b.cast(made, kind)]


def _resize_of(b: NetworkBuilder, node: ModelNode, inputs: Inputs, x: str) -> str:
    """Return a value resized as a node resizes its first input."""
    mode = node.text("mode", "nearest")
    if node.operator == "Upsample" or b.opset < 11:
        said = node.attributes.get("scales")
        given = tuple(said) if said is not None else _numbers(b, inputs.required(1, "scales"), "the scales")
        if mode == "nearest" and any(0 < scale < 1 for scale in given) and len(given) == len(b.shape(x)):
            # Opset 10 rounds up where an axis shrinks and down where it grows.
            shrunk = tuple(min(scale, 1.0) for scale in given)
            x = _resized(b, node, x, mode, shrunk, None, "asymmetric", "ceil", ())
            given = tuple(max(scale, 1.0) for scale in given)
        return _resized(b, node, x, mode, given, None, "asymmetric", "floor", ())
    if node.flag("antialias"):
        check_antialiased(b, node, x, inputs)
    axes = node.integers("axes")
    shape = b.shape(x)
    places = tuple(range(len(shape))) if axes is None else tuple(b.axis(axis, len(shape)) for axis in axes)
    coordinates = node.text("coordinate_transformation_mode", "half_pixel")
    roi_name, scales_name, sizes_name = (inputs.optional(i) for i in (1, 2, 3))
    nearest = node.text("nearest_mode", "round_prefer_floor")

    def to_sizes(x: str, sizes: Sequence[int]) -> str:
        """Return a value resized to sizes without a region."""
        scales = tuple(new / old for new, old in zip(sizes, b.shape(x), strict=True))
        return _resized(b, node, x, mode, scales, sizes, coordinates, nearest, ())

    region = roi_name if coordinates == "tf_crop_and_resize" else None
    if not node.flag("antialias"):
        found = resized_by_values(b, node, x, places, ResizeInputs(region, scales_name, sizes_name), to_sizes)
        if found is not None:
            return found
    roi: Numbers = ()
    if coordinates == "tf_crop_and_resize":
        if roi_name is None:
            raise b.wrong("tf_crop_and_resize needs the input roi")
        part = _numbers(b, roi_name, "the region of interest")
        if len(part) != 2 * len(places):
            raise b.wrong(f"a region of interest of {len(part)} numbers for {len(places)} axes")
        whole = [0.0] * len(shape) + [1.0] * len(shape)
        for i, axis in enumerate(places):
            whole[axis], whole[axis + len(shape)] = part[i], part[i + len(places)]
        roi = tuple(whole)
    scales_given = () if scales_name is None else _numbers(b, scales_name, "the scales")
    sizes_given = () if sizes_name is None else b.integers(sizes_name, "the sizes")
    if bool(scales_given) == bool(sizes_given):
        raise b.wrong("either scales or sizes are given, not both or none")
    scales: list[float] = [1.0] * len(shape)
    sizes: list[int] | None = None
    if scales_given:
        if len(scales_given) != len(places):
            raise b.wrong(f"{len(scales_given)} scales for {len(places)} axes")
        for axis, scale in zip(places, scales_given, strict=True):
            scales[axis] = scale
    else:
        if len(sizes_given) != len(places) or any(n < 0 for n in sizes_given):
            raise b.wrong(f"sizes {sizes_given} for {len(places)} axes")
        sizes = list(shape)
        for axis, size in zip(places, sizes_given, strict=True):
            sizes[axis] = size
            scales[axis] = size / shape[axis] if shape[axis] else 1.0
        policy = node.text("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            scale = (min if policy == "not_larger" else max)(scales[axis] for axis in places)
            for axis in places:
                scales[axis], sizes[axis] = scale, math.floor(scale * shape[axis] + 0.5)
    return _resized(b, node, x, mode, tuple(scales), sizes, coordinates, nearest, roi)


def _resized(
    b: NetworkBuilder,
    node: ModelNode,
    x: str,
    mode: str,
    scales: Numbers,
    sizes: Sequence[int] | None,
    coordinates: str,
    nearest: str,
    roi: Numbers,
) -> str:
    shape = b.shape(x)
    if len(scales) != len(shape) or not all(s > 0 and math.isfinite(s) for s in scales):
        raise b.wrong(f"scales {scales} for an input of shape {shape}")
    if mode == "bilinear":
        mode = "linear"
    if mode != "nearest" and b.dtype(x) not in FLOATS:
        raise UnsupportedFormError
    if sizes is None:
        parts = [1.0] * len(shape)
        if roi:
            parts = [end - start for start, end in zip(roi[: len(shape)], roi[len(shape) :], strict=True)]
        sizes = [math.floor(n * part * scale) for n, part, scale in zip(shape, parts, scales, strict=True)]
    if tuple(sizes) == shape and all(s == 1.0 for s in scales) and not roi:
        return x
    if node.operator == "Resize" and node.flag("antialias"):
        return antialiased(b, node, x, scales, sizes, roi)
    return b.emit(
        "resize",
        [x],
        shape=tuple(sizes),
        mode=mode,
        coordinates=coordinates,
        nearest=nearest,
        scales=tuple(float(s) for s in scales),
        roi=roi,
        cubic=float(node.number("cubic_coeff_a", -0.75)),
        exclude_outside=node.flag("exclude_outside"),
        extrapolation=float(node.number("extrapolation_value", 0.0)),
    )


def _numbers(b: NetworkBuilder, name: str, what: str) -> Numbers:
    array = b.require(name, what)
    if array.ndim > 1:
        raise b.wrong(f"{what} have shape {array.shape}, expected a list")
    return tuple(float(n) for n in array.reshape(-1))
