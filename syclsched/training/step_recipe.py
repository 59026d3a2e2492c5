# SPDX-License-Identifier: Apache-2.0
"""Recipe of training steps: all that is settled before the first batch, and the models made and compiled by it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from typing_extensions import TypedDict

from syclsched.errors import ArgumentError
from syclsched.model.platform import Platform
from syclsched.onnx.compiled_model import CompiledModel, compile
from syclsched.onnx.model import GivenShapes
from syclsched.onnx.model_build import default_platform
from syclsched.planner.memory_limit import MemoryLimit
from syclsched.progress import Progress
from syclsched.training.losses import Loss
from syclsched.training.optimisers import Optimiser
from syclsched.training.sources.trained_model import TrainedModel
from syclsched.training.step_model import StepModel


class StepOptions(TypedDict, total=False):
    """Arguments of `syclsched.train` that are passed on to `syclsched.compile`."""

    policy: str
    memory_limit: MemoryLimit
    autotune: bool
    deterministic: bool
    without: Iterable[str]
    progress: Progress | bool | None
    trace: bool | int


class TrainingOptions(StepOptions, total=False):
    """Further arguments of `syclsched.train`."""

    activations: str


#: As what values are stored from the forward to the backward pass.
ACTIVATIONS: Final = ("float32", "bfloat16")


@dataclass(frozen=True, slots=True)
class StepRecipe:
    """Settings of a training."""

    trained: TrainedModel
    loss: Loss
    optimiser: Optimiser
    output: str | None = None  # of the model, that the loss is computed from; the first if None
    shapes: GivenShapes | None = None  # of open dimensions
    parts: tuple[float, ...] = (1.0,)  # shares of a batch that are computed apart
    clip_norm: float | None = None
    platform: Platform | None = None
    devices: str | None = None
    activations: str = "float32"  # one of `ACTIVATIONS`
    options: StepOptions = field(default_factory=lambda: StepOptions())

    def check(self) -> None:
        """Raise `ArgumentError` for settings that cannot be right."""
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ArgumentError(f"clip_norm is {self.clip_norm}, expected a positive number", where="train()")
        if self.activations not in ACTIVATIONS:
            raise ArgumentError(
                f"activations is {self.activations!r}", where="train()", hint=f"Give {' or '.join(ACTIVATIONS)}"
            )
        unknown = set(self.options) - set(StepOptions.__annotations__)
        if unknown:
            raise TypeError(f"train() got an unexpected keyword argument {min(unknown)!r}")
        self.optimiser.scalars(0)

    def used_platform(self) -> Platform:
        """Return the devices that steps run on."""
        return default_platform(self.devices) if self.platform is None else self.platform

    def model(self, target_dtype: str, without: Collection[str] = ()) -> StepModel:
        """Return the model of a step for targets of a dtype; some parameters are not trained."""
        kept = tuple(name for name in self.trained.parameters if name not in without)
        return StepModel(
            replace(self.trained, parameters=kept),
            self.loss,
            self.optimiser,
            target_dtype,
            output=self.output,
            shapes=self.shapes,
            parts=self.parts,
            clip_norm=self.clip_norm,
            activations=self.activations,
        )

    def predictor(self, without: Collection[str] = ()) -> CompiledModel:
        """Return the model in inference, compiled, with parameters and running moments as inputs."""
        kept = tuple(name for name in self.trained.parameters if name not in without)
        model = replace(self.trained, parameters=kept).inference(self.shapes)
        return compile(model, self.platform, devices=self.devices, **self.options)

    def compiled(self, model: StepModel) -> CompiledModel:
        """Return a model of a step compiled."""
        return compile(model, self.platform, devices=self.devices, carried=model.carried, **self.options)
