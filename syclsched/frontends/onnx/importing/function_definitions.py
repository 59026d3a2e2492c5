# SPDX-License-Identifier: Apache-2.0
"""Expansion of operators without an importer by ONNX's own function definitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import NUMBERS
from syclsched.frontends.onnx.model_file.graph_reader import read_graph
from syclsched.frontends.onnx.model_file.onnx_model import ModelGraph, ModelNode

#: A domain that models do not use.
_DOMAIN = "syclsched.function"


def function_definition(
    b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]
) -> tuple[ModelGraph, int] | None:
    """Return the graph that defines an operator and the opset version of its nodes; None if ONNX has none."""
    import onnx
    import onnx.inliner
    from onnx import helper

    if node.domain or not node.proto:
        return None
    schema = onnx.defs.get_schema(node.operator, b.opset, "")
    proto = onnx.NodeProto()
    proto.ParseFromString(node.proto)
    types = [
        helper.make_tensor_type_proto(NUMBERS[b.element(each)], b.shape(each)) if each else onnx.TypeProto()
        for each in inputs
    ]
    body = _body(onnx, schema, proto, types, b.opset)
    if body is None:
        return None
    present = {attribute.name for attribute in proto.attribute}
    proto.attribute.extend(
        attribute.default_value
        for name, attribute in schema.attributes.items()
        if name not in present and attribute.default_value.type
    )
    body.domain = proto.domain = _DOMAIN
    body.name = proto.op_type
    version = next((item.version for item in body.opset_import if item.domain in ("", "ai.onnx")), b.opset)
    names = [name for name, each in zip(node.inputs, inputs, strict=True) if each is not None]
    graph = helper.make_graph(
        [proto],
        "definition",
        [
            helper.make_tensor_value_info(name, NUMBERS[b.element(each)], b.shape(each))
            for name, each in dict(zip(names, [each for each in inputs if each is not None], strict=True)).items()
        ],
        [onnx.ValueInfoProto(name=name) for name in node.outputs if name],
    )
    model = helper.make_model(
        graph,
        functions=[body],
        opset_imports=[helper.make_opsetid("", version), helper.make_opsetid(_DOMAIN, 1)],
    )
    try:
        flat = onnx.inliner.inline_local_functions(model)
    except Exception as error:
        raise b.wrong(f"it does not fit its definition by other operators: {str(error).strip()}") from error
    found = read_graph(onnx, flat.graph, {"": version}, where=b.place(), folder=None, limits=b.limits)
    return found, version


def _body(onnx: Any, schema: Any, proto: Any, types: Sequence[Any], opset: int) -> Any:
    """Return the newest function definition valid in the opset."""
    plain = [version for version in schema.function_opset_versions if version <= opset]
    dependent = [version for version in schema.context_dependent_function_opset_versions if version <= opset]
    if plain:
        data = schema.get_function_with_opset_version(max(plain))
    elif dependent:
        data = schema.get_context_dependent_function_with_opset_version(
            max(dependent), proto.SerializeToString(), [each.SerializeToString() for each in types]
        )
    else:
        return None
    body = onnx.FunctionProto()
    body.ParseFromString(data)
    return body if body.node else None
