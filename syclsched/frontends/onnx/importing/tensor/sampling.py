# SPDX-License-Identifier: Apache-2.0
"""Importer of GridSample: interpolation at computed positions."""

from __future__ import annotations

import itertools
import math
from typing import Any, Final

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

_MODES: Final = {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "cubic": "cubic", "nearest": "nearest"}
#: Coefficient of Keys' cubic convolution.
_KEYS: Final = -0.75


def _const(value: float, dtype: str) -> Any:
    return ("const", int(value) if dtype.startswith("int") else float(value), dtype)


@imports("GridSample")
def _grid_sample(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import GridSample: gather the neighbours of each position and add them with weights."""
    x, grid = inputs.first("X", "grid")
    shape, places = b.shape(x), b.shape(grid)
    mode = _MODES.get(node.text("mode", "linear"))
    padding = node.text("padding_mode", "zeros")
    if mode is None or padding not in ("zeros", "border", "reflection"):
        raise b.wrong(f"mode is {node.text('mode')!r}, padding_mode {padding!r}")
    if len(shape) < 3 or len(places) != len(shape) or places[0] != shape[0] or places[-1] != len(shape) - 2:
        raise b.wrong(f"a grid of shape {places} for an input of shape {shape}")
    if b.dtype(x) != "float32" or b.dtype(grid) != "float32" or 0 in shape or 0 in places:
        raise UnsupportedFormError
    if mode == "cubic" and len(shape) != 4:
        raise b.wrong(f"mode cubic takes two axes, and there are {len(shape) - 2}")
    align = node.flag("align_corners")
    count = math.prod(places[1:-1])
    rank = len(shape) - 2
    flat = b.reshape(grid, (shape[0], count, rank))
    # The last column of the grid holds the positions along the first spatial axis.
    axes = [
        _Axis(b, b.slice(flat, (0, 0, rank - 1 - i), (shape[0], count, 1)), shape[2 + i], padding, align, mode)
        for i in range(rank)
    ]
    # The channels of one element form a row; whole rows are gathered.
    size, total = math.prod(shape[2:]), None
    rows = b.reshape(b.transpose(x, (0, *range(2, rank + 2), 1)), (shape[0] * size, shape[1]))
    for neighbour in itertools.product(range(axes[0].neighbours), repeat=rank):
        index, weight = axes[0].at(neighbour[0])
        for axis, offset in zip(axes[1:], neighbour[1:], strict=True):
            at, factor = axis.at(offset)
            index = b.elementwise(("add", ("mul", 0, _const(axis.extent, "int64")), 1), index, at)
            if weight is not None and factor is not None:
                weight = b.elementwise(("mul", 0, 1), weight, factor)
        if shape[0] > 1:
            index = b.elementwise(("add", 0, ("mul", ("index", -3), _const(size, "int64"))), index)
        picked = b.gather(rows, b.reshape(index, (shape[0] * count,)))
        if weight is not None:
            column = b.reshape(weight, (shape[0] * count, 1))
            # A neighbour outside the array contributes 0, even if the element gathered in its place is not finite.
            part: Any = ("where", ("equal", 1, _const(0, "float32")), _const(0, "float32"), ("mul", 0, 1))
            sum_of = part if total is None else ("add", 2, part)
            picked = b.elementwise(sum_of, picked, column, *([] if total is None else [total]))
        total = picked
    assert total is not None
    return [
        b.reshape(b.transpose(b.reshape(total, (shape[0], count, shape[1])), (0, 2, 1)), (*shape[:2], *places[1:-1]))
    ]


class _Axis:
    """Positions along one axis: an array (batch, count, 1) of numbers from -1 to 1."""

    def __init__(self, b: NetworkBuilder, grid: str, extent: int, padding: str, align: bool, mode: str) -> None:
        self._b, self.extent, self._padding, self._align, self._mode = b, extent, padding, align, mode
        self.neighbours = {"nearest": 1, "linear": 2, "cubic": 4}[mode]
        size = _const(extent, "float32")
        one, half = _const(1, "float32"), _const(0.5, "float32")
        if align:
            place: Any = ("mul", ("mul", ("add", 0, one), half), _const(extent - 1, "float32"))
        else:
            place = ("mul", ("sub", ("mul", ("add", 0, one), size), one), half)
        if mode == "nearest":
            place = ("round", place)
        if mode != "cubic":  # cubic interpolation applies the padding to each neighbour instead
            place = self._inside(place, 0.0 if align else -0.5)
        self._place = b.elementwise(place, grid)
        self._floor = self._place if mode == "nearest" else b.elementwise(("floor", 0), self._place)

    def _inside(self, place: Any, low: float) -> Any:
        """Map a position into the axis according to the padding mode."""
        if self._padding == "zeros":
            return place
        if self._padding == "reflection":
            # Triangle wave between the borders: fold the distance from the lower border into one period.
            span = self.extent - 1 - 2 * low
            if span <= 0:
                return ("mul", place, _const(0, "float32"))
            twice = _const(2 * span, "float32")
            off = ("abs", ("sub", place, _const(low, "float32")))
            left = ("sub", off, ("mul", ("floor", ("div", off, twice)), twice))
            place = ("add", ("min", left, ("sub", twice, left)), _const(low, "float32"))
        return ("min", ("max", place, _const(0, "float32")), _const(self.extent - 1, "float32"))

    def at(self, offset: int) -> tuple[str, str | None]:
        """Return the index of one neighbour, clamped to the axis, and its weight; None for a weight of 1."""
        b = self._b
        first = -1 if self._mode == "cubic" else 0
        number = ("add", 0, _const(first + offset, "float32"))
        end = _const(self.extent - 1, "float32")
        held = self._inside(number, 0.0 if self._align else -0.5) if self._mode == "cubic" else number
        inside = ("max", ("min", held, end), _const(0, "float32"))
        # NaN must become a valid index, too: 0.
        known = ("where", ("equal", inside, inside), inside, _const(0, "float32"))
        index = b.elementwise(("cast", "int64", known), self._floor)
        share = ("sub", 1, 0)
        weight = {"nearest": None, "linear": self._linear, "cubic": self._cubic}[self._mode]
        factor: Any = None if weight is None else weight(share, offset)
        if self._padding == "zeros":
            within = ("equal", ("max", ("min", number, end), _const(0, "float32")), number)
            factor = ("where", within, _const(1, "float32") if factor is None else factor, _const(0, "float32"))
        return index, None if factor is None else b.elementwise(factor, self._floor, self._place)

    @staticmethod
    def _linear(share: Any, offset: int) -> Any:
        return share if offset else ("sub", _const(1, "float32"), share)

    @staticmethod
    def _cubic(share: Any, offset: int) -> Any:
        """Return the weight of the neighbour by Keys' cubic convolution (R. Keys, IEEE TASSP 29(6), 1981)."""
        a, one = _const(_KEYS, "float32"), _const(1, "float32")
        far = {0: ("add", share, one), 1: share, 2: ("sub", one, share), 3: ("sub", _const(2, "float32"), share)}[
            offset
        ]
        if offset in (1, 2):
            inner = ("sub", ("mul", _const(_KEYS + 2, "float32"), far), _const(_KEYS + 3, "float32"))
            return ("add", ("mul", ("mul", inner, far), far), one)
        outer = ("sub", ("mul", a, far), _const(5 * _KEYS, "float32"))
        outer = ("add", ("mul", outer, far), _const(8 * _KEYS, "float32"))
        return ("sub", ("mul", outer, far), _const(4 * _KEYS, "float32"))
