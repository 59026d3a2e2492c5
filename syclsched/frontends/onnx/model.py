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
    """An input or output as a graph declares it.

    Parameters
    ----------
    name : str
        The value's.
    dtype : str or None
        NumPy dtype name; None where the graph does not say.
    dimensions : tuple or None
        Extents; None where not even their number is said.
    """

    name: str
    dtype: str | None
    dimensions: tuple[Dimension, ...] | None


@dataclass(frozen=True, slots=True)
class ModelNode:
    """One node.

    Parameters
    ----------
    name : str
        Unique within the model; made up where the model gives none.
    operator : str
        For instance ``Conv``.
    domain : str
        "" is ONNX's own.
    inputs, outputs : tuple of str
        Names of values; "" for one that is left out.
    attributes : Mapping[str, Any]
        int, float, str, NumPy arrays, `ModelGraph`, and tuples of such.
    proto : bytes
        The serialised NodeProto.
    """

    name: str
    operator: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    proto: bytes = field(repr=False, default=b"")

    @property
    def label(self) -> str:
        """What errors and reports call it."""
        kind = self.operator if not self.domain else f"{self.domain}::{self.operator}"
        return f"{kind} {self.name!r}"

    def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
        """Return an attribute that is a list of integers.

        Raises
        ------
        ModelError
            If it is something else.
        """
        value = self.attributes.get(name, default)
        if value is None:
            return None
        if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
            raise self.wrong(f"attribute {name!r} is {value!r}, expected a list of integers")
        return value

    def integer(self, name: str, default: int = 0) -> int:
        """Return an attribute that is an integer.

        Raises
        ------
        ModelError
            If it is something else.
        """
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise self.wrong(f"attribute {name!r} is {value!r}, expected an integer")
        return value

    def number(self, name: str, default: float = 0.0) -> float:
        """Return an attribute that is a number.

        Raises
        ------
        ModelError
            If it is something else.
        """
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float):
            raise self.wrong(f"attribute {name!r} is {value!r}, expected a number")
        return value

    def text(self, name: str, default: str = "") -> str:
        """Return an attribute that is a string.

        Raises
        ------
        ModelError
            If it is something else.
        """
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise self.wrong(f"attribute {name!r} is {value!r}, expected a string")
        return value

    def wrong(self, what: str, *, hint: str | None = None) -> ModelError:
        """Return an error about this node."""
        return ModelError(what, where=f"node {self.label}", hint=hint)


@dataclass(frozen=True, slots=True)
class ModelGraph:
    """The model's graph, or one that a node such as If holds.

    Parameters
    ----------
    name : str
        Its name.
    inputs, outputs : tuple of Declared
        Without those inputs that have an initialiser.
    initialisers : Mapping[str, numpy.ndarray]
        Known values, read-only.
    nodes : tuple of ModelNode
        Each after those whose values it needs.
    """

    name: str
    inputs: tuple[Declared, ...]
    outputs: tuple[Declared, ...]
    initialisers: Mapping[str, np.ndarray[Any, Any]] = field(repr=False)
    nodes: tuple[ModelNode, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Model:
    """A model as it was read.

    Parameters
    ----------
    name : str
        The graph's, or the file's.
    where : str
        The file, for errors.
    opsets : Mapping[str, int]
        Version of each domain; "" is ONNX's own.
    graph : ModelGraph
        What it computes.
    producer : str
        What wrote it.
    """

    name: str
    where: str
    opsets: Mapping[str, int]
    graph: ModelGraph
    producer: str = ""

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
