# SPDX-License-Identifier: Apache-2.0
"""Whole models on a device, compared with ONNX Runtime: well-known networks with seeded weights, a text encoder."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from support.host_evaluation import evaluate  # noqa: E402

from syclsched import api  # noqa: E402
from syclsched.frontends.onnx.importing import import_model  # noqa: E402
from syclsched.frontends.onnx.lowering import lower  # noqa: E402
from syclsched.frontends.onnx.model_file.model_reader import read_model  # noqa: E402
from syclsched.frontends.onnx.network import Network  # noqa: E402
from syclsched.frontends.onnx.rewrites import rewrite  # noqa: E402
from syclsched.testing.models import encoder_model, light_model  # noqa: E402

#: They have every operator of the others, and are the fast ones.
NAMES = ("squeezenet", "shufflenet", "inception_v1", "encoder", "batched encoder")


@cache
def example(name: str) -> tuple[Network, dict[str, Any], dict[str, Any]]:
    """Return a model, inputs, and ONNX Runtime's results."""
    random = np.random.default_rng(3)
    if name.endswith("encoder"):
        model = encoder_model(2, 64, 4, vocabulary=100, positions=32)
        batch = 3 if name.startswith("batched") else 1
        mask = np.ones((batch, 12), np.int64)
        mask[-1, 9:] = 0
        inputs = {
            "input_ids": random.integers(0, 100, (batch, 12)),
            "attention_mask": mask,
            "token_type_ids": random.integers(0, 2, (batch, 12)),
        }
    else:
        model = light_model(name)
        inputs = {model.graph.input[0].name: random.standard_normal((1, 3, 224, 224)).astype(np.float32)}
    options = ort.SessionOptions()
    options.log_severity_level = 4
    runtime = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs = [value.name for value in model.graph.output]
    want = dict(zip(outputs, runtime.run(outputs, inputs), strict=True))
    network = import_model(read_model(model), {key: value.shape for key, value in inputs.items()})
    return network, inputs, want


def check(got: Any, want: Any) -> None:
    scale = np.abs(want).max()
    assert np.allclose(got, want, rtol=2e-4, atol=2e-5 * scale)
    assert np.ptp(want) > 0.01 * scale  # equal weights would give equal results everywhere


@pytest.mark.parametrize("name", NAMES)
def test_imported_models_are_canonical_and_right(name: str) -> None:
    network, inputs, want = example(name)
    assert not any(node.kind == "reference" for node in network.nodes)
    got = evaluate(network, inputs)
    assert got.keys() == want.keys()
    for key, expected in want.items():
        check(got[key], expected)


@pytest.mark.instruction_sets
@pytest.mark.sycl
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rewritten", [False, True], ids=["as it is", "rewritten"])
def test_devices_have_the_results_of_onnx_runtime(name: str, rewritten: bool) -> None:
    network, inputs, want = example(name)
    lowered = lower(rewrite(network).network if rewritten else network)
    platform = api.discover()
    cpu = next(device.name for device in platform.devices if device.kind == "cpu")
    plan = api.plan(lowered.graph, platform, policy=f"single:{cpu}", rewrite="none")
    arrays = {lowered.inputs[key]: value for key, value in inputs.items()}
    with api.run(lowered.graph, platform, plan=plan, inputs=arrays, calibrate=False) as run:
        for key, expected in want.items():
            check(run.result(lowered.outputs[key]), expected)


def test_names_of_the_model_are_names_of_the_graph() -> None:
    network, _, _ = example("squeezenet")
    lowered = lower(network)
    assert dict(lowered.inputs) == {"data_0": "data_0"}
    assert dict(lowered.outputs) == {"softmaxout_1": "softmaxout_1"}
    assert set(lowered.origins) == {task.name for task in lowered.graph.tasks}
    assert any(
        origin == "Conv 'Conv_conv1_1'" or origin.startswith("Conv ") for (origin, *_) in lowered.origins.values()
    )
    kept = {array.name for array in lowered.graph.arrays.values() if not array.temporary}
    assert kept == {"data_0", "softmaxout_1"}
