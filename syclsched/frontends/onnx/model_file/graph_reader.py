# SPDX-License-Identifier: Apache-2.0
"""Conversion of GraphProtos to `ModelGraph`: schema checks of the nodes and topological sorting."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any

from syclsched.errors import ModelError, did_you_mean
from syclsched.frontends.onnx.model_file.dtypes import DTYPES, element_type_name
from syclsched.frontends.onnx.model_file.inlined_size import subgraphs
from syclsched.frontends.onnx.model_file.model_limits import ModelLimits
from syclsched.frontends.onnx.model_file.onnx_model import (
    MICROSOFT,
    DeclaredValue,
    Dimension,
    ModelGraph,
    ModelNode,
)
from syclsched.frontends.onnx.model_file.runtime_schemas import runtime_operators, runtime_schema
from syclsched.frontends.onnx.model_file.tensor_reader import Array, read_sparse, read_tensor

#: Deepest accepted nesting of subgraphs.
_DEEPEST = 16
#: ONNX marks it as deprecated in the opsets of its first definition; models of those opsets may still use it.
_DEPRECATED = frozenset({"GroupNormalization"})


def read_graph(
    onnx: Any,
    proto: Any,
    opsets: Mapping[str, int],
    *,
    where: str,
    folder: Path | None,
    limits: ModelLimits,
    outside: AbstractSet[str] = frozenset(),
    depth: int = 0,
    raw: Mapping[int, memoryview] | None = None,
    is_part: bool = False,
    has_defaults: bool = False,
) -> ModelGraph:
    """Convert a GraphProto to a checked graph; one that ``is_part`` of a model may have no outputs.

    With ``has_defaults``, inputs may be given in place of their initialisers.
    """
    if depth > _DEEPEST:
        raise ModelError(f"graphs within graphs, more than {_DEEPEST} deep", where=where)
    if len(proto.node) > limits.nodes:
        raise ModelError(f"{len(proto.node):,} nodes, at most {limits.nodes:,} are accepted", where=where)
    check_names(proto, where)
    initialisers: dict[str, Array] = {}
    total = 0
    for number, tensor in enumerate(proto.initializer):
        place = f"{where}, initialiser {tensor.name!r}"
        if tensor.name in initialisers:
            raise ModelError("there are two of this name", where=place)
        initialisers[tensor.name] = read_tensor(tensor, place, folder, limits, (raw or {}).get(number))
        total += initialisers[tensor.name].nbytes
        if total > limits.memory_bytes:
            raise ModelError(
                f"its constants are more than {total:,} bytes, and there are {limits.memory_bytes:,} bytes of memory",
                where=where,
            )
    for sparse in proto.sparse_initializer:
        name = sparse.values.name
        initialisers[name] = read_sparse(sparse, f"{where}, sparse initialiser {name!r}", folder, limits)
    inputs = tuple(
        declared_value(value, where, "input" if depth == 0 else "inner input")
        for value in proto.input
        if value.name not in initialisers
    )
    defaulted = tuple(
        declared_value(value, where, "input")
        for value in (proto.input if has_defaults else ())
        if value.name in initialisers and value.type.tensor_type.elem_type in DTYPES
    )
    names = [value.name for value in (*inputs, *defaulted)]
    doubled = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    if doubled:
        raise ModelError(f"there are two inputs called {', '.join(map(repr, sorted(doubled)))}", where=where)
    reader = _NodeReader(onnx, opsets, where, folder, limits, depth)
    given = outside | set(initialisers) | {value.name for value in inputs}
    nodes = reader.read(proto.node, given)
    made = given | {name for node in nodes for name in node.outputs}
    outputs = tuple(declared_value(value, where, "output") for value in proto.output)
    for output in outputs:
        if output.name not in made:
            raise ModelError(f"no node produces output {output.name!r}", where=where)
    if not outputs and not is_part:
        raise ModelError("the graph has no outputs", where=where)
    return ModelGraph(proto.name, inputs, outputs, initialisers, nodes, defaulted)


class _NodeReader:
    def __init__(
        self, onnx: Any, opsets: Mapping[str, int], where: str, folder: Path | None, limits: ModelLimits, depth: int
    ) -> None:
        self._onnx, self._opsets, self._where = onnx, opsets, where
        self._folder, self._limits, self._depth = folder, limits, depth
        self._names: set[str] = set()

    def read(self, protos: Iterable[Any], given: AbstractSet[str]) -> tuple[ModelNode, ...]:
        """Return the checked nodes in topological order."""
        listed = list(protos)
        made: dict[str, str] = {}
        for proto in listed:
            for name in proto.output:
                if name and (name in made or name in given):
                    first = made.get(name, "an input, an initialiser or a value around the graph")
                    raise ModelError(
                        f"value {name!r} is made twice: by {first} and by {_label(proto)}", where=self._where
                    )
                if name:
                    made[name] = _label(proto)
        visible, nodes = set(given), []
        for proto in sorted_nodes(listed, given, self._where):
            nodes.append(self._node(proto, visible))
            visible.update(name for name in proto.output if name)  # graphs of this node may have values of these names
        return tuple(nodes)

    def _node(self, proto: Any, visible: AbstractSet[str]) -> ModelNode:
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        where = f"{self._where}, node {_label(proto)}"
        self._check_schema(proto, domain, where)
        attributes: dict[str, Any] = {}
        for attribute in proto.attribute:
            attributes[attribute.name] = self._attribute(attribute, f"{where}, attribute {attribute.name!r}", visible)
        name = proto.name or f"{proto.op_type}_{next((n for n in proto.output if n), len(self._names))}"
        unique, number = name, 1
        while unique in self._names:
            number += 1
            unique = f"{name}_{number}"
        self._names.add(unique)
        return ModelNode(
            name=unique,
            operator=proto.op_type,
            domain=domain,
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            attributes=attributes,
            # For the host's reference implementation. Constants do not need it and would hold their value twice.
            proto=b"" if proto.op_type == "Constant" or proto.ByteSize() >= 1 << 24 else proto.SerializeToString(),
        )

    def _schema(self, operator: str, domain: str, version: int, where: str) -> Any:
        defs = self._onnx.defs
        try:
            return defs.get_schema(operator, version, domain)
        except Exception:  # SchemaError, or a decoding error: names in a damaged model may not be valid text
            found = runtime_schema(domain, operator)
        if found is not None:
            return found
        history = defs.get_all_schemas_with_history()
        since = min((s.since_version for s in history if s.name == operator and s.domain == domain), default=None)
        if since is None:
            known = "ONNX" if not domain else f"domain {domain!r}"
            raise ModelError(f"there is no operator {operator!r} in {known}", where=where, hint=_hint(domain, operator))
        raise ModelError(
            f"operator {operator} came with opset {since}, and the model uses opset {version}", where=where
        )

    def _check_schema(self, proto: Any, domain: str, where: str) -> None:
        version = self._opsets.get(domain)
        if version is None:
            raise ModelError(f"domain {domain!r} is not among those the model imports", where=where)
        schema = self._schema(proto.op_type, domain, version, where)
        if schema.deprecated and proto.op_type not in _DEPRECATED:
            raise ModelError(f"operator {proto.op_type} does not exist any more in opset {version}", where=where)
        for count, least, most, what in (
            (len(proto.input), schema.min_input, schema.max_input, "inputs"),
            (len(proto.output), schema.min_output, schema.max_output, "outputs"),
        ):
            if not least <= count <= most:
                expected = (
                    f"{least}" if least == most else f"{least} to {most}" if most < 1 << 20 else f"{least} or more"
                )
                raise ModelError(f"{count} {what}, expected {expected}", where=where)
        for position, formal in enumerate(schema.inputs):
            if formal.option.name == "Single" and position < len(proto.input) and not proto.input[position]:
                raise ModelError(f"input {formal.name!r} is left out, and it is needed", where=where)
        present = {attribute.name for attribute in proto.attribute}
        for name, attribute in schema.attributes.items():
            if attribute.required and name not in present:
                raise ModelError(f"attribute {name!r} is missing", where=where)
        for attribute in proto.attribute:
            known_as = schema.attributes.get(attribute.name)
            if known_as is None:
                raise ModelError(
                    f"operator {proto.op_type} of opset {version} has no attribute {attribute.name!r}", where=where
                )
            if attribute.type and int(known_as.type) != attribute.type:
                raise ModelError(
                    f"attribute {attribute.name!r} is not of the type it should have ({known_as.type.name})",
                    where=where,
                )

    def _attribute(self, proto: Any, where: str, visible: AbstractSet[str]) -> Any:
        kind = self._onnx.AttributeProto
        if proto.ref_attr_name:
            raise ModelError("it refers to an attribute of a function, and this is none", where=where)
        if proto.type == kind.FLOAT:
            return proto.f
        if proto.type == kind.INT:
            return proto.i
        if proto.type == kind.STRING:
            return proto.s.decode("utf-8", "replace")
        if proto.type == kind.FLOATS:
            return tuple(proto.floats)
        if proto.type == kind.INTS:
            return tuple(proto.ints)
        if proto.type == kind.STRINGS:
            return tuple(text.decode("utf-8", "replace") for text in proto.strings)
        if proto.type == kind.TENSOR:
            return read_tensor(proto.t, where, self._folder, self._limits)
        if proto.type == kind.SPARSE_TENSOR:
            return read_sparse(proto.sparse_tensor, where, self._folder, self._limits)
        if proto.type == kind.GRAPH:
            return self._graph(proto.g, where, visible)
        if proto.type == kind.GRAPHS:
            return tuple(self._graph(graph, where, visible) for graph in proto.graphs)
        return None  # types and optional values: only unsupported operators have them

    def _graph(self, proto: Any, where: str, visible: AbstractSet[str]) -> ModelGraph:
        return read_graph(
            self._onnx,
            proto,
            self._opsets,
            where=where,
            folder=self._folder,
            limits=self._limits,
            outside=visible,
            depth=self._depth + 1,
        )


def _label(proto: Any) -> str:
    return f"{proto.op_type} {proto.name or (proto.output[0] if proto.output else '')!r}"


def sorted_nodes(listed: Iterable[Any], given: Collection[str], where: str) -> list[Any]:
    """Sort NodeProtos topologically, in file order where possible."""
    protos = list(listed)
    producer = {name: index for index, proto in enumerate(protos) for name in proto.output if name}
    waits: list[int] = []
    needed_by: dict[int, list[int]] = {}
    for index, proto in enumerate(protos):
        before: set[int] = set()
        for name in needed_names(proto):
            if name in producer:
                before.add(producer[name])
            elif name not in given:
                raise ModelError(
                    f"it needs {name!r}, which is no input, has no initialiser, and is made by no node",
                    where=f"{where}, node {_label(proto)}",
                    hint="If it is a weight, the model was saved without it",
                )
        waits.append(len(before))
        for earlier in before:
            needed_by.setdefault(earlier, []).append(index)
    ready = [index for index, count in enumerate(waits) if count == 0]
    heapify(ready)
    order: list[int] = []
    while ready:
        index = heappop(ready)
        order.append(index)
        for later in needed_by.get(index, ()):
            waits[later] -= 1
            if waits[later] == 0:
                heappush(ready, later)
    if len(order) < len(protos):
        raise ModelError(_cycle(protos, producer, set(order)), where=where)
    return [protos[index] for index in order]


def needed_names(proto: Any) -> list[str]:
    """Return the names of the values that a NodeProto reads, those within its subgraphs included."""
    names = [name for name in proto.input if name]
    for attribute in proto.attribute:
        for graph in subgraphs(attribute):
            names.extend(_captured(graph))
    return names


def _cycle(protos: list[Any], producer: Mapping[str, int], done: set[int]) -> str:
    path: list[int] = []
    index = next(i for i in range(len(protos)) if i not in done)
    while index not in path:
        path.append(index)
        index = next(
            producer[name] for name in needed_names(protos[index]) if name in producer and producer[name] not in done
        )
    cycle = [*path[path.index(index) :], index][::-1]
    shown = cycle if len(cycle) <= 8 else [*cycle[:4], -1, *cycle[-3:]]
    return "nodes form a cycle: " + " -> ".join("..." if i < 0 else _label(protos[i]) for i in shown)


def check_names(graph: Any, where: str) -> None:
    """Raise if a name is not valid UTF-8: protobuf then gives bytes."""
    names = [graph.name, *(tensor.name for tensor in graph.initializer)]
    for value in (*graph.input, *graph.output):
        names += [value.name, *(dimension.dim_param for dimension in value.type.tensor_type.shape.dim)]
    for node in graph.node:
        names += [node.name, node.op_type, node.domain, *node.input, *node.output]
        names += [attribute.name for attribute in node.attribute]
    for name in names:
        if not isinstance(name, str):
            raise ModelError(f"the name {name!r} is not valid UTF-8", where=where, hint="The file is damaged")


def _hint(domain: str, operator: str) -> str | None:
    if domain == MICROSOFT:
        return did_you_mean(operator, runtime_operators(domain)) + (
            "ONNX Runtime's optimiser or quantiser put it there: take the model as it was before, optimised at its "
            "basic level, or quantised as QuantFormat.QDQ"
        )
    if domain.startswith(MICROSOFT):
        return (
            "ONNX Runtime's optimiser put it there for one kind of processor: take the model as it was before, or "
            "optimised with ORT_ENABLE_EXTENDED instead of ORT_ENABLE_ALL"
        )
    return "Operators of other makers are not supported: export without them" if domain else None


def _captured(graph: Any) -> list[str]:
    """Return the names of the outer values that a subgraph uses."""
    inner = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    inner |= {tensor.values.name for tensor in graph.sparse_initializer}
    used: list[str] = []
    for node in graph.node:
        used.extend(name for name in node.input if name)
        for attribute in node.attribute:
            for deeper in subgraphs(attribute):
                used.extend(_captured(deeper))
        inner.update(name for name in node.output if name)
    used.extend(value.name for value in graph.output)
    return [name for name in dict.fromkeys(used) if name not in inner]


def declared_value(value: Any, where: str, what: str) -> DeclaredValue:
    """Convert a ValueInfoProto."""
    place = f"{where}, {what} {value.name!r}"
    if not value.name:
        raise ModelError(f"an {what} has no name", where=where)
    inner = value.type
    is_optional = inner.WhichOneof("value") == "optional_type"
    inner = inner.optional_type.elem_type if is_optional else inner
    is_sequence = inner.WhichOneof("value") == "sequence_type"
    inner = inner.sequence_type.elem_type if is_sequence else inner
    kind, tensor = inner.WhichOneof("value"), inner.tensor_type
    if kind != "tensor_type" or tensor.elem_type not in DTYPES:
        if what != "input":
            return DeclaredValue(value.name, None, None)
        if kind != "tensor_type":
            shown = "undeclared" if kind is None else kind.removesuffix("_type")
            raise ModelError(
                f"it is {shown}, which is not supported",
                where=place,
                hint="Make its tensors inputs of their own, or take the part of the model behind it "
                "with onnx.utils.extract_model",
            )
        raise ModelError(
            f"elements are of type {element_type_name(tensor.elem_type)}, which is not supported",
            where=place,
            hint=f"Supported: {', '.join(DTYPES.values())}",
        )
    dimensions = tuple(map(_extent, tensor.shape.dim)) if tensor.HasField("shape") else None
    return DeclaredValue(value.name, DTYPES[tensor.elem_type], dimensions, is_sequence, is_optional)


def _extent(dimension: Any) -> Dimension:
    """Return a declared extent; some exporters write a negative one, or the name ``?``, for an unknown one."""
    if dimension.WhichOneof("value") == "dim_value":
        return int(dimension.dim_value) if dimension.dim_value >= 0 else None
    # As a name, "?" would make all unknown extents of a model the same one.
    return dimension.dim_param if dimension.dim_param not in ("", "?") else None
