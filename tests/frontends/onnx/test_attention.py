# SPDX-License-Identifier: Apache-2.0
"""Attention of opset 23 and 24, compared with its specification evaluated query by query."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from onnx import helper  # noqa: E402
from support.examples import examples  # noqa: E402
from support.host_evaluation import evaluate  # noqa: E402
from support.node_cases import differences  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

from syclsched import api  # noqa: E402
from syclsched.errors import ModelError  # noqa: E402
from syclsched.frontends.onnx.lowering import lower  # noqa: E402
from syclsched.frontends.onnx.model_file.dtypes import DTYPES, NUMBERS  # noqa: E402
from syclsched.frontends.onnx.network import Network  # noqa: E402
from syclsched.frontends.onnx.rewrites import rewrite  # noqa: E402

INPUTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
OUTPUTS = ("Y", "present_key", "present_value", "qk_matmul_output")
Arrays = dict[str, Any]


def specified(inputs: Arrays, attributes: dict[str, Any], opset: int) -> Arrays:
    """Return the results by the specification, with the errata of onnx 1.23, in float64."""
    joined = inputs["Q"].ndim == 3
    q, k, v = (inputs[name].astype(np.float64) for name in "QKV")
    if joined:
        q, k, v = (
            np.stack(np.split(each, attributes[f"{kind}_num_heads"], axis=2), axis=1)
            for each, kind in zip((q, k, v), ("q", "kv", "kv"), strict=True)
        )
    past = 0
    if "past_key" in inputs:
        past = inputs["past_key"].shape[2]
        k, v = np.concatenate([inputs["past_key"], k], 2), np.concatenate([inputs["past_value"], v], 2)
    (batch, heads, queries, size), keys = q.shape, k.shape[2]
    mask = np.zeros(keys) if "attn_mask" not in inputs else inputs["attn_mask"]
    if mask.dtype == bool:
        mask = np.where(mask, 0.0, -np.inf)
    if opset >= 24:
        mask = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])], constant_values=-np.inf)
    mask = np.broadcast_to(mask, (batch, heads, queries, keys))
    cap = attributes.get("softcap", 0.0)
    y, shown = np.zeros((batch, heads, queries, v.shape[3])), np.zeros((batch, heads, queries, keys))
    for b, h, i in np.ndindex(batch, heads, queries):
        own_k, own_v = (each[b, h // (heads // k.shape[1])] for each in (k, v))
        counts = inputs.get("nonpad_kv_seqlen")
        valid = keys if counts is None else counts[b]
        last = i + (past if counts is None else valid - queries) if attributes.get("is_causal") else keys
        bias = np.array([mask[b, h, i, j] if j < valid and j <= last else -np.inf for j in range(keys)])
        raw = own_k @ q[b, h, i] * attributes.get("scale", 1 / math.sqrt(size))
        capped = cap * np.tanh(raw / cap) if cap else raw
        weights = np.zeros(keys)
        if (bias > -np.inf).any():
            weights = np.exp(capped + bias - (capped + bias).max())
            weights /= weights.sum()
        y[b, h, i] = weights @ own_v
        shown[b, h, i] = (raw, capped, capped + bias, weights)[attributes.get("qk_matmul_output_mode", 0)]
    if joined:
        y = np.concatenate([y[:, h] for h in range(heads)], axis=2)
    dtype = inputs["Q"].dtype
    return {name: each.astype(dtype) for name, each in zip(OUTPUTS, (y, k, v, shown), strict=True)}


def network_of(inputs: Arrays, attributes: dict[str, Any], opset: int) -> Network:
    last = max(INPUTS.index(name) for name in inputs)
    names = [name if name in inputs else "" for name in INPUTS[: last + 1]]
    made = helper.make_node("Attention", names, OUTPUTS, **attributes)
    dtypes = {name: NUMBERS[each.dtype.name] for name, each in inputs.items()}
    dtypes |= dict.fromkeys(OUTPUTS, NUMBERS[inputs["Q"].dtype.name])
    shapes = {name: each.shape for name, each in inputs.items()}
    return imported(model_of([made], shapes, OUTPUTS, opset=opset, dtypes=dtypes))


def on_the_cpu_device(network: Network, inputs: Arrays) -> Arrays:
    platform = api.discover()
    device = next(device.name for device in platform.devices if device.kind == "cpu")
    lowered = lower(rewrite(network).network)
    plan = api.plan(lowered.graph, platform, policy=f"single:{device}", rewrite="none")
    arrays = {lowered.inputs[name]: inputs[name] for name in network.inputs}
    with api.run(lowered.graph, platform, plan=plan, inputs=arrays, calibrate=False) as run:
        return {name: run.result(array) for name, array in lowered.outputs.items()}


@st.composite
def cases(draw: st.DrawFn) -> tuple[Arrays, dict[str, Any], int]:
    """Return inputs, attributes and opset of a node of any form."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from(["float16", "float32", "float64"]))
    batch, groups, shared, queries, keys = (draw(st.integers(1, n)) for n in (3, 3, 3, 5, 6))
    size, v_size, heads = draw(st.integers(1, 5)), draw(st.integers(1, 4)), groups * shared
    cache = draw(st.sampled_from(["none", "past", "counts"]))
    opset = 24 if cache == "counts" else draw(st.sampled_from([23, 24]))

    def array(*shape: int) -> Any:
        return random.standard_normal(shape).astype(dtype)

    inputs = {
        "Q": array(batch, heads, queries, size),
        "K": array(batch, groups, keys, size),
        "V": array(batch, groups, keys, v_size),
    }
    attributes: dict[str, Any] = {
        "is_causal": draw(st.integers(0, 1)),
        "qk_matmul_output_mode": draw(st.integers(0, 3)),
    }
    if draw(st.booleans()):
        inputs |= {name: np.concatenate(list(each.swapaxes(0, 1)), axis=2) for name, each in inputs.items()}
        attributes |= {"q_num_heads": heads, "kv_num_heads": groups}
    for name in ("scale", "softcap"):
        if draw(st.booleans()):
            attributes[name] = draw(st.sampled_from([0.25, 0.5, 2.0]))
    if draw(st.booleans()):
        # Not less than the precision of the inputs, with which results are compared.
        attributes["softmax_precision"] = draw(
            st.sampled_from([n for n in (10, 1, 11) if np.dtype(DTYPES[n]) >= np.dtype(dtype)])
        )
    total = keys
    if cache == "past":
        past = draw(st.integers(0, 4))
        inputs |= {"past_key": array(batch, groups, past, size), "past_value": array(batch, groups, past, v_size)}
        total += past
    elif cache == "counts":
        inputs["nonpad_kv_seqlen"] = random.integers(0, keys + 1, batch)
    kind = draw(st.sampled_from(["none", "bool", "float", "infinite"]))
    if kind != "none":
        shape = [draw(st.sampled_from([1, n])) for n in (batch, heads, queries)][draw(st.integers(0, 3)) :]
        shape.append(draw(st.integers(1, total)) if opset >= 24 else draw(st.sampled_from([1, total])))
        kept = random.random(shape) < 0.6
        inputs["attn_mask"] = kept if kind == "bool" else array(*shape)
        if kind == "infinite":
            inputs["attn_mask"][~kept] = -np.inf
    return inputs, attributes, opset


@settings(max_examples=examples(200))
@given(cases())
def test_every_form_equals_the_specification(case: tuple[Arrays, dict[str, Any], int]) -> None:
    inputs, attributes, opset = case
    want = specified(inputs, attributes, opset)
    network = network_of(*case)
    assert not any(node.kind == "reference" for node in network.nodes)
    for each in (network, rewrite(network).network):
        got = evaluate(each, inputs)
        for name in OUTPUTS:
            assert differences(got[name], want[name]) is None, (name, differences(got[name], want[name]))


def decoding(count: int, queries: int = 1, keys: int = 6) -> Arrays:
    """Return inputs of two heads with a padded cache that holds some keys."""
    random = np.random.default_rng(count)
    shapes = {"Q": (1, 2, queries, 8), "K": (1, 2, keys, 8), "V": (1, 2, keys, 8)}
    inputs: Arrays = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return {**inputs, "nonpad_kv_seqlen": np.array([count])}


def test_a_decoded_token_attends_all_keys_of_a_padded_cache() -> None:
    inputs = decoding(4)
    got = evaluate(network_of(inputs, {"is_causal": 1}, 24), inputs)["Y"]
    shortened = {name: each[:, :, :4] if name in ("K", "V") else each for name, each in inputs.items()}
    shortened.pop("nonpad_kv_seqlen")
    want = specified(shortened, {}, 24)["Y"]
    assert differences(got, want) is None


@pytest.mark.sycl
@pytest.mark.parametrize("count", [0, 1, 4, 6])
@pytest.mark.parametrize("queries", [1, 3])
def test_devices_align_the_causal_mask_with_the_last_key(count: int, queries: int) -> None:
    inputs = decoding(count, queries)
    got = on_the_cpu_device(network_of(inputs, {"is_causal": 1}, 24), inputs)
    want = specified(inputs, {"is_causal": 1}, 24)
    assert differences(got["Y"], want["Y"]) is None
    # Queries before the first key attend to no key.
    assert not got["Y"][:, :, : max(queries - count, 0)].any()


@pytest.mark.sycl
@pytest.mark.parametrize("opset", [23, 24])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_devices_give_zeros_for_queries_that_may_attend_no_key(opset: int, kind: str) -> None:
    inputs = decoding(6, queries=3)
    inputs.pop("nonpad_kv_seqlen")
    mask = np.array([[True] * 6, [False] * 6, [False, True] * 3])
    inputs["attn_mask"] = mask if kind == "bool" else np.where(mask, np.float32(0.5), np.float32(-np.inf))
    got = on_the_cpu_device(network_of(inputs, {"qk_matmul_output_mode": 3}, opset), inputs)
    want = specified(inputs, {"qk_matmul_output_mode": 3}, opset)
    for name in ("Y", "qk_matmul_output"):
        assert differences(got[name], want[name]) is None
        assert not got[name][:, :, 1].any()


@pytest.mark.parametrize("opset", [23, 24])
def test_onnx_runtime_gives_zeros_for_queries_without_keys(opset: int) -> None:
    pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    from support.beside_runtime import same_as_runtime

    inputs = decoding(6, queries=3)
    inputs.pop("nonpad_kv_seqlen")
    inputs["attn_mask"] = np.array([[True] * 6, [False] * 6, [False, True] * 3])
    node = helper.make_node("Attention", ["Q", "K", "V", "attn_mask"], ["Y"])
    same_as_runtime([node], inputs, ["Y"], opset)


def test_causal_mask_needs_no_check_for_queries_without_keys() -> None:
    inputs = decoding(6, queries=3)
    inputs.pop("nonpad_kv_seqlen")
    kinds = [node.kind for node in rewrite(network_of(inputs, {"is_causal": 1}, 24)).network.nodes]
    # present_key, present_value and qk_matmul_output are copies of other values.
    assert [kind for kind in kinds if kind != "elementwise"].count("matmul") == 2
    assert "reduce" not in kinds


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"K": (1, 3, 6, 8)}, "cannot share"),
        ({"Q": (8,)}, "expected 3 or 4 dimensions"),
        ({"Q": (1, 4, 16)}, "q_num_heads is 0"),
        ({"attn_mask": (2, 1, 1, 1, 6)}, "cannot be broadcast"),
        ({"attn_mask": (2, 6)}, "cannot be broadcast"),
        ({"attn_mask": (7,)}, "cannot be broadcast"),
        ({"nonpad_kv_seqlen": (2,)}, "expected (1,)"),
        ({"past_key": (1, 2, 1, 8)}, "go together"),
        ({"past_key": (1, 2, 1, 8), "past_value": (1, 2, 1, 8)}, "go together"),
    ],
)
def test_inconsistent_shapes_are_refused(change: dict[str, tuple[int, ...]], said: str) -> None:
    inputs = decoding(4, queries=3)
    inputs |= {
        name: np.zeros(shape, np.int64 if name == "nonpad_kv_seqlen" else np.float32) for name, shape in change.items()
    }
    if "past_key" in change and "past_value" not in change:
        inputs.pop("nonpad_kv_seqlen")
    with pytest.raises(ModelError) as caught:
        network_of(inputs, {}, 24)
    assert said in str(caught.value)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ModelError, match="qk_matmul_output_mode is 4"):
        network_of(decoding(4), {"qk_matmul_output_mode": 4}, 24)
