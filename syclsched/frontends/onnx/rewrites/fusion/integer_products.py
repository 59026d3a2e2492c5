# SPDX-License-Identifier: Apache-2.0
"""Fusion of quantised operands, sums of integers and quantised results into integer products and convolutions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syclsched.frontends.onnx.integer_weights import centred_weights, integer_attributes
from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.fusion.expressions import number
from syclsched.frontends.onnx.rewrites.fusion.post_op_fusion import INTEGER_KINDS
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft

_BYTES: Final = ("uint8", "int8")
_LIMITS: Final = {"uint8": (0.0, 255.0), "int8": (-128.0, 127.0)}


@dataclass(frozen=True, slots=True)
class _Quantised:
    """A quantised value, and its constant scale and zero point, which broadcast to it."""

    value: str
    scale: Any
    zero: Any


def fuse_integer_products(draft: NetworkDraft) -> None:
    """Multiply integers instead of dequantised numbers: constant weights of 8 bits, activations of 8 bits.

    A sum of integers that is converted and multiplied by scales does so itself.
    """
    for node in draft.each("matmul", "conv"):
        _fuse_operands(draft, node)
    for node in draft.each(*INTEGER_KINDS):
        _absorb_scale(draft, node)


def _fuse_operands(draft: NetworkDraft, node: CanonicalNode) -> None:
    at, output = node.attributes, node.outputs[0]
    x, w = (_dequantised(draft, node.input(position)) for position in (0, 1))
    if x is None or w is None or node.input(3) is not None or at["activation"] or output is None:
        return
    weights = draft.constant(w.value)
    if weights is None or math.prod(np.shape(x.scale)) != 1 or math.prod(np.shape(x.zero)) != 1:
        return
    if node.kind == "matmul":
        if at["transpose_a"] or at["alpha"] != 1 or (at["beta"] != 1 and node.input(2)) or weights.ndim != 2:
            return
        arrays = [np.broadcast_to(each, weights.shape) for each in (weights, w.scale, w.zero)]
        weights, scales, zeros = (each.T if at["transpose_b"] else each for each in arrays)
        scale, columns = scales[:1, :], weights.shape[1]
    else:
        scales, zeros = (np.broadcast_to(each, weights.shape) for each in (w.scale, w.zero))
        scale, columns = scales.reshape(len(scales), -1)[:, :1], len(weights)
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


def _dequantised(draft: NetworkDraft, name: str | None) -> _Quantised | None:
    """Return the value of 8 bits that a value is dequantised from, by constants; None if there is none."""
    node = draft.made_by(name, "elementwise")
    if node is None or name is None or draft.dtype(name) != "float32":
        return None
    match node.attributes["expression"]:
        case ("mul", ("sub", ("cast", "float32", int(x)), zero), scale):
            pass
        case ("mul", ("cast", "float32", int(x)), scale):
            zero = ("const", 0.0)
        case ("cast", "float32", int(x)):
            zero, scale = ("const", 0.0), ("const", 1.0)
        case _:
            return None
    value = node.inputs[x]
    if value is None or draft.dtype(value) not in _BYTES or draft.shape(value) != draft.shape(name):
        return None
    numbers = [_constant(draft, node, each) for each in (scale, zero)]
    if any(each is None for each in numbers):
        return None
    return _Quantised(value, *numbers)


def _constant(draft: NetworkDraft, node: CanonicalNode, operand: Any) -> Any:
    """Return the numbers of an operand that is a number or a constant input; else None."""
    value = number(operand)
    if value is not None:
        return np.array(value, np.float32)
    return draft.constant(node.inputs[operand]) if isinstance(operand, int) else None


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
    """Quantise the results of integer products where they are made."""
    for node in draft.each(*INTEGER_KINDS):
        reader = _next(draft, node)
        if reader is None or node.attributes["result"] != "float32":
            continue
        made = reader.outputs[0]
        found = None if made is None else _quantisation(draft, reader, draft.dtype(made))
        if found is None or made is None or draft.shape(made) != draft.shape(str(node.outputs[0])):
            continue
        attributes = {**node.attributes, "quantise": found, "result": draft.dtype(made)}
        _take(draft, node, reader, attributes=attributes)
        draft.record_change(f"quantised by the {node.kind} before it", reader.name)


def _quantisation(draft: NetworkDraft, node: CanonicalNode, dtype: str) -> tuple[float, int] | None:
    """Return the scale and the zero point of a node that quantises its first input."""
    if dtype not in _BYTES:
        return None
    match node.attributes["expression"]:
        case ("cast", str(to), ("clip", low, high, inner)) if to == dtype and (low, high) == _LIMITS[dtype]:
            pass
        case _:
            return None
    zero: Any = ("const", 0.0)
    scale: Any = ("const", 1.0)
    power: Any = None
    match inner:
        case ("add", ("round", _) as inner, zero):
            pass
    match inner:
        case ("round", ("div", 0, scale)):
            pass
        case ("round", ("mul", 0, power)):  # a quotient by a power of two that has become a product
            pass
        case ("round", 0):
            pass
        case _:
            return None
    numbers = [_constant(draft, node, each) for each in (scale, zero, power) if each is not None]
    if any(each is None or each.size != 1 for each in numbers):
        return None
    step, shift, *factor = (float(each.reshape(-1)[0]) for each in numbers)
    if factor:
        if math.frexp(factor[0])[0] != 0.5:
            return None
        step = 1 / factor[0]
    return (step, int(shift)) if step > 0 and shift.is_integer() else None
