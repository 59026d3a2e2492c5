# SPDX-License-Identifier: Apache-2.0
"""Folding of a transposition before a flattening reshape into the weights of the dense layer after it."""

from __future__ import annotations

import math

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft


def permute_weights(draft: NetworkDraft) -> None:
    """Permute the weights of dense layers that read a transposed and flattened image, and remove the transposition."""
    for node in draft.each("matmul"):
        weight = draft.constant(node.inputs[1])
        flat = draft.made_by(node.inputs[0], "reshape")
        turned = None if flat is None else draft.made_by(flat.inputs[0], "transpose")
        if weight is None or weight.ndim != 2 or flat is None or turned is None or node.attributes["transpose_a"]:
            continue
        if draft.reads(str(node.inputs[0])) == 1:
            _permute(draft, node, flat, turned)


def _permute(draft: NetworkDraft, node: CanonicalNode, flat: CanonicalNode, turned: CanonicalNode) -> None:
    weight = draft.constants[str(node.inputs[1])]
    given, image = str(node.inputs[0]), str(flat.inputs[0])
    shape, permutation = draft.shape(image), tuple(turned.attributes["permutation"])
    depth = draft.shape(given)[-1]
    first = len(shape)
    while first and math.prod(shape[first:]) < depth:
        first -= 1
    if math.prod(shape[first:]) != depth or depth == 0 or permutation[:first] != tuple(range(first)):
        return
    stored = str(turned.inputs[0])
    # Axis i of the stored value is axis permutation.index(i) of the image.
    order = [permutation.index(axis) - first for axis in range(len(shape)) if permutation.index(axis) >= first]
    extents = shape[first:]
    if node.attributes["transpose_b"]:
        wide = weight.reshape(weight.shape[0], *extents).transpose(0, *(axis + 1 for axis in order))
    else:
        wide = weight.reshape(*extents, weight.shape[1]).transpose(*order, len(extents))
    held = draft.add_constant(wide.reshape(weight.shape), str(node.inputs[1]))
    plain = draft.add("reshape", (stored,), draft.shape(given), draft.dtype(given), {}, like=flat)
    draft.change(node, inputs=(plain, held, *node.inputs[2:]))
    draft.remove_unread(given)
    draft.record_change("weights in the order in which the image is stored", node.name)
