# SPDX-License-Identifier: Apache-2.0
"""Strides, dilations and pads of convolutions and poolings, with ONNX's defaults and ``auto_pad``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from syclsched.frontends.onnx.importing.lengths import Length, LengthError
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

Ints = tuple[int, ...]


class Windows(NamedTuple):
    """Windows over the spatial axes of an array."""

    strides: Ints
    dilations: Ints
    pads: Ints  # before each axis, then after each axis


def windows_of(b: NetworkBuilder, node: ModelNode, kernel: Ints, extents: Ints) -> Windows:
    """Return the windows of a node, with ``auto_pad`` resolved."""
    rank = len(extents)
    strides, dilations = (node.integers_or(name, (1,) * rank) for name in ("strides", "dilations"))
    pads = node.integers_or("pads", (0,) * (2 * rank))
    auto = node.text("auto_pad", "NOTSET")
    if not len(kernel) == len(strides) == len(dilations) == rank or len(pads) != 2 * rank:
        raise b.wrong(
            f"kernel {kernel}, strides {strides}, dilations {dilations} and pads {pads} do not fit {rank} spatial axes"
        )
    if min((*kernel, *strides, *dilations), default=1) < 1:
        raise b.wrong(f"kernel {kernel}, strides {strides} and dilations {dilations} must be positive")
    if auto == "VALID":
        pads = (0,) * (2 * rank)
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        axes = zip(extents, kernel, strides, dilations, strict=True)
        pads = divide_pads([max((math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n, 0) for n, k, s, d in axes], auto)
    elif auto != "NOTSET":
        raise b.wrong(f"auto_pad is {auto!r}, expected NOTSET, SAME_UPPER, SAME_LOWER or VALID")
    return Windows(strides, dilations, pads)


def check_lengths(b: NetworkBuilder, x: str, windows: Windows) -> None:
    """Raise if an axis whose length is known only at run time is cropped."""
    rank = len(windows.strides)
    axes = [each.axis - 2 for each in b.lengths.get(x, ()) if each.axis > 1]
    if any(min(windows.pads[axis], windows.pads[axis + rank]) < 0 for axis in axes):
        raise LengthError("it crops an axis whose length is known only at run time", where=b.place())


def window_counts(kernel: Ints, windows: Windows, extents: Ints, *, ceil: bool) -> Ints:
    """Return the number of windows along each axis."""
    made: list[int] = []
    rank = len(extents)
    for i, n in enumerate(extents):
        span = n + windows.pads[i] + windows.pads[i + rank] - windows.dilations[i] * (kernel[i] - 1) - 1
        step = windows.strides[i]
        count = (-(-span // step) if ceil else span // step) + 1
        if ceil and (count - 1) * step >= n + windows.pads[i]:
            count -= 1
        made.append(count)
    return tuple(made)


class OpenWindows(NamedTuple):
    """Windows along axes whose length decides how wide the pads are, which are in the value then."""

    x: str
    windows: Windows
    counts: dict[int, str]  # the number of windows along these axes

    def lengthened(self, b: NetworkBuilder, made: str) -> str:
        """Set the lengths of a result along these axes; return it."""
        others = [each for each in b.lengths.get(made, ()) if each.axis not in self.counts]
        if self.counts:
            b.give_lengths(made, [*others, *(Length(axis, count) for axis, count in self.counts.items())])
        return made


def with_open_windows(
    b: NetworkBuilder, node: ModelNode, x: str, kernel: Ints, windows: Windows, fill: float = 0.0
) -> OpenWindows:
    """Return a value with pads of ``fill`` in it where they are of ``auto_pad`` with strides, or of ``ceil_mode``."""
    rank, pads, counts = len(kernel), list(windows.pads), dict[int, str]()
    auto, ceil = node.text("auto_pad", "NOTSET"), node.flag("ceil_mode")
    is_same = auto.startswith("SAME")
    for length in b.lengths.get(x, ()):
        at, n, stride = length.axis - 2, b.shape(x)[length.axis], windows.strides[max(length.axis - 2, 0)]
        if at < 0 or not (ceil or (is_same and stride > 1)):
            continue
        covered = windows.dilations[at] * (kernel[at] - 1) + 1
        if is_same:
            count = b.formula("share", (stride,), _share(0, stride), [length.count])
            most = -(-n // stride)
        else:
            numbers = (stride, covered, pads[at], pads[at + rank])
            count = b.formula("ceil windows", numbers, _ceil_windows(*numbers), [length.count])
            most = window_counts(kernel, windows, b.shape(x)[2:], ceil=True)[at]
        spanned: Any = ("add", ("mul", ("sub", 1, _integer(1)), _integer(stride)), _integer(covered))
        begin = same_begin(0, 1, stride, covered, auto) if is_same else _integer(pads[at])
        room = (max(most, 1) - 1) * stride + covered
        x = _shifted_into(b, x, length, count, (begin, ("max", spanned, _integer(0))), room, fill)
        counts[length.axis] = count
        pads[at] = pads[at + rank] = 0
    return OpenWindows(x, windows._replace(pads=tuple(pads)), counts)


def same_begin(extent: Any, count: Any, stride: int, covered: int, auto: str) -> Any:
    """Return how many pads ``auto_pad`` puts before an axis, an expression of its extent and number of windows."""
    spanned = ("add", ("mul", ("sub", count, _integer(1)), _integer(stride)), _integer(covered))
    half = _integer(int(auto == "SAME_LOWER"))
    return ("div", ("add", ("max", ("sub", spanned, extent), _integer(0)), half), _integer(2))


def _share(number: Any, stride: int) -> Any:
    """Return a number divided by a stride, rounded up."""
    return ("div", ("add", number, _integer(stride - 1)), _integer(stride))


def _ceil_windows(stride: int, covered: int, before: int, behind: int) -> Any:
    room = ("add", 0, _integer(before + behind - covered))
    missing = ("div", ("max", ("sub", _integer(0), room), _integer(0)), _integer(stride))
    count = ("add", ("sub", _share(("max", room, _integer(0)), stride), missing), _integer(1))
    begins = ("mul", ("sub", count, _integer(1)), _integer(stride))  # the last of them
    beyond = ("cast", "int64", ("less_equal", ("add", 0, _integer(before)), begins))
    return ("max", ("sub", count, beyond), _integer(0))


def _integer(value: int) -> Any:
    return ("const", value, "int64")


def _shifted_into(
    b: NetworkBuilder, x: str, length: Length, count: str, places: tuple[Any, Any], room: int, fill: float
) -> str:
    """Return a value in an array of fill along an axis.

    ``places`` are where it begins and how much of the array counts, of the value's length and the number of windows.
    """
    (begin, spanned), axis, given = places, length.axis, (length.count, count)
    others = [each for each in b.lengths[x] if each.axis != axis]
    x = b.with_all(x, b.shape(x))
    b.give_lengths(x, others)
    place = ("sub", ("index", -1), begin)
    within = ("min", ("max", place, _integer(0)), _integer(b.shape(x)[axis] - 1))
    made = b.gather(x, b.elementwise(within, *given, shape=(room,), dtype="int64"), axis)
    inside = ("and", ("less_equal", _integer(0), place), ("less", place, 0))
    line = b.elementwise(inside, *given, shape=(room,), dtype="bool")
    line = b.reshape(line, (room, *(1,) * (len(b.shape(x)) - 1 - axis)))
    made = b.elementwise(("where", 1, 0, ("const", fill, b.dtype(x))), made, line)
    end = b.elementwise(spanned, *given, shape=(), dtype="int64")
    b.give_lengths(made, [*b.lengths.get(made, ()), Length(axis, end)])
    return made


def divide_pads(totals: Sequence[int], auto: str) -> Ints:
    """Return the pads before and after each axis; the larger part is after for SAME_UPPER, else before."""
    small, large = [n // 2 for n in totals], [n - n // 2 for n in totals]
    return (*small, *large) if auto == "SAME_UPPER" else (*large, *small)


def crop_negative_pads(b: NetworkBuilder, x: str, pads: Ints) -> tuple[str, Ints]:
    """Crop the last axes of a value by their negative pads; return the cropped value and the remaining pads."""
    if min(pads, default=0) >= 0:
        return x, pads
    rank, shape = len(pads) // 2, b.shape(x)
    whole = (0,) * (len(shape) - rank)
    starts = (*whole, *(max(-n, 0) for n in pads[:rank]))
    ends = (*whole, *(max(-n, 0) for n in pads[rank:]))
    extents = tuple(n - first - last for n, first, last in zip(shape, starts, ends, strict=True))
    if min(extents) < 0:
        raise b.wrong(f"pads {pads} cut more than there is of {shape}")
    return b.slice(x, starts, extents), tuple(max(n, 0) for n in pads)
