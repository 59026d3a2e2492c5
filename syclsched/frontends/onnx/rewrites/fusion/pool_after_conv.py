# SPDX-License-Identifier: Apache-2.0
"""Reordering of average pooling after pointwise convolutions, so that fewer channels are averaged."""

from __future__ import annotations

from dataclasses import replace

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.fusion.pool_before_conv import is_pointwise
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft


def move_average_last(draft: NetworkDraft) -> None:
    """Move a size-preserving average pooling behind the pointwise convolution that reads it.

    As in `pool_before_conv`, the two commute; the convolution's activation moves to the pooling. Inception's branches
    average all input channels and then reduce them to a quarter or an eighth. The average must not count padding and
    must have no other reader.
    """
    for conv in draft.each("conv"):
        averaged = str(conv.inputs[0])
        pool = draft.made_by(averaged, "pool")
        if pool is None or draft.reads(averaged) != 1 or not is_pointwise(draft, conv) or not _averages(draft, pool):
            continue
        if pool.attributes["channels_last"] == conv.attributes["channels_last"] and _is_profitable(draft, conv):
            _swap(draft, pool, conv)


def _averages(draft: NetworkDraft, pool: CanonicalNode) -> bool:
    """Return whether a pooling is a size-preserving average without counted padding or activation."""
    a = pool.attributes
    counted = any(a["pads"]) and a["count_include_pad"]
    same = draft.shape(str(pool.inputs[0])) == draft.shape(str(pool.outputs[0]))
    return a["mode"] == "average" and same and not counted and not a.get("activation")


def _is_profitable(draft: NetworkDraft, conv: CanonicalNode) -> bool:
    made, given, *_ = draft.shape(str(conv.inputs[1]))
    return made < given * int(conv.attributes["groups"])


def _swap(draft: NetworkDraft, pool: CanonicalNode, conv: CanonicalNode) -> None:
    x, averaged, output = str(pool.inputs[0]), str(pool.outputs[0]), str(conv.outputs[0])
    between = draft.fresh(averaged)
    draft.values[between] = replace(draft.values[output], name=between)
    activation = conv.attributes["activation"]
    draft.change(pool, inputs=(between,), outputs=(None,), attributes={**pool.attributes, "activation": activation})
    draft.change(
        conv, inputs=(x, *conv.inputs[1:]), outputs=(between,), attributes={**conv.attributes, "activation": ()}
    )
    draft.change(draft.nodes[pool.name], outputs=(output,))
    draft.record_change("average behind the convolution", pool.name)
