# SPDX-License-Identifier: Apache-2.0
"""Importer of rotary position embeddings (RoPE)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.microsoft.standard_operators import refuse
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.attention import join_heads
from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT, ModelNode


@imports("RotaryEmbedding", domain=MICROSOFT)
def _rotary_embedding(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    x, position_ids, *caches = inputs.first("input", "position_ids", "cos_cache", "sin_cache")
    refuse(b, node, attributes=("is_packed_batching",))
    shape, size = b.shape(x), 2 * b.shape(caches[0])[1]
    if len(shape) not in (3, 4):
        raise b.wrong(f"an input of shape {shape}, expected 3 or 4 dimensions")
    joined = len(shape) == 3
    if joined:
        if node.integer("rotary_embedding_dim"):
            heads = node.integer("num_heads")
        else:
            heads = shape[2] // size
        if heads < 1 or shape[2] % heads:
            raise b.wrong(f"{heads} heads do not fit an input of shape {shape}")
        x = b.transpose(b.reshape(x, (*shape[:2], heads, shape[2] // heads)), (0, 2, 1, 3))
    count = b.shape(x)[2]
    if b.shape(position_ids) == (1,):
        # The first position; the others follow.
        following: Any = ("add", ("cast", "int64", 0), ("index", -1))
        position_ids = b.elementwise(following, position_ids, shape=(1, count))
    turned = rotated(b, x, position_ids, caches, interleaved=node.flag("interleaved"))
    return [join_heads(b, turned) if joined else turned]


def rotated(
    b: NetworkBuilder,
    x: str,
    positions: str,
    caches: Sequence[str],
    *,
    interleaved: bool,
    part: tuple[int, int, int] | None = None,
) -> str:
    """Rotate pairs of the first elements of each head (batch, heads, count, size) by angles of positions.

    With a part, the first column, the number of heads and their size, x is (batch, count, columns).
    """
    half, size = b.shape(caches[0])[1], b.shape(x)[3] if part is None else part[2]
    if 2 * half > size:
        raise b.wrong(f"{2 * half} elements of heads of {size} are to be rotated")
    return b.emit("rotary", [x, *caches, positions], interleaved=interleaved, part=part)
