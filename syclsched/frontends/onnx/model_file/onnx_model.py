# SPDX-License-Identifier: Apache-2.0
"""In-memory form of an ONNX model: checked and sorted, without protocol buffers."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from syclsched.errors import DeclaredShapeWarning, ModelError
from syclsched.frontends.onnx.model_file.mapped_files import is_file_backed
from syclsched.frontends.onnx.model_file.raw_data_extraction import MIN_EXTRACTED_BYTES

#: The domain of the operators that ONNX Runtime's optimiser and quantiser make.
MICROSOFT: Final = "com.microsoft"
#: An extent: known, symbolic ("batch"), or unknown.
Dimension = int | str | None


def extents_text(extents: Iterable[object]) -> str:
    """Return extents as a tuple is written: ``(batch, 3)``, ``(16,)``."""
    texts = [*map(str, extents)]
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def summands(dimension: str) -> list[str]:
    """Return the summands of a dimension as exporters name it: ``past_sequence_length + 1``."""
    return [each.strip() for each in dimension.split("+")]


def extent_by_name(dimension: str, known: Mapping[str, int]) -> int | None:
    """Return the extent of a dimension: known, or a sum of known ones by its name."""
    if dimension in known:
        return known[dimension]
    found = [int(each) if each.isdecimal() else known.get(each) for each in summands(dimension)]
    return None if None in found else sum(each for each in found if each is not None)


@dataclass(frozen=True, slots=True)
class DeclaredValue:
    """The declaration of a graph's input or output."""

    name: str  # of the value
    dtype: str | None  # NumPy dtype name; None if undeclared
    dimensions: tuple[Dimension, ...] | None  # extents; None if even the rank is undeclared
    is_sequence: bool = False  # a sequence of such tensors; else one
    is_optional: bool = False  # it may have no value

    @property
    def shape_text(self) -> str:
        """The declared shape as text: ``(batch, 3, ?, ?)``."""
        if self.dimensions is None:
            return "any shape"
        return extents_text("?" if d is None else str(d) for d in self.dimensions)


@dataclass(frozen=True, slots=True)
class ComposedInput:
    """An input that is a sequence, or an optional one without a value."""

    declared: DeclaredValue
    items: tuple[str, ...] | None  # names of its tensors; None: it has no value


def separate_inputs(
    inputs: Sequence[DeclaredValue], given: Collection[str]
) -> tuple[tuple[DeclaredValue, ...], tuple[ComposedInput, ...]]:
    """Return inputs with each sequence as its tensors, of which some names are given; and the composed values.

    The tensors of a sequence ``x`` are ``x[0]``, ``x[1]``, ...; one without elements has a tensor ``x[]``, which
    nothing reads. Optional inputs that are not given have no value.
    """
    tensors: list[DeclaredValue] = []
    composed: list[ComposedInput] = []
    for each in inputs:
        if each.is_sequence:
            count = next(n for n in range(len(given) + 1) if f"{each.name}[{n}]" not in given)
            empty = empty_sequence(each.name)
            if empty in given:
                tensors.append(DeclaredValue(empty, "bool", (0,)))
            elif not count and each.is_optional:
                composed.append(ComposedInput(each, None))
                continue
            names = tuple(f"{each.name}[{n}]" for n in range(count or empty not in given))
            extents = each.dimensions  # a name does not say that all elements have the same extent
            dimensions = None if extents is None else tuple(d if isinstance(d, int) else None for d in extents)
            tensors += [DeclaredValue(name, each.dtype, dimensions) for name in names]
            composed.append(ComposedInput(each, names))
        elif each.is_optional and each.name not in given:
            composed.append(ComposedInput(each, None))
        else:
            tensors.append(replace(each, is_optional=False))
    return tuple(tensors), tuple(composed)


def empty_sequence(name: str) -> str:
    """Return the name of the tensor that stands for an empty sequence; see `separate_inputs`."""
    return f"{name}[]"


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
        # Trees have hundreds of thousands of them: few types are looked at.
        if not isinstance(value, tuple) or not all(issubclass(each, int) for each in set(map(type, value))):
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

    def flag(self, name: str, default: int = 0) -> bool:
        """Return an attribute of type integer that says yes (1) or no (0)."""
        value = self.integer(name, default)
        if value not in (0, 1):
            raise self.wrong(f"attribute {name!r} is {value}, expected 0 or 1")
        return value == 1

    def number(self, name: str, default: float = 0.0) -> float:
        """Return an attribute of type float or integer, which is not NaN unless the default is."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float) or (value != value and default == default):
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
    #: The inputs whose initialiser is a default value.
    defaulted: tuple[DeclaredValue, ...] = ()


@dataclass(frozen=True, slots=True)
class HostPart:
    """A part of a model, executed by onnx's reference implementation."""

    model: bytes = field(repr=False)  # the serialised ModelProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    labels: tuple[str, ...]  # the nodes, as ``"OneHotEncoder encode"``
    where: str  # the file, for error messages


@dataclass(frozen=True, slots=True)
class HostParts:
    """The parts of a model on text and on maps, which the host executes; the model that they belong to has the rest."""

    inputs: tuple[DeclaredValue, ...]  # of the whole model; text has the dtype "text", maps have "map"
    outputs: tuple[DeclaredValue, ...]
    before: HostPart | None  # reads inputs only; some of its results are inputs of the rest
    after: HostPart | None  # reads inputs, results of ``before``, and outputs of the rest


@dataclass(frozen=True, slots=True)
class Model:
    """A checked ONNX model."""

    name: str  # of the graph, or of the file
    where: str  # the file, for error messages
    opsets: Mapping[str, int]  # domain -> version; "" is ONNX's own domain
    graph: ModelGraph
    producer: str = ""  # the exporter
    host: HostParts | None = None  # the parts that the host executes before and after; the graph is the rest

    @property
    def opset(self) -> int:
        """Version of ONNX's own domain."""
        return self.opsets.get("", 0)

    @property
    def inputs(self) -> tuple[DeclaredValue, ...]:
        """Declared inputs without default values."""
        return self.graph.inputs

    @property
    def defaulted(self) -> tuple[DeclaredValue, ...]:
        """Declared inputs with default values."""
        return self.graph.defaulted

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

    def with_shapes(self, shapes: Mapping[str, Sequence[int]]) -> Model:
        """Return the model with given shapes of inputs in place of declared extents; warn where they contradict."""
        inputs: list[DeclaredValue] = []
        for each in self.inputs:
            said, given = each.dimensions, shapes.get(each.name)
            if said is not None and given is not None and len(said) == len(given):
                extents = tuple(int(n) if isinstance(d, int) else d for d, n in zip(said, given, strict=True))
                if extents != said:
                    warnings.warn(
                        f"{self.where}, input {each.name!r}: the shape {tuple(map(int, given))} is given and used, and "
                        f"{each.shape_text} is declared",
                        DeclaredShapeWarning,
                        stacklevel=2,
                    )
                    each = replace(each, dimensions=extents)
            inputs.append(each)
        return replace(self, graph=replace(self.graph, inputs=tuple(inputs)))

    def with_given(self, names: Collection[str]) -> Model:
        """Return the model with those of these inputs that have default values as inputs without."""
        given = tuple(each for each in self.defaulted if each.name in names)
        if not given:
            return self
        graph = self.graph
        kept = {name: each for name, each in graph.initialisers.items() if name not in {each.name for each in given}}
        left = tuple(each for each in graph.defaulted if each not in given)
        return replace(self, graph=replace(graph, inputs=(*graph.inputs, *given), initialisers=kept, defaulted=left))

    def without_weights(self) -> Model:
        """Return the model's name, inputs and outputs, without nodes and initialisers."""
        return replace(self, graph=replace(self.graph, initialisers={}, nodes=()))
