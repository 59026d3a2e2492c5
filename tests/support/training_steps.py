# SPDX-License-Identifier: Apache-2.0
"""Training steps computed on the host, and their gradients against finite differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from support.host_evaluation import evaluate
from support.small_models import model_of
from syclsched.frontends.onnx.importing.import_state import SEED
from syclsched.frontends.onnx.network import Network
from syclsched.model.graph import TaskGraph
from syclsched.training.losses import Loss, MeanSquaredError
from syclsched.training.optimisers import SGD, Optimiser
from syclsched.training.sources.trained_graph import trained_graph
from syclsched.training.sources.trained_model import trained_model
from syclsched.training.step_recipe import StepRecipe
from syclsched.training.steps.step_network import LOSS, TARGET, next_name

Array = np.ndarray[Any, Any]


class HostStep:
    """A training step of a model, computed with NumPy."""

    def __init__(
        self,
        model: Any,
        target: Array,
        inputs: Mapping[str, Array] | None = None,
        *,
        loss: Loss | None = None,
        optimiser: Optimiser | None = None,
        parameters: Sequence[str] | None = None,
        output: str | None = None,
        **more: Any,
    ) -> None:
        is_graph = isinstance(model, TaskGraph)
        self.trained = trained_graph(model, parameters, (), output) if is_graph else trained_model(model, parameters)
        recipe = StepRecipe(self.trained, loss or MeanSquaredError(), optimiser or SGD(learning_rate=1.0), **more)
        self.model = recipe.model(target.dtype.name)
        self.given = {**(inputs or {}), TARGET: target}
        for name, number in recipe.groups.scalars(0).items():
            self.given[name] = np.array(number, "float32")
        self.given[SEED] = np.array([12345], "uint32")
        self.network = self.model.step(self.model.full_shapes({name: each.shape for name, each in self.given.items()}))
        self.values = self.trained.values
        for name in self.network.inputs:
            if name not in self.given and name not in self.values:
                value = self.network.values[name]
                self.values[name] = np.zeros(value.shape, value.dtype)

    def run(self, values: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """Return the results of the step for values of parameters and states."""
        return evaluate(self.network, {**self.values, **(values or {}), **self.given})

    def loss(self, values: Mapping[str, Array] | None = None) -> float:
        """Return the loss."""
        return float(self.run(values)[LOSS])

    def gradients(self) -> dict[str, Array]:
        """Return the gradient of each parameter that has one, with plain gradient descent of rate 1."""
        made = self.run()
        names = [name for name in self.trained.parameters if next_name(name) in made]
        return {name: self.values[name] - made[next_name(name)] for name in names}


def check_gradients(
    nodes: Sequence[Any],
    parameters: Mapping[str, Array],
    *,
    constants: Mapping[str, Array] | None = None,
    step: float = 1e-6,
    opset: int = 17,
) -> Network:
    """Compare gradients of a model's parameters, in double precision, with central differences; return the step."""
    random = np.random.default_rng(7)
    both = {**parameters, **(constants or {})}
    output = next(name for name in nodes[-1].output if name)
    model = model_of(nodes, {}, [output], both, opset=opset, dtypes={output: TensorProto.DOUBLE})
    for domain in sorted({each.domain for each in nodes} - {""}):
        model.opset_import.append(helper.make_opsetid(domain, 1))
    trained = trained_model(model, list(parameters))
    probe = StepRecipe(trained, MeanSquaredError(), SGD()).model("float64")
    target = random.standard_normal(probe.prediction_shape({}))
    found = HostStep(model, target, parameters=list(parameters))
    check_step(found, step)
    return found.network


def check_graph(
    graph: TaskGraph,
    *,
    parameters: Sequence[str] | None = None,
    output: str | None = None,
    inputs: Mapping[str, Array] | None = None,
    step: float = 1e-6,
) -> None:
    """Compare the gradients of a graph's arrays, in double precision, with central differences."""
    random = np.random.default_rng(7)
    made = trained_graph(graph, parameters, (), output).model.outputs[0]
    target = random.standard_normal([int(n) for n in made.dimensions or () if isinstance(n, int)])
    check_step(HostStep(graph, target, inputs, parameters=parameters, output=output), step)


def check_step(found: HostStep, step: float = 1e-6) -> None:
    """Compare the gradients of all parameters with central differences along random directions."""
    random = np.random.default_rng(8)
    gradients = found.gradients()
    assert set(gradients) == set(found.trained.parameters)
    for name in found.trained.parameters:
        value = found.values[name]
        for _ in range(2):
            direction = random.standard_normal(value.shape)
            ends = [found.loss({name: value + sign * step * direction}) for sign in (1, -1)]
            wanted = (ends[0] - ends[1]) / (2 * step)
            made = float((gradients[name] * direction).sum())
            assert abs(made - wanted) <= 1e-6 * max(1.0, abs(wanted)), (name, made, wanted)
