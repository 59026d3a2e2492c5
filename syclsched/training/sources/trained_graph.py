# SPDX-License-Identifier: Apache-2.0
"""Task graphs in training: which of their arrays a step changes, and their forward pass."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from syclsched.atomic_write import write_atomically
from syclsched.errors import ArgumentError, StorageError
from syclsched.frontends.onnx.importing.import_state import TrainingImport
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue, Model, ModelGraph
from syclsched.frontends.onnx.network import Network
from syclsched.frontends.onnx.rewrites import rewrite
from syclsched.model.graph import TaskGraph
from syclsched.onnx.model import GivenShapes, OnnxModel
from syclsched.onnx.specialised import Shapes
from syclsched.training.operations.graph_network import graph_network, held_array, output_name
from syclsched.training.sources.trained_model import FORWARD_PASSES, TrainedModel, choose_parameters

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class TrainedGraph(TrainedModel):
    """A task graph, ``given``, with the parameters that are trained; the model declares its inputs and outputs."""

    outputs: tuple[str, ...] = ()  # arrays

    @property
    def _inputs(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.source.inputs)

    @property
    def has_fixed_shapes(self) -> bool:
        """Whether it cannot be computed for other numbers of samples."""
        return True

    def forward(self, shapes: Shapes, training: TrainingImport | None = None) -> Network:
        """Return the forward pass, ready to be differentiated; its shapes are those of the graph."""
        return rewrite(graph_network(self.given, self._inputs, self.outputs), passes=FORWARD_PASSES).network

    def fixed(self, shapes: Shapes) -> set[str]:
        """Return parameters whose values decide shapes: there are none."""
        return set()

    def inference(self, shapes: GivenShapes | None) -> OnnxModel:
        """Return the graph as a model, with its parameters as inputs."""
        return _GraphModel(self)

    def save(self, values: Mapping[str, Array], path: str | os.PathLike[str]) -> None:
        """Write the parameters as NumPy's .npz, whole or not at all.

        Raises
        ------
        ArgumentError
            Unless the file is an .npz.
        StorageError
            If it cannot be written.
        """
        if Path(path).suffix != ".npz":
            raise ArgumentError(
                "the parameters of a task graph are written as .npz", where=str(path), hint="Give such a name"
            )
        content = io.BytesIO()
        np.savez(content, **{name: values[name] for name in self.parameters})
        try:
            write_atomically(Path(path), content.getvalue(), lasting=True)
        except OSError as error:
            raise StorageError(
                f"the parameters cannot be written: {error.strerror or error}", where=str(path)
            ) from error


class _GraphModel(OnnxModel):
    """A graph that is called with a batch and its parameters."""

    def __init__(self, trained: TrainedGraph) -> None:
        self._trained = trained
        super().__init__(trained.source)

    def _network(self, model: Model, shapes: Shapes, *_: Any, **__: Any) -> Network:
        return self._trained.forward(shapes)


def trained_graph(
    graph: TaskGraph,
    parameters: Iterable[str] | None = None,
    frozen: Iterable[str] = (),
    output: str | None = None,
) -> TrainedGraph:
    """Return a task graph with the parameters that are trained.

    Arrays without initial data that it reads are a batch's. ``parameters`` and ``frozen`` are names or patterns of
    arrays with initial data; by default all floating-point ones that have a dimension and that no task writes are
    trained. The loss is computed from ``output``, by default the only floating-point array that tasks write and none
    reads. Raises `ArgumentError` if a name fits no array that can be trained, or the output does not follow.
    """
    if not graph.tasks:
        raise ArgumentError("it has no tasks", where=f"graph {graph.name!r}")
    graph = graph.with_implementations(lambda task, implementation: True)  # as it is now
    arrays, read = graph.arrays, graph.inputs()
    written = {access.array: task.name for task in graph.tasks for access in task.accesses if access.mode.writes}
    held = {name: held_array(graph, name) for name in graph.data}
    refused = {
        name: (f"is written by task {task!r}", "Let it write a copy, which graph.copy makes")
        for name, task in written.items()
        if name in held
    }
    batch = [name for name in read if name not in held]
    names = [parameters] if isinstance(parameters, str) else None if parameters is None else list(parameters)
    for name in names or ():
        if name in arrays and name not in held:
            raise ArgumentError(
                f"array {name!r} has no initial value, and cannot be trained",
                where="parameters",
                hint="Give it one: graph.array(name, data=...)",
            )
    chosen = choose_parameters(held, names, frozen, kind="array with initial data", refused=refused)
    if not chosen:
        raise ArgumentError(
            "there is nothing to train: no floating-point array with initial data is left",
            where=f"graph {graph.name!r}",
            hint="Give parameters initial values: graph.array(name, data=...)",
        )
    outputs = _outputs(graph, written, output)

    def declared(name: str, array: str) -> DeclaredValue:
        return DeclaredValue(name, arrays[array].dtype, arrays[array].shape)

    model = ModelGraph(
        name=graph.name,
        inputs=tuple(declared(name, name) for name in arrays if name in batch),
        outputs=tuple(declared(output_name(graph, name), name) for name in outputs),
        initialisers=held,
        nodes=(),
    )
    return TrainedGraph(graph, Model(graph.name, f"graph {graph.name!r}", {"": 0}, model), chosen, outputs=outputs)


def _outputs(graph: TaskGraph, written: Mapping[str, str], output: str | None) -> tuple[str, ...]:
    """Return the arrays that are results, first the one that the loss is computed from."""
    arrays = graph.arrays
    last_read: dict[str, int] = {}
    last_written: dict[str, int] = {}
    for number, task in enumerate(graph.tasks):
        for access in task.accesses:
            if access.mode.reads:
                last_read[access.array] = number
            if access.mode.writes:
                last_written[access.array] = number
    ends = [name for name in arrays if name in written and last_read.get(name, -1) <= last_written[name]]
    kept = [name for name in ends if not arrays[name].temporary]
    if output is not None:
        if output not in written:
            raise ArgumentError(
                f"no task writes an array {output!r}", where="output", hint=f"There are: {', '.join(sorted(written))}"
            )
        return (output, *(name for name in kept if name != output))
    floating = [name for name in kept if arrays[name].dtype.startswith("float")]
    if len(floating) != 1:
        raise ArgumentError(
            f"{len(floating)} floating-point arrays are results of the graph",
            where="output",
            hint=f"Say which one the loss is computed from: output=, one of {', '.join(floating or sorted(written))}",
        )
    return (floating[0], *(name for name in kept if name != floating[0]))
