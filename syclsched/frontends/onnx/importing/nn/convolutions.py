# SPDX-License-Identifier: Apache-2.0
"""Importers of Conv and ConvTranspose."""

from __future__ import annotations

from collections.abc import Sequence

from syclsched.frontends.onnx.importing.importer_registry import UnsupportedFormError, given, imports, optional
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.window_parameters import windows_of
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode


@imports("Conv")
def conv(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import Conv; negative pads crop the input."""
    x, w, bias = given(b, inputs, 0, "X"), given(b, inputs, 1, "W"), optional(inputs, 2)
    x_shape, w_shape = b.shape(x), b.shape(w)
    if b.dtype(x) not in FLOATS:
        raise UnsupportedFormError
    if len(x_shape) != len(w_shape) or len(x_shape) < 3:
        raise b.wrong(f"weights of shape {w_shape} do not fit an input of shape {x_shape}")
    kernel = node.integers("kernel_shape", w_shape[2:])
    if kernel != w_shape[2:]:
        raise b.wrong(f"kernel_shape is {kernel}, and the weights' shape is {w_shape}")
    windows = windows_of(b, node, w_shape[2:], x_shape[2:])
    x, pads = crop_negative_pads(b, x, windows.pads)
    return [
        b.emit(
            "conv",
            [x, w, bias],
            strides=windows.strides,
            pads=pads,
            dilations=windows.dilations,
            groups=node.integer("group", 1),
            channels_last=False,
            activation=(),
        )
    ]


def crop_negative_pads(b: NetworkBuilder, x: str, pads: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """Crop a value by its negative pads; return the cropped value and the remaining pads."""
    if min(pads, default=0) >= 0:
        return x, pads
    rank = len(pads) // 2
    shape = b.shape(x)
    starts = (0, 0, *(max(-n, 0) for n in pads[:rank]))
    ends = (0, 0, *(max(-n, 0) for n in pads[rank:]))
    extents = tuple(n - first - last for n, first, last in zip(shape, starts, ends, strict=True))
    if min(extents) < 0:
        raise b.wrong(f"pads {pads} cut more than there is of {shape}")
    return b.slice(x, starts, extents), tuple(max(n, 0) for n in pads)


@imports("ConvTranspose")
def conv_transpose(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import ConvTranspose; ``output_shape`` and ``auto_pad`` become pads."""
    x, w, bias = given(b, inputs, 0, "X"), given(b, inputs, 1, "W"), optional(inputs, 2)
    x_shape, w_shape = b.shape(x), b.shape(w)
    rank = len(x_shape) - 2
    if b.dtype(x) not in FLOATS:
        raise UnsupportedFormError
    if len(x_shape) != len(w_shape) or rank < 1:
        raise b.wrong(f"weights of shape {w_shape} do not fit an input of shape {x_shape}")
    strides = node.integers("strides", (1,) * rank) or (1,) * rank
    dilations = node.integers("dilations", (1,) * rank) or (1,) * rank
    extra = node.integers("output_padding", (0,) * rank) or (0,) * rank
    pads = node.integers("pads", (0,) * (2 * rank)) or (0,) * (2 * rank)
    wanted = node.integers("output_shape")
    auto = node.text("auto_pad", "NOTSET")
    if not len(strides) == len(dilations) == len(extra) == rank or len(pads) != 2 * rank:
        raise b.wrong(f"strides {strides}, dilations {dilations} and pads {pads} do not fit {rank} spatial axes")
    full = tuple(
        strides[i] * (x_shape[2 + i] - 1) + extra[i] + dilations[i] * (w_shape[2 + i] - 1) + 1 for i in range(rank)
    )
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(x_shape[2 + i] * strides[i] for i in range(rank))
    if wanted is not None:
        wanted = wanted[-rank:]
        before, after = [], []
        for i in range(rank):
            # If the requested extent exceeds the full output, the output padding grows at the end.
            total = full[i] - wanted[i]
            if total < 0:
                extra = (*extra[:i], extra[i] - total, *extra[i + 1 :])
                total = 0
            small, large = total // 2, total - total // 2
            before.append(small if auto == "SAME_UPPER" else large)
            after.append(large if auto == "SAME_UPPER" else small)
        pads = (*before, *after)
    elif auto == "VALID":
        pads = (0,) * (2 * rank)
    negative = tuple(max(-n, 0) for n in pads)
    y = b.emit(
        "conv_transpose",
        [x, w, bias],
        strides=strides,
        pads=tuple(max(n, 0) for n in pads),
        dilations=dilations,
        groups=node.integer("group", 1),
        output_padding=extra,
        channels_last=False,
        activation=(),
    )
    if any(negative):
        raise b.wrong(f"pads {pads} of a transposed convolution must not be negative")
    return [y]
