# SPDX-License-Identifier: Apache-2.0
"""In-memory form of an ONNX model: checked and sorted, without protocol buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from syclsched.errors import ModelError
from syclsched.frontends.onnx.model_file.mapped_files import is_file_backed
from syclsched.frontends.onnx.model_file.raw_data_extraction import MIN_EXTRACTED_BYTES

#: An extent: known, symbolic ("batch"), or unknown.
Dimension = int | str | None


@dataclass(frozen=True, slots=True)
class DeclaredValue:
    """The declaration of a graph's input or output."""

    name: str  # of the value
    dtype: str | None  # NumPy dtype name; None if undeclared
    dimensions: tuple[Dimension, ...] | None  # extents; None if even the rank is undeclared


@dataclass(frozen=True, slots=True)
class ModelNode:
    """A node of an ONNX graph."""

    name: str  # unique within the model; generated if the model gives none
    operator: str  # for instance ``Conv``
    domain: str  # "" is ONNX's own
    #: Names of values; "" for a missing optional one.
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]  # int, float, str, NumPy array, `ModelGraph`, or a tuple of these
    proto: bytes = field(repr=False, default=b"")  # the serialised NodeProto

    @property
    def label(self) -> str:
        """Operator and name, for errors and reports."""
        kind = self.operator if not self.domain else f"{self.domain}::{self.operator}"
        return f"{kind} {self.name!r}"

    def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
        """Return an attribute of type list of integers."""
        value = self.attributes.get(name, default)
        if value is None:
            return None
        if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
            raise self.wrong(f"attribute {name!r} is {value!r}, expected a list of integers")
        return value

    def integers_or(self, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return an attribute of type list of integers; the default if it is missing or empty."""
        return self.integers(name) or default

    def integer(self, name: str, default: int = 0) -> int:
        """Return an attribute of type integer."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise self.wrong(f"attribute {name!r} is {value!r}, expected an integer")
        return value

    def number(self, name: str, default: float = 0.0) -> float:
        """Return an attribute of type float or integer."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float):
            raise self.wrong(f"attribute {name!r} is {value!r}, expected a number")
        return value

    def text(self, name: str, default: str = "") -> str:
        """Return an attribute of type string."""
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise self.wrong(f"attribute {name!r} is {value!r}, expected a string")
        return value

    def wrong(self, what: str, *, hint: str | None = None) -> ModelError:
        """Return an error about this node."""
        return ModelError(what, where=f"node {self.label}", hint=hint)


@dataclass(frozen=True, slots=True)
class ModelGraph:
    """The main graph of a model, or a subgraph of a node such as If."""

    name: str
    #: Without the inputs that have an initialiser.
    inputs: tuple[DeclaredValue, ...]
    outputs: tuple[DeclaredValue, ...]
    initialisers: Mapping[str, np.ndarray[Any, Any]] = field(repr=False)  # constants, read-only
    nodes: tuple[ModelNode, ...] = field(repr=False)  # in topological order


@dataclass(frozen=True, slots=True)
class Model:
    """A checked ONNX model."""

    name: str  # of the graph, or of the file
    where: str  # the file, for error messages
    opsets: Mapping[str, int]  # domain -> version; "" is ONNX's own domain
    graph: ModelGraph
    producer: str = ""  # the exporter

    @property
    def opset(self) -> int:
        """Version of ONNX's own domain."""
        return self.opsets.get("", 0)

    @property
    def inputs(self) -> tuple[DeclaredValue, ...]:
        """Declared inputs."""
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[DeclaredValue, ...]:
        """Declared outputs."""
        return self.graph.outputs

    @property
    def constant_bytes(self) -> int:
        """Bytes of all initialisers."""
        return sum(array.nbytes for array in self.graph.initialisers.values())

    @property
    def is_file_backed(self) -> bool:
        """Whether all large initialisers are views of a file or of given bytes, and so need no own memory."""
        large = [each for each in self.graph.initialisers.values() if each.nbytes >= MIN_EXTRACTED_BYTES]
        return bool(large) and all(map(is_file_backed, large))

    def without_weights(self) -> Model:
        """Return the model's name, inputs and outputs, without nodes and initialisers."""
        return replace(self, graph=replace(self.graph, initialisers={}, nodes=()))
