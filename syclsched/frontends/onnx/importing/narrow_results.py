# SPDX-License-Identifier: Apache-2.0
"""Results of narrow types (bfloat16, float8, int4, ...): computed in a wider dtype, and rounded after each node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import DTYPES, NUMBERS, element_type_name, is_narrow
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode

#: Attributes that are element types.
_TYPES = ("to", "dtype", "output_dtype")
#: Operators on the bits of the elements, which are not held.
_BITWISE = frozenset({"BitCast", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"})


def with_narrow_results(
    b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None], made: Sequence[Any]
) -> Sequence[Any]:
    """Round the results of a node that are of narrow types, unless its importer has; keep the others' types apart."""
    asked = any(
        is_narrow(DTYPES.get(number, "")) for name in _TYPES if isinstance(number := node.attributes.get(name), int)
    )
    if not asked and not any(value in b.elements for value in (*inputs, *made) if isinstance(value, str)):
        return made
    if node.operator in _BITWISE:
        raise b.wrong(f"it works on the bits of {', '.join(b.element(each) for each in inputs if each)}")
    if node.operator == "Constant":
        return made
    wanted = _result_types(b, node, inputs)
    found = []
    for position, value in enumerate(made):
        name = node.outputs[position] if position < len(node.outputs) else ""
        if not isinstance(value, str) or not name:
            found.append(value)
            continue
        element = wanted[name]
        if is_narrow(element) and b.elements.get(value) != element:
            value = b.narrowed(value, element, cut=node.flag("saturate", 1))
        elif not is_narrow(element) and value in b.elements:
            value = b.copy(value)
            b.elements.pop(value, None)
        found.append(value)
    return found


def _result_types(b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None]) -> dict[str, str]:
    """Return the element type of each result, as onnx infers it."""
    import onnx
    from onnx import helper

    if not node.proto:
        raise b.wrong("it is too large for onnx's type inference")
    proto = onnx.NodeProto()
    proto.ParseFromString(node.proto)
    proto.domain = node.domain
    given = {name: value for name, value in zip(node.inputs, inputs, strict=True) if name and value is not None}
    graph = helper.make_graph(
        [proto],
        "node",
        [helper.make_tensor_value_info(name, NUMBERS[b.element(v)], b.shape(v)) for name, v in given.items()],
        [onnx.ValueInfoProto(name=name) for name in node.outputs if name],
    )
    opsets = {**dict(b.opsets), "": b.opset}
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*each) for each in opsets.items()])
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except Exception as error:
        raise b.wrong(f"onnx's type inference refuses it: {str(error).strip()}") from error
    found = {}
    for value in inferred.graph.output:
        number = value.type.tensor_type.elem_type
        if number not in DTYPES:
            raise b.wrong(f"onnx does not infer the type of its result {value.name!r} ({element_type_name(number)})")
        found[value.name] = DTYPES[number]
    return found
