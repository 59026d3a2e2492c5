# SPDX-License-Identifier: Apache-2.0
"""Detection of nodes that compute across the samples of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from support.small_models import model_of

from syclsched.testing.training_models import convolutional, perceptron, recurrent, transformer
from syclsched.training.losses import MeanSquaredError
from syclsched.training.optimisers import SGD
from syclsched.training.sources.trained_model import trained_model
from syclsched.training.splitting.independence import mixing_node
from syclsched.training.step_recipe import StepRecipe
from syclsched.training.steps.step_network import TARGET


def mixing(model: Any, shape: tuple[int, ...], frozen: tuple[str, ...] = ()) -> str | None:
    step = StepRecipe(trained_model(model, frozen=frozen), MeanSquaredError(), SGD(), parts=(1.0, 2.0)).model("float32")
    shapes = step.full_shapes({"x": (9, *shape), TARGET: (9,)})
    part = step.cut(shapes)[0]
    return mixing_node(step.forward(shapes), part.network, ["x"], 9, part.count)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (perceptron((4, 8, 3)), (4,)),
        (recurrent(4, 8, steps=2), (2, 4)),
        (transformer(1, 16, 2, length=6, vocabulary=20), (6,)),
    ],
)
def test_networks_of_independent_samples(model: Any, shape: tuple[int, ...]) -> None:
    assert mixing(model.onnx, shape) is None


def test_batch_normalisation_mixes() -> None:
    assert (mixing(convolutional((4,), 8).onnx, (3, 8, 8)) or "").startswith("norm0")


@pytest.mark.parametrize(
    "nodes",
    [
        [helper.make_node("Softmax", ["p"], ["y"], name="mixes", axis=0)],
        [
            helper.make_node("ReduceMean", ["p"], ["m"], name="mixes", axes=[0]),
            helper.make_node("Sub", ["p", "m"], ["y"]),
        ],
        [
            helper.make_node("Transpose", ["p"], ["t"], perm=[1, 0]),
            helper.make_node("MatMul", ["p", "t"], ["y"], name="mixes"),
        ],
        [helper.make_node("CumSum", ["p", "axis"], ["y"], name="mixes")],
    ],
)
def test_nodes_that_depend_on_other_samples_are_detected(nodes: list[Any]) -> None:
    held = {"w": np.ones((4, 4), "float32"), "axis": np.array(0, "int64")}
    product = helper.make_node("MatMul", ["x", "w"], ["p"], name="product")
    model = model_of([product, *nodes], {"x": ("n", 4)}, ["y"], held)
    assert (mixing(model, (4,)) or "").startswith("mixes")
