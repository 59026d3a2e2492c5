# SPDX-License-Identifier: Apache-2.0
"""Training step as one network: forward pass, loss, backward pass and update of the parameters in their own memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.importing.gradients.differentiation import differentiate
from syclsched.frontends.onnx.importing.gradients.normalisation import emit_moments
from syclsched.frontends.onnx.importing.import_state import SEED
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.model_limits import ModelLimits
from syclsched.frontends.onnx.network import CanonicalNode, Network, Value
from syclsched.frontends.onnx.shapes import infer
from syclsched.kernels.tensor.writing.expression import inputs_of, substitute
from syclsched.training.losses import Loss, LossNodes, of_samples
from syclsched.training.operations import operation_gradients  # noqa: F401  # it registers its rule
from syclsched.training.parameter_groups import ParameterGroups
from syclsched.training.steps.narrow_activations import emit_rounded, kept_values, widen_for_each_reader

#: Names of inputs and outputs of a step besides those of the model.
LOSS: Final = "loss of the step"
TARGET: Final = "target of the loss"
NORM: Final = "norm of the gradients"
#: A number that each step changes from 0 to 1 or back before its updates: it shows whether an update began.
PARITY: Final = "parity of steps"
#: Prefixes of names of tasks that update parameters, states and moments.
UPDATE: Final = "update of "
#: Values that are added at once.
_ADDENDS: Final = 16


def next_name(name: str) -> str:
    """Return the name of the output with the next value of a parameter or of a state."""
    return f"next {name}"


def part_prefix(number: int) -> str:
    """Return the prefix of the names of nodes of the forward pass of a part, if there are several parts."""
    return f"part {number}/"


def replica_name(name: str, replica: int) -> str:
    """Return the name of a replica of a parameter, or of a state; replica 0 has the name of the value itself."""
    return f"replica {replica}/{name}" if replica else name


@dataclass(frozen=True, slots=True)
class BatchPart:
    """The forward pass of some samples of a batch."""

    network: Network
    first: int  # of the samples
    count: int
    replica: int = 0  # of the parameters that it reads


@dataclass(frozen=True, slots=True)
class StepSettings:
    """Settings of a step."""

    parameters: tuple[str, ...]  # names of the network's inputs that are trained
    moments: tuple[str, ...]  # names of the inputs that are running moments
    output: str  # name of the network's output
    prediction: str  # name of the value that the loss is computed from: the output, or what it follows from
    loss: Loss
    groups: ParameterGroups
    target: Value  # of the whole batch
    batched: frozenset[str]  # names of the network's inputs whose first axis counts samples
    clip_norm: float | None = None
    activations: str = "float32"  # dtype in which values are stored from the forward to the backward pass


def step_network(parts: Sequence[BatchPart], samples: int, settings: StepSettings) -> Network:
    """Return the network of a step over a batch of a number of samples, computed in parts.

    Raises `GradientError` if a node between a parameter and the loss has no gradient, `ArgumentError` if nothing is
    trained.
    """
    builder = _StepBuilder(parts, samples, settings)
    network = builder.built()
    if settings.activations == "float32":
        return network
    return _StepBuilder(parts, samples, settings, builder.kept).built()


class _StepBuilder:
    def __init__(
        self, parts: Sequence[BatchPart], samples: int, settings: StepSettings, narrow: frozenset[str] = frozenset()
    ) -> None:
        #: Values that are stored in bfloat16; and those of the forward pass that could be.
        self._narrow, self.kept = narrow, frozenset[str]()
        self._parts, self._samples, self._settings = parts, samples, settings
        self._b = NetworkBuilder(f"training of {parts[0].network.name!r}", 0, {}, ModelLimits())
        #: Running moments -> their values after the parts so far.
        self._moments = {name: name for name in settings.moments}
        self._replicas = sorted({part.replica for part in parts})

    def built(self) -> Network:
        b, settings = self._b, self._settings
        self._declare()
        passes = [self._forward(number, part) for number, part in enumerate(self._parts)]
        losses = [
            self._loss(number, part, prediction)
            for number, (part, (_, prediction)) in enumerate(zip(self._parts, passes, strict=True))
        ]
        b.begin("loss", "loss")
        total, weight = (self._sum([getattr(each, what) for each in losses]) for what in ("total", "weight"))
        kind = b.dtype(total)
        loss = b.elementwise(("div", 0, 1), total, weight)
        # A batch in which no sample counts changes nothing.
        share = b.elementwise(("where", ("greater", 0, ("const", 0.0)), ("reciprocal", 0), ("const", 0.0)), weight)
        b.end([], [])
        begun = len(b.nodes)
        #: Gradients of each parameter by the replica that they are of.
        found: dict[str, dict[int, list[str]]] = {}
        for number, ((nodes, prediction), each) in enumerate(zip(passes, losses, strict=True)):
            replica = self._parts[number].replica
            names = {replica_name(name, replica): name for name in settings.parameters}
            b.begin(f"gradient of {self._prefix(number)}loss", "gradient of loss")
            gradient = b.elementwise(("mul", 0, 1), each.gradient, share)
            b.end([], [])
            for name, made in differentiate(b, nodes, {prediction: gradient}, names).items():
                found.setdefault(names[name], {}).setdefault(replica, []).append(made)
        forward = [node for nodes, _ in passes for node in nodes]
        self.kept = kept_values(b, forward, b.nodes[begun:], [prediction for _, prediction in passes])
        self._check(found)
        gradients = {
            name: self._sums(found[name]) if name in found else [self._zeros(name)] for name in settings.parameters
        }
        outputs = [(LOSS, b.reshape(loss, ()))]
        outputs += self._updates(gradients, loss, kind)
        if self._narrow:
            widen_for_each_reader(b)
        return b.finish(self._parts[0].network.name, outputs)

    def _declare(self) -> None:
        """Declare the inputs of the step: a batch, the target, parameters and states, and the optimisers' numbers."""
        b, settings, network = self._b, self._settings, self._parts[0].network
        kept = {*settings.parameters, *settings.moments, SEED}
        for name in network.inputs:
            value = network.values[name]
            if name == SEED:
                if any(SEED in node.inputs for each in self._parts for node in each.network.nodes):
                    b.add_input(name, (1,), "uint32")
                continue
            shape = value.shape if name in kept or name not in settings.batched else (self._samples, *value.shape[1:])
            b.add_input(name, shape, value.dtype)
        b.add_input(TARGET, settings.target.shape, settings.target.dtype)
        for parameter in settings.parameters:
            value = network.values[parameter]
            for replica in self._replicas:
                for name in (parameter, *settings.groups.states(parameter)):
                    if replica or name != parameter:
                        b.add_input(replica_name(name, replica), value.shape, value.dtype)
        b.add_input(PARITY, (), "float32")
        for name in settings.groups.scalars(0):
            b.add_input(name, (), "float32")

    def _prefix(self, number: int) -> str:
        """Return the prefix of the names of a part's nodes."""
        return part_prefix(number) if len(self._parts) > 1 else ""

    def _forward(self, number: int, part: BatchPart) -> tuple[list[CanonicalNode], str]:
        """Add the forward pass of a part; return its nodes and its prediction."""
        b, network, settings = self._b, part.network, self._settings
        prefix = self._prefix(number)
        names: dict[str, str] = {}
        b.begin(f"{prefix}samples", "samples of a part")
        for name in network.inputs:
            if name in self._moments:
                names[name] = self._moments[name]
            elif name not in settings.parameters and name != SEED and name in settings.batched:
                names[name] = b.part(name, 0, part.first, part.count)
            elif name in settings.parameters:
                names[name] = replica_name(name, part.replica)
            else:
                names[name] = name
        b.end([], [])
        for name, array in network.constants.items():
            names[name] = b.add_constant(prefix + name, array)
        nodes = [self._copied(node, network, names, prefix) for node in network.nodes]
        for name in self._moments:
            if next_name(name) in network.outputs:
                self._moments[name] = names[next_name(name)]
        return nodes, names[settings.prediction]

    def _copied(self, node: CanonicalNode, network: Network, names: dict[str, str], prefix: str) -> CanonicalNode:
        """Add a node of the forward pass; return it with the names of this network."""
        b = self._b
        inputs = tuple(None if name is None else names[name] for name in node.inputs)
        if node.kind == "moments":
            b.begin(prefix + node.name, ", ".join(node.origin))
            made = emit_moments(b, inputs[0] or "", node.attributes["axes"], keepdims=node.attributes["keepdims"])
            b.end([], [])
            names.update((name, value) for name, value in zip(node.outputs, made, strict=True) if name is not None)
            return replace(node, name=prefix + node.name, inputs=inputs, outputs=made)
        outputs = node.outputs
        values = [replace(network.values[name], name=prefix + name) for name in outputs if name is not None]
        renamed = tuple(None if name is None else prefix + name for name in outputs)
        if node.kind in ("topk", "recurrent") and None in renamed:  # the gradient needs all results
            given = [None if name is None else network.values[name] for name in node.inputs]
            results = infer(node.kind, given, node.attributes)
            extra = [f"{prefix}{node.name} {number}" for number in range(len(results))]
            values += [Value(extra[i], *results[i]) for i, name in enumerate(renamed) if name is None]
            renamed = tuple(name or extra[i] for i, name in enumerate(renamed))
        copied = replace(node, name=prefix + node.name, inputs=inputs, outputs=renamed)
        b.add_node(copied, values)
        rounded = self._rounded(copied)
        names.update((name, rounded.get(prefix + name, prefix + name)) for name in outputs if name is not None)
        return replace(copied, outputs=tuple(None if name is None else rounded.get(name, name) for name in renamed))

    def _rounded(self, node: CanonicalNode) -> dict[str, str]:
        """Return for each result that is stored in bfloat16 the rounded value."""
        b = self._b
        b.begin(f"{node.name} stored", ", ".join(node.origin))
        found = {name: emit_rounded(b, name) for name in node.outputs if name is not None and name in self._narrow}
        b.end([], [])
        return found

    def _loss(self, number: int, part: BatchPart, prediction: str) -> LossNodes:
        b = self._b
        b.begin(f"{self._prefix(number)}loss", "loss")
        target = TARGET
        if len(self._parts) > 1 and b.shape(TARGET)[:1] == (self._samples,):
            target = b.part(TARGET, 0, part.first, part.count)
        differ = len({each.count for each in self._parts}) > 1
        shaped = b.reshape(prediction, part.network.values[self._settings.output].shape)
        made = of_samples(self._settings.loss, part.count if differ else 1).emit(b, shaped, target)
        if shaped != prediction:
            made = replace(made, gradient=b.reshape(made.gradient, b.shape(prediction)))
        b.end([], [])
        return made

    def _sums(self, gradients: Mapping[int, Sequence[str]]) -> list[str]:
        """Return the sums of the gradients of each replica, which every update adds in this order."""
        sums = []
        for replica, values in gradients.items():
            name = replica_name("sum of gradients", replica)
            self._b.begin(name, name)
            sums.append(self._sum(values))
            self._b.end([], [])
        return sums

    def _zeros(self, parameter: str) -> str:
        """Return the gradient of a parameter whose changes the loss does not follow, such as one that is rounded."""
        b = self._b
        b.begin(f"gradient of {parameter}", "no gradient")
        made = b.filled(b.shape(parameter), b.dtype(parameter), folded=False)
        b.end([], [])
        return made

    def _sum(self, values: Sequence[str]) -> str:
        """Return a sum in the order of the values, of a few at a time: kernels take a limited number of arguments."""
        while len(values) > 1:
            groups = [values[first : first + _ADDENDS] for first in range(0, len(values), _ADDENDS)]
            values = [self._b.elementwise(("add", *range(len(each))), *each) for each in groups]
        return values[0]

    def _check(self, found: Mapping[str, object]) -> None:
        missing = [name for name in self._settings.parameters if name not in found]
        if len(missing) == len(self._settings.parameters):
            raise ArgumentError(
                "the loss depends on no parameter",
                where=f"output {self._settings.prediction!r}",
                hint="Choose other parameters, or another output",
            )

    def _updates(self, gradients: Mapping[str, Sequence[str]], loss: str, kind: str) -> list[tuple[str, str]]:
        """Add the update of each parameter; return the outputs with their new values and states."""
        b, settings = self._b, self._settings
        b.begin("guard", "guard")
        squares = [self._squares(self._sum(each)) for each in gradients.values()]
        norm = b.cast(b.elementwise(("sqrt", 0), self._sum(squares)), kind)
        # Nothing is updated before all gradients are known, and nothing at all if the loss or one of them is not
        # finite.
        zero = ("const", 0.0)
        finite = ("and", ("equal", ("sub", 0, 0), zero), ("equal", ("sub", 1, 1), zero))
        guard = b.elementwise(finite, loss, norm)
        scale: str | None = None
        if settings.clip_norm is not None:
            limit = ("div", ("const", float(settings.clip_norm)), ("add", 0, ("const", 1e-6)))
            scale = b.elementwise(("min", limit, ("const", 1.0)), norm)
        b.end([], [])
        b.begin("begin of update", "begin of update")
        begun = b.emit("update", [PARITY, guard], expressions=(("where", 1, ("sub", ("const", 1.0), 0), 0),))
        b.end([], [])
        outputs = [(NORM, b.reshape(norm, ())), (next_name(PARITY), begun)]
        for name, sums in gradients.items():
            for replica in self._replicas:
                outputs += self._update(name, replica, sums, (guard, begun), scale)
        changed = {name: value for name, value in self._moments.items() if value != name}
        for name, value in changed.items():
            b.begin(f"{UPDATE}{name}", f"{UPDATE}{name}")
            made = b.emit("update", [name, guard, begun, value], expressions=(("where", _allowed(1, 2), 3, 0),))
            b.end([], [])
            outputs.append((next_name(name), made))
        return outputs

    def _squares(self, gradient: str) -> str:
        b = self._b
        if not b.shape(gradient):
            return b.elementwise(("square", 0), gradient)
        return b.reduce("sumsquare", gradient, range(len(b.shape(gradient))), keepdims=False)

    def _update(
        self, parameter: str, replica: int, gradients: Sequence[str], guard: tuple[str, str], scale: str | None
    ) -> list[tuple[str, str]]:
        b, groups = self._b, self._settings.groups
        name = replica_name(parameter, replica)
        names = [name, *(replica_name(state, replica) for state in groups.states(parameter))]
        kind, count = b.dtype(name), len(names)
        read = [*gradients, *guard, *([scale] if scale is not None else [])]
        places = {each: i for i, each in enumerate(("guard", "begun", "scale"), count + len(gradients))}
        numbers = groups.scalar_names(parameter)
        terms: dict[str, Any] = {each: i for i, each in enumerate(numbers, count + len(read))}
        if kind != "float32":
            terms = {each: ("cast", kind, i) for each, i in terms.items()}
        read += numbers.values()
        given: Any = ("add", *range(count, count + len(gradients))) if len(gradients) > 1 else count
        given = given if scale is None else ("mul", given, places["scale"])
        made = groups.optimiser(parameter).updated(0, tuple(range(1, count)), given, terms)
        kept = tuple(("where", _allowed(places["guard"], places["begun"]), each, i) for i, each in enumerate(made))
        used = sorted(frozenset().union(*map(inputs_of, kept)) | set(range(count)))
        renumbered = {old: new for new, old in enumerate(used)}
        expressions = tuple(substitute(each, renumbered) for each in kept)
        b.begin(f"{UPDATE}{name}", f"{UPDATE}{name}")
        results = b.emit_all("update", [(names + read)[i] for i in used], expressions=expressions)
        b.end([], [])
        return [(next_name(each), made or "") for each, made in zip(names, results, strict=True)]


def _allowed(guard: int, begun: int) -> Any:
    """Return whether a value may change; the parity is read only so that it changes first."""
    return ("and", guard, ("greater_equal", begun, ("const", 0.0)))


def mixed_seed(seed: int, step: int) -> np.ndarray[Any, Any]:
    """Return the number from which a step's dropouts derive theirs."""
    return np.array([(seed * 0x9E3779B1 + step * 0x85EBCA77 + 0x27D4EB2F) % 2**32], np.uint32)
