# SPDX-License-Identifier: Apache-2.0
"""A model as it was read: checked, in order, and no longer protocol buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from syclsched.errors import ModelError
from syclsched.frontends.onnx.lifting import LEAST_BYTES
from syclsched.frontends.onnx.stored import is_elsewhere

#: An extent: known, named and open ("batch"), or open without a name.
Dimension = int | str | None


@dataclass(frozen=True, slots=True)
class Declared:
    """An input or output as a graph declares it."""

    name: str  # the value's
    dtype: str | None  # NumPy dtype name; None where the graph does not say
    dimensions: tuple[Dimension, ...] | None  # extents; None where not even their number is said


@dataclass(frozen=True, slots=True)
class ModelNode:
    """One node."""

    name: str  # unique within the model; made up where the model gives none
    operator: str  # for instance ``Conv``
    domain: str  # "" is ONNX's own
    #: Names of values; "" for one that is left out.
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]  # int, float, str, NumPy arrays, `ModelGraph`, and tuples of such
    proto: bytes = field(repr=False, default=b"")  # the serialised NodeProto

    @property
    def label(self) -> str:
        """What errors and reports call it."""
        kind = self.operator if not self.domain else f"{self.domain}::{self.operator}"
        return f"{kind} {self.name!r}"

    def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
        """Return an attribute that is a list of integers."""
        value = self.attributes.get(name, default)
        if value is None:
            return None
        if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
            raise self.wrong(f"attribute {name!r} is {value!r}, expected a list of integers")
        return value

    def integer(self, name: str, default: int = 0) -> int:
        """Return an attribute that is an integer."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise self.wrong(f"attribute {name!r} is {value!r}, expected an integer")
        return value

    def number(self, name: str, default: float = 0.0) -> float:
        """Return an attribute that is a number."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float):
            raise self.wrong(f"attribute {name!r} is {value!r}, expected a number")
        return value

    def text(self, name: str, default: str = "") -> str:
        """Return an attribute that is a string."""
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise self.wrong(f"attribute {name!r} is {value!r}, expected a string")
        return value

    def wrong(self, what: str, *, hint: str | None = None) -> ModelError:
        """Return an error about this node."""
        return ModelError(what, where=f"node {self.label}", hint=hint)


@dataclass(frozen=True, slots=True)
class ModelGraph:
    """The model's graph, or one that a node such as If holds."""

    name: str  # its name
    #: Without those inputs that have an initialiser.
    inputs: tuple[Declared, ...]
    outputs: tuple[Declared, ...]
    initialisers: Mapping[str, np.ndarray[Any, Any]] = field(repr=False)  # known values, read-only
    nodes: tuple[ModelNode, ...] = field(repr=False)  # each after those whose values it needs


@dataclass(frozen=True, slots=True)
class Model:
    """A model as it was read."""

    name: str  # the graph's, or the file's
    where: str  # the file, for errors
    opsets: Mapping[str, int]  # version of each domain; "" is ONNX's own
    graph: ModelGraph  # what it computes
    producer: str = ""  # what wrote it

    @property
    def opset(self) -> int:
        """Version of ONNX's own operators."""
        return self.opsets.get("", 0)

    @property
    def inputs(self) -> tuple[Declared, ...]:
        """What it is given."""
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[Declared, ...]:
        """What it gives."""
        return self.graph.outputs

    @property
    def constant_bytes(self) -> int:
        """Bytes of all its known values."""
        return sum(array.nbytes for array in self.graph.initialisers.values())

    @property
    def is_in_its_file(self) -> bool:
        """Whether keeping it takes next to no memory: its large values are views of a file, or of given bytes."""
        large = [each for each in self.graph.initialisers.values() if each.nbytes >= LEAST_BYTES]
        return bool(large) and all(map(is_elsewhere, large))

    def without_content(self) -> Model:
        """Return what it is called and what goes in and out, without nodes and known values."""
        return replace(self, graph=replace(self.graph, initialisers={}, nodes=()))
