# SPDX-License-Identifier: Apache-2.0
"""Activations stored in bfloat16: compared with NumPy and float32, their memory, and unconverted values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import helper  # noqa: E402
from support.small_models import model_of  # noqa: E402
from support.training_steps import HostStep  # noqa: E402

import syclsched  # noqa: E402
from syclsched.errors import ArgumentError  # noqa: E402
from syclsched.frontends.onnx.network import Network  # noqa: E402
from syclsched.frontends.onnx.rewrites import rewrite  # noqa: E402
from syclsched.testing.training_models import convolutional, perceptron, recurrent, transformer  # noqa: E402
from syclsched.training import SGD, Adam, CrossEntropy  # noqa: E402
from syclsched.training.steps.narrow_activations import NARROWED, WIDENED  # noqa: E402


def rounded(x: Any) -> Any:
    return x.astype(ml_dtypes.bfloat16).astype("float32")


def of_layers(*, reshaped: bool = False) -> Any:
    """Return tanh(x w + b) v, where the results of tanh are 4096 numbers or more of 64 or more samples."""
    random = np.random.default_rng(1)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="m"),
        helper.make_node("Add", ["m", "b"], ["s"], name="s"),
        helper.make_node("Tanh", ["s"], ["h"], name="h"),
        helper.make_node("Reshape", ["h", "extents"], ["r"], name="r"),
        helper.make_node("MatMul", ["r" if reshaped else "h", "v"], ["y"], name="y"),
    ]
    weights = {"w": (8, 64), "b": (64,), "v": (32 if reshaped else 64, 3)}
    constants = {name: random.standard_normal(shape).astype("float32") / 3 for name, shape in weights.items()}
    extents = np.array([-1, 2, 32], "int64")
    used = nodes if reshaped else [*nodes[:3], nodes[4]]
    return model_of(used, {"x": ("n", 8)}, ["y"], constants | {"extents": extents})


def step_of(model: Any, y_shape: tuple[int, ...] = (64, 3), *, samples: int = 64, **more: Any) -> HostStep:
    random = np.random.default_rng(2)
    x = random.standard_normal((samples, 8)).astype("float32")
    target = random.standard_normal(y_shape).astype("float32")
    return HostStep(model, target, {"x": x}, parameters=["w", "b", "v"], activations="bfloat16", **more)


def conversions(network: Network, expression: Any) -> list[Any]:
    return [node for node in network.nodes if node.attributes.get("expression") == expression]


def test_a_step_is_that_of_numpy_with_rounded_activations() -> None:
    found = step_of(of_layers())
    x, target = found.given["x"], found.given["target of the loss"]
    w, b, v = (found.values[name] for name in "wbv")
    h = rounded(np.tanh(x @ w + b))
    y = h @ v
    dy = 2 * (y - target) / y.size
    ds = dy @ v.T * (1 - h * h)
    made = found.gradients()
    for name, wanted in {"v": h.T @ dy, "w": x.T @ ds, "b": ds.sum(0)}.items():
        np.testing.assert_allclose(made[name], wanted, rtol=1e-4, atol=1e-6)
    # A float32 step differs by more.
    exact = np.tanh(x @ w + b)
    assert not np.allclose(made["v"], exact.T @ (2 * (exact @ v - target) / y.size), rtol=1e-4, atol=1e-6)


def test_a_value_is_stored_once_and_converted_for_each_reader() -> None:
    network = step_of(of_layers()).network
    (stored,) = (node.outputs[0] for node in conversions(network, NARROWED))
    readers = {name: [n for n in network.nodes if name in n.inputs] for name in network.values}
    wide = [node for node in conversions(network, WIDENED) if node.inputs == (stored,)]
    assert len(wide) == 3  # the product, its gradient, and the gradient of tanh
    assert all(len(readers[node.outputs[0]]) == 1 for node in wide)
    # Rewrites keep the conversions separate, or merge them into element-wise readers.
    fused = rewrite(network).network
    assert sum(np.dtype(value.dtype).itemsize == 2 for value in fused.values.values()) == 1
    assert len(conversions(fused, WIDENED)) == 2


def test_reshaped_values_are_stored_once() -> None:
    network = step_of(of_layers(reshaped=True), (64, 2, 3)).network
    assert len(conversions(network, NARROWED)) == 1


def test_parts_of_a_batch_and_small_values() -> None:
    whole = step_of(of_layers(), (128, 3), samples=128).gradients()
    parts = step_of(of_layers(), (128, 3), samples=128, parts=(1, 1))
    assert len(conversions(parts.network, NARROWED)) == 2
    for name, each in parts.gradients().items():
        np.testing.assert_allclose(each, whole[name], rtol=1e-4, atol=1e-7)
    # 63 samples have too few numbers for a benefit.
    assert not conversions(step_of(of_layers(), (63, 3), samples=63).network, NARROWED)


MODELS = {
    "perceptron": (perceptron((64, 128, 128, 10)), 64),
    "convolutional": (convolutional((16, 16), 16), 32),
    "recurrent": (recurrent(), 16),
    "transformer": (transformer(), 2),
}


def trained(name: str, steps: int, **more: Any) -> list[float]:
    """Return the losses of a training."""
    model, samples = MODELS[name]
    with syclsched.train(model.onnx, optimizer=Adam(1e-3), devices="cpu", autotune=False, seed=3, **more) as trainer:
        return [trainer.step(*model.batch(samples, seed=i % 4)) for i in range(steps)]


@pytest.mark.sycl
@pytest.mark.parametrize("name", MODELS)
def test_losses_are_close_to_those_of_float32(name: str) -> None:
    steps = 100 if name in ("perceptron", "convolutional") else 10
    ours = trained(name, steps, activations="bfloat16")
    theirs = trained(name, steps)
    # One rounding to 8 bits of the stored values of each layer.
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=0.01 * max(theirs))
    assert ours != theirs


def most_bytes(network: Network) -> int:
    """Return the maximum bytes of results that are still needed, in the network's order of nodes."""
    memory = {node.outputs[0]: node.inputs[0] for node in network.nodes if node.kind == "reshape"}
    last: dict[str, int] = {}
    for number, node in enumerate(network.nodes):
        last |= {memory.get(name, name): number for name in node.inputs if name is not None}
    held: dict[str, int] = {}
    most = 0
    for number, node in enumerate(network.nodes):
        for name in node.outputs:
            if name in last and node.kind not in ("reshape", "update"):
                value = network.values[name]
                held[name] = math.prod(value.shape) * np.dtype(value.dtype).itemsize
        most = max(most, sum(held.values()))
        held = {name: size for name, size in held.items() if last[name] > number}
    return most


def test_activations_take_less_memory() -> None:
    model = convolutional((16, 16, 32, 32), 16)
    x, y = model.batch(64)
    peaks = {
        each: most_bytes(
            rewrite(HostStep(model.onnx, y, {"x": x}, loss=CrossEntropy(), activations=each).network).network
        )
        for each in ("float32", "bfloat16")
    }
    assert peaks["bfloat16"] < 0.65 * peaks["float32"]


@pytest.mark.sycl
def test_parameters_are_float32_and_a_limit_of_memory_is_kept() -> None:
    model = convolutional((16, 16, 32, 32), 16)
    with syclsched.train(
        model.onnx, optimizer=SGD(0.1), devices="cpu", autotune=False, activations="bfloat16", memory_limit="5 MB"
    ) as trainer:
        trainer.step(*model.batch(64))
        assert int(trainer.plan.peak_bytes["cpu"]) < 5e6
        assert {value.dtype for value in trainer.parameters.values()} == {np.dtype("float32")}


def test_other_types_are_refused() -> None:
    with pytest.raises(ArgumentError, match="activations is 'float16'"):
        syclsched.train(perceptron((4, 2)).onnx, activations="float16")
