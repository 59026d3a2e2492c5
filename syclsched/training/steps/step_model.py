# SPDX-License-Identifier: Apache-2.0
"""Models whose call is a training step: inputs are a batch, and the parameters, which stay in memory between calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.importing.import_state import SEED, TrainingImport
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue, Model
from syclsched.frontends.onnx.network import Network, Value
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation
from syclsched.model.task import Task
from syclsched.onnx.model import GivenShapes, OnnxModel
from syclsched.training.losses import BinaryCrossEntropy, CrossEntropy, Loss
from syclsched.training.parameter_groups import ParameterGroups
from syclsched.training.sources.trained_model import TrainedModel, chosen_output
from syclsched.training.steps.step_network import (
    LOSS,
    NORM,
    PARITY,
    TARGET,
    UPDATE,
    BatchPart,
    StepSettings,
    next_name,
    replica_name,
    step_network,
)

if TYPE_CHECKING:
    from syclsched.onnx.specialised import Shapes, Specialised

Array = np.ndarray[Any, Any]
#: Shares of the parts of a batch, the replica of the parameters that each reads, and the devices of tasks.
Division = tuple[tuple[float, ...], tuple[int, ...], Mapping[str, str]]


class StepModel(OnnxModel):
    """A model whose call is a training step. All inputs but a batch and the optimisers' numbers are carried.

    The loss is computed from ``output``, by default the first. ``parts`` are shares of a batch that are computed apart,
    as micro-batches; ``replicas`` has for each part the number of the replica of the parameters that it reads, one of
    them 0, and all are updated alike. ``clip_norm`` is the largest norm of all gradients together. ``activations`` is
    the dtype of values stored from the forward to the backward pass. ``shapes`` are as for `syclsched.onnx.load`.
    """

    #: To try kernels takes as long as many steps.
    least_gain = 0.06

    def __init__(
        self,
        trained: TrainedModel,
        loss: Loss,
        groups: ParameterGroups,
        target_dtype: str,
        *,
        output: str | None = None,
        shapes: GivenShapes | None = None,
        parts: Sequence[float] = (1.0,),
        clip_norm: float | None = None,
        activations: str = "float32",
        replicas: Sequence[int] = (),
    ) -> None:
        self.trained, self.loss, self.groups = trained, loss, groups
        self.target_dtype, self._parts = target_dtype, tuple(parts)
        self._clip_norm, self._activations = clip_norm, activations
        self._replicas = tuple(replicas)
        self.output = chosen_output([each.name for each in trained.model.outputs], output)
        #: The last forward pass: targets are checked against it before the step is made of it.
        self._last: tuple[Any, Network] | None = None
        self._ends_with_probabilities: bool | None = None  # not known yet
        #: Number of steps that are done, which the trainer counts.
        self.steps_done = 0
        #: Function of the shapes of all inputs that divides a step among several devices or into micro-batches.
        self.divide: Callable[[Shapes], Division] | None = None
        self._source = trained.source
        super().__init__(self._declared(), shapes=shapes)

    def _declared(self) -> Model:
        """Return the model with the inputs and outputs of a step."""
        graph, held = self._source.graph, self.trained.model.graph.initialisers
        state = [
            DeclaredValue(state, held[name].dtype.name, held[name].shape)
            for name in self.trained.parameters
            for state in self.groups.states(name)
        ]
        state.append(DeclaredValue(PARITY, "float32", ()))
        scalars = [DeclaredValue(name, "float32", ()) for name in self.groups.scalars(0)]
        extra = [DeclaredValue(TARGET, self.target_dtype, None), *scalars]
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
        return self.trained.has_dropout

    @property
    def _carried_names(self) -> set[str]:
        states = {state for name in self.trained.parameters for state in self.groups.states(name)}
        return {*self.trained.parameters, *self.trained.moments, *states, PARITY}

    @property
    def carried(self) -> dict[str, str]:
        """For each carried output the input of the next call."""
        return {next_name(name): name for name in self._carried_names}

    @property
    def replicas(self) -> dict[str, str]:
        """The parameter, or the state of the optimiser, of each of its replicas."""
        return {
            replica_name(name, replica): name
            for parameter in self.trained.parameters
            for name in (parameter, *self.groups.states(parameter))
            for replica in sorted({*self._replicas} - {0})
        }

    @property
    def batch_inputs(self) -> tuple[DeclaredValue, ...]:
        """The inputs of the model itself."""
        return self.trained.model.inputs

    def is_whole(self, value_of: Callable[[str], Array | None]) -> bool:
        """Return whether no update began since the last whole step."""
        parity = value_of(PARITY)
        return parity is not None and int(parity) == self.steps_done % 2

    def forward(self, shapes: Shapes) -> Network:
        """Return the forward pass for shapes of the model's inputs, ready to be differentiated."""
        key = tuple(sorted((each.name, shapes[each.name]) for each in self._source.inputs if each.name in shapes))
        if self._last is None or self._last[0] != key:
            self._last = key, self.trained.forward(shapes)
        return self._last[1]

    def ends_with_probabilities(self, shapes: Shapes) -> bool:
        """Return whether the model's output is a softmax or sigmoid that is part of the loss, for shapes of inputs."""
        if self._ends_with_probabilities is None:
            network = self.forward(self.input_shapes(shapes))
            node = network.producer().get(self.output)
            is_log = node is not None and node.attributes.get("log", False)
            self._ends_with_probabilities = not is_log and _scores(network, self.output, self.loss) != self.output
        return self._ends_with_probabilities

    def input_shapes(self, shapes: Shapes) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all inputs, given those of a batch."""
        return self.full_shapes({TARGET: (), **shapes})

    def prediction_shape(self, shapes: Shapes) -> tuple[int, ...]:
        """Return the shape of the prediction for shapes of the model's inputs; refuse one that is not of floats."""
        found = self.forward(self.input_shapes(shapes)).values[self.output]
        if not found.dtype.startswith("float"):
            raise ArgumentError(
                f"the output is {found.dtype}, and a loss is computed from floating-point numbers",
                where=f"output {self.output!r}",
                hint="Choose another output",
            )
        return found.shape

    def _network(self, model: Model, shapes: Shapes, *_: Any, **__: Any) -> Network:
        """Return the network of a step for these input shapes."""
        return self.step(shapes)

    def specialised(
        self,
        shapes: Shapes | None = None,
        values: Mapping[str, Array] | None = None,
        carried: Mapping[str, str] | None = None,
        *more: Any,
    ) -> Specialised:
        """Return the step for shapes of its inputs; on several devices divided among them."""
        stay: Mapping[str, str] = {}
        if self.divide is not None:
            self._parts, self._replicas, stay = self.divide(self.full_shapes(dict(shapes or {})))
        replicas = self.replicas if carried else {}
        more_carried = {next_name(name): name for name in replicas}
        found = super().specialised(shapes, values, {**(carried or {}), **more_carried}, *more)
        graph = found.graph.with_implementations(_has_same_bits) if replicas else found.graph
        if PARITY in found.carried:
            _begin_last(graph, found.carried[PARITY])
        picked = {name: each for name, each in found.picked.items() if name != TARGET}  # the loss checks it
        return replace(found, graph=graph, picked=picked, stay=stay, replicas=replicas)

    def step(self, shapes: Shapes) -> Network:
        """Return the network of a step for shapes of all inputs."""
        parts = self.cut(shapes)
        network = parts[0].network
        settings = StepSettings(
            parameters=self.trained.parameters,
            moments=self.trained.moments,
            output=self.output,
            prediction=_scores(network, self.output, self.loss),
            loss=self.loss,
            groups=self.groups,
            target=Value(TARGET, shapes[TARGET], self.target_dtype),
            batched=self.batched(shapes),
            clip_norm=self._clip_norm,
            activations=self._activations,
        )
        return step_network(parts, self.samples(shapes), settings)

    def samples(self, shapes: Shapes) -> int:
        """Return the number of samples of a batch, for shapes of its inputs."""
        first = shapes[self.batch_inputs[0].name] if self.batch_inputs else ()
        return first[0] if first else 1

    def batched(self, shapes: Shapes) -> frozenset[str]:
        """Return the inputs whose first axis counts samples, as that of the first input does.

        An input that declares a fixed extent where the first one's is open is none, also in a batch of as many samples.
        """
        inputs, count = self.batch_inputs, (self.samples(shapes),)
        fixed = {each.name for each in inputs if each.dimensions and isinstance(each.dimensions[0], int)}
        if not inputs or not inputs[0].dimensions or inputs[0].name in fixed:
            fixed = set()
        return frozenset(each.name for each in inputs if shapes[each.name][:1] == count and each.name not in fixed)

    def with_samples(self, shapes: Shapes, count: int) -> dict[str, tuple[int, ...]]:
        """Return shapes of inputs for another number of samples."""
        found, targets = dict(shapes), {TARGET} if shapes[TARGET][:1] == (self.samples(shapes),) else set()
        for name in self.batched(shapes) | targets:
            found[name] = (count, *found[name][1:])
        return found

    def cut(self, shapes: Shapes) -> tuple[BatchPart, ...]:
        """Return the forward passes of the parts of a batch."""
        samples = self.samples(shapes)
        ends = np.rint(np.cumsum(self._parts) / sum(self._parts) * samples).astype(int)
        found, first, made = [], 0, {}
        for replica, end in zip_longest(self._replicas, ends.tolist(), fillvalue=0):
            count = end - first
            if not count:
                continue
            key = count, first if self.has_dropout else 0
            if count == samples:
                made[key] = self.forward(shapes)
            if key not in made:
                own = {name: (count, *shapes[name][1:]) for name in self.batched(shapes)}
                made[key] = self.trained.forward({**shapes, **own}, TrainingImport(first=first, samples=count))
            found.append(BatchPart(made[key], first, count, replica))
            first = end
        return tuple(found)


def _begin_last(graph: TaskGraph, parity: str) -> None:
    """Let updates begin after all that they wait for, such as new running moments, which the gradients do not need.

    A task that fails before they begin then leaves the whole state.
    """
    begin = next(task.name for task in graph.tasks if any(a.array == parity and a.mode.writes for a in task.accesses))
    place = {name: number for number, name in enumerate(graph.order())}
    dependencies = sorted(graph.dependencies(), key=lambda each: place[each.after])
    before, after = {begin}, {begin}
    for each in dependencies:
        if each.before in after:
            after.add(each.after)
    for each in reversed(dependencies):
        if each.after in before:
            before.add(each.before)
    for each in dependencies:
        if each.after in after and each.before not in after | before:
            graph.edge(each.before, begin)
            before.add(each.before)


def _has_same_bits(task: Task, implementation: Implementation) -> bool:
    """Return whether an implementation may be used for replicas: all are updated by the same one."""
    if task.operation is None or not task.name.startswith(UPDATE):
        return True
    return implementation is task.operation.implementations[0]


def _scores(network: Network, output: str, loss: Loss) -> str:
    """Return the value that a loss is computed from: the input of a softmax or sigmoid at the end that it contains."""
    producer = network.producer()
    node = producer.get(output)
    if isinstance(loss, BinaryCrossEntropy):
        while node is not None and node.kind == "reshape":
            node = producer.get(node.inputs[0] or "")
    if node is None or not node.inputs or node.inputs[0] is None:
        return output
    is_softmax = isinstance(loss, CrossEntropy) and node.kind == "softmax"
    is_sigmoid = isinstance(loss, BinaryCrossEntropy) and node.attributes.get("expression") == ("sigmoid", 0)
    return node.inputs[0] if is_softmax or is_sigmoid else output


def without_gradient(model: StepModel, shapes: Shapes, *, named: bool = False) -> frozenset[str]:
    """Return parameters that a loss does not depend on, or whose values decide shapes, for shapes of a batch.

    Raises `ArgumentError` if there are any although the parameters were ``named``.
    """
    trained = model.trained
    full = model.input_shapes(shapes)
    fixed = trained.fixed(full)
    kept = tuple(name for name in trained.parameters if name not in fixed)
    network = replace(trained, parameters=kept).forward(full)
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
