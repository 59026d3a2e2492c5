# SPDX-License-Identifier: Apache-2.0
"""Importer of GroupQueryAttention: causal attention with rotary positions and a cache of keys and values."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, imports
from syclsched.frontends.onnx.importing.lengths import Length, LengthError
from syclsched.frontends.onnx.importing.microsoft.normalisation import rms_norm
from syclsched.frontends.onnx.importing.microsoft.rotary import rotated
from syclsched.frontends.onnx.importing.microsoft.standard_operators import first, refuse
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.nn.attention import KEY, QUERY, attend, join_heads, split_heads
from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT, ModelNode
from syclsched.frontends.onnx.shapes import Shape, broadcast

_REFUSED: Final = [(12, "k_scale"), (13, "v_scale"), (16, "query_seqlens")]


class _Positions(NamedTuple):
    """Positions of the new tokens of each sample: those after a number of earlier ones."""

    before: Any  # an expression of the values
    values: list[str]  # shape (batch, 1, 1, 1)
    number: int | None  # of earlier tokens, if it is known and equal in all samples


@imports("GroupQueryAttention", domain=MICROSOFT)
def _group_query_attention(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    _refuse(b, node)
    past_key, past_value = inputs.optional(3), inputs.optional(4)
    if (past_key is None) != (past_value is None):
        raise b.wrong("past_key and past_value go together")
    caches = None if past_key is None or past_value is None else (past_key, past_value)
    has_cache = caches is not None and _is_cache(b, node, inputs, caches)
    number = _number_of_tokens(b, inputs, has_cache=has_cache)
    if number is not None:  # the values computed or written for one token are independent of later ones
        inputs = inputs.changed(lambda each: b.with_all(each, b.shape(each)) if each in b.lengths else each)
    q, k, v = _heads(b, node, inputs)
    batch, _, queries, size = b.shape(q)
    if caches is not None and has_cache:
        return _over_cache(b, node, inputs, (q, k, v), caches, number)
    past = 0 if past_key is None else b.shape(past_key)[2]
    total = b.integer(inputs.required(6, "total_sequence_length"), "total_sequence_length")
    if not queries <= total <= past + queries:
        raise b.wrong(f"total_sequence_length is {total}, with {queries} new and {past} earlier tokens")
    lengths = b.reshape(b.cast(inputs.required(5, "seqlens_k"), "int64"), (batch, 1, 1, 1))
    positions = _positions(b, lengths, batch, queries, total)
    if node.integer("do_rotary"):
        q, k = _rotated(b, node, inputs, positions, q, k)
    if past_key is not None and past_value is not None and past:
        k, v = (_appended(b, *pair, positions, max(past, total)) for pair in ((past_key, k), (past_value, v)))
    bias = _bias(b, node, inputs.optional(10), positions, lengths, (queries, b.shape(k)[2]), b.dtype(q))
    sink = inputs.optional(11)
    if sink is not None:
        sink = b.reshape(sink, (1, *b.shape(sink), 1, 1))
    elif node.integer("smooth_softmax") > 0:
        sink = b.filled((1, 1, 1, 1), b.dtype(q))
    scale = node.number("scale") or 1 / math.sqrt(size)
    y = attend(b, (q, k, v), bias, scale=scale, softcap=node.number("softcap"), sink=sink).y
    return [join_heads(b, y), k, v]


def _number_of_tokens(b: NetworkBuilder, inputs: Inputs, *, has_cache: bool) -> str | None:
    """Return the number of new tokens, if it is known only at run time; raise if there are other such extents."""
    lengths = [each for name in inputs.given() for each in b.lengths.get(name, ())]
    counts = {each.count for each in lengths if each.axis}
    if counts and (len(counts) > 1 or len(counts) < len({each.count for each in lengths}) or not has_cache):
        raise LengthError("it reads extents of values whose lengths are known only at run time", where=b.place())
    return next(iter(counts), None)


def _is_cache(b: NetworkBuilder, node: ModelNode, inputs: Inputs, caches: tuple[str, str]) -> bool:
    """Return whether keys and values are written to the memory of the earlier ones, which is kept for the next call.

    The lengths are then values of the run, and one plan serves every token.
    """
    others = inputs.optional(10) or inputs.optional(11) or node.integer("smooth_softmax") > 0
    return b.carried.issuperset(caches) and not others and bool(node.integer("causal", 1))


def _over_cache(
    b: NetworkBuilder,
    node: ModelNode,
    inputs: Inputs,
    operands: tuple[str, str, str],
    caches: tuple[str, str],
    number: str | None,
) -> Names:
    """Return the results over caches; the number of new tokens is that of the queries, or a value."""
    q, k, v = operands
    (batch, _, queries, size), room = b.shape(q), b.shape(caches[0])[2]
    total = inputs.required(6, "total_sequence_length")
    known = b.known(total)
    longest = int(known.reshape(-1)[0]) if known is not None else 0 if number is not None else queries
    if longest > room or (number is None and longest < queries):
        raise b.wrong(
            f"its cache has room for {room} tokens, and the sequence has {longest}",
            hint="Give a larger extent of the past when the model is compiled (shapes=)",
        )
    lengths = b.reshape(b.cast(inputs.required(5, "seqlens_k"), "int64"), (batch,))
    starts = _starts(b, lengths, total, queries if number is None else number)
    if node.integer("do_rotary"):
        places = _Positions(0, [starts], None)
        q, k = _rotated(b, node, inputs, places, q, k)
    key = b.emit("cache_write", [caches[0], k, starts], circular=False)
    rows, first = inputs.optional(2), 0
    if rows is None:  # the values stand last in packed queries, keys and values
        rows = inputs.required(0, "query")
        first = b.shape(rows)[2] - b.shape(v)[1] * b.shape(v)[3]
    value = b.emit("cache_write", [caches[1], rows, starts], circular=False, first=first)
    y = b.emit(
        "attention",
        [q, key, value, starts],
        scale=node.number("scale") or 1 / math.sqrt(size),
        softcap=node.number("softcap"),
        window=node.integer("local_window_size", -1),
    )
    y = join_heads(b, y)
    if number is not None:
        b.give_lengths(y, [Length(1, number)])
    return [y, key, value]


def _starts(b: NetworkBuilder, lengths: str, total: str, number: int | str) -> str:
    """Return the position of the first of a number of new tokens, given the positions of the last ones.

    A prompt starts at the beginning in all samples, also in those whose texts are shorter.
    """
    if number == 1:
        return lengths
    known, given = b.known(total), [lengths]
    count: Any = ("const", number, "int64")
    if isinstance(number, str):
        count = len(given)
        given.append(number)
    longest: Any = None if known is None else ("const", int(known.reshape(-1)[0]), "int64")
    if longest is None:
        longest = len(given)
        given.append(b.reshape(b.cast(total, "int64"), (1,)))
    start: Any = ("sub", 0, ("sub", count, ("const", 1, "int64")))
    if longest == count:
        start = ("const", 0, "int64")
    elif known is None or isinstance(number, str):
        start = ("where", ("equal", longest, count), ("const", 0, "int64"), start)
    return b.elementwise(start, *given, shape=b.shape(lengths), dtype="int64")


def _refuse(b: NetworkBuilder, node: ModelNode) -> None:
    quantised = [name for name in ("k_quant_type", "v_quant_type") if node.text(name, "NONE") != "NONE"]
    refuse(b, node, inputs=_REFUSED, attributes=("sliding_window_cache", "qk_output", *quantised))


def _heads(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> list[str]:
    """Return Q, K and V, each (batch, heads, positions, size)."""
    query, key, value = inputs.required(0, "query"), inputs.optional(1), inputs.optional(2)
    heads, groups = node.integer("num_heads"), node.integer("kv_num_heads")
    if (key is None) != (value is None):
        raise b.wrong("key and value go together")
    if key is None or value is None:
        shape = b.shape(query)
        if len(shape) != 3 or heads < 1 or groups < 1 or shape[2] % (heads + 2 * groups):
            raise b.wrong(f"{heads} heads of queries and {groups} of keys and of values in an input of shape {shape}")
        size = shape[2] // (heads + 2 * groups)
        key, value = (b.part(query, 2, start * size, groups * size) for start in (heads, heads + groups))
        query = b.part(query, 2, 0, heads * size)
    q = split_heads(b, node, query, "num_heads")
    k, v = (split_heads(b, node, each, "kv_num_heads") for each in (key, value))
    q_weight, k_weight, epsilon = inputs.optional(14), inputs.optional(15), node.number("qk_norm_epsilon", 1e-6)
    if q_weight is not None:
        q = first(rms_norm(b, q, q_weight, 3, node.number("q_norm_epsilon", epsilon)))
    if k_weight is not None:
        k = first(rms_norm(b, k, k_weight, 3, node.number("k_norm_epsilon", epsilon)))
    return [q, k, v]


def _positions(b: NetworkBuilder, lengths: str, batch: int, queries: int, total: int) -> _Positions:
    """Return the positions of the new tokens; the lengths are those of all tokens, minus 1."""
    known = b.known(lengths)
    # The longest sample has the total length. A prompt starts at 0, for any lengths.
    if queries == total or batch == 1 or (known is not None and (known == total - 1).all()):
        return _Positions(("const", total - queries, "int64"), [], total - queries)
    return _Positions(("sub", 0, ("const", queries - 1, "int64")), [lengths], None)


def _rotated(
    b: NetworkBuilder, node: ModelNode, inputs: Inputs, positions: _Positions, q: str, k: str
) -> tuple[str, str]:
    caches, position_ids = (inputs.required(7, "cos_cache"), inputs.required(8, "sin_cache")), inputs.optional(9)
    batch, _, count, _ = b.shape(q)
    if position_ids is None:
        extent = batch if positions.number is None else 1
        values = [b.reshape(each, (extent, 1)) for each in positions.values]
        position_ids = b.elementwise(("add", positions.before, KEY), *values, shape=(extent, count))
    interleaved = node.flag("rotary_interleaved")
    turned = [
        rotated(b, value, position_ids, caches, interleaved=interleaved, part=part)
        for value, part in _rotary_operands(b, inputs, q, k)
    ]
    return turned[0], turned[1]


def _rotary_operands(
    b: NetworkBuilder, inputs: Inputs, q: str, k: str
) -> list[tuple[str, tuple[int, int, int] | None]]:
    """Return the rotated values: Q and K, or, if those are not normalised, the parts of the node's inputs they are."""
    if inputs.optional(14) is not None or inputs.optional(15) is not None:
        return [(q, None), (k, None)]
    query, key = inputs.required(0, "query"), inputs.optional(1)
    (_, heads, _, size), (_, groups, _, key_size) = b.shape(q), b.shape(k)
    behind = heads * size if key is None else 0
    return [(query, (0, heads, size)), (query if key is None else key, (behind, groups, key_size))]


def _appended(b: NetworkBuilder, past: str, new: str, positions: _Positions, length: int) -> str:
    """Return a cache of a length, in which the new tokens stand at their positions after the earlier ones."""
    earlier, count = b.shape(past)[2], b.shape(new)[2]
    both = b.concat([past, new], 2)
    if positions.number == earlier:
        return both
    place = QUERY  # of rows, as of queries
    end = ("add", positions.before, ("const", count, "int64"))
    is_new = ("and", ("greater_equal", place, positions.before), ("less", place, end))
    shifted = ("add", ("sub", place, positions.before), ("const", earlier, "int64"))
    # Each element of a row needs an index of its own: that of its row in both.
    shape = (*b.shape(new)[:2], length, b.shape(new)[3])
    rows = b.elementwise(("where", is_new, shifted, place), *positions.values, shape=shape, dtype="int64")
    return b.emit("gather_elements", [both, rows], axis=2)


def _bias(
    b: NetworkBuilder,
    node: ModelNode,
    extra: str | None,
    positions: _Positions,
    lengths: str,
    scored: Shape,
    dtype: str,
) -> str | None:
    """Return the addend of the scores: minus infinity at keys that a query may not attend to, and another bias."""
    (queries, keys), window = scored, node.integer("local_window_size", -1)
    given = list(positions.values)
    query = ("add", QUERY, positions.before)
    attended: list[Any] = []
    if node.integer("causal", 1):
        if queries > 1 or positions.number is None or keys > positions.number + 1:
            attended.append(("less_equal", KEY, query))
    else:
        attended.append(("less_equal", KEY, len(given)))
        given.append(lengths)
    if window >= 0:
        attended.append(("greater", ("add", KEY, ("const", window, "int64")), query))
    value: Any = ("const", 0.0, dtype)
    if extra is not None:
        value = len(given)
        missing = keys - b.shape(extra)[3]
        given.append(b.pad(extra, (*(0,) * 7, missing)) if missing > 0 else extra)
    elif not attended:
        return None
    for condition in attended:
        value = ("where", condition, value, ("const", -math.inf, dtype))
    return b.elementwise(value, *given, shape=broadcast([scored, *map(b.shape, given)]), dtype=dtype)
