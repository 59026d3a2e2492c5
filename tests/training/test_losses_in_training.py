# SPDX-License-Identifier: Apache-2.0
"""Losses of steps and of evaluations, with a softmax or a loss in the model, and with labels out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.small_models import model_of
from support.small_training import SIZES, blobs, trainer

from syclsched.errors import ArgumentError
from syclsched.testing.training_models import perceptron
from syclsched.training import SGD, CrossEntropy

pytestmark = pytest.mark.sycl


def test_an_output_of_integers_has_no_loss() -> None:
    model = perceptron(SIZES).onnx
    model.graph.node.append(helper.make_node("ArgMax", ["dense1"], ["label"], axis=1, keepdims=0))
    model.graph.output.append(helper.make_tensor_value_info("label", onnx.TensorProto.INT64, None))
    x, y = blobs(4)
    with (
        trainer(model, "mean_squared_error", output="label") as found,
        pytest.raises(ArgumentError, match="the output is int64"),
    ):
        found.step(x, y.astype("float32"))


def test_a_softmax_at_the_end_is_part_of_cross_entropy() -> None:
    model = perceptron(SIZES).onnx
    model.graph.node.append(helper.make_node("Softmax", ["dense1"], ["probabilities"], name="softmax"))
    model.graph.output[0].name = "probabilities"
    x, y = blobs(16)
    with trainer(model, CrossEntropy()) as one, trainer() as other:
        assert [one.step(x, y) for _ in range(3)] == pytest.approx([other.step(x, y) for _ in range(3)], rel=1e-5)
        assert one.evaluate([(x, y)]).loss == pytest.approx(other.evaluate([(x, y)]).loss, rel=1e-4)


@pytest.mark.parametrize("shape", [(4,), (2, 2)])
@pytest.mark.parametrize("scale", [1, 100])
def test_a_sigmoid_at_the_end_is_part_of_binary_cross_entropy(scale: int, shape: tuple[int, ...]) -> None:
    """Also before a new shape; the loss was that of the sigmoid of its probabilities. Some are rounded to 0 or 1."""
    models = []
    for end in ("Sigmoid", "Identity"):
        model = perceptron(SIZES).onnx
        nodes = [("Mul", ["dense1", "scale"], "scores"), (end, ["scores"], "made"), ("Reshape", ["made", "shape"], "y")]
        model.graph.node.extend(helper.make_node(kind, given, [made]) for kind, given, made in nodes)
        constants = {"scale": np.float32(scale), "shape": np.int64([-1, *shape])}
        model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None))
        models.append(model)
    x, labels = blobs(16)
    y = np.eye(SIZES[-1], dtype="float32")[labels].reshape(-1, *shape)
    given = ("binary_cross_entropy", SGD(0.1 / scale))
    with trainer(models[0], *given) as found, trainer(models[1], *given) as other:
        assert [found.step(x, y) for _ in range(3)] == pytest.approx([other.step(x, y) for _ in range(3)], rel=1e-5)
        evaluated = found.evaluate([(x, y)]).loss
        assert np.isfinite(evaluated)
        if scale == 1:
            assert evaluated == pytest.approx(other.evaluate([(x, y)]).loss, rel=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("loss", ["mean_squared_error", "mean_absolute_error", "binary_cross_entropy", "cross_entropy"])
def test_targets_of_both_precisions_for_a_model_in_double_precision(loss: str, dtype: str) -> None:
    random = np.random.default_rng(0)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = model_of(
        [node], {"x": (6, 3)}, ["y"], {"w": random.standard_normal((3, 2))}, dtypes=dict.fromkeys("xy", 11)
    )
    x, y = random.standard_normal((6, 3)), random.random((6, 1))
    y = np.hstack([y, 1 - y]).astype(dtype)
    with trainer(model, loss, SGD(0.0)) as found:
        p = found.predict(x)["y"]
        wanted = {
            "mean_squared_error": (p - y) ** 2,
            "mean_absolute_error": abs(p - y),
            "binary_cross_entropy": np.logaddexp(0, p) - y * p,
            "cross_entropy": 2 * y * (np.logaddexp(p[:, :1], p[:, 1:]) - p),
        }[loss].mean()
        assert found.evaluate([(x, y)]).loss == pytest.approx(wanted, rel=1e-12)
        assert found.step(x, y) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("is_formula", [False, True])
def test_an_evaluation_finds_the_softmax_that_a_step_finds(is_formula: bool) -> None:
    """Also behind other nodes, and where probabilities are rounded to 0."""
    model = perceptron(SIZES).onnx
    model.graph.initializer.append(numpy_helper.from_array(np.float32(1e3), "large"))
    nodes: list[tuple[str, list[str], str, dict[str, Any]]] = [("Softmax", ["scores"], "shares", {})]
    if is_formula:
        nodes = [
            ("ReduceMax", ["scores"], "top", {"axes": [1]}),
            ("Sub", ["scores", "top"], "less", {}),
            ("Exp", ["less"], "powers", {}),
            ("ReduceSum", ["powers", "one"], "sum", {}),
            ("Div", ["powers", "sum"], "shares", {}),
        ]
        model.graph.initializer.append(numpy_helper.from_array(np.int64([1]), "one"))
    nodes = [("Mul", ["dense1", "large"], "scores", {}), *nodes, ("Identity", ["shares"], "y", {})]
    model.graph.node.extend(helper.make_node(kind, given, [made], **more) for kind, given, made, more in nodes)
    model.graph.output[0].name = "y"
    (x, y), small = blobs(16), np.log(np.finfo("float32").tiny)
    with trainer(model, optimizer=SGD(0.0), frozen=["large"]) as found, trainer() as other:
        scores = (other.predict(x)["dense1"] * 1e3).astype("float64")
        logs = scores - scores.max(1, keepdims=True)
        logs -= np.log(np.exp(logs).sum(1, keepdims=True))
        assert found.step(x, y) == pytest.approx(-logs[np.arange(16), y].mean(), rel=1e-4)
        wanted = pytest.approx(-np.maximum(logs, small)[np.arange(16), y].mean(), rel=1e-3)
        assert found.evaluate([(x, y)]).loss == wanted
        assert found.evaluate([(x, np.eye(SIZES[-1], dtype="float32")[y])]).loss == wanted


def test_a_loss_of_the_model_itself() -> None:
    nodes = [helper.make_node("Sub", ["x", "w"], ["d"]), helper.make_node("ReduceSumSquare", ["d"], ["y"], keepdims=0)]
    model = model_of(nodes, {"x": (3,)}, ["y"], {"w": np.zeros(3, "float32")})
    x = np.float32([1, 2, 3])
    with trainer(model, "model", SGD(0.25)) as found:
        assert [found.step(x), found.step(x)] == pytest.approx([14, 3.5])
        assert found.evaluate([(x, None)]).loss == pytest.approx(0.875)


def test_a_loss_of_the_model_itself_weighs_by_samples() -> None:
    nodes = [
        helper.make_node("Sub", ["x", "w"], ["d"]),
        helper.make_node("Mul", ["d", "d"], ["s"]),
        helper.make_node("ReduceMean", ["s"], ["y"], keepdims=0),
    ]
    model = model_of(nodes, {"x": ("n", 1)}, ["y"], {"w": np.zeros(1, "float32")})
    x = np.float32([[1], [2], [3], [10]])
    with trainer(model, "model", SGD(0.25)) as found:
        assert found.evaluate([(x[:3], None), (x[3:], None)]).loss == pytest.approx(28.5)
        assert found.evaluate([(x[:3], None), (x[3:], None)]).loss == found.evaluate([(x, None)]).loss
    with trainer(model, "model", SGD(0.25), micro_batches=(3, 1)) as found:
        assert found.step(x) == pytest.approx(28.5)
        assert found.parameters["w"] == pytest.approx(2.0)


@pytest.mark.parametrize("label", [2**63, 2**64 - 1, 2**64 - 100])
def test_a_label_that_int64_does_not_hold_is_named_as_it_is(label: int) -> None:
    x, y = blobs(3)
    y = y.astype("uint64")
    y[1] = label
    with trainer() as found:
        for use in (lambda: found.step(x, y), lambda: found.evaluate([(x, y)])):
            with pytest.raises(ArgumentError, match=rf"sample 1: label {label} is out of range"):
                use()
        y[1] = 0
        assert found.step(x, y) == pytest.approx(np.log(SIZES[-1]), abs=2)
