# SPDX-License-Identifier: Apache-2.0
"""Recognition of layer normalisation, root mean square normalisation and softmax that exporters decomposed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.fusion.terms import (
    Term,
    Terms,
    operand_of,
    product,
    split_term,
    without_operand,
)
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft


def replace_normalisations(draft: NetworkDraft) -> None:
    """Replace decomposed normalisations and softmaxes by one node."""
    terms = Terms(draft)
    for node in reversed(tuple(draft.each("elementwise"))):
        output = node.outputs[0]
        if node.name not in draft or output is None:
            continue
        term = terms.of(output)
        if isinstance(term, tuple):
            _ = _layer_norm(draft, terms, node, term) or _softmax(draft, terms, node, term)


@dataclass(frozen=True)
class _Normalised:
    """(x - mean) / sqrt(variance + epsilon) * scale; unless it is centred, x / sqrt(mean of squares + epsilon)."""

    x: str
    axis: int
    epsilon: float
    scale: str | float
    is_centred: bool


def _layer_norm(draft: NetworkDraft, terms: Terms, node: CanonicalNode, term: Term) -> bool:
    summand, summands = split_term(term, "sum")
    for each in summands:
        rest = without_operand(summands, each)
        if (summand and rest) or len(rest) > 1 or (rest and not isinstance(rest[0], str)):
            continue
        found = _normalised(draft, terms, each)
        if found is None or draft.shape(found.x) != draft.shape(str(node.outputs[0])):
            continue
        wanted = draft.shape(found.x)[found.axis :]
        dtype = draft.dtype(found.x)
        scale = _spread(draft, found.scale, wanted, dtype, node)
        bias = None if not (rest or summand) else _spread(draft, rest[0] if rest else summand, wanted, dtype, node)
        if scale is None or (bias is None and (rest or summand)):
            continue
        attributes = {"axis": found.axis, "epsilon": found.epsilon}
        if not found.is_centred:
            attributes["centred"] = False
        _change_to(draft, node, "layer_norm", (found.x, scale, *((bias,) if bias is not None else ())), attributes)
        draft.record_change("layer normalisation in pieces is one node", node.name)
        return True
    return False


def _normalised(draft: NetworkDraft, terms: Terms, term: Term) -> _Normalised | None:
    factor, factors = split_term(term, "prod")
    for each in factors:
        root = operand_of(each, "reciprocal")
        inside = None if root is None else operand_of(root, "sqrt")
        if inside is None:
            continue
        epsilon, variances = split_term(inside, "sum")
        rest = without_operand(factors, each)
        if len(variances) != 1 or epsilon < 0 or not 1 <= len(rest) <= 2 or not isinstance(variances[0], str):
            continue
        for centred in rest:
            scales = without_operand(tuple(rest), centred)
            if (scales and (factor != 1 or not isinstance(scales[0], str))) or not isinstance(centred, str):
                continue
            axes = _squared_axes(draft, terms, centred, variances[0])
            if axes:
                x = _minus_reduction(draft, terms.of(centred), "mean", axes)
                scale = scales[0] if scales else factor
                return _Normalised(centred if x is None else x, axes[0], epsilon, scale, x is not None)
    return None


def _squared_axes(draft: NetworkDraft, terms: Terms, x: str, mean: str) -> tuple[int, ...]:
    """Return the last axes over which a value is the mean of x ** 2; none if it is not."""
    made = draft.made_by(mean, "reduce")
    if made is None or made.attributes["mode"] != "mean" or not made.attributes["keepdims"]:
        return ()
    rank = len(draft.shape(x))
    axes = tuple(sorted(made.attributes["axes"]))
    is_square = terms.of(str(made.inputs[0])) == product(1.0, [x, x])
    return axes if is_square and axes == tuple(range(rank - len(axes), rank)) else ()


def _minus_reduction(draft: NetworkDraft, term: Term, mode: str, axes: tuple[int, ...]) -> str | None:
    """Return x if a term is x minus its reduction over axes, which are kept, else None."""
    summand, summands = split_term(term, "sum")
    if summand or len(summands) != 2:
        return None
    for x in summands:
        factor, operands = split_term(without_operand(summands, x)[0], "prod")
        found = draft.made_by(operands[0], "reduce") if len(operands) == 1 and isinstance(operands[0], str) else None
        if factor != -1 or found is None or not isinstance(x, str) or found.inputs[0] != x:
            continue
        a = found.attributes
        if a["mode"] == mode and a["keepdims"] and tuple(sorted(a["axes"])) == axes:
            return x
    return None


def _spread(
    draft: NetworkDraft, value: str | float, shape: tuple[int, ...], dtype: str, node: CanonicalNode
) -> str | None:
    """Return a number or constant broadcast to a shape; None if that is impossible."""
    if isinstance(value, float):
        return draft.add_constant(np.full(shape, value, dtype), f"{node.name}.scale")
    array: Any = draft.constant(value)
    if array is None:
        return value if draft.shape(value) == shape and draft.dtype(value) == dtype else None
    while array.ndim > len(shape) and array.shape[0] == 1:
        array = array[0]
    if array.shape == draft.shape(value) == shape:
        return value
    try:
        return draft.add_constant(np.broadcast_to(array, shape), value)
    except ValueError:
        return None


def _softmax(draft: NetworkDraft, terms: Terms, node: CanonicalNode, term: Term) -> bool:
    factor, factors = split_term(term, "prod")
    if factor != 1 or len(factors) != 2:
        return False
    for each in factors:
        below = operand_of(each, "reciprocal")
        above = without_operand(factors, each)[0]
        total = draft.made_by(below, "reduce") if isinstance(below, str) else None
        if total is None or not isinstance(above, str) or total.inputs[0] != above:
            continue
        power = operand_of(terms.of(above), "exp")
        axes = tuple(total.attributes["axes"])
        if total.attributes["mode"] != "sum" or not total.attributes["keepdims"] or len(axes) != 1 or power is None:
            continue
        # The maximum is subtracted against overflow, or not.
        x = power if isinstance(power, str) else _minus_reduction(draft, power, "max", axes)
        if x is None or draft.shape(x) != draft.shape(str(node.outputs[0])):
            continue
        _change_to(draft, node, "softmax", (x,), {"axis": axes[0], "log": False})
        draft.record_change("softmax in pieces is one node", node.name)
        return True
    return False


def _change_to(
    draft: NetworkDraft, node: CanonicalNode, kind: str, inputs: tuple[str, ...], attributes: dict[str, Any]
) -> None:
    draft.change(node, kind=kind, inputs=inputs, attributes=attributes)
    draft.remove_unread(*node.inputs)
