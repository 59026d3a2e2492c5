# SPDX-License-Identifier: Apache-2.0
"""Reordering of average poolings and pointwise convolutions, so that fewer elements are convolved or averaged.

A pointwise convolution combines channels, an average combines positions, and an average keeps a bias: the two commute.
The average must not count padding, and no other node may read the value between them.
"""

from __future__ import annotations

import math
from dataclasses import replace

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft


def move_average_first(draft: NetworkDraft) -> None:
    """Move a strided average pooling before the pointwise convolution that it reads.

    A pooling with stride 2 leaves a quarter of an image to convolve.
    """
    for pool in draft.each("pool"):
        source = str(pool.inputs[0])
        conv = draft.made_by(source, "conv")
        # A pooling that keeps the size gains nothing.
        if conv is None or math.prod(pool.attributes["strides"]) < 2 or _keeps_size(draft, pool):
            continue
        # Averaging more channels costs less than the saved products, unless there are very many more channels.
        if _commute(draft, conv, pool, source) and not conv.attributes["activation"]:
            made, given = _channels(draft, conv)
            if given <= 16 * made:
                _swap(draft, conv, pool)
                draft.record_change("average before the convolution", pool.name)


def move_average_last(draft: NetworkDraft) -> None:
    """Move a size-preserving average pooling behind the pointwise convolution that reads it, with its activation.

    Inception's branches average all input channels and then reduce them to a quarter or an eighth.
    """
    for conv in draft.each("conv"):
        averaged = str(conv.inputs[0])
        pool = draft.made_by(averaged, "pool")
        if pool is None or not _keeps_size(draft, pool) or not _commute(draft, conv, pool, averaged):
            continue
        made, given = _channels(draft, conv)
        if made < given:
            activation = conv.attributes["activation"]
            conv = draft.change(conv, attributes={**conv.attributes, "activation": ()})
            pool = draft.change(pool, attributes={**pool.attributes, "activation": activation})
            _swap(draft, pool, conv)
            draft.record_change("average behind the convolution", pool.name)


def _keeps_size(draft: NetworkDraft, pool: CanonicalNode) -> bool:
    return draft.shape(str(pool.inputs[0])) == draft.shape(str(pool.outputs[0]))


def _commute(draft: NetworkDraft, conv: CanonicalNode, pool: CanonicalNode, between: str) -> bool:
    """Return whether neighbours are an average and a pointwise convolution (1x1, stride 1, no pads, no residual)."""
    a, c = pool.attributes, conv.attributes
    averages = a["mode"] == "average" and not (any(a["pads"]) and a["count_include_pad"]) and not a.get("activation")
    one = all(stride == 1 for stride in c["strides"]) and not any(c["pads"])
    elements = all(extent == 1 for extent in draft.shape(str(conv.inputs[1]))[2:])
    plain = conv.input(3) is None
    same = a.get("channels_last", False) == c.get("channels_last", False)
    return averages and one and elements and plain and same and draft.reads(between) == 1


def _channels(draft: NetworkDraft, conv: CanonicalNode) -> tuple[int, int]:
    """Return the numbers of channels that a convolution makes and reads."""
    made, in_group, *_ = draft.shape(str(conv.inputs[1]))
    return made, in_group * int(conv.attributes["groups"])


def _swap(draft: NetworkDraft, first: CanonicalNode, second: CanonicalNode) -> None:
    """Swap two neighbours; the value between them gets the positions or channels that the second node makes."""
    x, between, output = str(first.inputs[0]), str(first.outputs[0]), str(second.outputs[0])
    channels = -1 if first.attributes.get("channels_last") else 1
    by_pool, by_conv = (output, x) if second.kind == "pool" else (x, output)
    shape = list(draft.shape(by_pool))
    shape[channels] = draft.shape(by_conv)[channels]
    new = draft.fresh(between)
    draft.values[new] = replace(draft.values[x], name=new, shape=tuple(shape))
    draft.change(first, inputs=(new, *first.inputs[1:]), outputs=(None,))
    draft.change(second, inputs=(x, *second.inputs[1:]), outputs=(new,))
    draft.change(draft.nodes[first.name], outputs=(output,))
