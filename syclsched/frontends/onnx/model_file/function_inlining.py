# SPDX-License-Identifier: Apache-2.0
"""Inlining of a model's own functions, with cases that onnx's inliner lacks: defaults of attributes, other opsets."""

from __future__ import annotations

from typing import Any

from syclsched.errors import ModelError
from syclsched.frontends.onnx.model_file.inlined_size import called_function, function_key, nested_nodes


def inline_functions(onnx: Any, proto: Any, where: str) -> Any:
    """Return a model without functions; the given one is not changed."""
    import onnx.inliner
    import onnx.shape_inference

    made = onnx.ModelProto()
    made.CopyFrom(proto)
    _import_domains(made)
    _give_defaults(made)
    opset = _standard_version(made)
    versions = {each.name: _standard_version(each) for each in made.functions}
    other = {name: version for name, version in versions.items() if version not in (None, opset)}
    try:
        if other:  # the converter needs the types of the functions' inputs
            made = onnx.shape_inference.infer_shapes(made)
        return onnx.inliner.inline_local_functions(made, convert_version=bool(other))
    except Exception as error:
        what, hint = f"its functions cannot be inlined: {_first_line(error)}", None
        if other:
            name, version = next(iter(other.items()))
            what += f". Function {name!r} is for opset {version}, and the model for {opset}"
            hint = "Export functions and model with the same opset_version"
        raise ModelError(what, where=where, hint=hint) from error


def _is_standard(domain: str) -> bool:
    return domain in ("", "ai.onnx")


def _import_domains(proto: Any) -> None:
    """Let a model import the domains that only its functions import, each in the newest version."""
    imported = {item.domain for item in proto.opset_import} | ({""} if _standard_version(proto) else set())
    newest: dict[str, int] = {}
    for function in proto.functions:
        for item in function.opset_import:
            domain = "" if _is_standard(item.domain) else item.domain
            newest[domain] = max(newest.get(domain, 0), item.version)
    for domain in sorted(newest.keys() - imported):
        proto.opset_import.add(domain=domain, version=newest[domain])


def _standard_version(proto: Any) -> int | None:
    """Return the version of ONNX's own operators that a model or function imports; None if it imports none."""
    return next((item.version for item in proto.opset_import if _is_standard(item.domain)), None)


def _give_defaults(proto: Any) -> None:
    """Let calls of functions state the attributes for which the functions have defaults."""
    defaults = {function_key(each): each.attribute_proto for each in proto.functions if each.attribute_proto}
    for nodes in (proto.graph.node, *(each.node for each in proto.functions)) if defaults else ():
        for node in nested_nodes(nodes):
            stated = {attribute.name for attribute in node.attribute}
            node.attribute.extend(each for each in defaults.get(called_function(node), ()) if each.name not in stated)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
