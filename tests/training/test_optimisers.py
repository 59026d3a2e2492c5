# SPDX-License-Identifier: Apache-2.0
"""Optimisers, compared with their formulas, and learning-rate schedules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.operations import described

from syclsched.errors import ArgumentError
from syclsched.kernels.tensor.update import update
from syclsched.training import SGD, Adagrad, Adam, AdamW, CosineDecay, StepDecay


def steps(optimiser: Any, gradients: Any) -> Any:
    """Return a parameter of ones after steps with given gradients."""
    scalars = [*optimiser.scalars(0)]
    count = 1 + len(optimiser.slots)
    terms = {name: count + 1 + i for i, name in enumerate(scalars)}
    expressions = optimiser.updated(0, tuple(range(1, count)), count, terms)
    operation = update(tuple(expressions), 1 + len(scalars))
    state = {f"y{i}": np.full(3, float(i == 0)) for i in range(count)}
    for number, gradient in enumerate(gradients):
        numbers = optimiser.scalars(number)
        read = {"x0": gradient, **{f"x{1 + i}": np.float64(numbers[name]) for i, name in enumerate(scalars)}}
        given = {**state, **{name: np.asarray(value) for name, value in read.items()}}
        operation.implementation("numpy").load(described(operation, given))(**given)
    return state["y0"]


GRADIENTS = np.random.default_rng(0).standard_normal((4, 3))


def test_gradient_descent() -> None:
    p = np.ones(3)
    for g in GRADIENTS:
        p = p - 0.1 * (g + 0.01 * p)
    np.testing.assert_allclose(steps(SGD(0.1, weight_decay=0.01), GRADIENTS), p)


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum(nesterov: bool) -> None:
    p, m = np.ones(3), np.zeros(3)
    for g in GRADIENTS:
        m = 0.9 * m + g
        p = p - 0.1 * (g + 0.9 * m if nesterov else m)
    np.testing.assert_allclose(steps(SGD(0.1, momentum=0.9, nesterov=nesterov), GRADIENTS), p)


@pytest.mark.parametrize("decoupled", [False, True])
def test_adam(decoupled: bool) -> None:
    p, m, v = np.ones(3), np.zeros(3), np.zeros(3)
    for t, g in enumerate(GRADIENTS, 1):
        if decoupled:
            p = p * (1 - 0.1 * 0.02)
        else:
            g = g + 0.02 * p
        m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g
        p = p - 0.1 * (m / (1 - 0.8**t)) / (np.sqrt(v / (1 - 0.9**t)) + 1e-6)
    optimiser = (AdamW if decoupled else Adam)(0.1, 0.8, 0.9, 1e-6, 0.02)
    np.testing.assert_allclose(steps(optimiser, GRADIENTS), p)


def test_adagrad() -> None:
    p, s = np.ones(3), np.zeros(3)
    for g in GRADIENTS:
        s = s + g * g
        p = p - 0.1 * g / (np.sqrt(s) + 1e-10)
    np.testing.assert_allclose(steps(Adagrad(0.1), GRADIENTS), p)


def test_schedules() -> None:
    cosine = CosineDecay(1.0, 110, warmup=10, lowest=0.1)
    assert [cosine(step) for step in (0, 9, 10, 60, 110, 500)] == pytest.approx([0.1, 1.0, 1.0, 0.55, 0.1, 0.1])
    assert [StepDecay(1.0, 10, 0.5)(step) for step in (0, 9, 10, 25)] == [1, 1, 0.5, 0.25]
    assert Adam(cosine).scalars(0)["rate"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Adam(beta1=1.0),
        lambda: SGD(momentum=-1),
        lambda: SGD(nesterov=True),
        lambda: Adagrad(epsilon=math.nan),
        lambda: Adam(beta1=(0.9, 0.99)),  # type: ignore[arg-type]
        lambda: AdamW(weight_decay=None),  # type: ignore[arg-type]
        lambda: StepDecay(0.1, 0),
        lambda: StepDecay(0.1, 2, -1),
        lambda: CosineDecay(-0.1, 10),
        lambda: CosineDecay(0.1, 5, warmup=10),
        lambda: CosineDecay(0.1, "10"),  # type: ignore[arg-type]
    ],
)
def test_wrong_settings(make: Any) -> None:
    with pytest.raises(ArgumentError, match="expected"):
        make()


@pytest.mark.parametrize("rate", [math.nan, -1.0, None, "0.1"])
def test_a_wrong_rate_is_refused(rate: Any) -> None:
    with pytest.raises(ArgumentError, match=f"learning rate of step 4 is {rate}.*called with 3"):
        SGD(lambda step: rate).scalars(3)
    with pytest.raises(ArgumentError, match=f"learning rate of step 4 is {rate}"):
        SGD(rate).scalars(3)
