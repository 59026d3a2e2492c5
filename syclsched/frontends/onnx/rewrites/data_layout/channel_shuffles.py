# SPDX-License-Identifier: Apache-2.0
"""Folding of a channel shuffle into the weights of the preceding convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft


def permute_channels(draft: NetworkDraft) -> None:
    """Permute the output channels of convolutions instead of shuffling them afterwards.

    A shuffle is a reshape that splits the channels into two axes, a transposition of these, and a reshape that merges
    them. Grouped convolutions are excluded: they would have to become dense, with zero weights between groups, which in
    ShuffleNet takes longer than the transposition.
    """
    for last in draft.each("reshape"):
        turned = draft.made_by(last.inputs[0], "transpose")
        split = None if turned is None else draft.made_by(turned.inputs[0], "reshape")
        if turned is None or split is None:
            continue
        conv = draft.made_by(split.inputs[0], "conv")
        if conv is None or any(draft.reads(str(node.outputs[0])) != 1 for node in (turned, split, conv)):
            continue
        order = _order(draft, split, turned, last)
        if order is not None:
            _permute(draft, conv, last, order)


def _order(draft: NetworkDraft, split: CanonicalNode, turned: CanonicalNode, last: CanonicalNode) -> Any:
    """Return the channel permutation of a shuffle; None if the nodes are no channel shuffle."""
    shape, wide = draft.shape(str(split.inputs[0])), draft.shape(str(split.outputs[0]))
    permutation = tuple(turned.attributes["permutation"])
    if draft.shape(str(last.outputs[0])) != shape or len(wide) != len(shape) + 1:
        return None
    if wide[:1] != shape[:1] or wide[3:] != shape[2:] or permutation != (0, 2, 1, *range(3, len(wide))):
        return None
    return np.arange(shape[1]).reshape(wide[1], wide[2]).T.reshape(-1)


def _permute(draft: NetworkDraft, conv: CanonicalNode, last: CanonicalNode, order: Any) -> None:
    a = conv.attributes
    weight = draft.constant(conv.inputs[1])
    bias = draft.constant(conv.input(2))
    no_constants = weight is None or (bias is None and conv.input(2) is not None)
    if a["groups"] != 1 or a.get("channels_last") or no_constants or len(conv.inputs) > 3:
        return
    assert weight is not None
    inputs = [conv.inputs[0], draft.add_constant(weight[order], str(conv.inputs[1]))]
    if bias is not None:
        inputs.append(draft.add_constant(bias[order], str(conv.inputs[2])))
    draft.change(conv, inputs=tuple(inputs))
    source = str(conv.outputs[0])
    before = last.inputs[0]
    if draft.can_redirect(str(last.outputs[0]), source):
        draft.replace_node(last, source)
    else:
        draft.change(last, inputs=(source,))
    draft.remove_unread(before)
    draft.record_change("channels are made shuffled", conv.name)
