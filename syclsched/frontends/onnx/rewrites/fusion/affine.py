# SPDX-License-Identifier: Apache-2.0
"""Folding of constant per-channel scales and shifts into weights or into one node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.fusion.expressions import count, is_input, number, set_expression
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft
from syclsched.kernels.tensor.writing.expression import inputs_of, split_expression

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class _Affine:
    """``x * scale + shift`` with constants that broadcast to x."""

    x: str  # name of the value
    #: In float64, so that combining several rounds only once.
    scale: Numbers
    shift: Numbers


def _affine_of(draft: NetworkDraft, node: CanonicalNode) -> _Affine | None:
    """Return a node's scale and shift if it is affine in its one non-constant input and keeps its shape; else None."""
    output = node.outputs[0]
    if output is None or not draft.dtype(output).startswith("float"):
        return None
    if node.kind == "batch_norm":
        return _normalisation(draft, node)
    if node.kind != "elementwise":
        return None
    inputs = tuple(name for name in node.inputs if name is not None)
    expression = node.attributes["expression"]
    variable_inputs = [index for index, name in enumerate(inputs) if name not in draft.constants]
    if len(variable_inputs) != 1 or count(expression, variable_inputs[0]) != 1:
        return None
    x = inputs[variable_inputs[0]]
    if any(draft.dtype(name) != draft.dtype(output) for name in inputs) or draft.shape(x) != draft.shape(output):
        return None
    with np.errstate(all="ignore"):
        found = _linear(expression, variable_inputs[0], [draft.constant(name) for name in inputs])
    if found is None or not all(np.isfinite(each).all() for each in found):
        return None
    return _Affine(x, *found)


def fold_batch_norms(draft: NetworkDraft) -> None:
    """Fold batch normalisations into preceding convolutions and matrix products, or make them a scale and shift."""
    for node in draft.each("batch_norm"):
        found = _affine_of(draft, node)
        if found is None:
            continue
        activation = node.attributes.get("activation", ())
        if not activation:
            node, found = _with_following(draft, node, found)
        maker = None if draft.reads(found.x) != 1 else draft.producer(found.x)
        if maker is not None and _into_weights(draft, maker, node, found):
            draft.record_change(f"into the {maker.kind} before it", node.name)
            if activation:
                changed = draft.nodes[maker.name]
                draft.change(changed, attributes={**changed.attributes, "activation": activation})
        else:
            _make_expression(draft, node, found, activation)
            draft.record_change("is a scale and a shift", node.name)


def _with_following(draft: NetworkDraft, node: CanonicalNode, found: _Affine) -> tuple[CanonicalNode, _Affine]:
    """Return a node in place of itself and the scales and shifts behind it, and what they are: weights change once."""
    while (after := draft.sole_reader(output := str(node.outputs[0]))) is not None and after.kind == "elementwise":
        following = _affine_of(draft, after)
        both = None if following is None or following.x != output else _composed(found, following)
        if both is None or max(both.scale.size, both.shift.size) > found.scale.size:
            break
        draft.remove(after)
        node = draft.change(node, outputs=after.outputs, origin=(*node.origin, *after.origin))
        found = both
    return node, found


def fold_scale_shifts(draft: NetworkDraft) -> None:
    """Fold constant scales and shifts into the preceding or following node.

    A preceding node is a convolution, transposed convolution or matrix product with constant weights (any weights for a
    scalar scale) whose result has no other reader. A following node is a convolution; a shift is folded into it only
    without padding. Two consecutive scales and shifts become one.
    """
    for node in draft.each("elementwise"):
        found = _affine_of(draft, node)
        if found is None:
            continue
        maker = None if draft.reads(found.x) != 1 else draft.producer(found.x)
        if maker is not None and _into_weights(draft, maker, node, found):
            draft.record_change(f"into the {maker.kind} before it", node.name)
        elif maker is not None and _combine_two(draft, maker, node, found):
            draft.record_change("one scale and shift of two", node.name)
        elif _into_following(draft, node, found):
            draft.record_change("into the conv after it", node.name)


def _normalisation(draft: NetworkDraft, node: CanonicalNode) -> _Affine | None:
    x, *names = node.inputs
    parameters = [draft.constant(name) for name in names]
    if x is None or any(each is None for each in parameters):
        return None
    scale, bias, mean, variance = (np.asarray(each, np.float64) for each in parameters)
    factor = scale / np.sqrt(variance + float(node.attributes["epsilon"]))
    shift = bias - mean * factor
    if not (np.isfinite(factor).all() and np.isfinite(shift).all()):
        return None
    shape = [1] * len(draft.shape(x))
    shape[-1 if node.attributes.get("channels_last") else 1] = -1
    return _Affine(x, factor.reshape(shape), shift.reshape(shape))


def _linear(expression: Any, index: int, constants: list[Any]) -> tuple[Any, Any] | None:
    """Return the scale and shift of an expression in one input; None if it is not affine."""
    if is_input(expression):
        return (np.ones(()), np.zeros(())) if expression == index else None
    parameters, operands = split_expression(expression)
    name = expression[0]
    if name in ("neg", "scale"):
        inner = _linear(operands[0], index, constants)
        factor = -1.0 if name == "neg" else parameters[0]
        return None if inner is None else (inner[0] * factor, inner[1] * factor)
    if name not in ("add", "sub", "mul", "div"):
        return None
    found: tuple[Any, Any] | None = None
    for position, each in enumerate(operands):
        last = position > 0
        if index in inputs_of(each):
            inner = _linear(each, index, constants)
            if inner is None or (name == "div" and last):
                return None
            factor = -1.0 if name == "sub" and last else 1.0
            value = (inner[0] * factor, inner[1] * factor)
        else:
            constant = _constant_value(each, constants)
            if constant is None:
                return None
            zero: Any = np.float64(0)
            value = (zero, -constant if name == "sub" and last else constant)
        if found is None:
            found = value
        elif name in ("add", "sub"):
            found = (found[0] + value[0], found[1] + value[1])
        elif name == "div":
            found = (found[0] / value[1], found[1] / value[1])
        else:
            found = (found[0] * value[1] + found[1] * value[0], found[1] * value[1])
    return found


def _constant_value(expression: Any, constants: list[Any]) -> Any:
    """Return the value of a constant operand in float64, or None."""
    if is_input(expression):
        array = constants[expression]
        return None if array is None else array.astype(np.float64)
    value = number(expression)
    return None if value is None else np.float64(value)


def vector_along(array: NDArray[Any], shape: tuple[int, ...], axis: int) -> NDArray[Any] | None:
    """Return a constant that broadcasts to a shape as a vector along an axis; None if it varies along other axes."""
    rank = len(shape)
    aligned = array.reshape((1,) * (rank - array.ndim) + array.shape) if array.ndim <= rank else array
    if aligned.ndim != rank or any(n != 1 for i, n in enumerate(aligned.shape) if i != axis):
        return None
    return np.broadcast_to(aligned.reshape(-1), (shape[axis],))


def _into_weights(draft: NetworkDraft, maker: CanonicalNode, node: CanonicalNode, found: _Affine) -> bool:
    """Fold the node into the producer of x if possible; return whether it was."""
    if maker.attributes.get("activation") or maker.input(3) is not None:
        return False
    if maker.outputs[0] != found.x or maker.kind not in ("conv", "conv_transpose", "matmul"):
        return False
    output = node.outputs[0]
    assert output is not None
    if not (draft.is_output(output) or draft.readers(output)):
        return False
    changed = _matmul_inputs(draft, maker, found) if maker.kind == "matmul" else _conv_inputs(draft, maker, found)
    if changed is None:
        return False
    inputs, attributes = changed
    draft.remove(node)
    draft.change(maker, inputs=inputs, outputs=(output,), attributes=attributes, origin=(*maker.origin, *node.origin))
    return True


def _conv_constants(draft: NetworkDraft, conv: CanonicalNode, found: _Affine) -> tuple[Any, ...] | None:
    """Return a convolution's constant weights and bias, and scale and shift per channel; None if one is no constant."""
    weight, bias = draft.constant(conv.inputs[1]), draft.constant(conv.input(2))
    shape = draft.shape(found.x)
    axis = len(shape) - 1 if conv.attributes.get("channels_last") else 1
    scale, shift = (vector_along(each, shape, axis) for each in (found.scale, found.shift))
    if weight is None or (bias is None and conv.input(2) is not None) or scale is None or shift is None:
        return None
    return weight, bias, scale, shift


def _conv_inputs(
    draft: NetworkDraft, conv: CanonicalNode, found: _Affine
) -> tuple[tuple[str | None, ...], dict[str, Any]] | None:
    constants = _conv_constants(draft, conv, found)
    if constants is None:
        return None
    weight, bias, scale, shift = constants
    if conv.kind == "conv":
        along = scale.reshape(-1, *(1,) * (weight.ndim - 1))
    else:
        along = _per_group(scale, conv, weight)
    weights = (
        conv.inputs[1]
        if (scale == 1).all()
        else draft.add_constant(_rounded(weight * along, weight), str(conv.inputs[1]))
    )
    biases = shift if bias is None else bias * scale + shift
    held = draft.add_constant(_rounded(biases, weight), f"{conv.name}.bias")
    return (conv.inputs[0], weights, held), dict(conv.attributes)


def _matmul_inputs(
    draft: NetworkDraft, matmul: CanonicalNode, found: _Affine
) -> tuple[tuple[str | None, ...], dict[str, Any]] | None:
    a, b, *rest = matmul.inputs
    attributes = dict(matmul.attributes)
    weight, bias = draft.constant(b), draft.constant(rest[0] if rest else None)
    has_bias = bool(rest) and rest[0] is not None
    dtype = draft.dtype(found.x)
    shape = draft.shape(found.x)
    if not shape or (has_bias and bias is None) or attributes.get("interleaved"):
        return None
    scale = vector_along(found.scale, shape, len(shape) - 1)
    if scale is None or found.shift.ndim > len(shape):
        return None
    if not (scale == 1).all():
        if weight is not None and weight.ndim >= 2:
            along = scale[:, None] if attributes.get("transpose_b") else scale[None, :]
            b = draft.add_constant(_rounded(weight * along, weight), str(b))
        elif scale.size and (scale == scale[0]).all():
            attributes["alpha"] = float(attributes.get("alpha", 1.0)) * float(scale[0])
        else:
            return None
    shift: Any = found.shift
    if bias is not None:
        shift = bias * float(attributes.get("beta", 1.0)) * scale + shift
    if not np.any(shift):
        return (a, b), attributes
    # Libraries fuse a bias of one number or one per column. Any other shift is added as a full bias.
    if shift.size == 1:
        shift = shift.reshape(-1)
    attributes["beta"] = 1.0
    return (a, b, draft.add_constant(np.asarray(shift).astype(dtype), f"{matmul.name}.bias")), attributes


def _per_group(numbers: Numbers, conv: CanonicalNode, weight: Any) -> Any:
    """Return numbers per channel along the second axis of weights, whose first axis holds the groups in order."""
    groups = int(conv.attributes.get("groups", 1))
    each = np.repeat(numbers.reshape(groups, -1), weight.shape[0] // groups, axis=0)
    return each.reshape(each.shape + (1,) * (weight.ndim - 2))


def _rounded(array: Any, like: Any) -> Any:
    return np.asarray(array).astype(like.dtype)


def _make_expression(draft: NetworkDraft, node: CanonicalNode, found: _Affine, activation: tuple[Any, ...]) -> None:
    dtype = draft.dtype(found.x)
    expression: Any = ("add", ("mul", 0, 1), 2)
    for name, *numbers in activation:
        expression = (name, *numbers, expression)
    inputs = (
        found.x,
        draft.add_constant(_trimmed(found.scale).astype(dtype), f"{node.name}.scale"),
        draft.add_constant(_trimmed(found.shift).astype(dtype), f"{node.name}.shift"),
    )
    node = draft.change(node, kind="elementwise", attributes={})
    set_expression(draft, node, expression, inputs)


def _trimmed(array: Numbers) -> Numbers:
    """Return a constant without leading axes of extent 1, which broadcasting adds anyway."""
    while array.ndim > 1 and array.shape[0] == 1:
        array = array[0]
    return array


def _combine_two(draft: NetworkDraft, maker: CanonicalNode, node: CanonicalNode, found: _Affine) -> bool:
    before = _affine_of(draft, maker) if maker.kind == "elementwise" else None
    both = None if before is None else _composed(before, found)
    if both is None:
        return False
    changed = draft.change(node, origin=(*maker.origin, *node.origin))
    _make_expression(draft, changed, both, ())
    draft.remove_unread(found.x)
    return True


def _composed(first: _Affine, second: _Affine) -> _Affine | None:
    """Return two scales and shifts, one of the other's result, as one; None if it is not finite or larger than both."""
    scale = first.scale * second.scale
    shift = first.shift * second.scale + second.shift
    if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
        return None
    # Combined constants that vary along different axes would be as large as the product of both.
    if max(scale.size, shift.size) > max(each.size for each in (first.scale, first.shift, second.scale, second.shift)):
        return None
    return _Affine(first.x, scale, shift)


def _into_following(draft: NetworkDraft, node: CanonicalNode, found: _Affine) -> bool:
    output = node.outputs[0]
    assert output is not None
    conv = draft.sole_reader(output)
    if conv is None or conv.kind != "conv" or conv.inputs[0] != output:
        return False
    constants = _conv_constants(draft, conv, found)
    if constants is None:
        return False
    weight, bias, scale, shift = constants
    if np.any(shift) and any(conv.attributes.get("pads", ())):
        return False
    inputs: list[str | None] = [found.x, *conv.inputs[1:]]
    wide = weight.astype(np.float64)
    factor = _per_group(scale, conv, weight)
    if np.any(shift):
        added = (wide * _per_group(shift, conv, weight)).sum(axis=tuple(range(1, weight.ndim)))
        biases = added if bias is None else bias + added
        inputs[2:3] = [draft.add_constant(_rounded(biases, weight), f"{conv.name}.bias")]
    inputs[1] = draft.add_constant(_rounded(wide * factor, weight), str(conv.inputs[1]))
    draft.remove(node)
    draft.change(conv, inputs=tuple(inputs), origin=(*node.origin, *conv.origin))
    return True
