# SPDX-License-Identifier: Apache-2.0
"""Importer of Attention, as the errata in onnx 1.23 define it for all opsets.

The function definitions of onnx before 1.23 align the causal mask with the first key where ``nonpad_kv_seqlen`` is
given, and give NaN for queries that may attend no key.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode
from syclsched.frontends.onnx.shapes import Shape, broadcast

#: Axes of queries and keys in the scores, counted from the end.
QUERY: Final = ("index", -2)
KEY: Final = ("index", -1)


@imports("Attention")
def _attention(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    (q, k, v), past_key, past_value = inputs.first("Q", "K", "V"), inputs.optional(4), inputs.optional(5)
    if (past_key is None) != (past_value is None) or (past_key is not None and inputs.optional(6) is not None):
        raise b.wrong("past_key and past_value go together, and not with nonpad_kv_seqlen")
    dtype, joined = b.dtype(q), len(b.shape(q)) == 3
    if joined:
        q = split_heads(b, node, q, "q_num_heads")
        k, v = (split_heads(b, node, each, "kv_num_heads") for each in (k, v))
    if not len(b.shape(q)) == len(b.shape(k)) == len(b.shape(v)) == 4:
        shapes = ", ".join(str(b.shape(each)) for each in (q, k, v))
        raise b.wrong(f"Q, K and V have shapes {shapes}, expected 3 or 4 dimensions each")
    past = 0
    if past_key is not None and past_value is not None:
        past = b.shape(past_key)[2]
        k, v = b.concat([past_key, k], 2), b.concat([past_value, v], 2)
    (batch, heads, queries, size), keys = b.shape(q), b.shape(k)[2]
    if _is_over_cache(b, node, inputs, (q, k, v)):
        y = _over_cache(b, node, inputs.required(6, "nonpad_kv_seqlen"), (q, k, v))
        return [join_heads(b, y) if joined else y, k, v]
    bias = _bias(b, node, inputs, (batch, heads, queries, keys), past, dtype)
    number, scale = node.integer("softmax_precision"), node.number("scale", 1 / math.sqrt(size) if size else 1.0)
    if scale <= 0:
        raise b.wrong(f"its scale is {scale}, and its root scales the queries and keys")
    stages = attend(
        b,
        (q, k, v),
        bias,
        scale=scale,
        softcap=node.number("softcap"),
        precision=b.element_dtype(number, "a softmax in") if number else dtype,
    )
    y = _without_keyless(b, stages.y, bias)
    if joined:
        y = join_heads(b, y)
    mode = node.integer("qk_matmul_output_mode")
    if mode not in range(4):
        raise b.wrong(f"qk_matmul_output_mode is {mode}, expected 0 to 3")
    shown = stages[mode]
    if mode == 3 and len(node.outputs) > 3 and node.outputs[3]:
        shown = _without_keyless(b, stages.weights, bias)
    return [y, k, v, shown]


def _is_over_cache(b: NetworkBuilder, node: ModelNode, inputs: Inputs, operands: Sequence[str]) -> bool:
    """Return whether new tokens attend to all tokens so far, of which the run tells the number."""
    counts, (q, k, v) = inputs.optional(6), operands
    if counts is None or inputs.optional(3) is not None or b.shape(counts) != b.shape(q)[:1]:
        return False
    shown = len(node.outputs) > 3 and node.outputs[3]
    right, precision = node.integer("right_window_size", -1), node.integer("softmax_precision")
    plain = right >= -1 and not shown and (not precision or b.element_dtype(precision) == b.dtype(q) != "float16")
    return plain and bool(node.integer("is_causal")) and b.dtype(q) == b.dtype(k) == b.dtype(v)


def _over_cache(b: NetworkBuilder, node: ModelNode, counts: str, operands: Sequence[str]) -> str:
    (batch, heads, queries, size), groups = b.shape(operands[0]), b.shape(operands[1])[1]
    if groups < 1 or heads % groups:
        raise b.wrong(f"{heads} heads of queries cannot share {groups} heads of keys evenly")
    before: Any = ("sub", ("cast", "int64", 0), ("const", queries, "int64"))
    left = node.integer("left_window_size", -1)
    if left < -1:
        raise b.wrong(f"the window is {left} to the left, expected -1 (no bound) or more")
    return b.emit(
        "attention",
        [*operands, b.elementwise(before, counts, shape=(batch,), dtype="int64")],
        scale=node.number("scale", 1 / math.sqrt(size) if size else 1.0),
        softcap=node.number("softcap"),
        window=left if left < 0 else left + 1,
    )


class AttentionStages(NamedTuple):
    """The scores of all queries and keys, step by step, and the result."""

    raw: str
    capped: str
    biased: str
    weights: str
    y: str


def attend(
    b: NetworkBuilder,
    operands: Sequence[str],
    bias: str | None,
    *,
    scale: float,
    softcap: float = 0.0,
    precision: str | None = None,
    sink: str | None = None,
) -> AttentionStages:
    """Add scaled dot-product attention of Q, K and V, each (batch, heads, positions, size); the bias is of the scores.

    Query heads that share a key head become more rows of one matrix product. A sink, broadcast against the scores, is
    one more score of each query, for nothing.
    """
    q, k, v = operands
    dtype = b.dtype(q)
    (batch, heads, queries, size), (_, groups, keys, _) = b.shape(q), b.shape(k)
    if groups < 1 or heads % groups:
        raise b.wrong(f"{heads} heads of queries cannot share {groups} heads of keys evenly")
    grouped, scored = (batch, groups, heads // groups * queries), (batch, heads, queries, keys)
    raw = b.reshape(b.matmul(b.reshape(q, (*grouped, size)), k, transpose_b=True, alpha=scale), scored)
    capped = _capped(b, raw, softcap)
    biased = capped if bias is None else b.elementwise(("add", 0, 1), capped, bias)
    competing = b.cast(biased, precision or dtype)
    if sink is not None:
        sink = b.expand(b.cast(sink, precision or dtype), (*scored[:3], 1))
        competing = b.concat([competing, sink], 3)
    weights = b.part(b.cast(b.emit("softmax", [competing], axis=3, log=False), dtype), 3, 0, keys)
    product = b.matmul(b.reshape(b.cast(weights, b.dtype(v)), (*grouped, keys)), v)
    y = b.cast(b.reshape(product, (batch, heads, queries, b.shape(v)[3])), dtype)
    return AttentionStages(raw, capped, biased, weights, y)


def split_heads(b: NetworkBuilder, node: ModelNode, x: str, attribute: str) -> str:
    """Return (batch, positions, heads * size) as (batch, heads, positions, size)."""
    heads, shape = node.integer(attribute), b.shape(x)
    if len(shape) != 3 or heads < 1 or shape[2] % heads:
        raise b.wrong(f"attribute {attribute} is {heads}, which does not fit an input of shape {shape}")
    return b.transpose(b.reshape(x, (*shape[:2], heads, shape[2] // heads)), (0, 2, 1, 3))


def join_heads(b: NetworkBuilder, x: str) -> str:
    """Return (batch, heads, positions, size) as (batch, positions, heads * size)."""
    batch, heads, positions, size = b.shape(x)
    return b.reshape(b.transpose(x, (0, 2, 1, 3)), (batch, positions, heads * size))


def _capped(b: NetworkBuilder, scores: str, cap: float) -> str:
    """Return scores limited smoothly to (-cap, cap)."""
    if cap <= 0:  # as ONNX Runtime and the reference implementation do
        return scores
    limit = ("const", cap, b.dtype(scores))
    return b.elementwise(("mul", ("tanh", ("div", 0, limit)), limit), scores)


def _bias(b: NetworkBuilder, node: ModelNode, inputs: Inputs, scored: Shape, past: int, dtype: str) -> str | None:
    """Return the addend of the scores: the mask, and minus infinity where a query may not attend to a key."""
    mask, counts = inputs.optional(3), inputs.optional(6)
    none: Any = ("const", -math.inf, dtype)
    value: Any = ("const", 0.0, dtype)
    given: list[str] = []
    if mask is not None:
        given.append(_full_mask(b, mask, scored, dtype))
        value = 0
    offset: Any = ("const", past, "int64")
    attended: list[Any] = []
    if counts is not None:
        if b.shape(counts) != scored[:1]:
            raise b.wrong(f"nonpad_kv_seqlen has shape {b.shape(counts)}, expected {scored[:1]}")
        count = len(given)
        given.append(b.reshape(b.cast(counts, "int64"), (*scored[:1], 1, 1, 1)))
        attended.append(("less", KEY, count))
        offset = ("sub", count, ("const", scored[2], "int64"))
    attended += _visible(b, node, ("add", QUERY, offset))
    for condition in attended:
        value = ("where", condition, value, none)
    if not attended:
        return given[0] if given else None
    shape = broadcast([scored[2:], *(b.shape(each) for each in given)])
    return b.elementwise(value, *given, shape=shape)


def _visible(b: NetworkBuilder, node: ModelNode, position: Any) -> list[Any]:
    """Return which keys a query at a position may attend: none after it, or those in a window around it."""
    left, right = (node.integer(f"{side}_window_size", -1) for side in ("left", "right"))
    if min(left, right) < -1:
        raise b.wrong(f"the window is {left} to the left and {right} to the right, expected -1 (no bound) or more")
    visible: list[Any] = []
    if node.flag("is_causal"):
        visible.append(("less_equal", KEY, position))
    if left >= 0:
        visible.append(("greater_equal", ("add", KEY, ("const", left, "int64")), position))
    if right >= 0:
        visible.append(("less_equal", KEY, ("add", position, ("const", right, "int64"))))
    return visible


def _full_mask(b: NetworkBuilder, mask: str, scored: Shape, dtype: str) -> str:
    """Return a mask as numbers to add; from opset 24 on, keys beyond its end are not attended."""
    if b.dtype(mask) == "bool":
        mask = b.elementwise(("where", 0, ("const", 0.0, dtype), ("const", -math.inf, dtype)), mask)
    mask = b.cast(mask, dtype)
    shape = b.shape(mask)
    if b.opset >= 24 and shape and shape[-1] < scored[3]:
        mask = b.pad(mask, (*(0,) * (2 * len(shape) - 1), scored[3] - shape[-1]), value=-math.inf)
    if len(shape) > 4 or any(n not in (1, m) for n, m in zip(b.shape(mask)[::-1], scored[::-1], strict=False)):
        raise b.wrong(f"attn_mask has shape {shape}, which cannot be broadcast to {scored}")
    return mask


def _without_keyless(b: NetworkBuilder, x: str, bias: str | None) -> str:
    """Return results of queries with those that may attend no key replaced by 0."""
    if bias is None:
        return x
    highest = b.reduce("max", bias, (len(b.shape(bias)) - 1,)) if b.shape(bias) else bias
    known = b.known(highest)
    if known is not None and (known > -math.inf).all():
        return x
    nothing = ("equal", 1, ("const", -math.inf, b.dtype(x)))
    return b.elementwise(("where", nothing, ("const", 0.0, b.dtype(x)), 0), x, highest, shape=b.shape(x))
