# SPDX-License-Identifier: Apache-2.0
"""Fusion of reductions along columns with each other and with the element-wise nodes before them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.fusion.elementwise_fusion import MOST_INPUTS, MOST_OPERATORS
from syclsched.frontends.onnx.rewrites.fusion.expressions import (
    compact_all,
    is_input,
    uses_indices,
    with_explicit_dtype,
)
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft
from syclsched.kernels.tensor.reductions.column_sums import DTYPES, parts_of
from syclsched.kernels.tensor.writing.expression import count_operators, substitute

#: Fewest rows of sums that are changed: those of fewer are tiny, and part of a chain of launches.
_ROWS: Final = 512
_SQUARE: Final = ("square", ("sub", 0, 1))


def fuse_column_reductions(draft: NetworkDraft) -> None:
    """Let sums and means along columns read the summands, and compute those of the same arrays in one pass.

    The reductions that are there remain, and reduce the sums of parts of the rows; there may be one part. A mean and
    the variance around it become moments, of one pass.
    """
    for node in draft.each("reduce"):
        if _is_along_columns(draft, node):
            _make_moments(draft, node)
    groups: dict[tuple[Any, ...], list[_ColumnSum]] = {}
    for node in draft.each("reduce"):
        if _is_along_columns(draft, node):
            made = _ColumnSum.of(draft, node)
            groups.setdefault((draft.shape(node.inputs[0] or ""), draft.dtype(node.inputs[0] or "")), []).append(made)
    for sums in groups.values():
        while sums:
            together = _take_together(draft, sums)
            if len(together) > 1 or not is_input(together[0].expression):
                _fuse(draft, together)


@dataclass(frozen=True, slots=True)
class _ColumnSum:
    """A reduction along columns, and the expression that it adds."""

    node: CanonicalNode
    expression: Any
    inputs: tuple[str, ...]  # of the expression

    @classmethod
    def of(cls, draft: NetworkDraft, node: CanonicalNode) -> _ColumnSum:
        """Return the sum of an element-wise node's result without other readers, else of the reduced value."""
        value = node.inputs[0] or ""
        made = _readable(draft, value)
        if made is None or draft.reads(value) > 1:
            return cls(node, 0, (value,))
        return cls(node, made.attributes["expression"], tuple(str(name) for name in made.inputs))


def _is_along_columns(draft: NetworkDraft, node: CanonicalNode) -> bool:
    """Return whether a node is a sum or a mean of many rows along columns."""
    shape, axes = draft.shape(node.inputs[0] or ""), tuple(node.attributes["axes"])
    is_sum = node.attributes["mode"] in ("sum", "mean") and draft.dtype(node.inputs[0] or "") in DTYPES
    return is_sum and axes == tuple(range(len(shape) - 1)) and all(shape) and math.prod(shape[:-1]) >= _ROWS


def _readable(draft: NetworkDraft, value: str) -> CanonicalNode | None:
    """Return the element-wise node that makes a value, if sums can compute it: from rows, columns and numbers."""
    made = draft.made_by(value, "elementwise")
    if made is None or draft.is_output(value) or uses_indices(made.attributes["expression"]):
        return None
    if is_input(made.attributes["expression"]) or made.attributes["expression"][0] == "bfloat16_bits":
        return None
    shape = draft.shape(value)
    fits = all(_is_by_columns(draft.shape(str(name)), shape) for name in made.inputs)
    return made if fits and len(made.inputs) <= MOST_INPUTS else None


def _is_by_columns(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether an array has all elements of a shape, or is the same in all rows."""
    return given == shape or math.prod(given[:-1]) == 1


def _take_together(draft: NetworkDraft, sums: list[_ColumnSum]) -> list[_ColumnSum]:
    """Remove the first sum from a list, and those that read one of its arrays and can be computed with it."""
    first = sums.pop(0)
    together, shape = [first], draft.shape(first.node.inputs[0] or "")
    large = {name for name in first.inputs if draft.shape(name) == shape}
    for each in tuple(sums):
        inputs = {name for one in (*together, each) for name in one.inputs}
        if large.isdisjoint(each.inputs) or len(inputs) > MOST_INPUTS:
            continue
        if any(_depends(draft, each.inputs, one.node) or _depends(draft, one.inputs, each.node) for one in together):
            continue
        together.append(each)
        large |= {name for name in each.inputs if draft.shape(name) == shape}
        sums.remove(each)
    return together


def _depends(draft: NetworkDraft, values: Sequence[str], node: CanonicalNode) -> bool:
    """Return whether some values follow from a node."""
    waiting, seen = [*values], set[str]()
    while waiting:
        made = draft.producer(waiting.pop())
        if made is None or made.name in seen:
            continue
        if made.name == node.name:
            return True
        seen.add(made.name)
        waiting += [name for name in made.inputs if name is not None]
    return False


def _fuse(draft: NetworkDraft, together: Sequence[_ColumnSum]) -> None:
    """Add a node that computes sums in parts, and let their reductions read these."""
    given = tuple(dict.fromkeys(name for each in together for name in each.inputs))
    value = together[0].node.inputs[0] or ""
    expressions = []
    for each in together:
        moved = substitute(each.expression, {i: given.index(name) for i, name in enumerate(each.inputs)})
        expressions.append(with_explicit_dtype(moved, draft.dtype(value)))
    found, inputs = compact_all(tuple(expressions), given)
    parts = _parts(draft, value)
    means = tuple(each.node.attributes["mode"] == "mean" for each in together)
    made = draft.add_all(
        "column_sums",
        inputs,
        [_of_parts(draft, value, parts)] * len(together),
        {"expressions": found, "means": means, "parts": parts},
        like=together[0].node,
    )
    for each, output in zip(together, made, strict=True):
        before = each.node.inputs[0]
        draft.change(each.node, inputs=(output,))
        draft.remove_unread(before)
        draft.record_change("adds what is computed in one pass over its arrays", each.node.name)
    sums = draft.producer(made[0])
    if sums is not None:
        _absorb_inputs(draft, sums, draft.shape(value))


def _parts(draft: NetworkDraft, value: str) -> int:
    """Return the number of parts in which the rows of a value are added."""
    shape = draft.shape(value)
    return int(parts_of(math.prod(shape[:-1]), shape[-1]))


def _of_parts(draft: NetworkDraft, value: str, parts: int) -> tuple[tuple[int, ...], str]:
    """Return the shape and dtype of the sums of a value in parts of its rows."""
    shape = draft.shape(value)
    return (parts, *(1,) * (len(shape) - 2), shape[-1]), draft.dtype(value)


def _absorb_inputs(draft: NetworkDraft, sums: CanonicalNode, shape: tuple[int, ...]) -> None:
    """Let sums compute the inputs that nothing else reads.

    An input with another reader is stored. To compute it in both, which would save one write, keeps its own inputs in
    memory until both have run: a training step of convolutions in half of its memory then takes 4.8 times as long.
    """
    for name in sums.inputs:
        made = _readable(draft, str(name))
        if made is None or name is None or draft.shape(name) != shape or draft.readers(name) != [sums]:
            continue
        inputs = tuple(str(each) for each in (*sums.inputs, *made.inputs))
        inner = substitute(made.attributes["expression"], {i: len(sums.inputs) + i for i in range(len(made.inputs))})
        moved = {sums.inputs.index(name): with_explicit_dtype(inner, draft.dtype(name))}
        found, kept = compact_all(tuple(substitute(each, moved) for each in sums.attributes["expressions"]), inputs)
        if len(kept) > MOST_INPUTS or max(map(count_operators, found)) > MOST_OPERATORS:
            continue
        sums = draft.change(sums, inputs=kept, attributes={**sums.attributes, "expressions": found})
        draft.remove_unread(name)
        draft.record_change("computed where it is added", made.name)


def _make_moments(draft: NetworkDraft, mean: CanonicalNode) -> None:
    """Compute a mean along columns and the variance around it, if that is computed, from the moments of parts."""
    x, centre = mean.inputs[0] or "", mean.outputs[0] or ""
    for around in draft.readers(centre):
        value = around.outputs[0] or ""
        of_x = around.kind == "elementwise" and around.inputs == (x, centre) and draft.shape(value) == draft.shape(x)
        variance = draft.sole_reader(value)
        if not of_x or around.attributes["expression"] != _SQUARE or variance is None or variance.kind != "reduce":
            continue
        if mean.attributes["mode"] != "mean" or variance.attributes["mode"] != "mean":
            continue
        if not _is_along_columns(draft, variance):
            continue
        parts = _parts(draft, x)
        shape, dtype = _of_parts(draft, x, parts)
        means, variances = draft.add_all("column_moments", (x,), [(shape, dtype)] * 2, {"parts": parts}, like=mean)
        draft.change(mean, inputs=(means,))
        if parts > 1:  # the variance of all rows is the mean of those of parts, around the mean of all
            of_parts = {"expression": ("add", 0, ("square", ("sub", 1, 2)))}
            variances = draft.add("elementwise", (variances, means, centre), shape, dtype, of_parts, like=around)
        draft.change(variance, inputs=(variances,))
        draft.remove_unread(value)
        draft.record_change("mean and variance are computed in one pass", mean.name)
        return
