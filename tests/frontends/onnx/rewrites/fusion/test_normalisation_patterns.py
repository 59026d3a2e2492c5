# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from support.networks import Builder, kinds, rewritten


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_layer_normalisation_is_found(dtype: str) -> None:
    made = Builder(dtype=dtype)
    made.layer_norm(made.elementwise(("exp", 0), made.input("x", (2, 5, 16))))
    network = rewritten(made, "normalisations")
    assert kinds(network) == ["elementwise", "layer_norm"]
    assert network.nodes[1].attributes["axis"] == 2
    assert network.nodes[1].attributes["epsilon"] == pytest.approx(1e-3)


def test_a_pattern_without_scale_gets_a_scale_of_1() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (2, 5, 16))
    centred = made.elementwise(("sub", 0, 1), x, made.reduce(x, "mean", 1, 2))
    variance = made.reduce(made.elementwise(("mul", 0, 0), centred), "mean", 1, 2)
    made.elementwise(("mul", 0, ("rsqrt", ("add", 1, ("const", 1e-3)))), centred, variance)
    network = rewritten(made, "normalisations")
    assert kinds(network) == ["layer_norm"]
    assert (network.constants[str(network.nodes[0].inputs[1])] == np.ones((5, 16))).all()


@pytest.mark.parametrize("form", ["quotient", "product", "centred by another mean"])
def test_a_root_mean_square_normalisation_is_found(form: str) -> None:
    made = Builder(dtype="float64")
    x, y = made.input("x", (2, 5, 16)), made.input("y", (2, 5, 16))
    if form == "centred by another mean":
        x = made.elementwise(("sub", 0, 1), x, made.reduce(y, "mean", 2))
    mean = made.reduce(made.elementwise(("pow", 0, 1), x, made.constant(np.float64(2))), "mean", 2)
    if form == "product":
        scaled = made.elementwise(("mul", 0, ("rsqrt", ("add", 1, ("const", 1e-3)))), x, mean)
    else:
        root = made.elementwise(("sqrt", ("add", 0, 1)), mean, made.constant(np.float64(1e-3)))
        scaled = made.elementwise(("div", 0, 1), x, root)
    made.elementwise(("mul", 0, 1), scaled, made.normal(16))
    network = rewritten(made, "normalisations")
    (found,) = (each for each in network.nodes if each.kind == "layer_norm")
    assert found.attributes == {"axis": 2, "epsilon": pytest.approx(1e-3), "centred": False}
    assert kinds(network)[-1] == "layer_norm"


@pytest.mark.parametrize("wrong", ["axis", "mode", "other"])
@pytest.mark.parametrize("is_centred", [True, False])
def test_expressions_similar_to_normalisations_stay(wrong: str, is_centred: bool) -> None:
    made = Builder(dtype="float64")
    x, y = made.input("x", (2, 16, 16)), made.input("y", (2, 16, 16))
    axis = 1 if wrong == "axis" else 2
    centred = made.elementwise(("sub", 0, 1), x, made.reduce(x, "mean", axis)) if is_centred else x
    squares = made.elementwise(("square", 0), y if wrong == "other" else centred)
    variance = made.reduce(squares, "max" if wrong == "mode" else "mean", axis)
    made.elementwise(("div", 0, ("sqrt", ("add", 1, ("const", 1e-3)))), centred, variance)
    assert "layer_norm" not in kinds(rewritten(made, "normalisations"))


def test_a_scale_of_another_shape_stays_outside() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (3, 16))
    centred = made.elementwise(("sub", 0, 1), x, made.reduce(x, "mean", 1))
    variance = made.reduce(made.elementwise(("square", 0), centred), "mean", 1)
    root = made.elementwise(("sqrt", ("add", 0, ("const", 1e-3))), variance)
    made.elementwise(("mul", 0, 1), made.elementwise(("div", 0, 1), centred, root), made.normal(3, 1))
    assert kinds(rewritten(made, "normalisations")) == ["layer_norm", "elementwise"]


def test_a_softmax_is_found() -> None:
    made = Builder(dtype="float64")
    made.softmax_in_pieces(made.elementwise(("sin", 0), made.input("x", (2, 7))))
    network = rewritten(made, "normalisations")
    assert kinds(network) == ["elementwise", "softmax"]


def test_softmax_without_subtracted_maximum_is_recognised() -> None:
    made = Builder(dtype="float64")
    power = made.elementwise(("exp", 0), made.input("x", (2, 7)))
    made.elementwise(("div", 0, 1), power, made.reduce(power, "sum", 1))
    assert kinds(rewritten(made, "normalisations")) == ["softmax"]


def test_a_quotient_by_another_sum_is_none() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (7, 7))
    power = made.elementwise(("exp", ("sub", 0, 1)), x, made.reduce(x, "max", 0))
    made.elementwise(("div", 0, 1), power, made.reduce(power, "sum", 1))
    assert "softmax" not in kinds(rewritten(made, "normalisations"))
