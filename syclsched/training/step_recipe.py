# SPDX-License-Identifier: Apache-2.0
"""Recipe of training steps: all that is settled before the first batch, and the models made and compiled by it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from typing_extensions import TypedDict

from syclsched.costs import History, MemoryHistory
from syclsched.errors import ArgumentError, did_you_mean, several
from syclsched.model.platform import Platform
from syclsched.model.platform_parts.machines import machine_of
from syclsched.onnx.compilation import compile
from syclsched.onnx.compiled_model import CompiledModel
from syclsched.onnx.model import GivenShapes
from syclsched.onnx.model_build import default_platform
from syclsched.onnx.tuning.implementations import check_names
from syclsched.onnx.tuning.kernel_selection import default_rewrite, is_worth_mixing
from syclsched.planner.memory_limit import MemoryLimit, with_memory_limit
from syclsched.planner.plan_request import PlanRequest
from syclsched.progress import Progress, shown
from syclsched.scheduling.registry import AUTO as POLICY
from syclsched.training.losses import Loss
from syclsched.training.optimisers import Optimiser
from syclsched.training.parameter_groups import ParameterGroups, parameter_groups
from syclsched.training.sources.trained_model import TrainedModel
from syclsched.training.splitting.cluster_step import ClusterStep, ConnectedCluster
from syclsched.training.splitting.micro_batches import MicroBatchPlanner
from syclsched.training.splitting.split_planner import SplitPlanner
from syclsched.training.splitting.splits import AUTO, SPLITS
from syclsched.training.steps.step_model import StepModel
from syclsched.training.steps.step_network import TARGET


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
    split: str  # how steps are divided among several devices
    cluster: ConnectedCluster | None  # whose machines train
    snapshots: int | None  # steps from one to the next


#: Dtype in which values are stored from the forward to the backward pass.
ACTIVATIONS: Final = ("float32", "bfloat16")


@dataclass(frozen=True, slots=True)
class StepRecipe:
    """Settings of a training."""

    trained: TrainedModel
    loss: Loss
    optimiser: str | Optimiser | Mapping[str, str | Optimiser]  # by patterns of names of parameters
    output: str | None = None  # of the model, that the loss is computed from; the first if None
    shapes: GivenShapes | None = None  # of open dimensions
    parts: tuple[float, ...] = (1.0,)  # shares of a batch that are computed apart
    may_cut: bool = False  # whether a batch may be cut further where memory is short
    replicas: tuple[int, ...] = ()  # for each part the replica of the parameters that it reads
    clip_norm: float | None = None
    platform: Platform | None = None
    devices: str | None = None
    split: str = AUTO  # how steps are divided among several devices
    cluster: ConnectedCluster | None = None
    activations: str = "float32"  # one of `ACTIVATIONS`
    snapshots: int | None = None  # steps from one copy of the state to the next; if None, they take 2 % of the time
    options: StepOptions = field(default_factory=lambda: StepOptions())

    def check(self) -> None:
        """Raise `ArgumentError` for settings that cannot be right."""
        clip = self.clip_norm
        if clip is not None and not (isinstance(clip, int | float | np.number) and clip > 0):
            raise ArgumentError(f"clip_norm is {self.clip_norm!r}, expected a positive number", where="train()")
        if self.split not in SPLITS:
            raise ArgumentError(
                f"there is no way {self.split!r} to divide steps",
                where="split",
                hint=f"{did_you_mean(self.split, SPLITS)}There are: {', '.join(SPLITS)}",
            )
        others = self.platform is not None or self.devices is not None or "memory_limit" in self.options
        if self.cluster is not None and others:
            raise ArgumentError(
                "with a cluster, its machines are the devices, and their memory is not limited",
                where="train()",
                hint="Leave out platform, devices and memory_limit, or the cluster",
            )
        if self.activations not in ACTIVATIONS:
            raise ArgumentError(
                f"activations is {self.activations!r}", where="train()", hint=f"Give {' or '.join(ACTIVATIONS)}"
            )
        steps = self.snapshots
        if steps is not None and not (isinstance(steps, int | np.integer) and steps >= 0):
            raise ArgumentError(f"snapshots is {steps!r}, expected steps, or 0 for none", where="train()")
        unknown = set(self.options) - set(StepOptions.__annotations__)
        if unknown:
            raise TypeError(f"train() got an unexpected keyword argument {min(unknown)!r}")
        PlanRequest(self.options.get("policy", POLICY)).check_names()
        check_names(several("without", self.options.get("without", ())))
        shown("preparation", self.options.get("progress"))
        self.groups.scalars(0)

    @property
    def groups(self) -> ParameterGroups:
        """The optimiser of each parameter; some may turn out to have no gradient."""
        return parameter_groups(self.optimiser, self.trained.parameters)

    def used_platform(self) -> Platform:
        """Return the devices of this machine that steps run on, or with a cluster those beside it."""
        is_here = self.platform is not None and self.cluster is None
        return self.platform if is_here and self.platform is not None else default_platform(self.devices)

    def model(self, target_dtype: str, without: Collection[str] = ()) -> StepModel:
        """Return the model of a step for targets of a dtype; some parameters are not trained."""
        kept = tuple(name for name in self.trained.parameters if name not in without)
        return StepModel(
            replace(self.trained, parameters=kept),
            self.loss,
            self.groups,
            target_dtype,
            output=self.output,
            shapes=self.shapes,
            parts=self.parts,
            clip_norm=self.clip_norm,
            activations=self.activations,
            replicas=self.replicas,
        )

    def predictor(self, without: Collection[str] = ()) -> CompiledModel:
        """Return the model in inference, compiled, with parameters and running moments as inputs."""
        kept = tuple(name for name in self.trained.parameters if name not in without)
        model = replace(self.trained, parameters=kept).inference(self.shapes)
        platform = None if self.cluster is not None else self.platform
        return compile(model, platform, devices=self.devices, **self.options)

    def compiled(self, model: StepModel) -> CompiledModel | ClusterStep:
        """Return a model of a step compiled."""
        if self.cluster is not None:
            return ClusterStep(model, self.cluster, self.options.get("policy", POLICY))
        return compile(model, self.platform, devices=self.devices, carried=model.carried, **self.options)

    def on_platform(self) -> StepRecipe:
        """Return the recipe with the devices found.

        Raises `ArgumentError` if both a platform and devices were given, or a platform of several machines.
        """
        if self.cluster is not None:
            return replace(self, platform=self.cluster.platform())
        if self.platform is not None and any(machine_of(device.name) for device in self.platform.devices):
            raise ArgumentError(
                "the platform is that of a cluster", where="train()", hint="Give cluster= in place of platform="
            )
        if self.devices is None and self.platform is not None:
            return self
        if self.platform is not None:
            raise ArgumentError("both a platform and devices are given", where="train()", hint="Leave one of them out")
        return replace(self, platform=self.used_platform(), devices=None)

    def without_devices(self, lost: Collection[str]) -> StepRecipe | None:
        """Return the recipe on the devices of this machine that are left; None if all are, or none is."""
        platform = self.used_platform()
        kept = [device.name for device in platform.compute_devices if device.name not in lost]
        if not lost or not kept:
            return None
        platform, options = platform.select(kept), self.options
        limit = options.get("memory_limit")
        if isinstance(limit, Mapping):
            known = {*(device.name for device in platform.devices), *(space.name for space in platform.spaces)}
            limits = {name: size for name, size in limit.items() if name in known}
            options = {**options, "memory_limit": limits}
        return replace(self, platform=platform, devices=None, options=options)

    @property
    def compares_runs(self) -> bool:
        """Whether steps that are divided among devices are compared with steps on one device by running both."""
        options = self.options
        is_free = (
            self.split == AUTO
            and self.cluster is None
            and options.get("memory_limit") is None
            and options.get("autotune", True)
        )
        return is_free and not options.get("deterministic", False)

    def divided(self, model: StepModel) -> SplitPlanner | MicroBatchPlanner | None:
        """Divide the steps of a model among devices; return the divided step, None if steps stay as they are.

        They are divided among several devices. On one they are cut into micro-batches where its memory is short, unless
        the user has chosen these. A named policy places the tasks itself, unless a way is asked for. Raises
        `ArgumentError` if a division is asked for, and there is one device.
        """
        platform = self.on_platform().platform
        assert platform is not None
        several, policy = len(platform.compute_devices) > 1, self.options.get("policy", POLICY)
        if self.split in ("data", "stages") and not several:
            raise ArgumentError(
                f"there is one device, {platform.compute_devices[0].name}" if platform.compute_devices else "no device",
                where=f"split={self.split!r}",
                hint="Give more devices, or leave split out",
            )
        is_cut = not several and self.may_cut and not self.trained.has_fixed_shapes
        if not (several or is_cut) or (self.split == AUTO and policy != POLICY):
            return None
        without = set(self.trained.parameters) - set(model.trained.parameters)
        whole, dtype = replace(self, split=AUTO), model.dtype(TARGET).name
        limit = self.options.get("memory_limit")
        limited = platform if limit is None else with_memory_limit(platform, limit)
        request = PlanRequest(policy, "latency", rewrite=default_rewrite(platform, policy))
        history = None if self.options.get("deterministic") else _refusals()
        left_out = frozenset(self.options.get("without", ()))

        def make(shares: tuple[float, ...], replicas: tuple[int, ...] = ()) -> StepModel:
            return replace(whole, parts=shares, replicas=replicas).model(dtype, without)

        planner: SplitPlanner | MicroBatchPlanner
        if several:
            planner = SplitPlanner(limited, make, request, self.split, self.parts, left_out, history)
        else:
            may_tune = self.options.get("autotune", True) and not self.options.get("deterministic", False)
            mixes = may_tune and is_worth_mixing(platform, request)
            planner = MicroBatchPlanner(limited, make, request, left_out, history, mixes)
        model.divide = planner.division
        return planner


def _refusals() -> History:
    """Return a history of the refusals of devices and libraries, without times."""
    from syclsched.profiling import HistoryStore

    found = MemoryHistory()
    with HistoryStore() as stored:
        for key, reason in stored.refusals().items():
            found.refuse(key, reason)
    return found
