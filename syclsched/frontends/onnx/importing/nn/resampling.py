# SPDX-License-Identifier: Apache-2.0
"""Importers of Resize and Upsample."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syclsched.frontends.onnx.importing.extents import Extent, bounded, numbers, with_lengths
from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.lengths import LengthError
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

Numbers = tuple[float, ...]


@imports("Resize", "Upsample")
def _resize(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Resize of all opsets and its predecessor Upsample."""
    x = inputs.required(0, "X")
    mode = node.text("mode", "nearest")
    if node.operator == "Upsample" or b.opset < 11:
        said = node.attributes.get("scales")
        given = tuple(said) if said is not None else _numbers(b, inputs.required(1, "scales"), "the scales")
        if mode == "nearest" and any(0 < scale < 1 for scale in given) and len(given) == len(b.shape(x)):
            # Opset 10 rounds up where an axis shrinks and down where it grows.
            shrunk = tuple(min(scale, 1.0) for scale in given)
            x = _resized(b, node, x, mode, shrunk, None, "asymmetric", "ceil", ())
            given = tuple(max(scale, 1.0) for scale in given)
        return [_resized(b, node, x, mode, given, None, "asymmetric", "floor", ())]
    if node.flag("antialias"):
        raise UnsupportedFormError
    axes = node.integers("axes")
    shape = b.shape(x)
    places = tuple(range(len(shape))) if axes is None else tuple(b.axis(axis, len(shape)) for axis in axes)
    coordinates = node.text("coordinate_transformation_mode", "half_pixel")
    roi_name, scales_name, sizes_name = (inputs.optional(i) for i in (1, 2, 3))
    if b.observed is not None and _follows_values(b, node, x, coordinates):
        by_sizes = sizes_name is not None and b.shape(sizes_name) != (0,)
        deciding = sizes_name if by_sizes else scales_name
        if deciding is not None and math.prod(b.shape(deciding)) == len(places):
            changed = (_changed_by_sizes if by_sizes else _changed_by_scales)(b, x, deciding, places)
            if b.known(deciding) is None:
                return [_open_resize(b, node, x, changed, coordinates)]
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
    nearest = node.text("nearest_mode", "round_prefer_floor")
    return [_resized(b, node, x, mode, tuple(scales), sizes, coordinates, nearest, roi)]


#: Coordinates of results whose extents may be known only at run time.
_OPEN_COORDINATES: Final = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn")


@dataclass(frozen=True, slots=True)
class _Change:
    """The new extent of an axis, and the value of a single float64 with its scale; None: the axis has that extent."""

    extent: Extent
    scale: str | None = None


def _follows_values(b: NetworkBuilder, node: ModelNode, x: str, coordinates: str) -> bool:
    """Return whether a form of Resize is computed for extents that are known only at run time."""
    mode = node.text("mode", "nearest")
    is_supported = mode == "nearest" or (mode == "linear" and b.dtype(x) in FLOATS)
    is_stretched = node.text("keep_aspect_ratio_policy", "stretch") == "stretch"
    return is_supported and is_stretched and coordinates in _OPEN_COORDINATES and 0 not in b.shape(x)


def _changed_by_sizes(b: NetworkBuilder, x: str, name: str, places: Sequence[int]) -> dict[int, _Change]:
    changed = {}
    for axis, number in zip(places, numbers(b, name, "the sizes"), strict=True):
        extent = bounded(b, number, f"the size of axis {axis}")
        ratio = ("div", ("cast", "float64", 0), ("const", float(b.shape(x)[axis]), "float64"))
        changed[axis] = _Change(extent, b.elementwise(ratio, number) if isinstance(number, str) else None)
    return changed


def _changed_by_scales(b: NetworkBuilder, x: str, name: str, places: Sequence[int]) -> dict[int, _Change]:
    changed = {}
    flat = b.reshape(name, (len(places),))
    same = b.elementwise(("cast", "int64", ("equal", 0, ("const", 1.0, b.dtype(name)))), flat)
    for i, (axis, is_same) in enumerate(zip(places, numbers(b, same, "whether a scale is 1"), strict=True)):
        scale = b.cast(b.reshape(b.part(flat, 0, i, 1), ()), "float64")
        whole = ("floor", ("mul", ("const", float(b.shape(x)[axis]), "float64"), 0))
        count = b.elementwise(("cast", "int64", whole), scale)
        known = b.known(count)
        if is_same == 1:
            changed[axis] = _Change(Extent(b.shape(x)[axis]))
        number = count if known is None else int(known)
        if is_same != 1 or known is not None:
            changed[axis] = _Change(bounded(b, number, f"the size of axis {axis}"), scale)
    return changed


def _open_resize(b: NetworkBuilder, node: ModelNode, x: str, changed: Mapping[int, _Change], coordinates: str) -> str:
    """Return a value resized: first to known extents, then along each axis to one that is known only at run time."""
    mode, nearest = node.text("mode", "nearest"), node.text("nearest_mode", "round_prefer_floor")
    rounding = _NEAREST[nearest] if mode == "nearest" else None
    sizes = list(b.shape(x))
    for axis, each in changed.items():
        if each.scale is None:
            sizes[axis] = each.extent.bound
    scales = tuple(new / old for new, old in zip(sizes, b.shape(x), strict=True))
    x = _resized(b, node, x, mode, scales, sizes, coordinates, nearest, ())
    for axis, each in changed.items():
        if each.scale is not None:
            x = _resized_along(
                b, x, axis, each.extent, each.scale, _coordinate(coordinates, b.shape(x)[axis]), rounding
            )
    return x


def _resized_along(
    b: NetworkBuilder, x: str, axis: int, extent: Extent, scale: str, where: Any, rounding: Callable[[Any], Any] | None
) -> str:
    """Return a value resized along an axis, given its coordinates there; linearly if no rounding is given."""
    if b.length_along(x, axis) is not None:
        raise LengthError("it resizes an axis whose length is known only at run time", where=b.place())
    final = _number(b.shape(x)[axis] - 1)

    def picked(place: Any) -> str:
        """Return the elements at places."""
        within = ("cast", "int64", ("min", ("max", place, _number(0)), final))
        indices = b.elementwise(within, scale, shape=(extent.bound,), dtype="int64")
        return with_lengths(b, b.gather(x, indices, axis), axis, extent)

    if rounding is not None:
        return picked(rounding(where))
    before, kind = ("sub", ("ceil", where), _number(1)), b.dtype(x)
    ratio = ("cast", kind, ("sub", where, before))
    share = b.elementwise(ratio, scale, shape=(extent.bound,), dtype=kind)
    share = b.reshape(share, (extent.bound, *(1,) * (len(b.shape(x)) - 1 - axis)))
    mixed = ("add", 0, ("mul", 2, ("sub", 1, 0)))
    return b.elementwise(mixed, picked(before), picked(("ceil", where)), with_lengths(b, share, 0, extent))


def _number(value: float) -> Any:
    return ("const", float(value), "float64")


#: Rounding of coordinates.
_NEAREST: Final[dict[str, Callable[[Any], Any]]] = {
    "floor": lambda where: ("floor", where),
    "ceil": lambda where: ("ceil", where),
    "round_prefer_floor": lambda where: ("ceil", ("sub", where, _number(0.5))),
    "round_prefer_ceil": lambda where: ("floor", ("add", where, _number(0.5))),
}


def _coordinate(coordinates: str, n: int) -> Any:
    """Return the expression of the place in an axis for an index of the result; input 0 is the scale."""
    place: Any = ("cast", "float64", ("index", -1))
    half = ("div", ("add", place, _number(0.5)), 0)
    length = ("mul", 0, _number(n))
    if coordinates == "asymmetric":
        return ("div", place, 0)
    if coordinates == "tf_half_pixel_for_nn":
        return half
    is_single, span = ("equal", length, _number(1)), ("sub", length, _number(1))
    if coordinates == "align_corners":
        return ("where", is_single, _number(0), ("div", ("mul", place, _number(n - 1)), span))
    centre = ("sub", half, _number(0.5))
    return ("where", is_single, _number(-0.5), centre) if coordinates == "pytorch_half_pixel" else centre


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
