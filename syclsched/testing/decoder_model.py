# SPDX-License-Identifier: Apache-2.0
"""ONNX test model: a language model's decoder of any size, in the form that ONNX Runtime GenAI exports."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from syclsched.errors import ArgumentError

_MICROSOFT = "com.microsoft"


def decoder_model(
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    *,
    groups: int | None = None,
    vocabulary: int = 32000,
    positions: int = 2048,
    seed: int = 0,
    head: NDArray[np.float32] | None = None,
) -> Any:
    """Return a decoder with seeded random weights: pre-normalised layers, rotary positions and a cache.

    Parameters
    ----------
    layers, width, heads : int, optional
        Number of layers, size of hidden states, and heads of each attention.
    groups : int, optional
        Heads of keys and values; as many as heads of queries by default.
    vocabulary, positions : int, optional
        Number of tokens, and of positions that have angles.
    seed : int, optional
        Seed of the weights.
    head : numpy.ndarray, optional
        The last matrix (width, any), which makes logits of hidden states; random by default.

    Returns
    -------
    onnx.ModelProto
        Inputs are ``input_ids`` (batch, sequence), ``seqlens_k`` (batch): tokens so far less one,
        ``total_sequence_length``: the largest number of tokens so far, and the caches ``past_key_values.N.key`` and
        ``.value`` (batch, groups, past_sequence_length, width / heads). Outputs are ``logits`` and
        ``present.N.key`` and ``.value``.

    Raises
    ------
    ArgumentError
        If heads do not share the width evenly.
    """
    from onnx import TensorProto, helper, numpy_helper

    groups = heads if groups is None else groups
    if width % heads or heads % groups or width // heads % 2:
        raise ArgumentError(f"{heads} heads in {groups} groups do not share a width of {width}")
    random, size, node = np.random.default_rng(seed), width // heads, helper.make_node

    def matrix(rows: int, columns: int) -> NDArray[Any]:
        return np.asarray(random.standard_normal((rows, columns)) / np.sqrt(rows), np.float32)

    angles = np.arange(positions)[:, None] / 10000.0 ** (np.arange(size // 2) / (size // 2))
    weights: dict[str, NDArray[Any]] = {
        "embeddings": random.standard_normal((vocabulary, width)).astype(np.float32),
        "cosines": np.cos(angles).astype(np.float32),
        "sines": np.sin(angles).astype(np.float32),
        "scale": np.ones(width, np.float32),
    }
    nodes = [
        node("Gather", ["embeddings", "input_ids"], ["hidden"]),
        node("SimplifiedLayerNormalization", ["hidden", "scale"], ["normalised"], axis=-1, epsilon=1e-5),
    ]
    hidden, normalised = "hidden", "normalised"
    inputs: list[Any] = []
    outputs: list[Any] = []

    def product(x: str, name: str, rows: int, columns: int) -> str:
        weights[f"{name}.weight"] = matrix(rows, columns)
        nodes.append(node("MatMul", [x, f"{name}.weight"], [name]))
        return name

    def added(x: str, name: str) -> tuple[str, str]:
        made = [f"{name}.normalised", "", "", f"{name}.hidden"]
        inputs_of = [x, hidden, "scale"]
        nodes.append(node("SkipSimplifiedLayerNormalization", inputs_of, made, name, domain=_MICROSOFT, epsilon=1e-5))
        return made[3], made[0]

    for layer in range(layers):
        past = [f"past_key_values.{layer}.{kind}" for kind in ("key", "value")]
        present = [f"present.{layer}.{kind}" for kind in ("key", "value")]
        packed = product(normalised, f"qkv.{layer}", width, (heads + 2 * groups) * size)
        given = [packed, "", "", *past, "seqlens_k", "total_sequence_length", "cosines", "sines"]
        attributes: dict[str, Any] = {"num_heads": heads, "kv_num_heads": groups, "do_rotary": 1}
        made = [f"attention.{layer}", *present]
        nodes.append(node("GroupQueryAttention", given, made, made[0], domain=_MICROSOFT, **attributes))
        hidden, normalised = added(product(made[0], f"joined.{layer}", width, width), f"first.{layer}")
        wide = product(normalised, f"up.{layer}", width, 4 * width)
        nodes.append(node("Gelu", [wide], [f"gelu.{layer}"], domain=_MICROSOFT))
        hidden, normalised = added(product(f"gelu.{layer}", f"down.{layer}", 4 * width, width), f"second.{layer}")
        for names, values, extent in ((past, inputs, "past_sequence_length"), (present, outputs, "total_length")):
            shape: list[str | int | None] = ["batch", groups, extent, size]
            values += [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names]
    weights["head"] = matrix(width, vocabulary) if head is None else np.asarray(head, np.float32)
    nodes.append(node("MatMul", [normalised, "head"], ["logits"]))
    logits: list[str | int | None] = ["batch", "sequence", weights["head"].shape[1]]
    graph = helper.make_graph(
        nodes,
        "decoder",
        [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"]),
            helper.make_tensor_value_info("seqlens_k", TensorProto.INT32, ["batch"]),
            helper.make_tensor_value_info("total_sequence_length", TensorProto.INT32, []),
            *inputs,
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, logits), *outputs],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)
