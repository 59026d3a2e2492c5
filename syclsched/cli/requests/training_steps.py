# SPDX-License-Identifier: Apache-2.0
"""Training steps as graphs to plan, on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syclsched.errors import ArgumentError

if TYPE_CHECKING:
    from syclsched.cli.requests.onnx_models import ModelWithInputs
    from syclsched.model.graph import TaskGraph
    from syclsched.model.platform import Platform


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A training step to plan."""

    graph: TaskGraph
    stay: tuple[tuple[str, str], ...] = ()  # devices of tasks
    explanation: str = ""  # how it is divided among several devices


def training_step(
    model: ModelWithInputs | None,
    loss: str,
    platform: Platform,
    policy: str,
    *,
    micro_batches: int | None = None,
    split: str = "auto",
    activations: str = "float32",
) -> PlannedStep:
    """Return a training step of a model, with Adam, for the shapes of its inputs and the devices of a platform."""
    from syclsched.training.losses import CrossEntropy, loss_of
    from syclsched.training.optimisers import Adam
    from syclsched.training.sources.trained_model import trained_model
    from syclsched.training.step_recipe import StepRecipe
    from syclsched.training.steps.step_model import without_gradient
    from syclsched.training.steps.step_network import TARGET

    if model is None:
        raise ArgumentError("only ONNX models are trained", where="--train", hint="Give a file that ends in .onnx")
    chosen = loss_of(loss)
    recipe = StepRecipe(
        trained_model(model.path),
        chosen,
        Adam(),
        parts=(1.0,) * (micro_batches or 1),
        may_cut=micro_batches is None,
        platform=platform,
        split=split,
        activations=activations,
        options={"policy": policy},
    )
    recipe.check()
    shapes = {name: tuple(value.shape) for name, value in model.values.items()}
    dtype = "int64" if isinstance(chosen, CrossEntropy) else "float32"
    step = recipe.model(dtype, without_gradient(recipe.model(dtype), shapes))
    planner = recipe.divided(step)
    target = step.prediction_shape(shapes)
    if isinstance(chosen, CrossEntropy):
        axis = chosen.class_axis(target, ())
        target = (*target[:axis], *target[axis + 1 :])
    made = step.specialised({**shapes, TARGET: target}, carried=step.carried)
    choice = None if planner is None else planner.last
    return PlannedStep(made.graph, tuple(made.stay.items()), "" if choice is None else choice.text)
