# SPDX-License-Identifier: Apache-2.0
"""Name scopes of a model's graphs, and the traversal that imports their nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from syclsched.errors import ArgumentError, ModelError, ValueNeededError
from syclsched.frontends.onnx.importing.counted_results import import_on_cut_inputs
from syclsched.frontends.onnx.importing.function_definitions import function_definition
from syclsched.frontends.onnx.importing.importer_registry import Inputs, UnsupportedFormError, importer_of
from syclsched.frontends.onnx.importing.lengths import READ_EXTENTS, LengthError
from syclsched.frontends.onnx.importing.narrow_results import with_narrow_results
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.reference_fallback import import_reference
from syclsched.frontends.onnx.model_file.dtypes import element_type_name
from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT, ModelGraph, ModelNode


@dataclass(frozen=True, slots=True)
class TensorSequence:
    """An ONNX sequence of tensors."""

    items: tuple[str, ...]  # names of values
    dtype: str = "float32"  # of the elements, used if the sequence is empty


#: Meaning of a name: a value of the network, a sequence of values, or None (an empty optional).
BoundValue = str | TensorSequence | None
#: Function of scope and node that returns the bindings of the outputs, or None to leave the node to other importers.
ScopeImporter = Callable[["Scope", ModelNode], "Sequence[BoundValue] | None"]


class Scope:
    """The name bindings of a graph, nested in those of its outer graphs."""

    def __init__(
        self,
        b: NetworkBuilder,
        importers: Mapping[str, ScopeImporter],  # of operators with subgraphs or sequences
        around: Scope | None = None,
        prefix: str = "",
    ) -> None:
        self.b = b
        self.importers = importers
        self._around = around
        self._prefix = prefix
        self._names: dict[str, BoundValue] = {}
        #: The node of the model whose definition by other operators is imported.
        self._defined: str | None = None if around is None else around._defined

    def add_constants(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Add initialisers as constants and bind their names."""
        self.b.begin("constants", "initialisers")
        for name, array in arrays.items():
            self._names[name] = self.b.constant(array, name=self._prefix + name)
        self.b.end([], [])

    def bind(self, name: str, meaning: BoundValue) -> None:
        """Bind a name."""
        self._names[name] = meaning

    def meaning(self, name: str) -> BoundValue:
        """Return the binding of a name, also from outer graphs."""
        if name in self._names:
            return self._names[name]
        if self._around is None:
            raise ModelError(f"no value is named {name!r}", where=self.b.where)
        return self._around.meaning(name)

    def has(self, name: str) -> bool:
        """Return whether a name is bound, also in outer graphs."""
        return name in self._names or (self._around is not None and self._around.has(name))

    def prefixed(self, name: str) -> str:
        """Return a name with this scope's prefix, unique in the network."""
        return self._prefix + name

    def tensor(self, name: str) -> str:
        """Return the value bound to a name; raise `ModelError` if it is not a tensor."""
        found = self.meaning(name)
        if not isinstance(found, str):
            raise self.b.wrong(
                f"{name!r} is a sequence or an optional value, and only tensors are supported here",
                hint="Take its elements by SequenceAt, or join them by ConcatFromSequence",
            )
        return found

    def run(self, nodes: Iterable[ModelNode]) -> None:
        """Import nodes."""
        for node in nodes:
            try:
                self._import(node)
            except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
                what = f"it is not what {node.operator} should be: {type(error).__name__}: {error}"
                raise ModelError(what, where=self.b.place()) from error

    def inline(
        self, graph: ModelGraph, arguments: Sequence[BoundValue], prefix: str, *, defined: str | None = None
    ) -> list[BoundValue]:
        """Import a subgraph of a node, or the graph that defines one; return the bindings of its outputs."""
        inner = Scope(self.b, self.importers, self, self._prefix + prefix)
        inner._defined = inner._defined or defined
        inner.add_constants(graph.initialisers)
        for declared, argument in zip(graph.inputs, arguments, strict=True):
            inner.bind(declared.name, argument)
        inner.run(graph.nodes)
        return [inner.meaning(output.name) for output in graph.outputs]

    def _label(self, node: ModelNode) -> str:
        """Return a node's name in messages and reports: within a definition, that of the node which is defined."""
        if self._defined is not None:
            return self._defined
        return node.label if not self._prefix else f"{node.operator} {self._prefix + node.name!r}"

    def _import(self, node: ModelNode) -> None:
        label = self._label(node)
        self.b.begin(self._prefix + node.name, label)
        special = self.importers.get(node.operator if not node.domain else f"{node.domain}::{node.operator}")
        try:
            results = None if special is None else special(self, node)
        except LengthError:
            self.b.drop()
            results = None
        if results is None:
            if special is not None:
                self.b.begin(self._prefix + node.name, label)
            results = self._results(node)
        self._bind_all(node, results)

    def _results(self, node: ModelNode) -> Sequence[BoundValue]:
        """Import a node by its importer, else by its function definition, else by onnx's reference implementation."""
        inputs = [self.tensor(name) if name else None for name in node.inputs]
        _check_types(self.b, node, inputs)
        return with_narrow_results(self.b, node, inputs, self._of_any_length(node, inputs))

    def _of_any_length(self, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[BoundValue]:
        """Import a node; where an input has a length and the importer cannot follow it, on inputs cut to theirs."""
        if not any(each in self.b.lengths for each in inputs):
            try:
                return self._imported(node, inputs)
            except LengthError as error:  # of a result: it is planned for each value of the determining inputs
                deciding = [each for each in inputs[1:] or inputs if each is not None]
                needed = tuple(dict.fromkeys(source for each in deciding for source in self.b.sources(each)))
                raise ValueNeededError(error.what, inputs=needed, where=self.b.place()) from None
        try:
            self._check_first_axes(node, inputs)
            results = self._imported(node, inputs)
            made = [each for each in results if isinstance(each, str)]
            fixed = [each for each in made if each in self.b.constants and each not in self.b.lengths]
            if not fixed or node.operator == "Shape":
                return results
            what = "its result does not depend on lengths known only at run time"
        except ValueNeededError:
            raise
        except ModelError as error:  # extents of the bucket may not fit where those of the call do
            if not isinstance(error, LengthError) and not self._dimensions(inputs):
                raise
            what = error.what
        dimensions = self._dimensions(inputs)
        if dimensions:
            raise ArgumentError(
                f"it cannot run in a bucket: {what}",
                where=self.b.place(),
                hint=f"Compile the model without buckets of {', '.join(dimensions)}",
            )
        self.b.drop()
        self.b.begin(self._prefix + node.name, self._label(node))
        return import_on_cut_inputs(self.b, node, inputs, self)

    def _dimensions(self, inputs: Sequence[str | None]) -> list[str]:
        """Return the dimensions with buckets from which values follow."""
        named = self.b.extent_inputs
        return sorted({named[source] for each in inputs if each for source in self.b.sources(each) if source in named})

    def _check_first_axes(self, node: ModelNode, inputs: Sequence[str | None]) -> None:
        if node.operator in READ_EXTENTS:
            axes = {length.axis for each in inputs for length in self.b.lengths.get(each or "", ())}
            if axes - {0}:
                raise LengthError("it reads extents of values whose lengths are known only at run time")

    def _imported(self, node: ModelNode, inputs: Sequence[str | None]) -> Sequence[BoundValue]:
        importer = importer_of(node)
        if importer is None:
            meanings = self._by_definition(node, inputs)
            if meanings is not None:
                return meanings
        else:
            try:
                return importer(self.b, node, Inputs(self.b, inputs))
            except UnsupportedFormError:
                if node.domain == MICROSOFT:
                    kinds = ", ".join(sorted({self.b.dtype(each) for each in inputs if each is not None}))
                    raise self.b.wrong(
                        f"this form of it, with elements of {kinds}, is not supported",
                        hint="Take the model as it was before ONNX Runtime's optimiser",
                    ) from None
                self.b.drop()
        if any(each in self.b.lengths for each in inputs):
            raise LengthError("the host computes it", where=self.b.place())
        return import_reference(self.b, node, inputs, self)

    def _by_definition(self, node: ModelNode, inputs: Sequence[str | None]) -> list[BoundValue] | None:
        """Import an operator by its ONNX function definition; None if there is none."""
        found = function_definition(self.b, node, inputs)
        if found is None:
            return None
        # The definitions do not check these.
        if "axis" in node.attributes and inputs[0] is not None:
            self.b.axis(node.integer("axis"), len(self.b.shape(inputs[0])))
        node.flag("periodic")
        graph, version = found
        given = dict(zip(node.inputs, inputs, strict=True))
        outside, self.b.opset = self.b.opset, version
        try:
            arguments = [given[declared.name] for declared in graph.inputs]
            made = self.inline(graph, arguments, f"{node.name}/", defined=self._label(node))
        finally:
            self.b.opset = outside
        self.b.begin(self._prefix + node.name, self._label(node))
        left = iter(made)
        return [next(left) if name else None for name in node.outputs]

    def _bind_all(self, node: ModelNode, results: Sequence[BoundValue]) -> None:
        plain = [each if isinstance(each, str) else None for each in results]
        named = self.b.end(plain, [self._prefix + name if name else "" for name in node.outputs])
        for index, name in enumerate(node.outputs):
            if not name:
                continue
            result = results[index] if index < len(results) else None
            self._names[name] = named[self._prefix + name] if isinstance(result, str) else result


def _check_types(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> None:
    """Raise if an input has an element type that its operator does not take."""
    formals = _input_types(node.operator, node.domain, dict(b.opsets).get(node.domain, 0) if node.domain else b.opset)
    for position, value in enumerate(inputs if formals else ()):
        name, types = formals[min(position, len(formals) - 1)]
        if value is not None and types and b.element(value) not in types:
            raise b.wrong(
                f"its input {name!r} has elements of {b.element(value)}, and {node.operator} of opset "
                f"{dict(b.opsets).get(node.domain, b.opset)} takes {', '.join(sorted(types))}",
                hint="Cast it in the model, or export the model with another opset",
            )


@cache
def _input_types(operator: str, domain: str, version: int) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the name of each input of an operator, and the element types it takes; nothing if ONNX does not say."""
    import onnx

    try:
        schema = onnx.defs.get_schema(operator, version, domain)
    except onnx.defs.SchemaError:
        return ()
    # Not formal.types, which Python cannot read in onnx 1.20.
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    return tuple(
        (formal.name, frozenset(_dtypes(allowed.get(formal.type_str, (formal.type_str,))))) for formal in schema.inputs
    )


def _dtypes(types: Iterable[str]) -> Iterator[str]:
    """Yield the dtypes of ONNX's names of types: of ``tensor(float)`` float32."""
    import onnx

    for each in types:
        kind, _, element = each.rstrip(")").rpartition("(")
        if kind == "tensor":
            yield element_type_name(onnx.TensorProto.DataType.Value(element.upper()))
