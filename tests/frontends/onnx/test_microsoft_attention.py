# SPDX-License-Identifier: Apache-2.0
"""Attention of the domain com.microsoft, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper
from support.beside_runtime import array, same_as_runtime
from support.microsoft_nodes import by_hand, same, scale, whole

from syclsched.errors import ValueNeededError
from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT

LENGTHS = np.array([3, 5], np.int32)
MASKS = {
    "none": None,
    "ends": LENGTHS,
    "starts": np.array([4, 5, 1, 0], np.int32),
    "keys": np.array([[1, 1, 1, 1, 0], [0, 1, 1, 1, 1]], np.int32),
    "queries": np.tril(np.ones((2, 5, 5), np.int32)),
}


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", MASKS)
def test_attention(mask: str, causal: int) -> None:
    inputs = {"x": array(2, 5, 12), "w": array(12, 24), "b": array(24)}
    if MASKS[mask] is not None:
        inputs["m"] = MASKS[mask]
    same("Attention", inputs, num_heads=2, unidirectional=causal)


def test_attention_with_a_past_and_a_bias_and_other_sizes() -> None:
    inputs = {"x": array(2, 3, 12), "w": array(12, 24), "b": array(24), "past": array(2, 2, 2, 4, 4)}
    whole_input = {"x": array(2, 5, 12), "w": array(12, 24), "m": MASKS["keys"], "bias": array(1, 2, 5, 5)}
    same("Attention", inputs, "y present", order="x w b _ past", num_heads=2, unidirectional=1)
    same("Attention", whole_input, order="x w _ m _ bias", num_heads=2, scale=0.3)
    inputs = {"x": array(2, 3, 12), "w": array(12, 22), "b": array(22)}
    same("Attention", inputs, num_heads=2, qkv_hidden_sizes=[8, 8, 6])


def test_attention_of_8_bits() -> None:
    inputs = {"x": whole(2, 5, 12)}
    constants = {
        "w": whole(12, 24, dtype="int8") // 2, "b": array(24), "sx": scale(0.01), "sw": scale(0.02),
        "m": LENGTHS, "zx": np.uint8(120), "zw": np.int8(0),
    }  # fmt: skip
    same("QAttention", inputs, constants=constants, num_heads=2)


def test_attention_of_given_queries_and_keys() -> None:
    inputs = {"q": array(2, 3, 8), "k": array(2, 5, 8), "v": array(2, 5, 12), "b": array(28)}
    mask, bias = {"m": MASKS["keys"]}, {"a": array(1, 2, 3, 5)}
    same("MultiHeadAttention", inputs, order="q k v", num_heads=2)
    same("MultiHeadAttention", inputs, num_heads=2, scale=0.4)
    same("MultiHeadAttention", inputs | mask | bias, num_heads=2, mask_filter_value=-1.0)
    same("MultiHeadAttention", inputs | {"m": LENGTHS}, order="q k v _ m", num_heads=2)
    heads = {"q": array(2, 3, 8), "k": array(2, 2, 5, 4), "v": array(2, 2, 5, 4), "b": array(24)}
    same("MultiHeadAttention", heads, num_heads=2)


def test_attention_of_given_queries_after_a_past() -> None:
    inputs = {"q": array(2, 3, 8), "k": array(2, 3, 8), "v": array(2, 3, 8)}
    past = {"pk": array(2, 2, 4, 4), "pv": array(2, 2, 4, 4)}
    more: dict[str, Any] = {"order": "q k v _ _ _ pk pv", "num_heads": 2}
    same("MultiHeadAttention", inputs | past, "y k2 v2", **more)
    same("MultiHeadAttention", inputs | past, "y k2 v2", unidirectional=1, **more)
    same("MultiHeadAttention", inputs, "y k2 v2", num_heads=2, unidirectional=1)


def test_attention_of_packed_queries_and_keys() -> None:
    """ONNX Runtime supports them on GPUs only: the reference is its result with unpacked ones."""
    q, k, v = array(2, 5, 2, 4), array(2, 5, 2, 4), array(2, 5, 2, 4)
    plain = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["y"], domain=MICROSOFT, num_heads=2)
    want = by_hand(plain, {"q": q.reshape(2, 5, 8), "k": k.reshape(2, 5, 8), "v": v.reshape(2, 5, 8)})
    packed = helper.make_node("MultiHeadAttention", ["q"], ["y"], domain=MICROSOFT, num_heads=2)
    assert np.array_equal(by_hand(packed, {"q": np.stack([q, k, v], 3)}), want)
    packed = helper.make_node("MultiHeadAttention", ["q", "k"], ["y"], domain=MICROSOFT, num_heads=2)
    assert np.array_equal(by_hand(packed, {"q": q.reshape(2, 5, 8), "k": np.stack([k, v], 3)}), want)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_positions(interleaved: int) -> None:
    caches = {"cos": array(10, 2), "sin": array(10, 2)}
    places = {"p": np.array([[3, 1, 4], [1, 5, 9]], np.int64)}
    same("RotaryEmbedding", {"x": array(2, 3, 8)} | places | caches, interleaved=interleaved)
    same("RotaryEmbedding", {"x": array(2, 2, 3, 4)} | places | caches, interleaved=interleaved)
    offset = {"p": np.array([4], np.int64)}
    same("RotaryEmbedding", {"x": array(2, 3, 8)} | offset | caches, interleaved=interleaved)
    partly: dict[str, Any] = {"num_heads": 2, "rotary_embedding_dim": 4}
    same("RotaryEmbedding", {"x": array(2, 3, 12)} | places | caches, interleaved=interleaved, **partly)


GROUPED = {"num_heads": 4, "kv_num_heads": 2}
CACHES = {"cos": array(16, 8), "sin": array(16, 8)}
ORDER = "q k v pk pv n total"


def grouped(batch: int, queries: int, past: int) -> dict[str, Any]:
    inputs = {"q": array(batch, queries, 64), "k": array(batch, queries, 32), "v": array(batch, queries, 32)}
    if past:
        inputs |= {"pk": array(batch, 2, past, 16), "pv": array(batch, 2, past, 16)}
    return inputs


def lengths(*counts: int) -> dict[str, Any]:
    return {"n": np.array(counts, np.int32) - 1, "total": np.array([max(counts)], np.int32)}


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"do_rotary": 1, "scale": 0.2},
        {"do_rotary": 1, "rotary_interleaved": 1, "softcap": 2.0},
        {"local_window_size": 2},
        {"smooth_softmax": 1},
    ],
)
def test_grouped_attention(attributes: dict[str, Any]) -> None:
    outputs = "y k2 v2"
    more = GROUPED | attributes
    prompt = ORDER.replace("pk pv", "_ _") + " cos sin"
    same("GroupQueryAttention", grouped(2, 5, 0), outputs, constants=lengths(5, 5) | CACHES, order=prompt, **more)
    one, step = ORDER + " cos sin", grouped(1, 1, 6)
    same("GroupQueryAttention", step, outputs, constants=lengths(7) | CACHES, order=one, **more)
    several = lengths(9) | CACHES
    same("GroupQueryAttention", grouped(1, 3, 6), outputs, constants=several, order=one, **more)


def test_grouped_attention_with_a_bias_a_sink_and_packed_inputs() -> None:
    inputs, order = grouped(1, 3, 6) | {"a": array(1, 1, 3, 9), "sink": array(4)}, ORDER + " _ _ _ a sink"
    same("GroupQueryAttention", inputs, "y k2 v2", constants=lengths(9), order=order, **GROUPED)
    same(
        "GroupQueryAttention", grouped(2, 5, 0), constants=lengths(3, 5), order="q k v _ _ n total", causal=0, **GROUPED
    )
    packed = {"q": array(2, 5, 128)}
    same("GroupQueryAttention", packed, constants=lengths(5, 5), order="q _ _ _ _ n total", **GROUPED)


def test_grouped_attention_of_normalised_queries_and_keys() -> None:
    """ONNX Runtime normalises them on GPUs only: the reference has inputs that NumPy normalised."""
    inputs, weights = grouped(1, 3, 6), {"qw": array(16), "kw": array(16)}
    names = [*ORDER.split(), "cos", "sin", *[""] * 5, "qw", "kw"]
    node = helper.make_node("GroupQueryAttention", names, ["y"], domain=MICROSOFT, do_rotary=1, **GROUPED)
    plain = helper.make_node("GroupQueryAttention", names[:9], ["y"], domain=MICROSOFT, do_rotary=1, **GROUPED)
    normalised = dict(inputs)
    for name in ("q", "k"):
        heads = inputs[name].reshape(1, 3, -1, 16)
        scaled = heads / np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-6) * weights[f"{name}w"]
        normalised[name] = scaled.reshape(inputs[name].shape)
    given = lengths(9) | CACHES
    assert np.allclose(by_hand(node, inputs | weights, given), by_hand(plain, normalised, given), atol=1e-5)


def test_lengths_of_grouped_attention_from_a_mask() -> None:
    """As in language models: the total length follows from a shape, the lengths from sums of the mask."""
    node = helper.make_node
    nodes = [
        node("ReduceSum", ["mask", "axis"], ["sums"], keepdims=0),
        node("Sub", ["sums", "one"], ["less"]),
        node("Cast", ["less"], ["n"], to=6),
        node("Shape", ["mask"], ["shape"]),
        node("Gather", ["shape", "one"], ["width"], axis=0),
        node("Cast", ["width"], ["total"], to=6),
        node("GroupQueryAttention", ORDER.split(), ["y", "k2", "v2"], domain=MICROSOFT, **GROUPED),
    ]
    inputs = grouped(2, 1, 6) | {"mask": np.array([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]])}
    constants = {"axis": np.array([1]), "one": np.array(1)}
    same_as_runtime(nodes, inputs, ["y"], 17, constants)
    given = grouped(1, 1, 6) | {"total": np.array(7, np.int32)}
    order = ORDER.split()
    single = node("GroupQueryAttention", order, ["y"], domain=MICROSOFT, **GROUPED)
    with pytest.raises(ValueNeededError, match="total_sequence_length must be known") as caught:
        by_hand(single, given, {"n": np.array([6], np.int32)})
    assert caught.value.inputs == ("total",)


def test_operators_of_16_bits() -> None:
    half = {name: value.astype(np.float16) for name, value in grouped(1, 3, 6).items()}
    caches = {name: value.astype(np.float16) for name, value in CACHES.items()}
    more: dict[str, Any] = {"order": ORDER + " cos sin", "do_rotary": 1} | GROUPED
    same("GroupQueryAttention", half, "y k2 v2", constants=lengths(9) | caches, **more)
    inputs = {
        name: array(*shape).astype(np.float16) for name, shape in {"x": (2, 3, 8), "s": (2, 3, 8), "g": (8,)}.items()
    }
    same("SkipLayerNormalization", inputs)
    same("SkipSimplifiedLayerNormalization", inputs)


def test_grouped_attention_of_sequences_of_several_lengths() -> None:
    """The cache's contents after a sequence's end are unspecified: only the result is compared."""
    more: dict[str, Any] = {"order": ORDER + " cos sin", "compared": "y", "do_rotary": 1} | GROUPED
    inputs, given = grouped(2, 1, 6), lengths(7, 4) | CACHES
    same("GroupQueryAttention", inputs, "y k2 v2", constants=given, **more)
    del given["n"]
    same("GroupQueryAttention", inputs | {"n": lengths(7, 4)["n"]}, "y k2 v2", constants=given, **more)
    inputs = grouped(1, 1, 10)
    same("GroupQueryAttention", inputs, "y k2 v2", constants=lengths(4) | CACHES, **more)
    node = helper.make_node("GroupQueryAttention", ORDER.split(), ["", "y"], domain=MICROSOFT, **GROUPED)
    key = by_hand(node, inputs, lengths(4))
    assert key.shape == (1, 2, 10, 16) and np.array_equal(key[:, :, :3], inputs["pk"][:, :, :3])
    assert np.array_equal(key[:, :, 3], inputs["k"].reshape(1, 2, 16))
