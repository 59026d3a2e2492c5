# SPDX-License-Identifier: Apache-2.0
"""Strides, dilations and pads of convolutions and poolings, with ONNX's defaults and ``auto_pad``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from syclsched.frontends.onnx.importing.lengths import LengthError
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


def check_lengths(b: NetworkBuilder, node: ModelNode, x: str, windows: Windows) -> None:
    """Raise if pads depend on the length of an axis that is known only at run time."""
    axes = [each.axis - 2 for each in b.lengths.get(x, ()) if each.axis > 1]
    by_extent = node.text("auto_pad", "NOTSET").startswith("SAME") and any(windows.strides[axis] > 1 for axis in axes)
    rank = len(windows.strides)
    crops = any(min(windows.pads[axis], windows.pads[axis + rank]) < 0 for axis in axes)
    if axes and (by_extent or crops or node.flag("ceil_mode") or node.attributes.get("output_shape") is not None):
        raise LengthError("its pads depend on an extent that is known only at run time", where=b.place())


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
