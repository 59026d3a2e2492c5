# SPDX-License-Identifier: Apache-2.0
"""Models that ONNX Runtime has optimised or quantised, compared with ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper  # noqa: E402
from support.beside_runtime import session  # noqa: E402
from support.host_evaluation import evaluate  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

import syclsched  # noqa: E402
from syclsched.frontends.onnx.rewrites import rewrite  # noqa: E402
from syclsched.testing.models import encoder_model  # noqa: E402

NAMES = ("encoder", "convolutional")


@cache
def example(name: str) -> tuple[Any, dict[str, Any]]:
    """Return a small model and inputs."""
    random = np.random.default_rng(3)
    if name == "encoder":
        mask = np.ones((2, 12), np.int64)
        mask[-1, 9:] = 0
        inputs = {
            "input_ids": random.integers(0, 100, (2, 12)),
            "attention_mask": mask,
            "token_type_ids": random.integers(0, 2, (2, 12)),
        }
        return encoder_model(2, 64, 4, vocabulary=100, positions=32), inputs
    shapes = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 8, 3, 3), "b2": (8,), "w3": (10, 8), "b3": (10,)}
    weights = {each: random.standard_normal(shape).astype(np.float32) / 3 for each, shape in shapes.items()}
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node("LeakyRelu", ["c1"], ["r1"], alpha=0.1),
        node("Conv", ["r1", "w2", "b2"], ["c2"], pads=[1, 1, 1, 1]),
        node("Add", ["c2", "r1"], ["sum"]),
        node("Relu", ["sum"], ["r2"]),
        node("AveragePool", ["r2"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["p"], ["means"]),
        node("Flatten", ["means"], ["flat"]),
        node("Gemm", ["flat", "w3", "b3"], ["scores"], transB=1),
        node("Sigmoid", ["scores"], ["y"]),
    ]
    model = model_of(nodes, {"x": (2, 3, 12, 12)}, ["y"], weights)
    return model, {"x": random.standard_normal((2, 3, 12, 12)).astype(np.float32)}


def optimised(model: Any, folder: Path) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(options.optimized_model_filepath)


def quantised(name: str, folder: Path) -> Any:
    """Return a model with weights of 7 bits, whose sums no processor saturates."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_dynamic,
        quantize_static,
    )

    model, inputs = example(name)
    plain, made = folder / "plain.onnx", folder / "quantised.onnx"
    onnx.save(model, plain)
    if name == "encoder":
        quantize_dynamic(plain, made, weight_type=QuantType.QInt8, reduce_range=True)
    else:

        class Reader(CalibrationDataReader):  # type: ignore[misc]
            """A calibration reader with one sample."""

            samples = iter([inputs])

            def get_next(self) -> Any:
                return next(self.samples, None)

        quantize_static(
            plain,
            made,
            Reader(),
            quant_format=QuantFormat.QOperator,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            reduce_range=True,
        )
    return onnx.load(made)


def operators(model: Any) -> set[str]:
    return {node.op_type for node in model.graph.node if node.domain == "com.microsoft"}


def check(got: dict[str, Any], model: Any, inputs: dict[str, Any], tolerance: float) -> None:
    """Compare results with those of ONNX Runtime for a model."""
    for value, want in zip(model.graph.output, session(model).run(None, inputs), strict=True):
        assert np.ptp(want) > 0.01
        assert np.abs(got[value.name] - want).max() <= tolerance * np.abs(want).max()


@pytest.mark.parametrize("name", NAMES)
def test_optimised_models_are_the_networks_that_they_were(name: str, tmp_path: Path) -> None:
    model, inputs = example(name)
    better = optimised(model, tmp_path)
    expected = {"encoder": {"FusedMatMul", "BiasGelu", "FusedGemm"}, "convolutional": {"FusedConv", "FusedGemm"}}
    assert operators(better) >= expected[name]
    shapes = {key: value.shape for key, value in inputs.items()}
    network, plain = imported(better, shapes), imported(model, shapes)
    check(evaluate(network, inputs), model, inputs, 1e-5)
    kinds, before = (Counter(node.kind for node in rewrite(each).network.nodes) for each in (network, plain))
    assert kinds == before


@pytest.mark.parametrize("name", NAMES)
def test_quantised_models(name: str, tmp_path: Path) -> None:
    """Results may differ where a number is on the border of two quantisation steps."""
    inputs, made = example(name)[1], quantised(name, tmp_path)
    shapes = {key: value.shape for key, value in inputs.items()}
    check(evaluate(imported(made, shapes), inputs), made, inputs, 0.01)
    better = optimised(made, tmp_path)
    expected = {
        "encoder": {"DynamicQuantizeMatMul", "SkipLayerNormalization", "Gelu"},
        "convolutional": {"QLinearAdd", "QLinearGlobalAveragePool", "QGemm", "QLinearLeakyRelu"},
    }
    assert operators(better) >= expected[name]
    check(evaluate(imported(better, shapes), inputs), made, inputs, 0.01)


@pytest.mark.sycl
@pytest.mark.parametrize("kind", ["optimised", "quantised"])
@pytest.mark.parametrize("name", NAMES)
def test_devices_have_the_results_of_onnx_runtime(name: str, kind: str, tmp_path: Path) -> None:
    model, inputs = example(name)
    made = model if kind == "optimised" else quantised(name, tmp_path)
    with syclsched.compile(optimised(made, tmp_path), devices="cpu", autotune=False) as compiled:
        check(compiled(inputs), made, inputs, 1e-5 if kind == "optimised" else 0.01)
