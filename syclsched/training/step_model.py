# SPDX-License-Identifier: Apache-2.0
"""Models whose call is a training step: inputs are a batch, and the parameters, which stay in memory between calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from syclsched.errors import ArgumentError, ModelError, ValueNeededError, did_you_mean
from syclsched.frontends.onnx.importing import import_model
from syclsched.frontends.onnx.importing.import_state import SEED, TrainingImport
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue, Model
from syclsched.frontends.onnx.network import Network, Value
from syclsched.frontends.onnx.rewrites import rewrite
from syclsched.onnx.model import GivenShapes, OnnxModel
from syclsched.training.losses import CrossEntropy, Loss
from syclsched.training.optimisers import Optimiser
from syclsched.training.step_network import (
    LOSS,
    NORM,
    PARITY,
    TARGET,
    BatchPart,
    StepSettings,
    next_name,
    scalar_name,
    slot_name,
    step_network,
)

if TYPE_CHECKING:
    from syclsched.onnx.specialised import Shapes

Array = np.ndarray[Any, Any]

#: Rewrites of the forward pass before it is differentiated: those that find what has a gradient of its own.
_FORWARD_PASSES: Final = (
    "dead_code",
    "constant_folding",
    "algebra",
    "identities",
    "common",
    "normalisations",
    "formulas",
)


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A model, and which of its initialisers a training step changes."""

    model: Model
    parameters: tuple[str, ...]  # initialisers that are trained
    moments: tuple[str, ...]  # running means and variances of batch normalisations

    @property
    def values(self) -> dict[str, Array]:
        """The initial values of parameters and running moments."""
        given = self.model.graph.initialisers
        return {name: np.array(given[name]) for name in (*self.parameters, *self.moments)}

    @property
    def source(self) -> Model:
        """The model with parameters and running moments as inputs."""
        graph = self.model.graph
        changed = {*self.parameters, *self.moments}
        inputs = tuple(
            DeclaredValue(name, graph.initialisers[name].dtype.name, graph.initialisers[name].shape)
            for name in (*self.parameters, *self.moments)
        )
        kept = {name: array for name, array in graph.initialisers.items() if name not in changed}
        return replace(self.model, graph=replace(graph, inputs=(*graph.inputs, *inputs), initialisers=kept))


def trained_model(model: Model, parameters: Iterable[str] | None = None, frozen: Iterable[str] = ()) -> TrainedModel:
    """Return a model with the parameters that are trained.

    Parameters
    ----------
    model : Model
        The model.
    parameters : iterable of str, optional
        Names of initialisers, or patterns such as ``head.*``. By default all floating-point initialisers that have a
        dimension, except running moments.
    frozen : iterable of str, optional
        Names or patterns of those that are not trained.

    Raises
    ------
    ArgumentError
        If a name fits no initialiser, or one that is not floating-point.
    ModelError
        If inputs or outputs are not all tensors of numbers.
    """
    others = [each.name for each in model.inputs if each.is_sequence or each.is_optional]
    if model.host is not None or others:
        what = f"input {others[0]!r} is a sequence or an optional value" if others else "it computes on text or maps"
        raise ModelError(
            f"{what}, and only models of tensors of numbers are trained",
            where=model.where,
            hint="Train the part behind, which onnx.utils.extract_model takes",
        )
    initialisers = model.graph.initialisers
    moments = _running_moments(model)
    possible = [name for name, array in initialisers.items() if array.dtype.kind == "f" and name not in moments]
    if parameters is None:
        chosen = [name for name in possible if initialisers[name].ndim]
    else:
        named = _matching(parameters, initialisers, "parameters")
        for name in named:
            if name not in possible:
                what = "is a running moment" if name in moments else f"is of {initialisers[name].dtype}"
                raise ArgumentError(
                    f"{name!r} {what}, and cannot be trained", where="parameters", hint="Train floating-point ones"
                )
        chosen = [name for name in possible if name in named]
    left_out = _matching(frozen, initialisers, "frozen")
    chosen = [name for name in chosen if name not in left_out]
    if not chosen:
        raise ArgumentError(
            "there is nothing to train: no floating-point initialiser is left",
            where=f"model {model.name!r}",
            hint="Weights must be initialisers of the model's graph, not constants within it",
        )
    return TrainedModel(model, tuple(chosen), tuple(moments))


def _matching(patterns: Iterable[str], names: Collection[str], where: str) -> set[str]:
    found: set[str] = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        fitting = [name for name in names if name == pattern or fnmatchcase(name, pattern)]
        if not fitting:
            raise ArgumentError(
                f"the model has no initialiser {pattern!r}",
                where=where,
                hint=f"{did_you_mean(pattern, names)}There are: {', '.join(sorted(names)[:20])}",
            )
        found.update(fitting)
    return found


def _running_moments(model: Model) -> list[str]:
    found: dict[str, None] = {}
    for node in model.graph.nodes:
        if node.operator == "BatchNormalization" and node.domain == "":
            found.update((name, None) for name in node.inputs[3:5] if name in model.graph.initialisers)
    return list(found)


class StepModel(OnnxModel):
    """A model whose call is a training step. All inputs but a batch and the optimiser's numbers are carried.

    Parameters
    ----------
    trained : TrainedModel
        The model and its parameters.
    loss : Loss
        The loss function.
    optimiser : Optimiser
        The optimiser.
    target_dtype : str
        The dtype of targets.
    output : str, optional
        The model's output that the loss is computed from; by default the first.
    shapes : Mapping, optional
        As for `syclsched.onnx.load`.
    parts : sequence of float, optional
        Shares of a batch that are computed apart, as micro-batches.
    clip_norm : float, optional
        Largest norm of all gradients together.
    """

    #: To try kernels takes as long as many steps.
    least_gain = 0.06

    def __init__(
        self,
        trained: TrainedModel,
        loss: Loss,
        optimiser: Optimiser,
        target_dtype: str,
        *,
        output: str | None = None,
        shapes: GivenShapes | None = None,
        parts: Sequence[float] = (1.0,),
        clip_norm: float | None = None,
    ) -> None:
        self.trained, self.loss, self.optimiser = trained, loss, optimiser
        self._target_dtype, self._parts, self._clip_norm = target_dtype, tuple(parts), clip_norm
        self.output = _chosen_output(trained.model, output)
        #: The last forward pass: targets are checked against it before the step is made of it.
        self._last: tuple[Any, Network] | None = None
        #: Number of steps that are done, which the trainer counts.
        self.steps_done = 0
        self._source = trained.source
        super().__init__(self._declared(), shapes=shapes)

    def _declared(self) -> Model:
        """Return the model with the inputs and outputs of a step."""
        graph, held = self._source.graph, self.trained.model.graph.initialisers
        state = [
            DeclaredValue(slot_name(name, slot), held[name].dtype.name, held[name].shape)
            for name in self.trained.parameters
            for slot in self.optimiser.slots
        ]
        state.append(DeclaredValue(PARITY, "float32", ()))
        scalars = [DeclaredValue(scalar_name(name), "float32", ()) for name in self.optimiser.scalars(0)]
        extra = [DeclaredValue(TARGET, self._target_dtype, None), *scalars]
        if self.has_dropout:
            extra.append(DeclaredValue(SEED, "uint32", (1,)))
        carried = [each for each in (*graph.inputs, *state) if each.name in self._carried_names]
        outputs = [DeclaredValue(LOSS, None, ()), DeclaredValue(NORM, None, ())]
        outputs += [DeclaredValue(next_name(each.name), each.dtype, each.dimensions) for each in carried]
        whole = replace(graph, inputs=(*graph.inputs, *state, *extra), outputs=tuple(outputs))
        return replace(self._source, graph=whole)

    @property
    def has_dropout(self) -> bool:
        """Whether the model drops elements at random."""
        return any(node.operator == "Dropout" and node.domain == "" for node in self._source.graph.nodes)

    @property
    def _carried_names(self) -> set[str]:
        states = {slot_name(name, slot) for name in self.trained.parameters for slot in self.optimiser.slots}
        return {*self.trained.parameters, *self.trained.moments, *states, PARITY}

    @property
    def carried(self) -> dict[str, str]:
        """For each carried output the input of the next call."""
        return {next_name(name): name for name in self._carried_names}

    @property
    def batch_inputs(self) -> tuple[DeclaredValue, ...]:
        """The inputs of the model itself."""
        return self.trained.model.inputs

    def is_whole(self, values: Mapping[str, Array]) -> bool:
        """Return whether no update began since the last whole step."""
        return PARITY in values and int(values[PARITY]) == self.steps_done % 2

    def forward(self, shapes: Shapes) -> Network:
        """Return the forward pass for shapes of the model's inputs, ready to be differentiated."""
        key = tuple(sorted((each.name, shapes[each.name]) for each in self._source.inputs if each.name in shapes))
        if self._last is None or self._last[0] != key:
            self._last = key, forward_network(self._source, shapes, TrainingImport())
        return self._last[1]

    @property
    def ends_with_softmax(self) -> bool:
        """Whether the model's output is a softmax, which is part of cross-entropy."""
        made = {name: node for node in self._source.graph.nodes for name in node.outputs}
        node = made.get(self.output)
        return node is not None and node.operator == "Softmax"

    def input_shapes(self, shapes: Shapes) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all inputs, given those of a batch."""
        return self.full_shapes({TARGET: (), **shapes})

    def prediction_shape(self, shapes: Shapes) -> tuple[int, ...]:
        """Return the shape of the prediction for shapes of the model's inputs."""
        return self.forward(self.input_shapes(shapes)).values[self.output].shape

    def _network(
        self, model: Model, shapes: Shapes, values: Mapping[str, Array], carried: Mapping[str, str]
    ) -> Network:
        """Return the network of a step for these input shapes."""
        return self.step(shapes)

    def step(self, shapes: Shapes) -> Network:
        """Return the network of a step for shapes of all inputs."""
        samples = shapes[self.batch_inputs[0].name][0] if self.batch_inputs else 1
        parts = self._cut(shapes, samples)
        network = parts[0].network
        settings = StepSettings(
            parameters=self.trained.parameters,
            moments=self.trained.moments,
            prediction=_before_softmax(network, self.output, self.loss),
            loss=self.loss,
            optimiser=self.optimiser,
            target=Value(TARGET, shapes[TARGET], self._target_dtype),
            clip_norm=self._clip_norm,
        )
        return step_network(parts, samples, settings)

    def _cut(self, shapes: Shapes, samples: int) -> tuple[BatchPart, ...]:
        """Return the forward passes of the parts of a batch."""
        ends = np.rint(np.cumsum(self._parts) / sum(self._parts) * samples).astype(int)
        found, first, made = [], 0, {}
        for end in ends.tolist():
            count = end - first
            if not count:
                continue
            key = count, first if self.has_dropout else 0
            if count == samples:
                made[key] = self.forward(shapes)
            if key not in made:
                own = {
                    each.name: (count, *shapes[each.name][1:])
                    for each in self.batch_inputs
                    if shapes[each.name][:1] == (samples,)
                }
                made[key] = forward_network(self._source, {**shapes, **own}, TrainingImport(first=first, samples=count))
            found.append(BatchPart(made[key], first, count))
            first = end
        return tuple(found)


def _chosen_output(model: Model, output: str | None) -> str:
    names = [each.name for each in model.outputs]
    if output is None:
        return names[0]
    if output not in names:
        raise ArgumentError(f"the model has no output {output!r}", where="output", hint=f"It has {', '.join(names)}")
    return output


def _before_softmax(network: Network, output: str, loss: Loss) -> str:
    """Return the value that a loss is computed from: of cross-entropy, the input of a softmax at the end."""
    node = network.producer().get(output)
    if isinstance(loss, CrossEntropy) and node is not None and node.kind == "softmax" and node.inputs[0] is not None:
        return node.inputs[0]
    return output


def without_gradient(model: StepModel, shapes: Shapes, *, named: bool = False) -> frozenset[str]:
    """Return parameters that a loss does not depend on, or whose values decide shapes, for shapes of a batch.

    Raises
    ------
    ArgumentError
        If there are any although the parameters were ``named``.
    """
    trained = model.trained
    full = model.input_shapes(shapes)
    fixed = constant_parameters(trained, full)
    kept = tuple(name for name in trained.parameters if name not in fixed)
    network = forward_network(replace(trained, parameters=kept).source, full, TrainingImport())
    used = used_parameters(network, model.output)
    unused = {name for name in kept if name not in used}
    if named and (fixed or unused):
        name, why = (
            (min(fixed), "decides shapes or settings")
            if fixed
            else (min(unused), "is read by nothing that the loss depends on")
        )
        raise ArgumentError(f"parameter {name!r} {why}, and cannot be trained", where="parameters")
    return frozenset(fixed | unused)


def used_parameters(network: Network, output: str) -> set[str]:
    """Return the inputs of a network that an output depends on by floating-point values."""
    producer = network.producer()
    found: set[str] = set()
    waiting = [output]
    while waiting:
        name = waiting.pop()
        if name in found or not network.values[name].dtype.startswith("float"):
            continue
        found.add(name)
        node = producer.get(name)
        waiting += [each for each in (() if node is None else node.inputs) if each is not None]
    return found.intersection(network.inputs)


def forward_network(source: Model, shapes: Shapes, training: TrainingImport) -> Network:
    """Return the forward pass of a model for shapes of its inputs, ready to be differentiated."""
    given = {each.name: tuple(shapes[each.name]) for each in source.inputs if each.name in shapes}
    network = import_model(source, given, training=training)
    return rewrite(network, passes=_FORWARD_PASSES).network


def constant_parameters(trained: TrainedModel, shapes: Shapes) -> set[str]:
    """Return parameters whose values must be known when the model is imported, such as sizes and limits."""
    found: set[str] = set()
    current = trained
    while True:
        try:
            source = current.source
            given = {each.name: shapes[each.name] for each in source.inputs if each.name in shapes}
            import_model(source, given, training=TrainingImport())
        except ValueNeededError as error:
            needed = set(error.inputs) & set(current.parameters)
            if not needed:
                raise
            found |= needed
            left = tuple(name for name in current.parameters if name not in needed)
            current = replace(current, parameters=left)
        else:
            return found
