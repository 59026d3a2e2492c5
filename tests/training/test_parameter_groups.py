# SPDX-License-Identifier: Apache-2.0
"""Groups of parameters with optimisers of their own, compared with NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper
from support.opened import two_memories
from support.small_training import bits, blobs, trainer

import syclsched
from syclsched.errors import ArgumentError, FormatError
from syclsched.testing.training_models import perceptron
from syclsched.training import SGD, Adagrad, Adam, AdamW, StepDecay

pytestmark = pytest.mark.sycl

MODEL = perceptron((5, 3))
GROUPS = {"*.bias": AdamW(StepDecay(0.1, 2, 0.5), weight_decay=0.0), "*": SGD(0.2, momentum=0.9, weight_decay=0.01)}


def batches(count: int) -> list[tuple[Any, Any]]:
    random = np.random.default_rng(3)
    return [
        (random.standard_normal((12, 5), "float32"), random.standard_normal((12, 3), "float32")) for _ in range(count)
    ]


def expected(given: list[tuple[Any, Any]], clip_norm: float) -> tuple[list[float], Any, Any]:
    """Return the losses, the weight and the bias after steps of a linear layer with the groups."""
    w, b = (MODEL.weights[f"layer0.{name}"].astype("float64") for name in ("weight", "bias"))
    momentum, mean, square = np.zeros_like(w), np.zeros_like(b), np.zeros_like(b)
    losses = []
    for step, (x, y) in enumerate(given):
        error = x @ w.T + b - y
        losses.append(float((error**2).mean()))
        gradient = 2 * error / error.size
        dw, db = gradient.T @ x, gradient.sum(0)
        scale = min(1.0, clip_norm / (np.sqrt((dw**2).sum() + (db**2).sum()) + 1e-6))
        dw, db = scale * dw + 0.01 * w, scale * db
        momentum = 0.9 * momentum + dw
        w = w - 0.2 * momentum
        mean, square = 0.9 * mean + 0.1 * db, 0.999 * square + 0.001 * db**2
        corrected = mean / (1 - 0.9 ** (step + 1)), square / (1 - 0.999 ** (step + 1))
        b = b - 0.1 * 0.5 ** (step // 2) * corrected[0] / (np.sqrt(corrected[1]) + 1e-8)
    return losses, w, b


@pytest.mark.parametrize("more", [{}, {"micro_batches": 3}, {"split": "data"}], ids=["one", "parts", "devices"])
def test_groups_are_updated_as_by_numpy(more: dict[str, Any]) -> None:
    given = batches(6)
    losses, weight, bias = expected(given, 0.5)
    devices = {"platform": two_memories(), "deterministic": True} if "split" in more else {"devices": "cpu"}
    with syclsched.train(
        MODEL.onnx, "mean_squared_error", GROUPS, clip_norm=0.5, autotune=False, without=["python"], **devices, **more
    ) as found:
        record = found.fit(given, progress=False)
        np.testing.assert_allclose(record.losses, losses, rtol=1e-5)
        np.testing.assert_allclose(found.parameters["layer0.weight"], weight, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found.parameters["layer0.bias"], bias, rtol=1e-4, atol=1e-6)


def test_equal_optimisers_are_one_group(tmp_path: Path) -> None:
    """Such as a single one: plans, bits and checkpoints are the same."""
    plans, contents, values = [], [], []
    for number, optimizer in enumerate((Adam(0.01), {"*.bias": Adam(0.01), "layer1.*": Adam(0.01), "*": Adam(0.01)})):
        with trainer(optimizer=optimizer, deterministic=True) as found:
            for seed in range(3):
                found.step(*blobs(16, seed))
            plans.append([(each.task, each.implementation) for each in found.plan.schedule.assignments])
            values.append(bits(found.parameters))
            found.checkpoint(tmp_path / str(number))
            with np.load(tmp_path / str(number)) as file:
                contents.append({name: file[name].tobytes() for name in file})
    assert plans[0] == plans[1] and values[0] == values[1] and contents[0] == contents[1]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"*.bias": SGD()}, "no pattern fits the parameter 'layer0.weight'"),
        ({}, "no pattern fits the parameter 'layer0.weight'"),
        ({"*.bais": SGD(), "*": Adam()}, "no trained parameter '\\*.bais'"),
        ({"*": Adam(), "*.bias": SGD()}, "'\\*.bias' has no effect: '\\*' comes first, and fits 'layer0.bias', too"),
        ({"*.bias": "sdg", "*": Adam()}, "Did you mean 'sgd'"),
        ({"*.bias": SGD, "*": Adam()}, "the optimizer is .*SGD"),
        ({"*.bias": SGD(-1.0), "*": Adam()}, "learning rate of step 1 is -1"),
    ],
)
def test_wrong_groups_are_refused_at_once(given: Any, wrong: str) -> None:
    with pytest.raises(ArgumentError, match=wrong):
        trainer(optimizer=given)


def test_a_pattern_of_parameters_that_are_not_trained_is_refused() -> None:
    with pytest.raises(ArgumentError, match="no trained parameter 'layer0"):
        trainer(optimizer={"layer0.*": SGD(), "*": "adam"}, frozen=["layer0.*"])


def test_the_rest_may_be_empty() -> None:
    with trainer(optimizer={"*.bias": "sgd", "*.weight": "adam", "*": "adagrad"}) as found:
        assert np.isfinite(found.step(*blobs(16)))


def test_a_checkpoint_of_groups_continues_with_the_same_bits(tmp_path: Path) -> None:
    path, given = tmp_path / "run.ckpt", [blobs(16, seed) for seed in range(6)]
    groups = {"layer0.*": SGD(0.1), "*.bias": AdamW(0.01, weight_decay=0.0), "*": Adagrad(0.1)}
    with trainer(optimizer=groups) as whole:
        losses = whole.fit(given, progress=False).losses
    with trainer(optimizer=groups) as first:
        first.fit(given[:3], progress=False)
        first.checkpoint(path)
    with trainer(optimizer=groups) as second:
        second.restore(path)
        assert second.fit(given[3:], progress=False).losses == losses[3:]
    with trainer(optimizer={**groups, "layer0.*": SGD(0.5)}) as other:  # another learning rate
        other.restore(path)
        assert other.steps == 3


MIXED = {"*.bias": SGD(0.1), "*": Adam(0.01)}


@pytest.mark.parametrize(
    ("writer", "reader", "wrong"),
    [
        (Adam(), SGD(), "has the state mean and square, and SGD here keeps no state"),
        (SGD(), Adam(), "has no state, and Adam here keeps the state mean and square"),
        (SGD(), MIXED, "'layer0.weight' it has no state, and Adam here"),
        (MIXED, SGD(), "'layer0.weight' it has the state mean and square, and SGD here"),
        (MIXED, Adam(), "'layer0.bias' it has no state, and Adam here keeps"),
        (Adam(), MIXED, "'layer0.bias' it has the state mean and square, and SGD here keeps no state"),
        (SGD(momentum=0.9), SGD(), "has the state momentum, and SGD here keeps no state"),
        (SGD(), SGD(momentum=0.9), "has no state, and SGD here keeps the state momentum"),
        (Adagrad(), Adam(), "has the state squares, and Adam here keeps the state mean and square"),
        (SGD(0.1, momentum=0.9), SGD(0.2, momentum=0.5, nesterov=True), None),
        (Adam(), AdamW(1e-4, weight_decay=0.1), None),
        (MIXED, {"*.bias": SGD(0.5), "*": AdamW()}, None),
    ],
)
def test_a_checkpoint_of_another_optimizer_changes_nothing(
    tmp_path: Path, writer: Any, reader: Any, wrong: str | None
) -> None:
    path = tmp_path / "run.ckpt"
    with trainer(optimizer=writer) as found:
        found.step(*blobs(16))
        found.checkpoint(path)
        wanted = bits(found.parameters)
    with trainer(optimizer=reader) as found:
        for steps in range(2):  # also after a step
            before = bits(found.parameters)
            if wrong is None:
                found.restore(path)
                assert bits(found.parameters) == wanted and found.steps == 1
            else:
                with pytest.raises(FormatError, match=wrong):
                    found.restore(path)
                assert bits(found.parameters) == before and found.steps == steps
            found.step(*blobs(16))


def test_a_checkpoint_of_a_model_with_a_parameter_that_the_loss_ignores(tmp_path: Path) -> None:
    """It has no state, whichever its optimiser is."""
    model, path = perceptron((8, 16, 4)).onnx, tmp_path / "run.ckpt"
    model.graph.initializer.append(numpy_helper.from_array(np.ones(3, "float32"), "unused"))
    other: Any = {"unused": "adam", "*": "sgd"}
    for writer, reader in ((Adam(), Adam()), (MIXED, {"unused": SGD(), **MIXED}), (other, other)):
        with trainer(model, optimizer=writer) as found:
            found.step(*blobs(16))
            found.checkpoint(path)
            wanted = found.step(*blobs(16))
        with trainer(model, optimizer=reader) as found:
            for _ in range(2):
                found.restore(path)
                assert found.step(*blobs(16)) == wanted
