# SPDX-License-Identifier: Apache-2.0
"""Operators of the domain com.microsoft, emitted by ONNX Runtime's optimiser and quantiser, compared with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper
from support.beside_runtime import array, session
from support.microsoft_nodes import RANDOM, by_hand, same, scale, whole
from support.small_models import imported, model_of

from syclsched.errors import ModelError
from syclsched.frontends.onnx.importing.importer_registry import operators
from syclsched.frontends.onnx.importing.model_importer import load_families
from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT
from syclsched.frontends.onnx.model_file.runtime_schemas import runtime_operators, runtime_schema


def test_each_schema_is_that_of_onnx_runtime() -> None:
    """Other versions of ONNX Runtime may have fewer or more optional inputs, attributes and operators."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    load_families()
    assert set(runtime_operators(MICROSOFT)) == set(operators(MICROSOFT))
    theirs = {(each.domain, each.name): each for each in state.get_all_operator_schema() if each.since_version == 1}
    for domain in ("", MICROSOFT):
        for operator in runtime_operators(domain):
            ours, known = runtime_schema(domain, operator), theirs.get((domain, operator))
            if known is None:
                continue
            for side in ("inputs", "outputs"):
                pairs = zip(getattr(ours, side), getattr(known, side), strict=False)
                assert all((a.name, a.option.name) == (b.name, b.option.name) for a, b in pairs), operator
            for name, attribute in known.attributes.items():
                found = ours.attributes.get(name)
                if found is None and not attribute.required:
                    continue
                assert found is not None and (found.required, found.type.name) == (
                    attribute.required,
                    attribute.type.name,
                ), (operator, name)


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


def test_channels_last_convolutions_and_poolings() -> None:
    x = whole(1, 8, 8, 3)
    same("NhwcMaxPool", {"x": x}, kernel_shape=[3, 3], strides=[2, 2])
    constants = {
        "sx": scale(0.02), "zx": np.uint8(120), "w": whole(6, 3, 3, 3, dtype="int8") // 2, "sw": scale(0.01),
        "zw": np.int8(0), "sy": scale(0.7), "zy": np.uint8(128), "b": whole(6, dtype="int16").astype(np.int32),
    }  # fmt: skip
    same("QLinearConv", {"x": x}, constants=constants, channels_last=1, pads=[1, 1, 1, 1])
    turned = {"x": array(1, 7, 6, 4), "w": CONV["w"], "b": CONV["b"]}
    for operator in ("NhwcConv", "NhwcFusedConv"):  # ONNX Runtime supports them on GPUs only
        node = helper.make_node(operator, ["x", "w", "b"], ["y"], domain=MICROSOFT, group=2, strides=[2, 1])
        plain = helper.make_node("Conv", ["x", "w", "b"], ["y"], group=2, strides=[2, 1])
        straight = turned | {"x": np.ascontiguousarray(turned["x"].transpose(0, 3, 1, 2))}
        assert np.allclose(by_hand(node, turned).transpose(0, 3, 1, 2), by_hand(plain, straight))


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
    """ONNX Runtime supports these on GPUs only."""
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
    for shape in ((1, 1, 8), (2, 1, 1), (3, 8)):  # broadcast to the normalised value
        same("LayerNormalization", {"x": array(2, 3, 8), "g": array(*shape)}, domain="", axis=-1, version=17)


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
def test_unsupported_operators_are_refused(operator: str, inputs: Any, attributes: Any, text: str) -> None:
    node = helper.make_node(operator, list(inputs), ["y"], domain=MICROSOFT, **attributes)
    model = model_of([node], {name: shape for name, shape in inputs.items() if name}, ["y"])
    model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    with pytest.raises(ModelError, match=f"com.microsoft::{operator}|node {operator}") as caught:
        imported(model)
    assert text in str(caught.value)


def test_other_elements_are_refused() -> None:
    for operator, w in (("FusedConv", (1, 1, 3, 3)), ("FusedMatMul", (4, 2))):
        node = helper.make_node(operator, ["x", "w"], ["y"], domain=MICROSOFT)
        with pytest.raises(ModelError, match=f"{operator}.*elements of int32, is not supported"):
            by_hand(node, {"x": np.zeros((1, 1, 4, 4), np.int32), "w": np.zeros(w, np.int32)})
