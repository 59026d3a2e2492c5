# SPDX-License-Identifier: Apache-2.0
"""Writing of trained models: the ONNX model that was given, for inference, with new values of its initialisers."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from syclsched.atomic_write import write_atomically
from syclsched.errors import StorageError

Array = np.ndarray[Any, Any]

#: Types of attributes that hold graphs, as `onnx.AttributeProto` numbers them.
_OF_GRAPHS: Final = (5, 10)


def save_model(source: Any, values: Mapping[str, Array], path: str | os.PathLike[str]) -> None:
    """Write a model, without training mode, with given values of its initialisers, whole or not at all.

    Raises `StorageError` if the file cannot be written, or would be too large for ONNX without external data.
    """
    import onnx
    from onnx import numpy_helper

    where = str(path)
    try:
        if isinstance(source, bytes):
            model = onnx.load_from_string(source)
        elif isinstance(source, str | os.PathLike):
            model = onnx.load(os.fspath(source))
        else:
            model = onnx.ModelProto()
            model.CopyFrom(source)
    except OSError as error:
        raise StorageError(f"the model cannot be read again: {error.strerror or error}", where=str(source)) from error
    for tensor in model.graph.initializer:
        if tensor.name in values:
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values[tensor.name]), tensor.name))
    for sparse in [each for each in model.graph.sparse_initializer if each.values.name in values]:
        tensor = numpy_helper.from_array(np.ascontiguousarray(values[sparse.values.name]), sparse.values.name)
        model.graph.initializer.append(tensor)
        model.graph.sparse_initializer.remove(sparse)
    left_out = _set_inference(model.graph.node)
    for function in model.functions:
        _set_inference(function.node)
    _drop_unused(model.graph, left_out)
    try:
        content = model.SerializeToString()
    except ValueError as error:
        raise StorageError("the model exceeds the 2 GiB of an ONNX file", where=where) from error
    try:
        write_atomically(Path(path), content, lasting=True)
    except OSError as error:
        raise StorageError(f"the model cannot be written: {error.strerror or error}", where=where) from error


def _drop_unused(graph: Any, names: Collection[str]) -> None:
    """Drop the constants of these names that nothing reads, of which runtimes would warn."""
    used = _read_names(graph.node).union(each.name for each in (*graph.input, *graph.output))
    unused = set(names) - used
    for tensor in [each for each in graph.initializer if each.name in unused]:
        graph.initializer.remove(tensor)
    for node in [each for each in graph.node if each.op_type == "Constant" and unused.issuperset(each.output)]:
        graph.node.remove(node)


def _set_inference(nodes: Any) -> set[str]:
    """Take from nodes the training mode that exporters may have set; return the inputs that they read no more."""
    from onnx import helper

    made, left_out = [], set[str]()
    for node in nodes:
        made.append(node)
        for graph in _graphs_of(node):
            left_out |= _set_inference(graph.node)
        if node.domain not in ("", "ai.onnx") or node.op_type not in ("Dropout", "BatchNormalization"):
            continue
        if node.op_type == "Dropout":
            left_out.update(node.input[2:])
            del node.input[2:]
            continue
        kept = [each for each in node.attribute if each.name != "training_mode"]
        del node.attribute[:]
        node.attribute.extend(kept)
        averages = zip(node.input[3:5], node.output[1:3], strict=False)
        made += [helper.make_node("Identity", [moment], [name]) for moment, name in averages if name]
        del node.output[1:]
    if len(made) > len(nodes):
        copies = [_copied(each) for each in made]
        del nodes[:]
        nodes.extend(copies)
    return left_out


def _graphs_of(node: Any) -> list[Any]:
    """Return the bodies and branches of a node."""
    of_graphs = [each for each in node.attribute if each.type in _OF_GRAPHS]
    return [graph for each in of_graphs for graph in (each.g, *each.graphs)]


def _read_names(nodes: Any) -> set[str]:
    """Return what nodes read, and the results of their bodies and branches."""
    found = {name for node in nodes for name in node.input}
    for graph in (graph for node in nodes for graph in _graphs_of(node)):
        found |= _read_names(graph.node).union(each.name for each in graph.output)
    return found


def _copied(node: Any) -> Any:
    from onnx import NodeProto

    made = NodeProto()
    made.CopyFrom(node)
    return made
