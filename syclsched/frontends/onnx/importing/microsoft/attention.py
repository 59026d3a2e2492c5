# SPDX-License-Identifier: Apache-2.0
"""Importers of Attention, QAttention and MultiHeadAttention, which have their own masks.

A mask of lengths, or of zeros at keys to leave out, adds ``mask_filter_value`` to scores, -10,000 by default.
"""

from __future__ import annotations

import math
from typing import Any

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.microsoft.products import product_of_integers
from syclsched.frontends.onnx.importing.microsoft.standard_operators import refuse
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.attention import KEY, QUERY, attend, join_heads, split_heads
from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT, ModelNode
from syclsched.frontends.onnx.shapes import Shape, broadcast


@imports("Attention", domain=MICROSOFT)
def _attention(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Attention, which multiplies its input by the weights of Q, K and V."""
    x, weights = inputs.first("input", "weights")
    refuse(b, node, inputs=[(6, "past_sequence_length")])
    projected = b.matmul(x, weights, inputs.optional(2))
    return _self_attention(b, node, projected, inputs.optional(3), inputs.optional(4), inputs.optional(5))


@imports("QAttention", domain=MICROSOFT)
def _q_attention(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Attention of an input and weights of 8 bits."""
    x, weights, bias, x_scale, scale = inputs.first("input", "weight", "bias", "input_scale", "weight_scale")
    projected = product_of_integers(b, (x, x_scale, inputs.optional(6)), (weights, scale, inputs.optional(7)), bias)
    return _self_attention(b, node, projected, inputs.optional(5), inputs.optional(8), None)


def _self_attention(
    b: NetworkBuilder, node: ModelNode, projected: str, mask: str | None, past: str | None, extra: str | None
) -> Names:
    refuse(b, node, attributes=("do_rotary", "past_present_share_buffer"))
    total = b.shape(projected)[-1]
    sizes = node.integers_or("qkv_hidden_sizes", (total // 3,) * 3)
    if len(sizes) != 3 or sum(sizes) != total:
        raise b.wrong(f"Q, K and V of {', '.join(map(str, sizes))} elements, and {total} of all")
    parts = [b.part(projected, 2, sum(sizes[:at]), size) for at, size in enumerate(sizes)]
    q, k, v = (split_heads(b, node, each, "num_heads") for each in parts)
    if past is not None:
        past_key, past_value = (b.without_axis(b.part(past, 0, at, 1), 0) for at in (0, 1))
        k, v = b.concat([past_key, k], 2), b.concat([past_value, v], 2)
    present = b.stack([k, v], 0) if len(node.outputs) > 1 and node.outputs[1] else None
    return [_attended(b, node, q, k, v, mask, extra), present]


@imports("MultiHeadAttention", domain=MICROSOFT)
def _multi_head_attention(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    refuse(b, node, inputs=[(8, "past_sequence_length"), (9, "cache_indirection")])
    if len(node.outputs) > 3 and node.outputs[3]:
        raise b.wrong("its output qk is not supported", hint="Export the model without it")
    q, k, v = _heads(b, node, inputs)
    past_key, past_value = inputs.optional(6), inputs.optional(7)
    if (past_key is None) != (past_value is None):
        raise b.wrong("past_key and past_value go together")
    if past_key is not None and past_value is not None:
        k, v = b.concat([past_key, k], 2), b.concat([past_value, v], 2)
    return [_attended(b, node, q, k, v, inputs.optional(4), inputs.optional(5)), k, v]


def _heads(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> list[str]:
    """Return Q, K and V with their bias, each (batch, heads, positions, size)."""
    query, key, value, bias = inputs.required(0, "query"), *(inputs.optional(position) for position in (1, 2, 3))
    given = [query] if key is None else [query, key] if value is None else [query, key, value]
    ranks = tuple(len(b.shape(each)) for each in given)
    if ranks not in ((5,), (3, 5), (3, 3, 3), (3, 4, 4)):
        shapes = ", ".join(str(b.shape(each)) for each in given)
        raise b.wrong(f"query, key and value have shapes {shapes}", hint="See ONNX Runtime's MultiHeadAttention")
    found: list[str] = []
    for each in given:
        if len(b.shape(each)) == 3:
            found.append(split_heads(b, node, each, "num_heads"))
        elif len(b.shape(each)) == 4:
            found.append(each)
        else:  # (batch, positions, heads, K and V, or all three, size)
            parts = [b.without_axis(b.part(each, 3, at, 1), 3) for at in range(b.shape(each)[3])]
            found += [b.transpose(part, (0, 2, 1, 3)) for part in parts]
    if len(found) != 3:
        raise b.wrong(f"query, key and value give {len(found)} arrays, expected 3")
    # Keys and values of 4 dimensions come from a cache; their bias has been added.
    return found if bias is None else _with_bias(b, found, bias, 1 if 4 in ranks else 3)


def _with_bias(b: NetworkBuilder, found: list[str], bias: str, count: int) -> list[str]:
    start, made = 0, list(found)
    for at, each in enumerate(found):
        _, heads, _, size = b.shape(each)
        if at < count:
            part = b.reshape(b.part(bias, 0, start, heads * size), (heads, 1, size))
            made[at] = b.elementwise(("add", 0, 1), each, part)
        start += heads * size
    if b.shape(bias) != (start,):
        raise b.wrong(f"a bias of shape {b.shape(bias)}, expected {(start,)}")
    return made


def _attended(b: NetworkBuilder, node: ModelNode, q: str, k: str, v: str, mask: str | None, extra: str | None) -> str:
    """Return the joined heads of attention with a mask and a bias of the scores."""
    (batch, heads, queries, size), keys = b.shape(q), b.shape(k)[2]
    bias = _scores_bias(b, node, (mask, extra), (batch, heads, queries, keys), b.dtype(q))
    scale = node.number("scale") or 1 / math.sqrt(size)
    return join_heads(b, attend(b, (q, k, v), bias, scale=scale).y)


def _scores_bias(
    b: NetworkBuilder, node: ModelNode, inputs: tuple[str | None, str | None], scored: Shape, dtype: str
) -> str | None:
    """Return the addend of the scores: the mask, minus infinity at later keys, and another bias."""
    mask, extra = inputs
    if extra is None and mask is None and not node.integer("unidirectional"):
        return None
    given = [] if extra is None else [extra]
    terms: list[Any] = list(range(len(given)))
    zero: Any = ("const", 0.0, dtype)
    if mask is not None:
        condition, masks = _kept(b, mask, scored, len(given))
        given += masks
        terms.append(("where", condition, zero, ("const", node.number("mask_filter_value", -1e4), dtype)))
    if node.integer("unidirectional"):
        past = ("const", scored[3] - scored[2], "int64")
        seen = ("less_equal", KEY, ("add", QUERY, past))
        terms.append(("where", seen, zero, ("const", -math.inf, dtype)))
    shape = broadcast([scored[2:], *map(b.shape, given)])
    return b.elementwise(("add", *terms), *given, shape=shape, dtype=dtype)


def _kept(b: NetworkBuilder, mask: str, scored: Shape, number: int) -> tuple[Any, list[str]]:
    """Return an expression for the keys that a mask keeps, and the values in it, numbered from one on."""
    (batch, _, queries, keys), shape = scored, b.shape(mask)
    if shape in ((batch,), (2 * batch,)):
        # The ends of the keys of each sample, and the starts if there are some.
        bounds = [
            b.reshape(b.cast(b.part(mask, 0, at, batch), "int64"), (batch, 1, 1, 1)) for at in range(0, *shape, batch)
        ]
        within: Any = ("less", KEY, number)
        if len(bounds) > 1:
            within = ("and", within, ("greater_equal", KEY, number + 1))
        return within, bounds
    if shape == (batch, keys):
        laid = (batch, 1, 1, keys)
    elif shape == (batch, queries, keys):
        laid = (batch, 1, queries, keys)
    else:
        raise b.wrong(
            f"a mask of shape {shape} for {batch} samples of {queries} queries and {keys} keys is not supported",
            hint=f"Supported: {(batch,)}, {(2 * batch,)}, {(batch, keys)} and {(batch, queries, keys)}",
        )
    return ("greater", number, ("const", 0, b.dtype(mask))), [b.reshape(mask, laid)]
