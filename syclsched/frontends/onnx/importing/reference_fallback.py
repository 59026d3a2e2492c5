# SPDX-License-Identifier: Apache-2.0
"""Fallback for operators without an importer: host nodes that run onnx's reference implementation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from syclsched.errors import ValueNeededError
from syclsched.frontends.onnx.importing.import_state import Array, Shape
from syclsched.frontends.onnx.importing.importer_registry import ML
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import DTYPES, NUMBERS, carrier, element_type_name, numpy_dtype
from syclsched.frontends.onnx.model_file.onnx_model import ModelGraph, ModelNode
from syclsched.frontends.onnx.reference import RANDOM, evaluate_reference
from syclsched.frontends.onnx.shapes import ShapeDtype


class NameScope(Protocol):
    """Look-up of the values bound to names of the model."""

    def tensor(self, name: str) -> str:
        """Return the value bound to a name."""

    def has(self, name: str) -> bool:
        """Return whether a name is bound."""


def import_reference(
    b: NetworkBuilder,
    node: ModelNode,
    inputs: Sequence[str | None],
    scope: NameScope,
    *,
    made: Sequence[ShapeDtype] | None = None,
) -> Sequence[str | None]:
    """Add a host node; if all its inputs are constant, evaluate it now instead."""
    given = reference_inputs(b, node, inputs, scope)
    results = tuple(name for name in node.outputs if name)
    if all(value in b.constants for value in given.values()) and node.operator not in RANDOM:
        return _computed(b, node, given, results)
    if made is None:
        made = (
            _shapes_by_evaluation(b, node, given, results)
            if node.domain == ML
            else inferred_shapes(b, node, given, results)
        )
    values = b.emit_all(
        "reference",
        list(given.values()),
        made=made,
        node=node.proto,
        opsets=b.opsets,
        names=tuple(given),
        elements=tuple(b.element(value) for value in given.values()),
        results=results,
    )
    found = dict(zip(results, values, strict=True))
    return [found.get(name) for name in node.outputs]


def reference_inputs(
    b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None], scope: NameScope
) -> dict[str, str]:
    """Return the values that a node reads by the model's names, those within its subgraphs included."""
    if not node.proto:
        raise b.wrong("it is too large for onnx's reference implementation")
    given = {name: value for name, value in zip(node.inputs, inputs, strict=True) if name and value is not None}
    for name in _captured(node):
        if name not in given and scope.has(name):
            given[name] = scope.tensor(name)
    return given


def _shapes_by_evaluation(
    b: NetworkBuilder, node: ModelNode, given: dict[str, str], results: tuple[str, ...]
) -> list[ShapeDtype]:
    """Return shapes and dtypes of ai.onnx.ml results, of which onnx infers few, by evaluating one row of zeros."""
    try:
        return inferred_shapes(b, node, given, results)
    except ValueNeededError:
        rows = {b.shape(value)[:1] for name, value in given.items() if value not in b.constants}
        if len(rows) != 1 or () in rows or (0,) in rows:
            raise
    arrays = {
        name: b.constants.get(value, np.zeros((1, *b.shape(value)[1:]), b.dtype(value)))
        for name, value in given.items()
    }
    try:
        made = evaluate_reference(node.proto, b.opsets, arrays, results)
    except Exception as error:
        raise b.wrong(f"onnx's reference implementation cannot compute it: {_line(error)}") from error
    checked = [_checked(b, array, name) for name, array in zip(results, made, strict=True)]
    if any(array.shape[:1] != (1,) for array in checked):
        return inferred_shapes(b, node, given, results)
    (count,) = rows
    return [((*count, *array.shape[1:]), array.dtype.name) for array in checked]


def _computed(
    b: NetworkBuilder, node: ModelNode, given: dict[str, str], results: tuple[str, ...]
) -> Sequence[str | None]:
    try:
        for shape, dtype in inferred_shapes(b, node, given, results):
            b.check_folded(shape, dtype)
    except ValueNeededError:
        pass  # the size depends on the values
    try:
        held = {n: b.constants[v].astype(numpy_dtype(b.element(v)), copy=False) for n, v in given.items()}
        arrays = evaluate_reference(node.proto, b.opsets, held, results)
    except MemoryError:
        raise b.wrong("there is not enough memory to compute it beforehand") from None
    except Exception as error:
        raise b.wrong(f"onnx's reference implementation cannot compute it: {_line(error)}") from error
    found = {name: b.constant(_checked(b, array, name)) for name, array in zip(results, arrays, strict=True)}
    return [found.get(name) for name in node.outputs]


def _checked(b: NetworkBuilder, value: object, name: str) -> Array:
    array = np.asarray(value) if isinstance(value, np.ndarray | np.generic) else None
    if array is None or array.dtype.name not in NUMBERS:
        kind = type(value).__name__ if array is None else array.dtype.name
        raise b.wrong(f"its result {name!r} is a {kind}, which is not supported")
    return array


def inferred_shapes(
    b: NetworkBuilder,
    node: ModelNode,
    given: Mapping[str, str],
    results: tuple[str, ...],
    other: Mapping[str, Shape] | None = None,
) -> list[ShapeDtype]:
    """Return shapes and dtypes from onnx's shape inference, given the constant inputs; some may have other shapes."""
    shapes = {n: b.shape(v) for n, v in given.items()} | dict(other or {})
    import onnx
    from onnx import helper, numpy_helper

    proto = onnx.NodeProto()
    proto.ParseFromString(node.proto)
    proto.domain = node.domain
    inputs = [helper.make_tensor_value_info(n, NUMBERS[b.element(v)], shapes[n]) for n, v in given.items()]
    small = {n: b.constants[v] for n, v in given.items() if v in b.constants and b.constants[v].size <= 4096}
    graph = helper.make_graph(
        [proto],
        "node",
        inputs,
        [onnx.ValueInfoProto(name=name) for name in results],
        [numpy_helper.from_array(array, name) for name, array in small.items() if given[name] not in b.elements],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*each) for each in b.opsets])
    try:
        try:
            inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        except Exception:  # shapes that its subgraphs declare may be wrong
            _forget_declared_shapes(model.graph.node[0])
            inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception as error:
        raise b.wrong(f"onnx's shape inference refuses it: {_line(error)}") from error
    made: list[ShapeDtype] = []
    for value in inferred.graph.output:
        kind = value.type.WhichOneof("value")
        if kind not in (None, "tensor_type"):
            raise b.wrong(
                f"its result {value.name!r} is of type {kind.removesuffix('_type')}, and only tensors are supported",
            )
        tensor = value.type.tensor_type
        dtype = DTYPES.get(tensor.elem_type)
        if dtype is None and tensor.elem_type:
            raise b.wrong(
                f"elements of {value.name!r} are of type {element_type_name(tensor.elem_type)}, which is not supported"
            )
        extents = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
        if dtype is None or not tensor.HasField("shape") or None in extents:
            inputs_needed = tuple(dict.fromkeys(i for v in given.values() for i in b.sources(v)))
            raise ValueNeededError(
                f"the shape of its result {value.name!r} depends on the values of its inputs, and shapes must "
                "be known before anything runs",
                inputs=inputs_needed,
                where=b.place(),
                hint="Give these inputs' values when the model is loaded (known=), or take the part before it",
            )
        made.append((tuple(n for n in extents if n is not None), carrier(dtype)))
    return made


def _forget_declared_shapes(proto: Any) -> None:
    """Remove the shapes that the subgraphs of a node declare for what they compute."""
    for attribute in proto.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for value in (*graph.output, *graph.value_info):
                if value.type.HasField("tensor_type"):
                    value.type.tensor_type.ClearField("shape")
            for node in graph.node:
                _forget_declared_shapes(node)


def _captured(node: ModelNode) -> Iterator[str]:
    for value in node.attributes.values():
        for graph in value if isinstance(value, tuple) else (value,):
            if isinstance(graph, ModelGraph):
                inner = {each.name for each in graph.inputs} | set(graph.initialisers)
                for each in graph.nodes:
                    for name in (*each.inputs, *_captured(each)):
                        if name and name not in inner:
                            yield name
                    inner.update(each.outputs)
                yield from (each.name for each in graph.outputs if each.name not in inner)


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
