# SPDX-License-Identifier: Apache-2.0
"""A hundred training steps, compared with PyTorch's from the same weights and batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import syclsched
from syclsched.kernels.nn.product.matmul import matmul
from syclsched.onnx.tuning import variable_weights
from syclsched.onnx.tuning.variable_weights import with_scratch_arrays
from syclsched.testing.training_models import TrainingModel, convolutional, perceptron, recurrent, transformer
from syclsched.training import SGD, Adam, AdamW, CrossEntropy, StepDecay

pytestmark = pytest.mark.sycl

MINIMAL = "opencl-c-winograd"

MODELS: dict[str, Callable[[], TrainingModel]] = {
    "perceptron": lambda: perceptron((20, 32, 32, 5)),
    "convolutional": lambda: convolutional((8, 8, 16, 16), 8, 5),
    "recurrent": lambda: recurrent(6, 16, steps=7, classes=5),
    "transformer": lambda: transformer(2, 32, 4, length=12, vocabulary=50, classes=5),
}


class Steps:
    """PyTorch's steps of a model with Adam; each returns the loss before it."""

    def __init__(self, torch: Any, model: TrainingModel) -> None:
        self._torch, self._model = torch, model
        self._weights = {each: torch.from_numpy(array.copy()) for each, array in model.weights.items()}
        trained = [each.requires_grad_() for key, each in self._weights.items() if not key.endswith((".mean", ".var"))]
        self._optimiser = torch.optim.Adam(trained, lr=1e-3)

    def __call__(self, x: np.ndarray, y: np.ndarray) -> float:
        torch = self._torch
        self._optimiser.zero_grad()
        scores = self._model.forward(torch, self._weights, torch.from_numpy(x))
        loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(y))
        loss.backward()
        self._optimiser.step()
        return float(loss.detach())


@pytest.mark.parametrize("name", MODELS)
def test_losses_equal_those_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install syclsched[pytorch]")
    model = MODELS[name]()
    step_of_pytorch = Steps(torch, model)
    batches = [model.batch(16, seed) for seed in range(4)]
    given: Any = {"devices": "cpu", "autotune": False, "without": ["python"]}
    with syclsched.train(model.onnx, "cross_entropy", Adam(1e-3), **given) as trainer:
        for step in range(100):
            x, y = batches[step % len(batches)]
            assert trainer.step(x, y) == pytest.approx(step_of_pytorch(x, y), rel=1e-4), f"step {step}"


def test_losses_with_minimal_filtering_equal_those_of_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variable filters are transformed in each step, and so are the sums that are their gradients."""

    def only_minimal(graph: syclsched.TaskGraph, device: syclsched.Device) -> syclsched.TaskGraph:
        found = with_scratch_arrays(graph, device)
        return found.with_implementations(
            lambda task, by: by.name == MINIMAL or {"filters", "sums"}.isdisjoint(task.arguments)
        )

    monkeypatch.setattr(variable_weights, "with_scratch_arrays", only_minimal)
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install syclsched[pytorch]")
    model = convolutional((16, 16, 16), 8, 5)
    step_of_pytorch = Steps(torch, model)
    batches = [model.batch(16, seed) for seed in range(4)]
    with syclsched.train(model.onnx, optimizer=Adam(1e-3), devices="cpu", without=["python"]) as trainer:
        for step in range(100):
            x, y = batches[step % len(batches)]
            assert trainer.step(x, y) == pytest.approx(step_of_pytorch(x, y), rel=1e-4), f"step {step}"
        used = [each.task for each in trainer.plan.schedule.assignments if each.implementation == MINIMAL]
    assert {"conv1", "gradient of conv1", "gradient of conv1.1"} <= {*used}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.01), ("SGD", {"momentum": 0.9, "nesterov": True})),
        (AdamW(0.01, weight_decay=0.1), ("AdamW", {"weight_decay": 0.1})),
        (syclsched.training.Adagrad(0.05), ("Adagrad", {})),
    ],
)
def test_optimisers_with_weights_and_ignored_labels(ours: Any, theirs: Any) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install syclsched[pytorch]")
    model = perceptron((6, 8, 3))
    weights = {each: torch.from_numpy(array.copy()).requires_grad_() for each, array in model.weights.items()}
    name, settings = theirs
    if name == "SGD":
        settings = {**settings, "weight_decay": 0.01}
    optimiser = getattr(torch.optim, name)(weights.values(), lr=ours.learning_rate, **settings)
    per_class = (1.0, 3.0, 0.5)
    x, y = model.batch(20)
    y[::5] = -100
    loss = CrossEntropy(weights=per_class)
    with syclsched.train(
        model.onnx, loss, ours, clip_norm=0.5, devices="cpu", autotune=False, without=["python"]
    ) as own:
        for _ in range(20):
            optimiser.zero_grad()
            scores = model.forward(torch, weights, torch.from_numpy(x))
            wanted = torch.nn.functional.cross_entropy(scores, torch.from_numpy(y), torch.tensor(per_class))
            wanted.backward()
            torch.nn.utils.clip_grad_norm_(weights.values(), 0.5)
            optimiser.step()
            assert own.step(x, y) == pytest.approx(float(wanted.detach()), rel=1e-5)
        for each, value in own.parameters.items():
            np.testing.assert_allclose(value, weights[each].detach().numpy(), rtol=1e-4, atol=1e-6)


def test_groups_of_parameters_equal_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install syclsched[pytorch]")
    model = perceptron((6, 16, 8, 3))
    weights = {each: torch.from_numpy(array.copy()).requires_grad_() for each, array in model.weights.items()}
    biases = [value for name, value in weights.items() if name.endswith(".bias")]
    backbone = [weights["layer0.weight"]]
    rest = [value for name, value in weights.items() if name in ("layer1.weight", "layer2.weight")]
    theirs = torch.optim.AdamW(
        [{"params": biases, "weight_decay": 0.0}, {"params": backbone, "lr": 1e-3}, {"params": rest}],
        lr=0.02,
        weight_decay=0.1,
    )
    schedule = torch.optim.lr_scheduler.StepLR(theirs, 8, 0.5)
    ours = {
        "*.bias": AdamW(StepDecay(0.02, 8, 0.5), weight_decay=0.0),
        "layer0.*": AdamW(StepDecay(1e-3, 8, 0.5), weight_decay=0.1),
        "*": AdamW(StepDecay(0.02, 8, 0.5), weight_decay=0.1),
    }
    given: Any = {"clip_norm": 0.5, "micro_batches": 2, "devices": "cpu", "autotune": False, "without": ["python"]}
    with syclsched.train(model.onnx, "cross_entropy", ours, **given) as own:
        for step in range(30):
            x, y = model.batch(20, step % 4)
            theirs.zero_grad()
            wanted = torch.nn.functional.cross_entropy(
                model.forward(torch, weights, torch.from_numpy(x)), torch.from_numpy(y)
            )
            wanted.backward()
            torch.nn.utils.clip_grad_norm_(weights.values(), 0.5)
            theirs.step()
            schedule.step()
            assert own.step(x, y) == pytest.approx(float(wanted.detach()), rel=1e-5), f"step {step}"
        for each, value in own.parameters.items():
            np.testing.assert_allclose(value, weights[each].detach().numpy(), rtol=1e-4, atol=1e-6)


@syclsched.operation
def softsign(item, y, x):
    i, j = item.get_id(0), item.get_id(1)
    y[i, j] = x[i, j] / (1 + abs(x[i, j]))


@softsign.gradient
def softsign(dy, x):
    return dy / (1 + abs(x)) ** 2


def test_losses_of_a_graph_with_a_custom_operation() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install syclsched[pytorch]")
    model = perceptron((6, 8, 3))
    weights = {name: torch.from_numpy(value.copy()).requires_grad_() for name, value in model.weights.items()}
    optimiser = torch.optim.Adam(weights.values(), lr=1e-2)
    graph = syclsched.TaskGraph("classifier")
    x, y = graph.array("x", (16, 6), "float32"), graph.array("y", (16, 3), "float32")
    h, s = graph.array("h", (16, 8), "float32"), graph.array("s", (16, 8), "float32")
    held = {name: graph.array(name, data=value) for name, value in model.weights.items()}
    product = matmul(transpose_b=True, bias=True)
    graph.kernel(product, y=h, a=x, b=held["layer0.weight"], c=held["layer0.bias"])
    graph.kernel(softsign, y=s, x=h)
    graph.kernel(product, y=y, a=s, b=held["layer1.weight"], c=held["layer1.bias"])
    batches = [model.batch(16, seed) for seed in range(4)]
    with syclsched.train(graph, "cross_entropy", Adam(1e-2), devices="cpu", autotune=False) as trainer:
        for step in range(50):
            samples, labels = batches[step % 4]
            optimiser.zero_grad()
            linear, squash = torch.nn.functional.linear, torch.nn.functional.softsign
            hidden = squash(linear(torch.from_numpy(samples), weights["layer0.weight"], weights["layer0.bias"]))
            scores = linear(hidden, weights["layer1.weight"], weights["layer1.bias"])
            loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels))
            loss.backward()
            optimiser.step()
            assert trainer.step(samples, labels) == pytest.approx(float(loss.detach()), rel=1e-4), f"step {step}"
