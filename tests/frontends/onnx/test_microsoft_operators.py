# SPDX-License-Identifier: Apache-2.0
"""Operators of the domain com.microsoft, which ONNX Runtime's optimiser and quantiser emit, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper  # noqa: E402
from support.beside_runtime import array, same_as_runtime  # noqa: E402
from support.host_evaluation import evaluate  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

from syclsched.errors import ModelError  # noqa: E402
from syclsched.frontends.onnx.importing.importer_registry import operators  # noqa: E402
from syclsched.frontends.onnx.importing.model_importer import load_families  # noqa: E402
from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT  # noqa: E402
from syclsched.frontends.onnx.model_file.runtime_schemas import runtime_operators, runtime_schema  # noqa: E402

RANDOM = np.random.default_rng(23)


def same(
    operator: str,
    inputs: dict[str, Any],
    outputs: str = "y",
    *,
    constants: dict[str, Any] | None = None,
    domain: str = MICROSOFT,
    version: int = 17,
    units: int = 0,
    order: str | None = None,
    compared: str | None = None,
    **attributes: Any,
) -> None:
    """Compare one node with ONNX Runtime's; of the outputs and of the order of inputs, ``_`` is left out."""
    names = [("" if name == "_" else name) for name in (order.split() if order else [*inputs, *(constants or {})])]
    made = [("" if name == "_" else name) for name in outputs.split()]
    node = helper.make_node(operator, names, made, domain=domain, **attributes)
    results = compared.split() if compared else [name for name in made if name]
    same_as_runtime([node], inputs, results, version, constants, units=units)


def whole(*shape: int, dtype: str = "uint8") -> Any:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def scale(value: float) -> Any:
    return np.float32(value)


def test_each_schema_is_that_of_onnx_runtime() -> None:
    """Inputs, outputs and attributes are those of the installed version, which may know fewer of the last ones."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    load_families()
    assert set(runtime_operators(MICROSOFT)) == set(operators(MICROSOFT))
    theirs = {(each.domain, each.name): each for each in state.get_all_operator_schema() if each.since_version == 1}
    for domain in ("", MICROSOFT):
        for operator in runtime_operators(domain):
            ours, known = runtime_schema(domain, operator), theirs[domain, operator]
            for side in ("inputs", "outputs"):
                pairs = zip(getattr(ours, side), getattr(known, side), strict=False)
                assert all((a.name, a.option.name) == (b.name, b.option.name) for a, b in pairs), operator
            for name, attribute in known.attributes.items():
                found = ours.attributes[name]
                assert (found.required, found.type.name) == (attribute.required, attribute.type.name), (operator, name)


# --- convolutions and matrix products -----------------------------------------------------------------

CONV = {"x": array(2, 4, 7, 6), "w": array(6, 2, 3, 3), "b": array(6)}


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [
        ("Relu", ()),
        ("Tanh", ()),
        ("Sigmoid", ()),
        ("LeakyRelu", (0.2,)),
        ("Clip", (-0.5, 1.5)),
        ("HardSigmoid", (0.3, 0.4)),
    ],
)
def test_fused_convolutions(activation: str, parameters: Any) -> None:
    more = {"activation_params": list(parameters)} if parameters else {}
    same("FusedConv", CONV, group=2, pads=[1, 0, 0, 1], strides=[2, 1], activation=activation, **more)


def test_a_fused_convolution_with_a_residual() -> None:
    same("FusedConv", CONV | {"z": array(2, 6, 7, 6)}, group=2, pads=[1, 1, 1, 1], activation="Relu")
    inputs = {"x": CONV["x"], "w": CONV["w"], "z": array(2, 6, 7, 6)}
    same("FusedConv", inputs, order="x w _ z", group=2, pads=[1, 1, 1, 1], activation="Relu")


def test_convolutions_and_poolings_of_channels_in_the_last_place() -> None:
    x = whole(1, 8, 8, 3)
    same("NhwcMaxPool", {"x": x}, kernel_shape=[3, 3], strides=[2, 2])
    constants = {
        "sx": scale(0.02), "zx": np.uint8(120), "w": whole(6, 3, 3, 3, dtype="int8") // 2, "sw": scale(0.01),
        "zw": np.int8(0), "sy": scale(0.7), "zy": np.uint8(128), "b": whole(6, dtype="int16").astype(np.int32),
    }  # fmt: skip
    same("QLinearConv", {"x": x}, constants=constants, channels_last=1, pads=[1, 1, 1, 1])
    turned = {"x": array(1, 7, 6, 4), "w": CONV["w"], "b": CONV["b"]}
    for operator in ("NhwcConv", "NhwcFusedConv"):  # ONNX Runtime has them on GPUs only
        node = helper.make_node(operator, ["x", "w", "b"], ["y"], domain=MICROSOFT, group=2, strides=[2, 1])
        plain = helper.make_node("Conv", ["x", "w", "b"], ["y"], group=2, strides=[2, 1])
        straight = turned | {"x": np.ascontiguousarray(turned["x"].transpose(0, 3, 1, 2))}
        assert np.allclose(by_hand(node, turned).transpose(0, 3, 1, 2), by_hand(plain, straight))


def by_hand(node: Any, inputs: dict[str, Any], constants: dict[str, Any] | None = None) -> Any:
    """Return the result of a node that ONNX Runtime has on GPUs only."""
    model = model_of([node], {name: value.shape for name, value in inputs.items()}, ["y"], constants)
    model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    network = imported(model)
    return evaluate(network, {name: inputs[name] for name in network.inputs})["y"]


@pytest.mark.parametrize(
    ("left", "right", "attributes"),
    [
        ((2, 3, 4, 5), (3, 5, 6), {"alpha": 0.125}),
        ((2, 3, 5, 4), (2, 3, 5, 6), {"transA": 1, "alpha": 2.0}),
        ((2, 3, 4, 5), (2, 3, 6, 5), {"transB": 1}),
        ((4, 2, 3, 5), (5, 2, 3, 6), {"transBatchA": 1, "transBatchB": 1}),
        ((5, 2, 3, 4), (6, 2, 3, 5), {"transBatchA": 1, "transBatchB": 1, "transA": 1, "transB": 1}),
        ((5,), (2, 5, 3), {"alpha": 0.5}),
    ],
)  # fmt: skip
def test_fused_matrix_products(left: Any, right: Any, attributes: dict[str, Any]) -> None:
    same("FusedMatMul", {"a": array(*left), "b": array(*right)}, **attributes)
    if not attributes.get("transBatchA"):
        same("TransposeMatMul", {"a": array(*left), "b": array(*right)}, **attributes)


@pytest.mark.parametrize(
    "attributes",
    [
        {"activation": "Relu"},
        {"activation": "LeakyRelu", "activation_alpha": 0.3, "transA": 1, "alpha": 0.5, "beta": 2.0},
        {"activation": "HardSigmoid", "activation_alpha": 0.3, "activation_beta": 0.2, "transB": 1},
        {"activation": "Elu", "activation_alpha": 0.7},
        {"activation": "Selu", "activation_alpha": 1.2, "activation_gamma": 1.1},
        {"activation": "Softplus"},
    ],
)
def test_fused_dense_layers(attributes: dict[str, Any]) -> None:
    a = array(5, 4) if attributes.get("transA") else array(4, 5)
    b = array(3, 5) if attributes.get("transB") else array(5, 3)
    same("FusedGemm", {"a": a, "b": b, "c": array(3)}, **attributes)


# --- element-wise and normalisation -------------------------------------------------------------------


def test_gelus() -> None:
    x, bias = {"x": array(2, 3, 8)}, {"b": array(8)}
    same("Gelu", x)
    same("BiasGelu", x | bias)
    same("FastGelu", x)
    same("FastGelu", x | bias)
    same("QuickGelu", x)
    same("QuickGelu", x, alpha=1.0)


def test_operators_of_diffusion_models() -> None:
    """ONNX Runtime has these on GPUs only."""
    from support.beside_runtime import session

    x, bias, skip = array(2, 6, 8), array(8), array(2, 6, 8)
    node = helper.make_node("BiasAdd", ["x", "b", "s"], ["y"], domain=MICROSOFT)
    assert np.allclose(by_hand(node, {"x": x, "b": bias, "s": skip}), x + bias + skip)
    node = helper.make_node("BiasSplitGelu", ["x", "b"], ["y"], domain=MICROSOFT)
    gelu = model_of([helper.make_node("Gelu", ["x"], ["y"])], {"x": (2, 6, 4)}, ["y"], opset=20)
    left, right = np.split(x + bias, 2, axis=2)
    (want,) = session(gelu).run(None, {"x": right})
    assert np.allclose(by_hand(node, {"x": x, "b": bias}), left * want, atol=1e-6)
    x, gamma, beta = array(2, 4, 3, 8), array(8), array(8)
    turned = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    plain = helper.make_node("GroupNormalization", ["x", "g", "b"], ["y"], num_groups=4)
    model = model_of([plain], {"x": (2, 8, 4, 3), "g": (8,), "b": (8,)}, ["y"], opset=21)
    (want,) = session(model).run(None, {"x": turned, "g": gamma, "b": beta})
    for last in (0, 1):
        attributes = {"groups": 4, "activation": last} | ({} if last else {"channels_last": 0})
        node = helper.make_node("GroupNorm", ["x", "g", "b"], ["y"], domain=MICROSOFT, **attributes)
        got = by_hand(node, {"x": x if last else turned, "g": gamma, "b": beta})
        expected = (want / (1 + np.exp(-want))).transpose(0, 2, 3, 1) if last else want
        assert np.allclose(got, expected, atol=1e-5)


def test_layer_normalisations_in_the_domain_of_onnx() -> None:
    same("SimplifiedLayerNormalization", {"x": array(2, 3, 8), "g": array(8)}, domain="", axis=-1, epsilon=1e-3)
    inputs = {"x": array(2, 3, 8), "g": array(3, 8)}
    same("SimplifiedLayerNormalization", inputs, domain="", axis=1, version=12)
    same("LayerNormalization", {"x": array(2, 3, 8), "g": array(8), "b": array(8)}, domain="", axis=-1, version=12)


@pytest.mark.parametrize("skip", [(2, 3, 8), (1, 3, 8), (3, 8)])
def test_layer_normalisations_of_sums(skip: tuple[int, ...]) -> None:
    inputs = {"x": array(2, 3, 8), "s": array(*skip), "g": array(8), "b": array(8), "bias": array(8)}
    same("SkipLayerNormalization", inputs, "y _ _ total", epsilon=1e-3)
    same("SkipLayerNormalization", inputs, order="x s g _ bias")
    same("SkipSimplifiedLayerNormalization", inputs, "y _ _ total", order="x s g bias", epsilon=1e-3)
    same("SkipSimplifiedLayerNormalization", inputs, order="x s g")


def test_normalised_embeddings() -> None:
    ids = {"i": RANDOM.integers(0, 20, (2, 5)).astype(np.int32), "s": RANDOM.integers(0, 2, (2, 5)).astype(np.int32)}
    tables = {"w": array(20, 8), "p": array(9, 8), "t": array(2, 8), "g": array(8), "b": array(8)}
    mask = np.array([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], np.int32)
    order = "i s w p t g b m"
    same("EmbedLayerNormalization", ids | {"m": mask}, "y n total", constants=tables, order=order, mask_index_type=1)
    places = {"i": ids["i"], "at": np.array([[3, 1, 4, 1, 5]], np.int32)}
    same("EmbedLayerNormalization", places, "y n", constants=tables, order="i _ w p _ g b _ at", epsilon=1e-3)


# --- attention ----------------------------------------------------------------------------------------

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
    same("MultiHeadAttention", inputs | mask | bias, num_heads=2, mask_filter_value=-5000.0)
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
    """ONNX Runtime takes them on GPUs only: they are compared with unpacked ones."""
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
    """ONNX Runtime normalises them on GPUs only: they are compared with those that NumPy normalises."""
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
    """What the cache has after a sequence's end is left open: only the result is compared."""
    more: dict[str, Any] = {"order": ORDER + " cos sin", "compared": "y", "do_rotary": 1} | GROUPED
    inputs, given = grouped(2, 1, 6), lengths(7, 4) | CACHES
    same("GroupQueryAttention", inputs, "y k2 v2", constants=given, **more)
    del given["n"]
    same("GroupQueryAttention", inputs | {"n": lengths(7, 4)["n"]}, "y k2 v2", constants=given, **more)
    same("GroupQueryAttention", grouped(1, 1, 10), "y k2 v2", constants=lengths(4) | CACHES, **more)


# --- quantised ----------------------------------------------------------------------------------------


def scales(*names: str, dtype: str = "uint8") -> dict[str, Any]:
    """Return a scale and a zero point for each name."""
    numbers: dict[str, Any] = {}
    for at, name in enumerate(names):
        numbers[f"s{name}"] = scale(0.02 + 0.013 * at)
        numbers[f"z{name}"] = np.array(7 + 20 * at if dtype == "uint8" else 7 - 5 * at, dtype)
    return numbers


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_quantised_element_wise_operators(dtype: str) -> None:
    inputs = {"a": whole(2, 3, 8, dtype=dtype), "b": whole(3, 1, dtype=dtype)}
    order = "a sa za b sb zb sc zc"
    for operator in ("QLinearAdd", "QLinearMul"):
        same(operator, inputs, constants=scales("a", "b", "c", dtype=dtype), order=order, units=1)
    one = {"a": inputs["a"]}
    more: dict[str, Any] = {"constants": scales("a", "c", dtype=dtype), "order": "a sa za sc zc", "units": 1}
    same("QLinearSigmoid", one, **more | {"constants": more["constants"] | {"sc": scale(1 / 200)}})
    same("QLinearLeakyRelu", one, alpha=0.3, **more)
    constants = more["constants"] | {"sc": scale(1 / 256)}
    same("QLinearSoftmax", one, opset=13, axis=1, **more | {"constants": constants})


def test_a_quantised_softmax_over_several_axes_and_a_selection() -> None:
    constants = scales("a", "c") | {"sc": scale(1 / 256)}
    same("QLinearSoftmax", {"a": whole(2, 3, 8)}, constants=constants, order="a sa za sc zc", opset=12, axis=1, units=1)
    inputs = {"c": RANDOM.random((2, 3)) < 0.5, "a": whole(2, 3), "b": whole(2, 3)}
    same("QLinearWhere", inputs, constants=scales("a", "b", "d"), order="c a sa za b sb zb sd zd", units=1)


@pytest.mark.parametrize("last", [0, 1])
def test_quantised_poolings_and_concatenations(last: int) -> None:
    shape = (2, 8, 8, 3) if last else (2, 3, 8, 8)
    more: dict[str, Any] = {"constants": scales("x", "y"), "order": "x sx zx sy zy", "units": 1, "channels_last": last}
    same("QLinearAveragePool", {"x": whole(*shape)}, kernel_shape=[3, 3], pads=[1, 1, 0, 0], **more)
    same("QLinearGlobalAveragePool", {"x": whole(*shape)}, **more)
    inputs = {"a": whole(2, 3, 4), "b": whole(2, 1, 4)}
    order = "sy zy a sa za b sb zb"
    same("QLinearConcat", inputs, constants=scales("a", "b", "y"), order=order, axis=1 - 3 * last, units=1)


@pytest.mark.parametrize("quantised", [False, True])
def test_quantised_dense_layers(quantised: bool) -> None:
    constants = scales("a", "b") | {"b": whole(5, 20, dtype="int8") // 2, "c": whole(5, dtype="int16").astype(np.int32)}
    constants |= {"sb": RANDOM.random(5).astype(np.float32) / 50, "zb": np.zeros(5, np.int8)}
    order = "a sa za b sb zb c"
    if quantised:
        constants |= {"sy": scale(0.2), "zy": np.uint8(120)}
        order += " sy zy"
    same(
        "QGemm", {"a": whole(4, 20)}, constants=constants, order=order, transB=1, alpha=0.5, units=1 if quantised else 0
    )


def test_products_that_are_quantised_when_they_are_computed() -> None:
    weights = {"b": whole(20, 5, dtype="int8") // 2, "s": RANDOM.random(5).astype(np.float32) / 50}
    bias = {"bias": array(5)}
    same("DynamicQuantizeMatMul", {"a": array(2, 3, 20)}, constants=weights)
    full = weights | {"z": np.zeros(5, np.int8)} | bias
    same("DynamicQuantizeMatMul", {"a": array(3, 20) + 3}, constants=full)
    constants = weights | bias | {"sa": scale(0.01), "za": np.uint8(100), "z": np.zeros(5, np.int8)}
    same("MatMulIntegerToFloat", {"a": whole(2, 3, 20)}, constants=constants, order="a b sa s za z bias")
    same("MatMulIntegerToFloat", {"a": whole(3, 20)}, constants=constants, order="a b sa s")


def test_there_and_back() -> None:
    for dtype in ("uint8", "int8", "uint16", "int16"):
        constants = {"s": scale(0.05), "z": np.array(20, dtype)}
        same("QuantizeLinear", {"x": array(3, 4)}, constants=constants)
        same("DequantizeLinear", {"x": whole(3, 4, dtype=dtype)}, constants=constants)
    constants = {"s": np.array([0.1, 0.2, 0.3], np.float32), "z": np.array([3, 0, -4], np.int8)}
    same("QuantizeLinear", {"x": array(3, 4)}, constants=constants, axis=0)
    same("DequantizeLinear", {"x": whole(3, 4, dtype="int8")}, constants=constants, axis=0)


@pytest.mark.parametrize(
    ("bits", "zeros"), [(4, "none"), (4, "packed"), (4, "plain"), (8, "none"), (8, "packed"), (2, "packed")]
)
def test_products_with_blocks_of_few_bits(bits: int, zeros: str) -> None:
    columns, rows, block = 40, 6, 16
    blocks = -(-columns // block)
    constants = {"b": whole(rows, blocks, block * bits // 8), "s": RANDOM.random((rows, blocks)).astype(np.float32)}
    order = "x b s"
    if zeros != "none":
        packed = whole(rows, -(-blocks * bits // 8))
        constants["z"] = packed if zeros == "packed" else (RANDOM.random((rows, blocks)) * 8).astype(np.float32)
        order += " z"
    more = {"K": columns, "N": rows, "bits": bits, "block_size": block}
    same("MatMulNBits", {"x": array(2, 3, columns)}, constants=constants, order=order, **more)
    if zeros == "none":
        given = constants | {"bias": array(rows)}
        same("MatMulNBits", {"x": array(3, columns)}, constants=given, order="x b s _ _ bias", **more)


# --- refusals -----------------------------------------------------------------------------------------


NARROW = {"K": 32, "N": 4, "block_size": 16, "bits": 3}


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "text"),
    [
        ("FusedConv", {"x": (1, 1, 4, 4), "w": (1, 1, 3, 3)}, {"activation": "Rleu"}, "Did you mean 'Relu'"),
        ("Attention", {"x": (1, 2, 4), "w": (4, 12)}, {"num_heads": 2, "do_rotary": 1}, "do_rotary"),
        ("Attention", {"x": (1, 2, 4), "w": (4, 12)}, {"num_heads": 3}, "num_heads is 3"),
        ("Attention", {"x": (1, 2, 4), "w": (4, 12), "": (), "m": (5,)}, {"num_heads": 2}, "a mask of shape (5,)"),
        ("MultiHeadAttention", {"q": (1, 2, 4), "k": (1, 2, 4)}, {"num_heads": 2}, "query, key and value"),
        ("MatMulNBits", {"x": (3, 32), "b": (4, 2, 8), "s": (4, 2)}, NARROW, "3 bits"),
        ("Gelu", {"x": (3,)}, {"approximate": "tanh"}, "no attribute 'approximate'"),
        ("Attention", {"x": (1, 2, 4), "w": (4, 12)}, {}, "'num_heads' is missing"),
        ("BiasGelu", {"x": (3,)}, {}, "1 inputs"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused(operator: str, inputs: Any, attributes: Any, text: str) -> None:
    node = helper.make_node(operator, list(inputs), ["y"], domain=MICROSOFT, **attributes)
    model = model_of([node], {name: shape for name, shape in inputs.items() if name}, ["y"])
    model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    with pytest.raises(ModelError, match=f"com.microsoft::{operator}|node {operator}") as caught:
        imported(model)
    assert text in str(caught.value)
