# SPDX-License-Identifier: Apache-2.0
"""Losses, compared with their formulas, and their gradients, compared with central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.repeatable import generator

from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.host_evaluation import evaluate_node
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.model_limits import ModelLimits
from syclsched.training.losses import LOSSES, CrossEntropy, Loss, loss_on_host

RANDOM = generator(0)
SCORES = RANDOM.standard_normal((5, 4))
LABELS = np.array([0, 3, -100, 1, 1])


def softmax(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def gradient(loss: Loss, prediction: Any, target: Any) -> Any:
    """Return the gradient of the total with respect to the prediction."""
    b = NetworkBuilder("loss", 0, {}, ModelLimits())
    known = {"prediction": prediction, "target": target}
    for name, array in known.items():
        b.add_input(name, array.shape, array.dtype.name)
    b.begin("loss", "loss")
    made = loss.emit(b, "prediction", "target")
    b.end([], [])
    network = b.finish("loss", [("gradient", made.gradient)])
    known |= network.constants
    for node in network.nodes:
        known |= evaluate_node(node, network.values, known)
    return known["gradient"]


CASES = [
    (CrossEntropy(), SCORES, LABELS),
    (CrossEntropy(weights=(1.0, 2.0, 0.5, 3.0)), SCORES, LABELS),
    (CrossEntropy(ignored=1), SCORES, np.abs(LABELS) % 4),
    (CrossEntropy(), SCORES, softmax(RANDOM.standard_normal((5, 4)))),
    (CrossEntropy(weights=(1.0, 2.0, 0.5, 3.0)), SCORES, softmax(RANDOM.standard_normal((5, 4)))),
    (CrossEntropy(), RANDOM.standard_normal((2, 4, 3)), np.array([[0, 1, 3], [2, -100, 1]])),
    (CrossEntropy(), RANDOM.standard_normal((2, 3, 4)), np.array([[0, 1, 3], [2, -100, 1]])),
    (LOSSES["mean_squared_error"], SCORES, SCORES[::-1].copy()),
    (LOSSES["mean_absolute_error"], SCORES, SCORES[::-1].copy()),
    (LOSSES["binary_cross_entropy"], SCORES, RANDOM.random((5, 4))),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_gradients(number: int) -> None:
    loss, prediction, target = CASES[number]
    direction = RANDOM.standard_normal(prediction.shape)
    ends = [loss_on_host(loss, prediction + sign * 1e-6 * direction, target)[0] for sign in (1, -1)]
    made = (gradient(loss, prediction, target) * direction).sum()
    assert made == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6, abs=1e-8)


def test_values() -> None:
    logs, known = np.log(softmax(SCORES)), LABELS >= 0
    wanted = -logs[known, LABELS[known]].sum()
    assert loss_on_host(CrossEntropy(), SCORES, LABELS) == pytest.approx((wanted, 4))
    weights = np.array([1.0, 2.0, 0.5, 3.0])
    per_sample = weights[LABELS[known]]
    wanted = -(per_sample * logs[known, LABELS[known]]).sum()
    assert loss_on_host(CrossEntropy(weights=tuple(weights)), SCORES, LABELS) == pytest.approx(
        (wanted, per_sample.sum())
    )
    parts = softmax(RANDOM.standard_normal((5, 4)))
    assert loss_on_host(CrossEntropy(), SCORES, parts) == pytest.approx((-(parts * logs).sum(), 5))
    assert loss_on_host(LOSSES["mean_squared_error"], SCORES, 2 * SCORES) == pytest.approx(((SCORES**2).sum(), 20))
    assert loss_on_host(LOSSES["mean_absolute_error"], SCORES, -SCORES) == pytest.approx((2 * abs(SCORES).sum(), 20))
    sure = 1 / (1 + np.exp(-SCORES))
    wanted = -(0.3 * np.log(sure) + 0.7 * np.log(1 - sure)).sum()
    assert loss_on_host(LOSSES["binary_cross_entropy"], SCORES, np.full((5, 4), 0.3)) == pytest.approx((wanted, 20))


def test_large_scores_do_not_overflow() -> None:
    large = np.array([[1e4, -1e4, 0.0]])
    assert loss_on_host(CrossEntropy(), large, np.array([1])) == pytest.approx((2e4, 1))
    assert loss_on_host(LOSSES["binary_cross_entropy"], large, np.zeros((1, 3)))[0] == pytest.approx(1e4 + np.log(2))


@pytest.mark.parametrize(
    "given",
    [{"ignored": None}, {"ignored": 1.5}, {"weights": (1.0, -1.0)}, {"weights": (1.0, np.nan)}, {"weights": 2.0}],
)
def test_wrong_settings_are_refused(given: Any) -> None:
    with pytest.raises(ArgumentError, match=f"{min(given)} is .*, expected"):
        CrossEntropy(**given)
