# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions whose kernels do not overlap, as matrix products.

If the stride is the kernel's extent, each pixel makes pixels of its own: with channels last, a line (W, C) times the
weights (C, kw * O) of a row of the kernel is the line (W * kw, O) of the result in memory.
"""

from __future__ import annotations

import math

import numpy as np

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft


def multiply_pixels(draft: NetworkDraft) -> None:
    """Replace transposed convolutions over one or two axes, with channels last and constant weights."""
    for node in draft.each("conv_transpose"):
        at, weights, bias = node.attributes, draft.constant(node.inputs[1]), draft.constant(node.input(2))
        is_known = weights is not None and (bias is not None or node.input(2) is None)
        is_plain = at["groups"] == 1 and not any((*at["pads"], *at["output_padding"])) and set(at["dilations"]) == {1}
        if is_known and is_plain and at["channels_last"] and len(at["strides"]) <= 2:
            assert weights is not None
            if weights.shape[2:] == tuple(at["strides"]) and 0 not in draft.shape(str(node.outputs[0])):
                _replace(draft, node)


def _replace(draft: NetworkDraft, node: CanonicalNode) -> None:
    x, y, weights = str(node.inputs[0]), str(node.outputs[0]), draft.constants[str(node.inputs[1])]
    dtype, (*outer, width, inside) = draft.dtype(x), draft.shape(x)
    outside, *rows, columns = weights.shape[1:]
    # (C, O, kh, kw) becomes (kh, C, kw * O): the lines (N * H, 1, W, C) make (N * H, kh, W, kw * O).
    order = (2, 0, 3, 1) if rows else (0, 2, 1)
    held = np.ascontiguousarray(weights.transpose(order)).reshape(*rows, inside, columns * outside)
    lines = [math.prod(outer), *(1 for _ in rows), width]
    a = draft.add("reshape", (x,), (*lines, inside), dtype, {}, like=node)
    b = draft.add_constant(held, str(node.inputs[1]))
    bias = draft.constant(node.input(2))
    c = None if bias is None else draft.add_constant(np.tile(bias, columns), str(node.input(2)))
    made = (math.prod(outer), *rows, width, columns * outside)
    attributes = {"transpose_a": False, "transpose_b": False, "alpha": 1.0, "beta": 1.0}
    attributes |= {"activation": node.attributes["activation"]}
    product = draft.add("matmul", (a, b, c), made, dtype, attributes, like=node)
    plain = draft.add("reshape", (product,), draft.shape(y), dtype, {}, like=node)
    draft.replace_node(node, plain)
    draft.record_change("a matrix product", node.name)
