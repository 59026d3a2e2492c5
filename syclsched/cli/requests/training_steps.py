# SPDX-License-Identifier: Apache-2.0
"""Training steps as graphs to plan, on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syclsched.errors import ArgumentError

if TYPE_CHECKING:
    from syclsched.cli.requests.onnx_models import ModelWithInputs
    from syclsched.model.graph import TaskGraph


def step_graph(model: ModelWithInputs | None, loss: str, micro_batches: int) -> TaskGraph:
    """Return the graph of a training step of a model, with Adam, for the shapes of its inputs."""
    from syclsched.training.losses import CrossEntropy, loss_of
    from syclsched.training.optimisers import Adam
    from syclsched.training.sources.trained_model import trained_model
    from syclsched.training.step_model import without_gradient
    from syclsched.training.step_network import TARGET
    from syclsched.training.step_recipe import StepRecipe

    if model is None:
        raise ArgumentError("only ONNX models are trained", where="--train", hint="Give a file that ends in .onnx")
    chosen = loss_of(loss)
    recipe = StepRecipe(trained_model(model.path), chosen, Adam(), parts=(1.0,) * micro_batches)
    shapes = {name: tuple(value.shape) for name, value in model.values.items()}
    dtype = "int64" if isinstance(chosen, CrossEntropy) else "float32"
    step = recipe.model(dtype, without_gradient(recipe.model(dtype), shapes))
    target = step.prediction_shape(shapes)
    if isinstance(chosen, CrossEntropy):
        axis = chosen.class_axis(target, ())
        target = (*target[:axis], *target[axis + 1 :])
    return step.specialised({**shapes, TARGET: target}, carried=step.carried).graph
