# SPDX-License-Identifier: Apache-2.0
"""Importer of TopK."""

from __future__ import annotations

from collections.abc import Sequence

from syclsched.frontends.onnx.importing.importer_registry import given, imports, optional
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode


@imports("TopK")
def topk(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[str | None]:
    """Import TopK; k is an attribute before opset 10, then an input."""
    x, count = given(b, inputs, 0, "X"), optional(inputs, 1)
    k = node.integer("k", -1) if count is None else int(b.require(count, "the k of TopK").reshape(-1)[0])
    axis = b.axis(node.integer("axis", -1), len(b.shape(x)))
    return b.emit_all(
        "topk",
        [x],
        wanted=[bool(name) for name in (*node.outputs, "")[:2]],
        k=k,
        axis=axis,
        largest=bool(node.integer("largest", 1)),
        sorted=bool(node.integer("sorted", 1)),
    )
