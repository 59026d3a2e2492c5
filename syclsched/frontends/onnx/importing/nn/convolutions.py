# SPDX-License-Identifier: Apache-2.0
"""Importers of Conv and ConvTranspose."""

from __future__ import annotations

from typing import Any

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.lengths import LengthError
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.window_parameters import (
    OpenWindows,
    check_lengths,
    crop_negative_pads,
    divide_pads,
    windows_of,
    with_open_windows,
)
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode


@imports("Conv")
def _conv(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    (x, w), bias = inputs.first("X", "W"), inputs.optional(2)
    if b.dtype(x) not in FLOATS:
        raise UnsupportedFormError
    return [convolution(b, node, x, w, bias)]


def convolution(b: NetworkBuilder, node: ModelNode, x: str, w: str, bias: str | None) -> str:
    """Add the convolution of a node."""
    opened, attributes = windows_and_input(b, node, x, w)
    return opened.lengthened(b, b.conv(opened.x, w, bias, **attributes))


def windows_and_input(b: NetworkBuilder, node: ModelNode, x: str, w: str) -> tuple[OpenWindows, dict[str, Any]]:
    """Return the windows on the input, cropped where pads are negative, and the attributes of a node's convolution."""
    x_shape, w_shape = b.shape(x), b.shape(w)
    _check_ranks(b, x_shape, w_shape)
    kernel = node.integers("kernel_shape", w_shape[2:])
    if kernel != w_shape[2:]:
        raise b.wrong(f"kernel_shape is {kernel}, and the weights' shape is {w_shape}")
    windows = windows_of(b, node, w_shape[2:], x_shape[2:])
    check_lengths(b, x, windows)
    opened = with_open_windows(b, node, x, kernel, windows)
    x, pads = crop_negative_pads(b, opened.x, opened.windows.pads)
    windows = windows._replace(pads=pads)
    return opened._replace(x=x, windows=windows), {"groups": node.integer("group", 1), **windows._asdict()}


def _check_ranks(b: NetworkBuilder, x: tuple[int, ...], w: tuple[int, ...]) -> None:
    if len(x) != len(w) or len(x) < 3:
        raise b.wrong(f"weights of shape {w} do not fit an input of shape {x}")


@imports("ConvTranspose")
def _conv_transpose(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import ConvTranspose; ``output_shape`` and ``auto_pad`` become pads."""
    (x, w), bias = inputs.first("X", "W"), inputs.optional(2)
    x_shape, w_shape = b.shape(x), b.shape(w)
    rank = len(x_shape) - 2
    if b.dtype(x) not in FLOATS:
        raise UnsupportedFormError
    _check_ranks(b, x_shape, w_shape)
    strides, dilations = (node.integers_or(name, (1,) * rank) for name in ("strides", "dilations"))
    extra, pads = node.integers_or("output_padding", (0,) * rank), node.integers_or("pads", (0,) * (2 * rank))
    wanted = node.integers("output_shape")
    auto = node.text("auto_pad", "NOTSET")
    if not len(strides) == len(dilations) == len(extra) == rank or len(pads) != 2 * rank:
        raise b.wrong(f"strides {strides}, dilations {dilations} and pads {pads} do not fit {rank} spatial axes")
    full = [strides[i] * (x_shape[2 + i] - 1) + extra[i] + dilations[i] * (w_shape[2 + i] - 1) + 1 for i in range(rank)]
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(x_shape[2 + i] * strides[i] for i in range(rank))
    if wanted is not None:
        # If the requested extent exceeds the full output, the output padding grows at the end.
        totals = [n - m for n, m in zip(full, wanted[-rank:], strict=True)]
        extra = tuple(n - min(total, 0) for n, total in zip(extra, totals, strict=True))
        pads = divide_pads([max(total, 0) for total in totals], auto)
    elif auto == "VALID":
        pads = (0,) * (2 * rank)
    if node.integers("output_shape") is not None and any(each.axis > 1 for each in b.lengths.get(x, ())):
        raise LengthError("its pads depend on an extent that is known only at run time", where=b.place())
    if min(pads) < 0:
        raise b.wrong(f"pads {pads} of a transposed convolution must not be negative")
    return [
        b.emit(
            "conv_transpose",
            [x, w, bias],
            strides=strides,
            pads=pads,
            dilations=dilations,
            groups=node.integer("group", 1),
            output_padding=extra,
            channels_last=False,
            activation=(),
        )
    ]
