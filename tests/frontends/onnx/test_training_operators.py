# SPDX-License-Identifier: Apache-2.0
"""Operators of ``ai.onnx.preview.training`` beyond onnx's node tests: later steps, and gradients at other values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from support.host_evaluation import evaluate
from support.small_models import imported, model_of

import syclsched
from syclsched.errors import GradientError, ModelError, ValueNeededError

DOMAIN = "ai.onnx.preview.training"
DOUBLE = TensorProto.DOUBLE


def training_model(nodes: Sequence[Any], inputs: Mapping[str, Any], outputs: Sequence[str], **more: Any) -> Any:
    """Return a float64 model that may have training operators; T is the number of steps."""
    dtypes = dict.fromkeys((*inputs, *outputs), DOUBLE) | {"T": TensorProto.INT64}
    model = model_of(nodes, inputs, outputs, dtypes=dtypes, **more)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return model


def gradient(inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node("Gradient", inputs.split(), outputs.split(), name="g", domain=DOMAIN, **attributes)


def computed(model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    network = imported(model, {name: value.shape for name, value in given.items()})
    return evaluate(network, {name: given[name] for name in network.inputs})


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


# --- optimisers -----------------------------------------------------------------------------------


def momentum(t: int, x: Any, g: Any, v: Any, *, nesterov: bool) -> Any:
    g = 0.01 * x + g
    v = 0.9 * v + (0.5 if t else 1) * g
    return x - 0.1 * (g + 0.9 * v if nesterov else v), v


def adam(t: int, x: Any, g: Any, v: Any, h: Any) -> Any:
    g = 0.01 * x + g
    v, h = 0.8 * v + 0.2 * g, 0.95 * h + 0.05 * g * g
    rate = 0.1 * np.sqrt(1 - 0.95**t) / (1 - 0.8**t) if t else 0.1
    return 0.98 * (x - rate * v / (np.sqrt(h) + 1e-3)), v, h


def adagrad(t: int, x: Any, g: Any, h: Any) -> Any:
    g = 0.01 * x + g
    h = h + g * g
    return x - 0.1 / (1 + 0.25 * t) * g / (np.sqrt(h) + 1e-3), h


OPTIMISERS: dict[str, tuple[str, int, dict[str, Any], Any]] = {
    "standard": (
        "Momentum",
        1,
        {"norm_coefficient": 0.01, "alpha": 0.9, "beta": 0.5, "mode": "standard"},
        lambda *given: momentum(*given, nesterov=False),
    ),
    "nesterov": (
        "Momentum",
        1,
        {"norm_coefficient": 0.01, "alpha": 0.9, "beta": 0.5, "mode": "nesterov"},
        lambda *given: momentum(*given, nesterov=True),
    ),
    "adam": (
        "Adam",
        2,
        {
            "norm_coefficient": 0.01,
            "norm_coefficient_post": 0.02,
            "alpha": 0.8,
            "beta": 0.95,
            "epsilon": 1e-3,
        },
        adam,
    ),
    "adagrad": ("Adagrad", 1, {"norm_coefficient": 0.01, "decay_factor": 0.25, "epsilon": 1e-3}, adagrad),
}


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("steps", [0, 3])
def test_optimisers_of_several_tensors(name: str, steps: int) -> None:
    operator, states, attributes, formula = OPTIMISERS[name]
    shapes = {"a": (3, 4), "b": (2,)}
    columns = ["x", "g", *(f"s{i}" for i in range(states))]
    given = {f"{c}{t}": abs(numbers(*shapes[t], seed=i)) for i, c in enumerate(columns) for t in shapes}
    outputs = [f"{c}{t} new" for c in columns if c != "g" for t in shapes]
    node = helper.make_node(operator, ["R", "T", *given], outputs, domain=DOMAIN, **attributes)
    inputs = {"R": (), "T": ()} | {each: value.shape for each, value in given.items()}
    made = computed(
        training_model([node], inputs, outputs), {**given, "R": np.array(0.1), "T": np.array(steps, "int64")}
    )
    for t in shapes:
        wanted = formula(steps, *(given[f"{c}{t}"] for c in columns))
        for c, each in zip([c for c in columns if c != "g"], wanted, strict=True):
            # The attributes are float32.
            np.testing.assert_allclose(made[f"{c}{t} new"], each, rtol=1e-5)


def test_an_optimiser_with_resident_state() -> None:
    node = helper.make_node(
        "Momentum",
        ["R", "T", "x", "g", "v"],
        ["x new", "v new"],
        domain=DOMAIN,
        norm_coefficient=0.0,
        alpha=0.5,
        beta=1.0,
        mode="standard",
    )
    shapes = {"R": (), "T": (), "x": (5,), "g": (5,), "v": (5,)}
    model = model_of([node], shapes, ["x new", "v new"], dtypes={"T": TensorProto.INT64})
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    slope = numbers(5).astype("float32")
    with syclsched.compile(model, devices="cpu", carried={"x new": "x", "v new": "v"}) as compiled:
        compiled.reset(x=np.ones(5, "float32"), v=np.zeros(5, "float32"))
        for step in range(2):
            compiled(R=np.array(0.1, "float32"), T=np.array(step, "int64"), g=slope)
        np.testing.assert_allclose(compiled.carried()["x"], 1 - 0.25 * slope, rtol=1e-5)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "message"),
    [
        ("Adagrad", "R T x g", {}, "expected 3 for each tensor"),
        ("Adam", "R T x g v", {}, "expected 4 for each tensor"),
        ("Adagrad", "R T x y v", {}, "the gradient 'y' is float64"),
        ("Adagrad", "x T x g v", {}, "learning rate R has shape"),
        ("Momentum", "R T x g v", {"mode": "heavy"}, "its mode is 'heavy'"),
    ],
)
def test_wrong_optimisers(operator: str, inputs: str, attributes: dict[str, Any], message: str) -> None:
    if operator == "Momentum":
        attributes = {"norm_coefficient": 0.0, "alpha": 0.9, "beta": 1.0, **attributes}
    node = helper.make_node(operator, inputs.split(), ["z"], name="o", domain=DOMAIN, **attributes)
    shapes = {"R": (), "T": (), "x": (3,), "g": (3,), "v": (3,), "y": (4,)}
    with pytest.raises(ModelError, match=message):
        imported(training_model([node], shapes, ["z"]))


# --- gradients ------------------------------------------------------------------------------------

LAYERS = [
    helper.make_node("MatMul", ["x", "w"], ["m"], name="m"),
    helper.make_node("Add", ["m", "b"], ["s"], name="s"),
    helper.make_node("Tanh", ["s"], ["h"], name="h"),
    helper.make_node("ReduceSum", ["h"], ["y"], name="y", keepdims=0),
]


def test_gradients_by_initialisers() -> None:
    given = {"x": numbers(5, 3)}
    w, b = numbers(3, 4, seed=1), numbers(4, seed=2)
    nodes = [*LAYERS, gradient("w b x", "dw db dx", xs=["w", "b", "x"], y="y")]
    made = computed(training_model(nodes, {"x": (5, 3)}, ["y", "dw", "db", "dx"], constants={"w": w, "b": b}), given)
    slope = 1 - np.tanh(given["x"] @ w + b) ** 2
    np.testing.assert_allclose(made["dw"], given["x"].T @ slope)
    np.testing.assert_allclose(made["db"], slope.sum(0))
    np.testing.assert_allclose(made["dx"], slope @ w.T)


def test_gradients_by_a_value_between() -> None:
    given = {"x": numbers(5, 3)}
    nodes = [*LAYERS, gradient("s", "ds", xs=["s"], y="y")]
    made = computed(
        training_model(nodes, {"x": (5, 3)}, ["s", "ds"], constants={"w": numbers(3, 4), "b": numbers(4)}), given
    )
    np.testing.assert_allclose(made["ds"], 1 - np.tanh(made["s"]) ** 2)


def test_gradients_at_other_values() -> None:
    given = {"x": numbers(5, 3), "other": numbers(5, 4, seed=5)}
    nodes = [*LAYERS, gradient("other", "ds", xs=["s"], y="y")]
    model = training_model(
        nodes, {"x": (5, 3), "other": (5, 4)}, ["ds"], constants={"w": numbers(3, 4), "b": numbers(4)}
    )
    np.testing.assert_allclose(computed(model, given)["ds"], 1 - np.tanh(given["other"]) ** 2)


def test_second_derivatives() -> None:
    nodes = [
        helper.make_node("Sin", ["x"], ["y"]),
        gradient("x", "dy", xs=["x"], y="y"),
        gradient("x", "ddy", xs=["x"], y="dy"),
    ]
    x = numbers(7)
    np.testing.assert_allclose(computed(training_model(nodes, {"x": (7,)}, ["ddy"]), {"x": x})["ddy"], -np.sin(x))


def test_values_held_constant_and_one_without_influence() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["z"]),
        helper.make_node("Mul", ["x", "z"], ["y"]),
        gradient("x u z", "dx du", xs=["x", "u"], zs=["z"], y="y"),
    ]
    given = {"x": numbers(4), "u": numbers(2)}
    made = computed(training_model(nodes, {"x": (4,), "u": (2,)}, ["dx", "du"]), given)
    np.testing.assert_allclose(made["dx"], given["x"] ** 2)  # not 3 x^2
    np.testing.assert_array_equal(made["du"], np.zeros(2))


def test_a_step_of_training_as_one_model() -> None:
    update = helper.make_node("Adagrad", ["R", "T", "w", "dw", "h"], ["w new", "h new"], domain=DOMAIN)
    nodes = [*LAYERS[:1], *_squares("m"), gradient("w", "dw", xs=["w"], y="y"), update]
    shapes = {"R": (), "T": (), "x": (5, 3), "w": (3, 2), "h": (3, 2)}
    given = {name: np.float32(numbers(*shape)) for name, shape in shapes.items() if name not in ("R", "T", "h")}
    given |= {"R": np.float32(0.1), "T": np.int64(0), "h": np.zeros((3, 2), "float32")}
    model = model_of(nodes, shapes, ["w new", "h new"], dtypes={"T": TensorProto.INT64})
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    with syclsched.compile(model, devices="cpu") as compiled:
        made = compiled(**{name: np.asarray(value) for name, value in given.items()})
    slope = 2 * given["x"].T @ (given["x"] @ given["w"])
    np.testing.assert_allclose(made["w new"], given["w"] - 0.1 * slope / (abs(slope) + 1e-6), rtol=1e-4)


def _squares(x: str) -> list[Any]:
    return [
        helper.make_node("Mul", [x, x], ["squares"]),
        helper.make_node("ReduceSum", ["squares"], ["y"], keepdims=0),
    ]


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ("x", {"xs": ["x"], "y": "missing"}, "name 'missing', which no node before it makes"),
        ("x", {"xs": ["x", "z"], "y": "y"}, "1 inputs, expected 2"),
        ("u", {"xs": ["u"], "y": "y"}, "'y' depends on none of 'u'"),
        ("x", {"xs": ["x"], "y": "n"}, "'n' has elements of int64"),
    ],
)
def test_wrong_gradients(inputs: str, attributes: dict[str, Any], message: str) -> None:
    nodes = [
        helper.make_node("Sin", ["x"], ["y"]),
        helper.make_node("Shape", ["x"], ["n"]),
        gradient(inputs, "d", **attributes),
    ]
    with pytest.raises(ModelError, match=message):
        imported(training_model(nodes, {"x": (3,), "u": (3,)}, ["d"]))


def test_a_node_without_a_gradient_is_named() -> None:
    nodes = [helper.make_node("Det", ["x"], ["y"], name="d"), gradient("x", "dx", xs=["x"], y="y")]
    with pytest.raises(GradientError, match="Det 'd'"):
        imported(training_model(nodes, {"x": (3, 3)}, ["dx"]))


# --- operators in training mode -------------------------------------------------------------------


def test_dropout_that_drops_is_refused() -> None:
    node = helper.make_node("Dropout", ["x", "ratio", "mode"], ["y"], name="d")
    model = model_of([node], {"x": (3,), "ratio": (), "mode": ()}, ["y"], dtypes={"mode": TensorProto.BOOL})
    with pytest.raises(ValueNeededError, match="whether it drops elements must be known"):
        imported(model)
    with pytest.raises(ModelError, match="Dropout 'd': it drops elements at random"):
        imported(model, known={"mode": np.array(True), "ratio": np.array(0.5, "float32")})
    assert imported(model, known={"mode": np.array(False)}).outputs == ("y",)
    assert imported(model, known={"ratio": np.array(0.0, "float32")}).outputs == ("y",)


def test_running_moments_of_a_model_exported_in_training_mode() -> None:
    outputs = ["y", "mean next", "variance next"]
    node = helper.make_node(
        "BatchNormalization", ["x", "s", "b", "mean", "variance"], outputs, training_mode=1, momentum=0.8
    )
    x = numbers(6, 3, 4)
    channels = {"s": abs(numbers(3)), "b": numbers(3, seed=1), "mean": numbers(3, seed=2), "variance": abs(numbers(3))}
    shapes = {"x": x.shape, **dict.fromkeys(channels, (3,))}
    made = computed(training_model([node], shapes, outputs), {"x": x, **channels})
    mean, variance = x.mean((0, 2)), x.var((0, 2))
    normalised = (x - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5)
    np.testing.assert_allclose(made["y"], normalised * channels["s"][:, None] + channels["b"][:, None])
    np.testing.assert_allclose(made["mean next"], 0.8 * channels["mean"] + 0.2 * mean, rtol=1e-6)
    np.testing.assert_allclose(made["variance next"], 0.8 * channels["variance"] + 0.2 * variance, rtol=1e-6)
