# SPDX-License-Identifier: Apache-2.0
"""Reordering of strided average pooling before pointwise convolutions, so that fewer elements are convolved."""

from __future__ import annotations

import math
from dataclasses import replace

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft


def move_average_first(draft: NetworkDraft) -> None:
    """Move a strided average pooling before the pointwise convolution that it reads.

    A pointwise convolution combines channels, an average combines positions, and an average keeps a bias: the two
    commute. A pooling with stride 2 leaves a quarter of an image to convolve. It must not count padding, and the
    convolution's result must have no other reader.
    """
    for pool in draft.each("pool"):
        a = pool.attributes
        if (
            a.get("activation")
            or a["mode"] != "average"
            or math.prod(a["strides"]) < 2
            or (any(a["pads"]) and a["count_include_pad"])
        ):
            continue
        source = str(pool.inputs[0])
        if draft.shape(source) == draft.shape(str(pool.outputs[0])):  # same size: no gain
            continue
        conv = draft.made_by(source, "conv")
        if conv is None or draft.reads(source) != 1 or not is_pointwise(draft, conv) or conv.attributes["activation"]:
            continue
        if a.get("channels_last", False) == conv.attributes.get("channels_last", False) and _is_profitable(draft, conv):
            _swap(draft, conv, pool)


def is_pointwise(draft: NetworkDraft, conv: CanonicalNode) -> bool:
    """Return whether a convolution is pointwise (1x1, stride 1, no pads) and has no residual."""
    a = conv.attributes
    one = all(stride == 1 for stride in a["strides"]) and not any(a["pads"])
    elements = all(extent == 1 for extent in draft.shape(str(conv.inputs[1]))[2:])
    return one and elements and (len(conv.inputs) < 4 or conv.inputs[3] is None)


def _is_profitable(draft: NetworkDraft, conv: CanonicalNode) -> bool:
    made = draft.shape(str(conv.inputs[1]))[0]
    shape = draft.shape(str(conv.inputs[0]))
    given = shape[-1] if conv.attributes.get("channels_last") else shape[1]
    # Averaging more channels costs less than the saved products, unless there are very many more channels.
    return given <= 16 * made


def _swap(draft: NetworkDraft, conv: CanonicalNode, pool: CanonicalNode) -> None:
    x, between, output = str(conv.inputs[0]), str(conv.outputs[0]), str(pool.outputs[0])
    channels = -1 if conv.attributes.get("channels_last") else 1
    shape = list(draft.shape(output))
    shape[channels] = draft.shape(x)[channels]
    averaged = draft.fresh(between)
    draft.values[averaged] = replace(draft.values[x], name=averaged, shape=tuple(shape))
    draft.change(conv, inputs=(averaged, *conv.inputs[1:]), outputs=(None,))
    draft.change(pool, inputs=(x,), outputs=(averaged,))
    draft.change(draft.nodes[conv.name], outputs=(output,))
    draft.record_change("average before the convolution", pool.name)
