# SPDX-License-Identifier: Apache-2.0
"""ONNX models in training: which of their initialisers a step changes, and their forward pass."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from syclsched.errors import ArgumentError, ModelError, ValueNeededError
from syclsched.frontends.onnx.importing import import_model
from syclsched.frontends.onnx.importing.import_state import TrainingImport
from syclsched.frontends.onnx.model_file.model_reader import read_model
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue, Model, ModelGraph, ModelNode
from syclsched.frontends.onnx.network import Network
from syclsched.frontends.onnx.rewrites import rewrite
from syclsched.onnx.model import GivenShapes, OnnxModel
from syclsched.onnx.specialised import Shapes
from syclsched.training.named_choice import matching
from syclsched.training.sources.saving import save_model

Array = np.ndarray[Any, Any]

#: Rewrites of the forward pass before it is differentiated: those that find operations with gradients of their own.
FORWARD_PASSES: Final = (
    "dead_code",
    "constant_folding",
    "algebra",
    "identities",
    "common",
    "normalisations",
    "formulas",
)
_FLOATING: Final = "Train floating-point ones"


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A model, and which of its initialisers a training step changes."""

    given: Any  # path, bytes or onnx.ModelProto, as the user gave it
    model: Model
    parameters: tuple[str, ...]  # initialisers that are trained
    moments: tuple[str, ...] = ()  # running means and variances of batch normalisations

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
        whole = replace(graph, inputs=(*graph.inputs, *inputs), initialisers=kept, defaulted=())
        return replace(self.model, graph=whole)

    @property
    def has_fixed_shapes(self) -> bool:
        """Whether it cannot be computed for other numbers of samples."""
        return False

    @property
    def has_dropout(self) -> bool:
        """Whether the model drops elements at random."""
        return any(node.operator == "Dropout" and node.domain == "" for node in _all_nodes(self.model.graph))

    def forward(self, shapes: Shapes, training: TrainingImport | None = None) -> Network:
        """Return the forward pass for shapes of the inputs, ready to be differentiated."""
        source = self.source if training is None else _with_open_batch(self.source, self.model.inputs)
        given = {each.name: tuple(shapes[each.name]) for each in source.inputs if each.name in shapes}
        network = import_model(source, given, training=training or TrainingImport())
        return rewrite(network, passes=FORWARD_PASSES).network

    def fixed(self, shapes: Shapes) -> set[str]:
        """Return parameters whose values must be known when the model is imported, such as sizes and limits."""
        found: set[str] = set()
        current = self
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

    def inference(self, shapes: GivenShapes | None) -> OnnxModel:
        """Return the model in inference, with parameters and running moments as inputs."""
        source = self.source
        return OnnxModel(replace(source, graph=_in_inference(source.graph)), shapes=shapes)

    def save(self, values: Mapping[str, Array], path: str | os.PathLike[str]) -> None:
        """Write it with given values, whole or not at all; raise `StorageError` if that fails."""
        save_model(self.given, values, path)


def _with_open_batch(source: Model, inputs: Collection[DeclaredValue]) -> Model:
    """Return a model that takes any number of samples, also where it declares one."""
    names = {each.name for each in inputs}
    opened = tuple(
        replace(each, dimensions=(None, *each.dimensions[1:])) if each.name in names and each.dimensions else each
        for each in source.inputs
    )
    return replace(source, graph=replace(source.graph, inputs=opened))


def _all_nodes(graph: ModelGraph) -> Iterator[ModelNode]:
    """Yield the nodes of a graph, and those of its nodes' bodies and branches."""
    for node in graph.nodes:
        yield node
        for value in node.attributes.values():
            if isinstance(value, ModelGraph):
                yield from _all_nodes(value)


def _in_inference(graph: ModelGraph) -> ModelGraph:
    """Return a graph without the training mode that exporters may have set for dropout and batch normalisation."""
    nodes: list[ModelNode] = []
    for node in graph.nodes:
        attributes = {
            name: _in_inference(value) if isinstance(value, ModelGraph) else value
            for name, value in node.attributes.items()
            if name != "training_mode"
        }
        if node.domain or node.operator not in ("Dropout", "BatchNormalization"):
            nodes.append(replace(node, attributes={**node.attributes, **attributes}))
        elif node.operator == "Dropout":
            nodes.append(replace(node, inputs=node.inputs[:2]))
        elif "training_mode" in node.attributes or any(node.outputs[1:]):
            nodes.append(replace(node, attributes=attributes, outputs=node.outputs[:1]))
            for moment, made in zip(node.inputs[3:5], node.outputs[1:3], strict=False):
                nodes += [ModelNode(f"{node.name}/{made}", "Identity", "", (moment,), (made,), {})] if made else []
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def trained_model(given: Any, parameters: Iterable[str] | None = None, frozen: Iterable[str] = ()) -> TrainedModel:
    """Return an ONNX model, given as a path, bytes or a proto, with the parameters that are trained.

    ``parameters`` and ``frozen`` are names of initialisers, or patterns such as ``head.*``; by default all
    floating-point ones that have a dimension, except running moments, are trained. Raises `ArgumentError` if a name
    fits no floating-point initialiser, `ModelError` if inputs or outputs are not all tensors of numbers.
    """
    model = read_model(given)
    others = [each.name for each in model.inputs if each.is_sequence or each.is_optional]
    if model.host is not None or others:
        what = f"input {others[0]!r} is a sequence or an optional value" if others else "it computes on text or maps"
        raise ModelError(
            f"{what}, and only models of tensors of numbers are trained",
            where=model.where,
            hint="Train the part behind, which onnx.utils.extract_model takes",
        )
    moments = _running_moments(model)
    chosen = choose_parameters(
        model.graph.initialisers,
        parameters,
        frozen,
        kind="initialiser",
        refused=dict.fromkeys(moments, ("is a running moment", _FLOATING)),
    )
    if not chosen:
        raise ArgumentError(
            "there is nothing to train: no floating-point initialiser is left",
            where=f"model {model.name!r}",
            hint="Weights must be initialisers of the model's graph, not constants within it",
        )
    if isinstance(given, str | os.PathLike):
        given = os.path.abspath(given)  # it is read again when the model is saved
    return TrainedModel(given, model, chosen, tuple(moments))


def choose_parameters(
    arrays: Mapping[str, Array],
    parameters: Iterable[str] | None,
    frozen: Iterable[str],
    *,
    kind: str,
    refused: Mapping[str, tuple[str, str]],
) -> tuple[str, ...]:
    """Return the trained arrays, by names or patterns; some are ``refused``, with a reason and a remedy.

    Raises `ArgumentError` if a name fits no array, or one that cannot be trained.
    """
    possible = [name for name, array in arrays.items() if array.dtype.kind == "f" and name not in refused]
    if parameters is None:
        chosen = [name for name in possible if arrays[name].ndim]
    else:
        named = matching(parameters, arrays, "parameters", kind)
        for name in named:
            if name not in possible:
                what, hint = refused.get(name, (f"is of {arrays[name].dtype}", _FLOATING))
                raise ArgumentError(f"{name!r} {what}, and cannot be trained", where="parameters", hint=hint)
        chosen = [name for name in possible if name in named]
    left_out = matching(frozen, arrays, "frozen", kind)
    return tuple(name for name in chosen if name not in left_out)


def _running_moments(model: Model) -> list[str]:
    found: dict[str, None] = {}
    for node in _all_nodes(model.graph):
        if node.operator == "BatchNormalization" and node.domain == "":
            found.update((name, None) for name in node.inputs[3:5] if name in model.graph.initialisers)
    return list(found)


def chosen_output(names: Sequence[str], output: str | None) -> str:
    """Return the output that a loss is computed from; raise `ArgumentError` if there is no such one."""
    if output is None:
        return names[0]
    if output not in names:
        raise ArgumentError(f"there is no output {output!r}", where="output", hint=f"There are: {', '.join(names)}")
    return output
