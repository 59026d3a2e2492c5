# SPDX-License-Identifier: Apache-2.0
"""Fusion of quantised operands, sums of integers and quantised results into integer products and convolutions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from syclsched.frontends.onnx.integer_weights import centred_weights, integer_attributes
from syclsched.frontends.onnx.network import CanonicalNode, Value
from syclsched.frontends.onnx.rewrites.fusion.affine import vector_along
from syclsched.frontends.onnx.rewrites.fusion.post_op_fusion import INTEGER_KINDS, absorb_reader
from syclsched.frontends.onnx.rewrites.fusion.quantisation_patterns import dequantised, quantisation
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft
from syclsched.kernels.quantisation import QuantisedAddend


def fuse_integer_products(draft: NetworkDraft) -> None:
    """Multiply integers instead of dequantised numbers: constant weights of 8 bits, activations of 8 bits.

    A sum of integers that is converted and multiplied by scales does so itself, also by a scale of x that is found at
    run time. Zero points that are found at run time
    are read in 32 bits where they are made.
    """
    for node in draft.each("matmul", "conv"):
        _fuse_operands(draft, node)
    for node in draft.each(*INTEGER_KINDS):
        _absorb_scale(draft, node)
        _split_scale(draft, draft.nodes[node.name])
    for node in draft.each("dynamic_quantise"):
        _share_wide_zero(draft, node)
    for node in draft.each(*INTEGER_KINDS):
        zero = draft.constant(node.input(4))
        if zero is not None and not zero.any():
            draft.change(node, inputs=(*node.inputs[:4], None, *node.inputs[5:]))
            draft.record_change(f"no zero point of the {node.kind}", node.name)


def _fuse_operands(draft: NetworkDraft, node: CanonicalNode) -> None:
    at, output = node.attributes, node.outputs[0]
    x, w = (dequantised(draft, node.input(position)) for position in (0, 1))
    if x is None or w is None or node.input(3) is not None or at["activation"] or output is None:
        return
    weights = draft.constant(w.value)
    if weights is None or not x.is_scalar:
        return
    if node.kind == "matmul":
        if at["transpose_a"] or at.get("interleaved") or at["alpha"] != 1 or weights.ndim != 2:
            return
        if at["beta"] != 1 and node.input(2):
            return
        arrays = [np.broadcast_to(each, weights.shape) for each in (weights, w.scale, w.zero)]
        weights, scales, zeros = (each.T if at["transpose_b"] else each for each in arrays)
        scale, columns = scales[:1, :], weights.shape[1]
    else:
        scales, zeros = (np.broadcast_to(each, weights.shape) for each in (w.scale, w.zero))
        scale, columns = scales.reshape(len(scales), -1)[:, :1], len(weights)
    if not scale.size:
        return
    if not (scales == scale.reshape((1, -1) if node.kind == "matmul" else (-1, *[1] * (scales.ndim - 1)))).all():
        return  # a scale for each term
    bias = node.input(2)
    if bias is not None and draft.shape(bias) != (columns,):
        return
    scale = (x.scale.reshape(-1) * scale.reshape(-1)).astype(np.float32)
    scale = scale[:1] if (scale == scale[0]).all() else scale
    centred = centred_weights(weights, zeros)
    kept = () if node.kind == "matmul" else ("strides", "pads", "dilations", "groups", "channels_last")
    draft.change(
        node,
        kind=f"integer_{node.kind}",
        inputs=(
            x.value,
            draft.add_constant(centred, w.value),
            bias,
            None,
            draft.add_constant(x.zero.astype(np.int32).reshape(1), f"{x.value} zero"),
            draft.add_constant(scale, f"{w.value} scale"),
        ),
        attributes={**{name: at[name] for name in kept}, **integer_attributes(centred, "float32")},
    )
    draft.record_change(f"{node.kind} of integers", node.name)


# --- Scales of sums -----------------------------------------------------------------------------------


def _absorb_scale(draft: NetworkDraft, node: CanonicalNode) -> None:
    """Convert and scale a sum where it is made."""
    reader = _next(draft, node)
    if reader is not None and node.attributes["result"] == "int32":
        if reader.attributes["expression"] != ("cast", "float32", 0):
            return
        one = draft.add_constant(np.ones(1, np.float32), f"{node.name} scale")
        attributes = {**node.attributes, "result": "float32"}
        node = _take(draft, node, reader, inputs=(*node.inputs[:5], one), attributes=attributes)
        draft.record_change(f"converted by the {node.kind} before it", reader.name)
        reader = _next(draft, node)
    if (
        reader is None
        or node.attributes["result"] != "float32"
        or any(node.inputs[2:4])
        or node.attributes["activation"]
    ):
        return
    held, output = draft.constant(node.inputs[5]), node.outputs[0]
    if held is None or held.size != 1 or held.reshape(-1)[0] != 1 or output is None:
        return
    if reader.attributes["expression"] not in (("mul", 0, 1), ("mul", 1, 0)) or len(reader.inputs) != 2:
        return
    other = next((name for name in reader.inputs if name != output), None)
    if other is None or draft.dtype(other) != "float32" or draft.shape(str(reader.outputs[0])) != draft.shape(output):
        return
    shape, made = draft.shape(other), draft.shape(output)
    columns = made[-1] if node.kind == "integer_matmul" else 0
    if math.prod(shape) == 1 and len(shape) > 1:
        other = draft.add("reshape", (other,), (1,), "float32", {}, like=f"{other}~one")
    elif math.prod(shape) != 1 and shape != (columns,):
        return
    _take(draft, node, reader, inputs=(*node.inputs[:5], other))
    draft.record_change(f"scales of the {node.kind} before it", reader.name)


def _split_scale(draft: NetworkDraft, node: CanonicalNode) -> None:
    """Let a sum be scaled by a number and by constants instead of by their products, which are computed at run time."""
    scale = node.input(5)
    maker = draft.made_by(scale, "elementwise")
    if maker is None or scale is None or node.input(6) is not None or len(maker.inputs) != 2:
        return
    if maker.attributes["expression"] not in (("mul", 0, 1), ("mul", 1, 0)):
        return
    constants = [name for name in maker.inputs if name in draft.constants]
    numbers = [name for name in maker.inputs if name not in draft.constants and draft.shape(str(name)) in ((), (1,))]
    if len(constants) != 1 or len(numbers) != 1 or draft.shape(str(constants[0])) not in ((), (1,), draft.shape(scale)):
        return
    if any(draft.dtype(str(name)) != "float32" for name in maker.inputs):
        return
    draft.change(node, inputs=(*node.inputs[:5], constants[0], numbers[0]))
    draft.remove_unread(scale)
    draft.record_change(f"both scales of the {node.kind}", node.name)


def _share_wide_zero(draft: NetworkDraft, node: CanonicalNode) -> None:
    """Let those that convert the zero point of a value to 32 bits read it as such."""
    zero = node.outputs[2]
    for reader in () if zero is None else draft.readers(zero):
        output = reader.outputs[0]
        if reader.kind != "elementwise" or reader.attributes["expression"] != ("cast", "int32", 0) or output is None:
            continue
        current, wide = draft.nodes[node.name], draft.nodes[node.name].outputs[3]
        if wide is None:
            wide = draft.fresh(node.name)
            draft.values[wide] = Value(wide, (), "int32")
            draft.change(current, outputs=(*current.outputs[:3], wide))
        if draft.shape(output) == draft.shape(wide) and draft.can_redirect(output, wide):
            draft.replace_node(reader, wide)
            draft.record_change("zero point in 32 bits", node.name)


def _next(draft: NetworkDraft, node: CanonicalNode) -> CanonicalNode | None:
    """Return the only reader of a node's result if it is element-wise."""
    output = node.outputs[0]
    reader = None if output is None or draft.is_output(output) else draft.sole_reader(output)
    return reader if reader is not None and reader.kind == "elementwise" else None


def _take(draft: NetworkDraft, node: CanonicalNode, reader: CanonicalNode, **changes: Any) -> CanonicalNode:
    """Let a node make the result of its reader."""
    draft.remove(reader)
    return draft.change(node, outputs=reader.outputs, origin=(*node.origin, *reader.origin), **changes)


# --- Quantised results --------------------------------------------------------------------------------


def quantise_results(draft: NetworkDraft) -> None:
    """Quantise the results of integer products where they are made, and add quantised values to them there."""
    for node in draft.each(*INTEGER_KINDS):
        _absorb_quantisation(draft, node)
    # Backwards, so that of two products the later one adds the result of the other.
    for node in reversed(tuple(draft.each(*INTEGER_KINDS))):
        summed = _absorb_sum(draft, node)
        if summed is not None:
            _absorb_quantisation(draft, absorb_reader(draft, summed) or summed)


def _absorb_quantisation(draft: NetworkDraft, node: CanonicalNode) -> None:
    reader = _next(draft, node)
    if reader is None or node.attributes["result"] != "float32":
        return
    made = reader.outputs[0]
    found = None if made is None else quantisation(draft, reader, draft.dtype(made))
    if found is None or made is None or draft.shape(made) != draft.shape(str(node.outputs[0])):
        return
    attributes = {**node.attributes, "quantise": found, "result": draft.dtype(made)}
    _take(draft, node, reader, attributes=attributes)
    draft.record_change(f"quantised by the {node.kind} before it", reader.name)


def _absorb_sum(draft: NetworkDraft, node: CanonicalNode) -> CanonicalNode | None:
    """Add a value of 8 bits to a quantised result, in float32; return the changed node, or None if unchanged."""
    at, output = node.attributes, node.outputs[0]
    widened = _next(draft, node)
    reader = None if widened is None else _next(draft, widened)
    if widened is None or reader is None or at["quantise"] is None or node.input(3) is not None or output is None:
        return None
    if reader.attributes["expression"] not in (("add", 0, 1), ("add", 1, 0)) or len(reader.inputs) != 2:
        return None
    own = dequantised(draft, widened.outputs[0])
    if own is None or not own.is_scalar or own.value != output or (own.step, own.shift) != at["quantise"]:
        return None
    if draft.shape(str(reader.outputs[0])) != draft.shape(output):
        return None
    found = _addend(draft, node, next(str(name) for name in reader.inputs if name != widened.outputs[0]))
    if found is None:
        return None
    added, numbers = found
    addend = QuantisedAddend((own.step, own.shift), at["result"], numbers, at["activation"])
    draft.remove(widened)
    attributes = {**at, "activation": (), "quantise": None, "result": "float32", "addend": addend}
    inputs = (*node.inputs[:3], added, *node.inputs[4:])
    changed = _take(draft, node, reader, inputs=inputs, attributes=attributes)
    draft.remove_unread(*(name for name in reader.inputs if name is not None and name != widened.outputs[0]))
    draft.record_change(f"added to by the {node.kind} before it", reader.name)
    return changed


def _addend(draft: NetworkDraft, node: CanonicalNode, name: str) -> tuple[str, tuple[float, float] | None] | None:
    """Return the addend of a node: an 8-bit value with scale and zero point, or a vector; or None."""
    shape = draft.shape(str(node.outputs[0]))
    constant = draft.constant(name)
    if constant is not None:
        vector = vector_along(constant, shape, len(shape) - 1) if node.kind == "integer_matmul" else None
        return None if vector is None or vector.dtype != np.float32 else (draft.add_constant(vector, name), None)
    other = dequantised(draft, name)
    if other is None or not other.is_scalar or other.value in draft.constants or other.step <= 0:
        return None
    return (other.value, (other.step, other.shift)) if draft.shape(other.value) == shape else None
