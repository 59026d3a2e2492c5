# SPDX-License-Identifier: Apache-2.0
"""Gradients of recurrent layers against central differences in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from support.small_models import model_of
from support.training_steps import HostStep, check_gradients

import syclsched
from syclsched.training import SGD, MeanSquaredError
from syclsched.training.steps.step_network import LOSS, next_name

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, FEATURES, HIDDEN = 4, 3, 2, 5


def layer(
    operator: str, *, count: int = 1, state: bool = False, lengths: bool = False, **attributes: Any
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return a recurrent node, its parameters and its constants."""
    random, gates = np.random.default_rng(3), GATES[operator]
    shapes: dict[str, tuple[int, ...]] = {
        "x": (STEPS, BATCH, FEATURES),
        "w": (count, gates * HIDDEN, FEATURES),
        "r": (count, gates * HIDDEN, HIDDEN),
        "b": (count, 2 * gates * HIDDEN),
    }
    if state:
        shapes |= dict.fromkeys(("h", "c") if operator == "LSTM" else ("h",), (count, BATCH, HIDDEN))
    names = ["x", "w", "r", "b", "n" if lengths else "", *list(shapes)[4:]]
    made = helper.make_node(
        operator, names, ["y", "yh", *(["yc"] if operator == "LSTM" else [])], hidden_size=HIDDEN, **attributes
    )
    constants = {"n": np.array([2, 4, 0], "int32")} if lengths else {}
    return made, {name: 0.7 * random.standard_normal(shape) for name, shape in shapes.items()}, constants


def weighed(operator: str) -> list[Any]:
    """Return nodes that add up all results of a layer with weights."""
    last = [helper.make_node("Mul", ["yh", "yc"], ["last"])] if operator == "LSTM" else []
    squares = helper.make_node("Mul", ["y", "y"], ["squares"])
    return [*last, squares, helper.make_node("Add", ["squares", "last" if last else "yh"], ["out"])]


def check(operator: str, **options: Any) -> None:
    node, parameters, constants = layer(operator, **options)
    check_gradients([node, *weighed(operator)], parameters, constants=constants)


@pytest.mark.parametrize(
    ("direction", "state", "lengths"),
    [
        ("forward", False, False),
        ("reverse", True, True),
        ("bidirectional", False, True),
        ("bidirectional", True, False),
    ],
)
@pytest.mark.parametrize("operator", ["RNN", "LSTM", "GRU", "linear"])
def test_cells_directions_and_states(operator: str, direction: str, state: bool, lengths: bool) -> None:
    more = {"linear_before_reset": 1} if operator == "linear" else {}
    count = 2 if direction == "bidirectional" else 1
    check("GRU" if more else operator, count=count, direction=direction, state=state, lengths=lengths, **more)


@pytest.mark.parametrize("lengths", [False, True])
def test_coupled_gates(lengths: bool) -> None:
    check("LSTM", input_forget=1, state=True, lengths=lengths)


@pytest.mark.parametrize("names", [["Relu"], ["Sigmoid"], ["ScaledTanh"], ["Affine"], ["Softsign"]])
def test_activations_of_a_simple_cell(names: list[str]) -> None:
    check("RNN", activations=names, activation_alpha=[0.8], activation_beta=[0.6])


def test_unusual_activations_and_bounds_of_an_lstm() -> None:
    check("LSTM", activations=["HardSigmoid", "Softsign", "Elu"], clip=1.5, state=True)


def test_gradient_of_the_last_state_alone() -> None:
    node, parameters, _ = layer("GRU")
    check_gradients([node, helper.make_node("Mul", ["yh", "yh"], ["out"])], parameters)


@pytest.mark.sycl
@pytest.mark.parametrize("operator", ["LSTM", "GRU"])
def test_training_on_a_device(operator: str) -> None:
    """Several steps of a bidirectional layer, in single precision, have the host's losses."""
    node, parameters, _ = layer(operator, count=2, direction="bidirectional")
    turned = helper.make_node("Transpose", ["given"], ["x"], perm=[1, 0, 2])
    mean = helper.make_node("ReduceMean", ["y"], ["mean"], axes=[0, 1], keepdims=0)
    values = {name: each.astype("float32") for name, each in parameters.items()}
    x = values.pop("x").transpose(1, 0, 2).copy()
    values["p"] = np.linspace(-1, 1, HIDDEN * 2, dtype="float32").reshape(HIDDEN, 2)
    nodes = [turned, node, mean, helper.make_node("MatMul", ["mean", "p"], ["out"])]
    model = model_of(nodes, {"given": x.shape}, ["out"], values)
    target = np.linspace(0, 1, BATCH * 2, dtype="float32").reshape(BATCH, 2)
    host = HostStep(model, target, {"given": x}, optimiser=SGD(learning_rate=0.3))
    losses = []
    for _ in range(4):
        made = host.run()
        losses.append(float(made[LOSS]))
        host.values |= {name: made[next_name(name)] for name in values}
    with syclsched.train(model, MeanSquaredError(), SGD(learning_rate=0.3), devices="cpu") as trainer:
        found = [trainer.step(x, target) for _ in range(4)]
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize(
    ("direction", "state", "lengths", "coupled"),
    [("forward", False, False, 0), ("reverse", True, True, 0), ("bidirectional", True, False, 1)],
)
def test_peepholes(direction: str, state: bool, lengths: bool, coupled: int) -> None:
    count = 2 if direction == "bidirectional" else 1
    node, parameters, constants = layer(
        "LSTM", count=count, direction=direction, state=state, lengths=lengths, input_forget=coupled
    )
    node.input.extend([""] * (7 - len(node.input)) + ["p"])
    peepholes = 0.7 * np.random.default_rng(4).standard_normal((count, 3 * HIDDEN))
    check_gradients([node, *weighed("LSTM")], {**parameters, "p": peepholes}, constants=constants)
