# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks of every form, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper  # noqa: E402
from support.beside_runtime import array, same_as_runtime, session  # noqa: E402
from support.host_evaluation import evaluate  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

import syclsched  # noqa: E402
from syclsched.errors import ModelError  # noqa: E402

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("opset", [7, 14])
def test_recurrent(operator: str, direction: str, full: bool, opset: int) -> None:
    steps, batch, features, hidden = 4, 2, 3, 5
    count, gates = (2 if direction == "bidirectional" else 1), GATES[operator]
    inputs: dict[str, Any] = {"x": array(steps, batch, features)}
    constants = {"w": array(count, gates * hidden, features), "r": array(count, gates * hidden, hidden)}
    names = ["x", "w", "r"]
    if full:
        constants["b"] = array(count, 2 * gates * hidden)
        inputs["h"] = array(count, batch, hidden)
        names += ["b", "", "h"]
        if operator == "LSTM":
            inputs["c"] = array(count, batch, hidden)
            constants["p"] = array(count, 3 * hidden)
            names += ["c", "p"]
    outputs = ["y", "yh", "yc"] if operator == "LSTM" else ["y", "yh"]
    more = {"linear_before_reset": int(full)} if operator == "GRU" else {}
    made = helper.make_node(operator, names, outputs, hidden_size=hidden, direction=direction, **more)
    same_as_runtime([made], inputs, outputs, opset, constants)


def one(operator: str, direction: str = "forward", steps: int = 5, **attributes: Any) -> Any:
    """Return a model of one recurrent node: inputs, weights and outputs."""
    count, gates = (2 if direction == "bidirectional" else 1), GATES[operator]
    inputs: dict[str, Any] = {"x": array(steps, 3, 4)}
    weights = {"w": array(count, gates * 6, 4), "r": array(count, gates * 6, 6), "b": array(count, 2 * gates * 6)}
    lengths = attributes.pop("lengths", None)
    names = ["x", "w", "r", "b"]
    if lengths is not None:
        inputs["n"] = np.array(lengths, np.int32)
        names.append("n")
    outputs = ["y", "yh", "yc"] if operator == "LSTM" else ["y", "yh"]
    made = helper.make_node(operator, names, outputs, hidden_size=6, direction=direction, **attributes)
    return made, inputs, weights, outputs


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("lengths", [(5, 3, 1), (4, 4, 2), (5, 5, 5)])
def test_sequences_of_several_lengths(operator: str, direction: str, known: bool, lengths: tuple[int, ...]) -> None:
    made, inputs, weights, outputs = one(operator, direction, lengths=lengths)
    if known:
        weights["n"] = inputs.pop("n")
    same_as_runtime([made], inputs, outputs, 14, weights)


@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("operator", "more"),
    [("RNN", {}), ("GRU", {}), ("GRU", {"linear_before_reset": 1}), ("LSTM", {}), ("LSTM", {"input_forget": 1})],
)
def test_inputs_of_activations_are_clipped(operator: str, direction: str, more: dict[str, int]) -> None:
    made, inputs, weights, outputs = one(operator, direction, clip=0.4, **more)
    same_as_runtime([made], inputs, outputs, 14, weights)


@pytest.mark.parametrize(
    ("operator", "names", "alpha", "beta"),
    [
        ("RNN", ["LeakyRelu"], [0.1], []),
        ("RNN", ["ThresholdedRelu"], [0.3], []),
        ("RNN", ["Affine"], [0.5], [0.1]),
        ("RNN", ["ScaledTanh"], [0.5], [0.7]),
        ("RNN", ["Elu"], None, None),
        ("GRU", ["HardSigmoid", "Elu"], [0.3, 0.7], [0.4]),
        ("LSTM", ["HardSigmoid", "LeakyRelu", "Tanh"], [0.3, 0.2], [0.4]),
        ("LSTM", ["Sigmoid", "ScaledTanh", "Softsign"], [1.7], [0.6]),
    ],
)
def test_activations_and_their_numbers(operator: str, names: list[str], alpha: Any, beta: Any) -> None:
    numbers = {"activation_alpha": alpha, "activation_beta": beta}
    made, inputs, weights, outputs = one(
        operator, activations=names, **{name: each for name, each in numbers.items() if each}
    )
    same_as_runtime([made], inputs, outputs, 14, weights)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_no_steps_leave_the_states_as_they_were(direction: str) -> None:
    made, inputs, weights, outputs = one("LSTM", direction, steps=0)
    count = 2 if direction == "bidirectional" else 1
    made.input.extend(["", "h", "c"])
    inputs |= {"h": array(count, 3, 6), "c": array(count, 3, 6)}
    network = imported(model_of([made], {name: each.shape for name, each in inputs.items()}, outputs, weights))
    got = evaluate(network, {name: inputs[name] for name in network.inputs})
    assert got["y"].shape == (0, count, 3, 6)
    assert (got["yh"] == inputs["h"]).all() and (got["yc"] == inputs["c"]).all()


def test_long_sequences_are_one_task() -> None:
    """Before, a step was a task: sequences of more than 4,000 steps were refused, and 200 took minutes to compile."""
    made, inputs, weights, outputs = one("LSTM", "bidirectional", steps=5000)
    network = imported(model_of([made], {"x": inputs["x"].shape}, outputs, weights))
    assert sum(node.kind == "recurrent" for node in network.nodes) == 2
    assert len(network.nodes) < 20
    same_as_runtime([made], inputs, outputs, 14, weights)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"activations": ["Sine"]}, "no activation 'Sine'"),
        ({"activations": ["Tanh", "Tanh"]}, "2 activations, expected 1"),
        ({"clip": -1.0}, "clip=-1"),
    ],
)
def test_unsupported_forms_are_refused(more: dict[str, Any], said: str) -> None:
    made, inputs, weights, outputs = one("RNN", **more)
    dtypes = {"n": onnx.TensorProto.INT32}
    shapes = {name: each.shape for name, each in inputs.items()}
    with pytest.raises(ModelError, match=said):
        imported(model_of([made], shapes, outputs, weights, dtypes=dtypes))


def test_lengths_beyond_the_steps_are_refused() -> None:
    made, inputs, weights, outputs = one("GRU", lengths=(6, 3, 2))
    weights["n"] = inputs.pop("n")
    with pytest.raises(ModelError, match="lengths from 2 to 6"):
        imported(model_of([made], {"x": inputs["x"].shape}, outputs, weights))


@pytest.mark.sycl
@pytest.mark.parametrize("operator", ["GRU", "LSTM"])
@pytest.mark.parametrize("without", ["opencl-c-groups", "opencl-c"])
def test_kernels_for_processors_take_lengths(operator: str, without: str) -> None:
    made, inputs, weights, outputs = one(operator, "bidirectional", lengths=(5, 3, 1))
    shapes = {name: value.shape for name, value in inputs.items()}
    model = model_of([made], shapes, outputs, weights, opset=14, dtypes={"n": onnx.TensorProto.INT32})
    with syclsched.compile(model, devices="cpu", autotune=False, without=["onednn", without]) as compiled:
        found = compiled(inputs)
        kinds = {each.implementation for each in compiled.times(inputs) if operator in each.operator}
    assert not kinds & {"numpy", without}
    for name, wanted in zip(outputs, session(model).run(None, inputs), strict=True):
        assert np.allclose(found[name], wanted, rtol=1e-4, atol=1e-5)
