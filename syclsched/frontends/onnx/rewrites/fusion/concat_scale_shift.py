# SPDX-License-Identifier: Apache-2.0
"""Fusion of a concatenation with its scale, shift and activation into one pass over memory."""

from __future__ import annotations

from typing import Any, Final

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.fusion.expressions import is_input
from syclsched.frontends.onnx.rewrites.fusion.post_op_fusion import activation_step
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft
from syclsched.kernels.tensor.writing.expression import split_expression

#: Most parts of one node.
MOST_PARTS: Final = 48


def fuse_scale_shift(draft: NetworkDraft) -> None:
    """Make scales and shifts read the parts of a concatenation along the last axis instead of its result.

    In DenseNet every layer has its own scale, shift and rectifier for the concatenation of all previous layers. Without
    other readers the concatenation is never materialised: later concatenations along the same axis read its parts, too.
    """
    parts: dict[str, tuple[str, ...]] = {}
    for concat in draft.each("concat"):
        whole = str(concat.outputs[0])
        if concat.attributes["axis"] != len(draft.shape(whole)) - 1 or len(draft.shape(whole)) < 2:
            continue
        flat = tuple(part for name in concat.inputs for part in parts.get(str(name), (str(name),)))
        if len(flat) <= MOST_PARTS and not draft.is_output(whole) and _all_take_parts(draft, whole, concat):
            parts[whole] = flat
        elif flat != concat.inputs and len(flat) <= MOST_PARTS:
            draft.change(concat, inputs=flat)
    for whole, flat in parts.items():
        for reader in draft.readers(whole):
            found = _scale_and_shift(draft, reader, whole)
            if found is not None:
                scale, shift, activation = found
                origin = tuple(dict.fromkeys((*(draft.producer(whole) or reader).origin, *reader.origin)))
                inputs = (*flat, _vector(draft, scale), _vector(draft, shift))
                attributes = {"activation": activation}
                draft.change(reader, kind="join", inputs=inputs, attributes=attributes, origin=origin)
                draft.record_change("reads the parts of what was joined", reader.name)
    for whole in reversed(parts):
        _take_parts(draft, whole, parts)


def _take_parts(draft: NetworkDraft, whole: str, parts: dict[str, tuple[str, ...]]) -> None:
    for reader in draft.readers(whole):
        flat = tuple(part for name in reader.inputs for part in (parts[whole] if name == whole else (str(name),)))
        draft.change(reader, inputs=flat)
    draft.remove_unread(whole)


def _all_take_parts(draft: NetworkDraft, whole: str, concat: CanonicalNode) -> bool:
    """Return whether all readers of a concatenation can read its parts, and at least one scales and shifts it."""
    readers = draft.readers(whole)
    scaling = [reader for reader in readers if _scale_and_shift(draft, reader, whole) is not None]
    joining = [
        reader
        for reader in readers
        if reader.kind == "concat" and reader.attributes["axis"] == concat.attributes["axis"]
    ]
    return bool(scaling) and len(scaling) + len(joining) == len(readers)


def _scale_and_shift(draft: NetworkDraft, node: CanonicalNode, x: str) -> tuple[str, str, tuple[Any, ...]] | None:
    """Return scale, shift and activation of a node that applies them to x along its last axis, or None."""
    if node.kind != "elementwise" or len(node.inputs) != 3:
        return None
    output = str(node.outputs[0])
    if draft.shape(output) != draft.shape(x) or not draft.dtype(x).startswith("float"):
        return None
    expression = node.attributes["expression"]
    activation: list[Any] = []
    while not is_input(expression) and expression[0] not in ("add", "const"):
        parameters, operands = split_expression(expression)
        step = activation_step(expression[0], parameters, operands)
        if step is None:
            return None
        activation.insert(0, step)
        expression = operands[0]
    if is_input(expression) or len(expression) != 3 or not isinstance(expression[1], tuple):
        return None
    product, last = expression[1:]
    if product[0] != "mul" or len(product) != 3 or not all(map(is_input, (*product[1:], last))):
        return None
    names = [str(node.inputs[index]) for index in (*product[1:], last)]
    if names[0] != x or not all(_is_vector(draft, name, x) for name in names[1:]):
        return None
    return names[1], names[2], tuple(activation)


def _is_vector(draft: NetworkDraft, name: str, x: str) -> bool:
    """Return whether a value is a constant vector along the last axis of x."""
    shape = draft.shape(name)
    wanted = draft.shape(x)[-1]
    whole = shape[-1:] == (wanted,) and all(extent == 1 for extent in shape[:-1])
    return name in draft.constants and whole and draft.dtype(name) == draft.dtype(x)


def _vector(draft: NetworkDraft, name: str) -> str:
    array = draft.constants[name]
    return name if array.ndim == 1 else draft.add_constant(array.reshape(-1), name)
