# SPDX-License-Identifier: Apache-2.0
"""Places of the maxima of windows, the second result of MaxPool, also along axes of lengths known only at run time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from syclsched.frontends.onnx.importing.lengths import Length
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.window_parameters import Windows, same_begin
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

Ints = tuple[int, ...]


def places_of_maxima(b: NetworkBuilder, node: ModelNode, x: str, kernel: Ints, windows: Windows, made: str) -> str:
    """Return the places of the first maxima of the windows of a result, numbered through the whole value."""
    samples, channels, *extents = b.shape(x)
    counts = b.shape(made)[2:]
    count, size = math.prod(counts), math.prod(kernel)
    inner = {length.axis: length for length in b.lengths.get(x, ()) if length.axis < 2}
    inputs = _Inputs()
    axes = _axes(b, node, x, kernel, windows, made, inputs)
    is_within: Any = axes[0].inside
    for each in axes[1:]:
        is_within = ("and", is_within, each.inside)
    within = b.elementwise(is_within, *inputs.names, shape=(count, size), dtype="bool")
    # Elements in the margins stand for the first of their window that is none.
    inner_places: list[Any] = [("where", inputs.put(within), each.place, each.first) for each in axes]
    places = [
        ("min", ("max", place, _integer(0)), _integer(n - 1)) for place, n in zip(inner_places, extents, strict=True)
    ]
    by_columns = node.flag("storage_order")
    lines = b.elementwise(_numbered(places, [*map(_integer, extents)]), *inputs.names, shape=(count, size))
    numbers = b.elementwise(
        _numbered(places, [each.extent for each in axes], by_columns=by_columns), *inputs.names, shape=(count, size)
    )
    picked = b.gather(_with(b, x, (samples, channels, math.prod(extents)), inner.values()), _line(b, lines), 2)
    parts = _with(b, picked, (samples, channels, count, size), inner.values())
    at = b.emit("arg", [parts], mode="max", axis=3, keepdims=False, last=False)
    begins = b.constant(np.arange(count) * size, "int64")
    found = b.gather(_line(b, numbers), b.elementwise(("add", 0, 1), at, begins))
    total = _Inputs(found)
    each_channel: Any = total.put(inner[1].count) if 1 in inner else _integer(channels)
    whole: Any = _integer(1)
    for axis, n in enumerate(extents, 2):
        length = b.length_along(x, axis)
        whole = ("mul", whole, _integer(n) if length is None else total.put(length))
    before = ("add", ("mul", ("index", -3), each_channel), ("index", -2))
    result = b.elementwise(("add", 0, ("mul", before, whole)), *total.names, shape=(samples, channels, count))
    return _with(b, result, b.shape(made), b.lengths.get(made, ()))


class _Inputs:
    """Names of the inputs of an expression."""

    def __init__(self, *names: str) -> None:
        self.names = [*names]

    def put(self, name: str) -> int:
        """Return the place of an input; add it if it is new."""
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)


class _WindowAxis:
    """Expressions of the places along an axis of each window's elements."""

    def __init__(self, extent: Any, end: Any, begin: Any, offset: Any, dilation: int) -> None:
        self.extent = extent
        self.place: Any = ("add", begin, offset)
        self.inside = ("and", ("less_equal", _integer(0), self.place), ("less", self.place, end))
        missing = ("max", ("sub", _integer(0), begin), _integer(0))
        share = ("div", ("add", missing, _integer(dilation - 1)), _integer(dilation))
        self.first: Any = ("add", begin, ("mul", share, _integer(dilation)))


def _axes(
    b: NetworkBuilder, node: ModelNode, x: str, kernel: Ints, windows: Windows, made: str, inputs: _Inputs
) -> list[_WindowAxis]:
    """Return the places of windows' elements along each axis."""
    rank, counts, auto = len(kernel), b.shape(made)[2:], node.text("auto_pad", "NOTSET")
    firsts = np.indices(counts).reshape(rank, -1, 1)
    offsets = np.indices(kernel).reshape(rank, 1, -1)
    found = []
    for axis, n in enumerate(b.shape(x)[2:]):
        stride, dilation = windows.strides[axis], windows.dilations[axis]
        length, count = b.length_along(x, axis + 2), b.length_along(made, axis + 2)
        extent: Any = _integer(n) if length is None else inputs.put(length)
        pads: Any = _integer(windows.pads[axis])
        if length is not None and auto.startswith("SAME"):
            many = _integer(counts[axis]) if count is None else inputs.put(count)
            pads = same_begin(extent, many, stride, dilation * (kernel[axis] - 1) + 1, auto)
        begin = ("sub", inputs.put(b.constant(firsts[axis] * stride, "int64")), pads)
        offset = inputs.put(b.constant(offsets[axis] * dilation, "int64"))
        end = ("add", extent, _integer(min(windows.pads[axis + rank], 0)))
        found.append(_WindowAxis(extent, end, begin, offset, dilation))
    return found


def _numbered(places: Sequence[Any], extents: Sequence[Any], *, by_columns: bool = False) -> Any:
    """Return the number of a place among all, row by row or column by column."""
    number: Any = _integer(0)
    axes = [*zip(places, extents, strict=True)]
    for place, extent in reversed(axes) if by_columns else axes:
        number = ("add", ("mul", number, extent), place)
    return number


def _line(b: NetworkBuilder, x: str) -> str:
    return b.reshape(x, (math.prod(b.shape(x)),))


def _with(b: NetworkBuilder, x: str, shape: Ints, lengths: Iterable[Length]) -> str:
    """Return a value in another shape with these lengths."""
    made = b.with_all(x, shape)
    b.give_lengths(made, lengths)
    return made


def _integer(value: int) -> Any:
    return ("const", value, "int64")
