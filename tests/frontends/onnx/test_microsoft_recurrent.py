# SPDX-License-Identifier: Apache-2.0
"""LSTM with weights of 8 bits, compared with ONNX Runtime and with the steps of an LSTM in double precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper  # noqa: E402
from support.beside_runtime import array, session  # noqa: E402
from support.host_evaluation import evaluate  # noqa: E402
from support.repeatable import generator  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

import syclsched  # noqa: E402
from syclsched.errors import ModelError  # noqa: E402
from syclsched.frontends.onnx.model_file.dtypes import NUMBERS  # noqa: E402
from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT  # noqa: E402

RANDOM = generator(31)
STEPS, BATCH, FEATURES, HIDDEN = 6, 3, 5, 8
ORDER = ("x", "w", "r", "b", "n", "h", "c", "p", "ws", "wz", "rs", "rz")
OUTPUTS = ["y", "yh", "yc"]
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
#: Largest difference from ONNX Runtime. It rounds inputs, of a range of about 6, and states, of up to 2, to 255 units:
#: half a unit of each, by weights of 0.16 on average, is 5 * 0.16 * 0.012 + 8 * 0.16 * 0.004 = 0.015 in the sum of a
#: gate, and activations pass on no more. Forget gates of about a half double it in the course of the steps.
ROUNDED = 0.03


def weights(direction: str, dtype: str, *, by_channel: bool) -> dict[str, Any]:
    """Return matrices of 7 bits, whose sums no processor saturates, with their scales and zero points."""
    count, columns = len(DIRECTIONS[direction]), 4 * HIDDEN
    made: dict[str, Any] = {}
    for name, rows in (("w", FEATURES), ("r", HIDDEN)):
        low, high, zero = (-64, 64, 0) if dtype == "int8" else (0, 128, 60)
        made[name] = RANDOM.integers(low, high, (count, rows, columns)).astype(dtype)
        shape = (count, columns) if by_channel else (count,)
        made[f"{name}s"] = RANDOM.uniform(0.004, 0.006, shape).astype(np.float32)
        # By channel, ONNX Runtime takes one zero point for all, of int8 0 only.
        zeros = np.zeros(shape, dtype) + zero
        made[f"{name}z"] = zeros if by_channel else (zeros + 3 * np.arange(count)).astype(dtype)
    return made


def model(given: dict[str, Any], constants: dict[str, Any], direction: str, **attributes: Any) -> Any:
    """Return a model of one node."""
    every = given | constants
    node = helper.make_node(
        "DynamicQuantizeLSTM",
        [name if name in every else "" for name in ORDER],
        OUTPUTS,
        domain=MICROSOFT,
        direction=direction,
        hidden_size=HIDDEN,
        **attributes,
    )
    dtypes = {name: NUMBERS[value.dtype.name] for name, value in given.items()}
    shapes = {name: value.shape for name, value in given.items()}
    made = model_of([node], shapes, OUTPUTS, constants, dtypes=dtypes)
    made.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    return made


def dequantised(every: dict[str, Any], name: str) -> Any:
    scale, zero = (every[f"{name}{each}"].astype(np.float64) for each in "sz")
    expand = (slice(None), None, slice(None) if scale.ndim == 2 else None)
    return (every[name] - zero[expand]) * scale[expand]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def by_steps(every: dict[str, Any], direction: str) -> dict[str, Any]:
    """Return the results of the LSTM, sequence by sequence and step by step."""
    w, r = dequantised(every, "w"), dequantised(every, "r")
    count = len(DIRECTIONS[direction])
    steps, batch, _ = every["x"].shape
    y, ends = np.zeros((steps, count, batch, HIDDEN)), np.zeros((2, count, batch, HIDDEN))
    bias = every.get("b", np.zeros((count, 8 * HIDDEN))).reshape(count, 2, -1).sum(1)
    peepholes = every.get("p", np.zeros((count, 3 * HIDDEN))).reshape(count, 3, HIDDEN)
    lengths = every.get("n", np.full(batch, steps))
    for at, backwards in enumerate(DIRECTIONS[direction]):
        for row in range(batch):
            h, c = (every[each][at, row] if each in every else np.zeros(HIDDEN) for each in "hc")
            of_input, of_output, of_forget = peepholes[at]
            for step in range(lengths[row])[:: -1 if backwards else 1]:
                sums = every["x"][step, row] @ w[at] + h @ r[at] + bias[at]
                i, o, f, candidate = np.split(sums, 4)
                c = sigmoid(f + of_forget * c) * c + sigmoid(i + of_input * c) * np.tanh(candidate)
                h = sigmoid(o + of_output * c) * np.tanh(c)
                y[step, at, row] = h
            ends[:, at, row] = h, c
    return dict(zip(OUTPUTS, (y, *ends), strict=True))


def near_runtime(got: dict[str, Any], made: Any, given: dict[str, Any]) -> None:
    """Compare results with ONNX Runtime's."""
    for name, rounded in zip(OUTPUTS, session(made).run(OUTPUTS, given), strict=True):
        assert got[name].dtype == rounded.dtype and got[name].shape == rounded.shape
        assert np.abs(got[name] - rounded).max() < ROUNDED, name


def check(given: dict[str, Any], constants: dict[str, Any], direction: str) -> None:
    """Compare a model with the LSTM step by step, and with ONNX Runtime."""
    made = model(given, constants, direction)
    network = imported(made)
    got = evaluate(network, {name: given[name] for name in network.inputs})
    exact = by_steps(given | constants, direction)
    for name in OUTPUTS:
        assert np.abs(got[name] - exact[name]).max() < 2e-6, name
    near_runtime(got, made, given)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("by_channel", [False, True])
def test_weights_with_scales_by_direction_or_by_channel(direction: str, dtype: str, by_channel: bool) -> None:
    check({"x": array(STEPS, BATCH, FEATURES)}, weights(direction, dtype, by_channel=by_channel), direction)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("lengths", [None, (6, 2, 4), (3, 3, 1)])
def test_every_input(direction: str, lengths: tuple[int, ...] | None) -> None:
    count = len(DIRECTIONS[direction])
    given = {"x": array(STEPS, BATCH, FEATURES)}
    given |= {name: np.tanh(array(count, BATCH, HIDDEN)) for name in "hc"}
    if lengths is not None:
        given["n"] = np.array(lengths, np.int32)
    constants = weights(direction, "int8", by_channel=True)
    constants |= {"b": array(count, 8 * HIDDEN) / 4, "p": array(count, 3 * HIDDEN) / 4}
    check(given, constants, direction)


def test_weights_that_are_inputs() -> None:
    every = weights("bidirectional", "uint8", by_channel=False)
    matrices = {name: every.pop(name) for name in ("w", "r")}
    check({"x": array(STEPS, BATCH, FEATURES)} | matrices, every, "bidirectional")


def test_activations_are_those_of_lstm() -> None:
    """ONNX Runtime has the same: attributes are LSTM's."""
    given, constants = {"x": array(STEPS, BATCH, FEATURES)}, weights("forward", "int8", by_channel=False)
    more = {"activations": ["HardSigmoid", "LeakyRelu", "Tanh"], "activation_alpha": [0.3, 0.2], "clip": 0.7}
    made = model(given, constants, "forward", activation_beta=[0.4], input_forget=1, **more)
    near_runtime(evaluate(imported(made), given), made, given)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"ws": np.ones(3, np.float32)}, r"W_scale of shape \(3,\), expected \(1,\) or \(1, 32\)"),
        ({"rz": np.zeros((1, 8), np.int8)}, r"R_zero_point of shape \(1, 8\), expected \(1,\) or \(1, 32\)"),
        ({"w": np.zeros((5, 32), np.int8)}, r"W is int8 of shape \(5, 32\)"),
        ({"r": np.zeros((1, 8, 32), np.float32)}, r"R is float32 of shape \(1, 8, 32\)"),
    ],
)
def test_wrong_weights_are_refused(changed: dict[str, Any], said: str) -> None:
    constants = weights("forward", "int8", by_channel=False) | changed
    with pytest.raises(ModelError, match=said):
        imported(model({"x": array(STEPS, BATCH, FEATURES)}, constants, "forward"))


def quantised(folder: Path, *, by_channel: bool) -> Any:
    """Return an LSTM as ONNX Runtime's quantiser makes it, with weights of 7 bits."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    constants = {"w": array(2, 64, 10) / 4, "r": array(2, 64, 16) / 4, "b": array(2, 128) / 4}
    node = helper.make_node(
        "LSTM", ["x", "w", "r", "b"], OUTPUTS, name="lstm", hidden_size=16, direction="bidirectional"
    )
    plain, made = folder / "plain.onnx", folder / "quantised.onnx"
    onnx.save(model_of([node], {"x": (12, 2, 10)}, OUTPUTS, constants), plain)
    quantize_dynamic(plain, made, weight_type=QuantType.QInt8, reduce_range=True, per_channel=by_channel)
    found = onnx.load(made)
    assert [each.op_type for each in found.graph.node] == ["DynamicQuantizeLSTM"]
    return found


@pytest.mark.parametrize("by_channel", [False, True])
def test_a_quantised_lstm_is_two_tasks(by_channel: bool, tmp_path: Path) -> None:
    made, inputs = quantised(tmp_path, by_channel=by_channel), {"x": array(12, 2, 10)}
    network = imported(made)
    assert sum(node.kind == "recurrent" for node in network.nodes) == 2
    near_runtime(evaluate(network, inputs), made, inputs)


@pytest.mark.sycl
def test_devices_compute_a_quantised_lstm(tmp_path: Path) -> None:
    made, inputs = quantised(tmp_path, by_channel=True), {"x": array(12, 2, 10)}
    expected = evaluate(imported(made), inputs)
    with syclsched.compile(made, devices="cpu", autotune=False) as compiled:
        got = compiled(inputs)
    assert all(np.allclose(got[name], expected[name], atol=1e-5) for name in OUTPUTS)


@pytest.mark.sycl
def test_devices_take_buckets_of_steps_and_sequences() -> None:
    constants = weights("bidirectional", "uint8", by_channel=False)
    made = model({"x": array(STEPS, BATCH, FEATURES)}, constants, "bidirectional")
    for axis, name in enumerate(("steps", "batch")):
        made.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    buckets = {"steps": [4, 8], "batch": [2, 4]}
    with syclsched.compile(made, devices="cpu", autotune=False, buckets=buckets) as compiled:
        for steps, batch in ((6, 3), (4, 1)):
            given = {"x": array(steps, batch, FEATURES)}
            got, exact = compiled(given), by_steps(given | constants, "bidirectional")
            assert all(np.abs(got[name] - exact[name]).max() < 2e-6 for name in OUTPUTS)
