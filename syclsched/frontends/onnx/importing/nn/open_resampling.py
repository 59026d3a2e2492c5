# SPDX-License-Identifier: Apache-2.0
"""Resize to extents, by scales or of a region that values decide: elements picked by places computed at run time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syclsched.frontends.onnx.importing.extents import Extent, bounded, formula, numbers, with_lengths
from syclsched.frontends.onnx.importing.lengths import LengthError
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

#: Function that resizes a value to sizes.
ToSizes = Callable[[str, Sequence[int]], str]


@dataclass(frozen=True, slots=True)
class ResizeInputs:
    """The inputs of Resize that decide its result; the region if it counts."""

    region: str | None
    scales: str | None
    sizes: str | None


@dataclass(frozen=True, slots=True)
class _Change:
    """The new extent of an axis, and the value of a single float64 with its scale; None: the axis has that extent."""

    extent: Extent
    scale: str | None = None
    #: The number of elements of the result.
    count: str | None = None
    #: Begin and end of the region.
    region: tuple[str, str] | None = None


def resized_by_values(
    b: NetworkBuilder, node: ModelNode, x: str, places: Sequence[int], inputs: ResizeInputs, fixed: ToSizes
) -> str | None:
    """Return the result of Resize along axes, first to fixed sizes; None if nothing else decides it."""
    has_length = any(b.length_along(x, axis) is not None for axis in places)
    if (b.observed is None and not has_length) or not _is_supported(b, node, x):
        return None
    by_sizes = inputs.sizes is not None and b.shape(inputs.sizes) != (0,)
    deciding = inputs.sizes if by_sizes else inputs.scales
    if deciding is None or math.prod(b.shape(deciding)) != len(places):
        return None
    region = inputs.region
    if region is not None and math.prod(b.shape(region)) != 2 * len(places):
        return None
    regions = _regions(b, region, places)
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if by_sizes and policy != "stretch":
        if has_length:
            raise LengthError(f"it keeps the aspect ratio, {policy}, of an open extent", where=b.place())
        changed = _changed_by_policy(b, x, deciding, places, policy)
    elif by_sizes:
        changed = _changed_by_sizes(b, x, deciding, places, regions)
    else:
        changed = _changed_by_scales(b, x, deciding, places, regions)
    if not has_length and all(each is None or b.known(each) is not None for each in (deciding, region)):
        return None
    sizes = list(b.shape(x))
    for axis, each in changed.items():
        if each.scale is None:
            sizes[axis] = each.extent.bound
    x = fixed(x, sizes)
    for axis, each in changed.items():
        if each.scale is not None:
            x = _Along(b, node, x, axis, each, each.scale).resized()
    return x


def _is_supported(b: NetworkBuilder, node: ModelNode, x: str) -> bool:
    mode = node.text("mode", "nearest")
    return (mode == "nearest" or (mode in ("linear", "cubic") and b.dtype(x) in FLOATS)) and 0 not in b.shape(x)


def _scalar(b: NetworkBuilder, flat: str, index: int) -> str:
    return b.cast(b.reshape(b.part(flat, 0, index, 1), ()), "float64")


def _regions(b: NetworkBuilder, region: str | None, places: Sequence[int]) -> dict[int, tuple[str, str]]:
    if region is None:
        return {}
    flat, count = b.reshape(region, (2 * len(places),)), len(places)
    return {axis: (_scalar(b, flat, i), _scalar(b, flat, i + count)) for i, axis in enumerate(places)}


def _what(axis: int) -> str:
    return f"the size of axis {axis}"


def _changed_by_sizes(
    b: NetworkBuilder, x: str, name: str, places: Sequence[int], regions: Mapping[int, tuple[str, str]]
) -> dict[int, _Change]:
    changed = {}
    for axis, number in zip(places, numbers(b, name, "the sizes"), strict=True):
        extent, region = bounded(b, number, _what(axis)), regions.get(axis)
        length = b.length_along(x, axis)
        count = number if isinstance(number, str) else None
        if count is None and (region is not None or length is not None):
            count = b.constant(number, "int64")
        ratio = ("div", ("cast", "float64", 0), _number(b.shape(x)[axis]) if length is None else ("cast", "float64", 1))
        given = [each for each in (count, length) if each is not None]
        changed[axis] = _Change(extent, None if count is None else b.elementwise(ratio, *given), count, region)
    return changed


def _changed_by_policy(b: NetworkBuilder, x: str, name: str, places: Sequence[int], policy: str) -> dict[int, _Change]:
    """Return changes by the same scale along all axes: the least or largest by which one gets its size."""
    sizes = b.cast(b.reshape(name, (len(places),)), "float64")
    extents = b.constant([b.shape(x)[axis] for axis in places], "float64")
    ratios = b.elementwise(("div", 0, 1), sizes, extents)
    scale = b.reduce("min" if policy == "not_larger" else "max", ratios, (0,), keepdims=False)
    changed = {}
    for axis in places:
        whole = ("floor", ("add", ("mul", 0, _number(b.shape(x)[axis])), _number(0.5)))
        count = b.elementwise(("cast", "int64", whole), scale)
        known = b.known(count)
        changed[axis] = _Change(bounded(b, count if known is None else int(known), _what(axis)), scale, count)
    return changed


def _changed_by_scales(
    b: NetworkBuilder, x: str, name: str, places: Sequence[int], regions: Mapping[int, tuple[str, str]]
) -> dict[int, _Change]:
    changed = {}
    flat = b.reshape(name, (len(places),))
    same = b.elementwise(("cast", "int64", ("equal", 0, ("const", 1.0, b.dtype(name)))), flat)
    for i, (axis, is_same) in enumerate(zip(places, numbers(b, same, "whether a scale is 1"), strict=True)):
        scale, region, length = _scalar(b, flat, i), regions.get(axis), b.length_along(x, axis)
        if length is not None:
            changed[axis] = _scaled_length(b, x, axis, length, scale, region)
            continue
        whole: Any = ("mul", _number(b.shape(x)[axis]), 0)
        if region is not None:
            whole = ("mul", ("mul", _number(b.shape(x)[axis]), ("sub", 2, 1)), 0)
        count = b.elementwise(("cast", "int64", ("floor", whole)), scale, *(region or ()))
        known = b.known(count)
        number = count if known is None else int(known)
        if is_same == 1 and region is None:
            changed[axis] = _Change(Extent(b.shape(x)[axis]))
            if known is not None:
                bounded(b, number, _what(axis))
        else:
            changed[axis] = _Change(bounded(b, number, _what(axis)), scale, count, region)
    return changed


def _scaled_length(
    b: NetworkBuilder, x: str, axis: int, length: str, scale: str, region: tuple[str, str] | None
) -> _Change:
    """Return the change of an axis with a length by a scale."""
    known, n = b.known(scale), b.shape(x)[axis]
    if known is None or region is not None:
        raise LengthError("it resizes an axis whose length is known only at run time", where=b.place())
    factor = known.item()
    if factor == 1:
        return _Change(Extent(n, length))
    if factor == int(factor):
        count = formula(b, "mul", int(factor), [length])
    else:
        whole = ("cast", "int64", ("floor", ("mul", ("cast", "float64", 0), _number(factor))))
        count = b.formula(f"times {factor}", (), whole, [length])
    return _Change(Extent(math.floor(n * factor), count), scale, count)


class _Along:
    """Resize along one axis."""

    def __init__(self, b: NetworkBuilder, node: ModelNode, x: str, axis: int, change: _Change, scale: str) -> None:
        self._b, self._node, self._x, self._axis = b, node, x, axis
        self._extent = change.extent
        #: Inputs of expressions of places, as far as these need them.
        self._inputs = [scale]
        if change.region is not None:
            self._inputs += change.region
        elif node.text("coordinate_transformation_mode", "half_pixel") == "half_pixel_symmetric":
            self._inputs.append(change.count or scale)
        #: Expression of the extent.
        self._n: Any = _number(b.shape(x)[axis])
        length = b.length_along(x, axis)
        if length is not None:
            self._n = ("cast", "float64", len(self._inputs))
            self._inputs.append(length)
        #: Expression of the last place.
        self._last: Any = ("sub", self._n, _number(1)) if length else _number(b.shape(x)[axis] - 1)

    def resized(self) -> str:
        """Return the value resized."""
        b, mode = self._b, self._node.text("mode", "nearest")
        coordinates = self._node.text("coordinate_transformation_mode", "half_pixel")
        where = _coordinate(coordinates, self._n, self._last)
        if mode == "nearest":
            made = self._picked(_NEAREST[self._node.text("nearest_mode", "round_prefer_floor")](where))
        else:
            made = self._mixed(where, cubic=mode == "cubic")
        if coordinates != "tf_crop_and_resize":
            return made
        inside = ("and", ("less_equal", _number(0), where), ("less_equal", where, self._last))
        kept = self._line(("cast", b.dtype(made), inside), b.dtype(made))
        value = ("const", float(self._node.number("extrapolation_value", 0.0)), b.dtype(made))
        return b.elementwise(("where", ("equal", 1, ("const", 0, b.dtype(made))), value, 0), made, kept)

    def _picked(self, place: Any) -> str:
        """Return the elements at places, the nearest ones for places outside."""
        b = self._b
        within = ("cast", "int64", ("min", ("max", place, _number(0)), self._last))
        indices = b.elementwise(within, *self._inputs, shape=(self._extent.bound,), dtype="int64")
        return with_lengths(b, b.gather(self._x, indices, self._axis), self._axis, self._extent)

    def _line(self, expression: Any, kind: str) -> str:
        """Return numbers along the axis."""
        b, count = self._b, self._extent.bound
        made = b.elementwise(expression, *self._inputs, shape=(count,), dtype=kind)
        made = b.reshape(made, (count, *(1,) * (len(b.shape(self._x)) - 1 - self._axis)))
        return with_lengths(b, made, 0, self._extent)

    def _mixed(self, where: Any, *, cubic: bool) -> str:
        """Return the sums of neighbours by their shares."""
        b, kind = self._b, self._b.dtype(self._x)
        below = ("sub", ("ceil", where), _number(1))  # an integer coordinate belongs to the interval before it
        ratio = ("sub", where, below)
        if not cubic:
            between = ("add", 0, ("mul", 2, ("sub", 1, 0)))
            return b.elementwise(
                between, self._picked(below), self._picked(("ceil", where)), self._line(("cast", kind, ratio), kind)
            )
        taps = [("add", below, _number(offset)) for offset in (-1, 0, 1, 2)]
        shares = _cubic_shares(ratio, float(self._node.number("cubic_coeff_a", -0.75)))
        if self._node.flag("exclude_outside"):
            lines = self._shares_inside(taps, shares)
        else:
            lines = [self._line(("cast", kind, share), kind) for share in shares]
        given = [*map(self._picked, taps), *lines]
        products = [("mul", i, i + 4) for i in range(4)]
        mixed = ("add", ("add", ("add", products[0], products[1]), products[2]), products[3])
        return b.elementwise(mixed, *given)

    def _shares_inside(self, taps: Sequence[Any], shares: Sequence[Any]) -> list[str]:
        """Return the shares of neighbours, none of those outside."""
        b, lines = self._b, []
        for tap, share in zip(taps, shares, strict=True):
            inside = ("and", ("less_equal", _number(0), tap), ("less_equal", tap, self._last))
            lines.append(self._line(("where", inside, share, _number(0)), "float64"))
        total = ("add", ("add", 0, 1), ("add", 2, 3))
        return [b.elementwise(("cast", b.dtype(self._x), ("div", i, total)), *lines) for i in range(len(lines))]


def _cubic_shares(ratio: Any, a: float) -> list[Any]:
    """Return the shares of four neighbours, of which the second is at a distance of ``ratio``."""

    def outer(distance: Any) -> Any:
        """Return the share at a distance of more than 1: ((a d - 5 a) d + 8 a) d - 4 a."""
        inner = ("sub", ("mul", _number(a), distance), _number(5 * a))
        inner = ("add", ("mul", inner, distance), _number(8 * a))
        return ("sub", ("mul", inner, distance), _number(4 * a))

    def near(distance: Any) -> Any:
        """Return the share at a distance of at most 1: ((a + 2) d - (a + 3)) d d + 1."""
        inner = ("sub", ("mul", _number(a + 2), distance), _number(a + 3))
        return ("add", ("mul", ("mul", inner, distance), distance), _number(1))

    far = ("sub", _number(1), ratio)
    return [outer(("add", ratio, _number(1))), near(ratio), near(far), outer(("add", far, _number(1)))]


def _number(value: float) -> Any:
    return ("const", float(value), "float64")


#: Rounding of coordinates.
_NEAREST: Final[dict[str, Callable[[Any], Any]]] = {
    "floor": lambda where: ("floor", where),
    "ceil": lambda where: ("ceil", where),
    "round_prefer_floor": lambda where: ("ceil", ("sub", where, _number(0.5))),
    "round_prefer_ceil": lambda where: ("floor", ("add", where, _number(0.5))),
}


def _coordinate(coordinates: str, n: Any, last: Any) -> Any:
    """Return the expression of the place in an axis, of an extent and a last place, for an index of the result.

    Input 0 is the scale; 1 and 2 are begin and end of the region, or 1 is the number of elements of the result.
    """
    place: Any = ("cast", "float64", ("index", -1))
    half = ("div", ("add", place, _number(0.5)), 0)
    length = ("mul", 0, n)
    if coordinates == "asymmetric":
        return ("div", place, 0)
    if coordinates == "tf_half_pixel_for_nn":
        return half
    is_single, span = ("equal", length, _number(1)), ("sub", length, _number(1))
    if coordinates == "align_corners":
        return ("where", is_single, _number(0), ("div", ("mul", place, last), span))
    if coordinates == "tf_crop_and_resize":
        whole = ("mul", ("sub", 2, 1), last)
        moved = ("where", is_single, ("div", whole, _number(2)), ("div", ("mul", place, whole), span))
        return ("add", ("mul", 1, last), moved)
    centre = ("sub", half, _number(0.5))
    if coordinates == "half_pixel_symmetric":
        share = ("sub", _number(1), ("div", ("cast", "float64", 1), length))
        return ("add", ("mul", ("div", n, _number(2)), share), centre)
    return ("where", is_single, _number(-0.5), centre) if coordinates == "pytorch_half_pixel" else centre
