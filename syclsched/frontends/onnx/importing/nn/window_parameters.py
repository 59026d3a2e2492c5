# SPDX-License-Identifier: Apache-2.0
"""Strides, dilations and pads of convolutions and poolings, with ONNX's defaults and ``auto_pad``."""

from __future__ import annotations

import math
from typing import NamedTuple

from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

Ints = tuple[int, ...]


class Windows(NamedTuple):
    """Windows over the spatial axes of an array."""

    #: Per axis.
    kernel: Ints
    strides: Ints
    dilations: Ints
    pads: Ints  # before each axis, then after each axis


def windows_of(b: NetworkBuilder, node: ModelNode, kernel: Ints, extents: Ints) -> Windows:
    """Return the windows of a node, with ``auto_pad`` resolved."""
    rank = len(extents)
    strides = node.integers("strides", (1,) * rank) or (1,) * rank
    dilations = node.integers("dilations", (1,) * rank) or (1,) * rank
    pads = node.integers("pads", (0,) * (2 * rank)) or (0,) * (2 * rank)
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
        before: list[int] = []
        after: list[int] = []
        for n, k, s, d in zip(extents, kernel, strides, dilations, strict=True):
            total = max((math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n, 0)
            small, large = total // 2, total - total // 2
            before.append(small if auto == "SAME_UPPER" else large)
            after.append(large if auto == "SAME_UPPER" else small)
        pads = (*before, *after)
    elif auto != "NOTSET":
        raise b.wrong(f"auto_pad is {auto!r}, expected NOTSET, SAME_UPPER, SAME_LOWER or VALID")
    return Windows(kernel, strides, dilations, pads)
