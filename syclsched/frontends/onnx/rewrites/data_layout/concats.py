# SPDX-License-Identifier: Apache-2.0
"""Merging of nested concatenations and slices, to save copies."""

from __future__ import annotations

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft


def merge_concats(draft: NetworkDraft) -> None:
    """Merge concatenations along the same axis, and slices of slices or of concatenations.

    A concatenation whose only reader is another one along the same axis is merged into it. A slice within one part of a
    concatenation becomes a slice of that part; a slice of a slice becomes a slice of the original value.
    """
    for node in draft.each("concat", "slice"):
        current: CanonicalNode | None = node
        while current is not None:
            current = _concat(draft, current) if current.kind == "concat" else _slice(draft, current)


def _concat(draft: NetworkDraft, node: CanonicalNode) -> CanonicalNode | None:
    for index, value in enumerate(node.inputs):
        inner = draft.made_by(value, "concat")
        if value is None or inner is None or inner.attributes["axis"] != node.attributes["axis"]:
            continue
        if draft.reads(value) != 1:
            continue
        joined = draft.change(
            node,
            inputs=(*node.inputs[:index], *inner.inputs, *node.inputs[index + 1 :]),
            origin=(*inner.origin, *node.origin),
        )
        draft.remove_unread(value)
        draft.record_change("part of the concatenation after it", inner.name)
        return joined
    return None


def _slice(draft: NetworkDraft, node: CanonicalNode) -> CanonicalNode | None:
    source, output = node.inputs[0], node.outputs[0]
    inner = draft.producer(source)
    if source is None or output is None or inner is None:
        return None
    starts, steps = node.attributes["starts"], node.attributes["steps"]
    if inner.kind == "slice":
        first, strides = inner.attributes["starts"], inner.attributes["steps"]
        attributes = {
            "starts": tuple(a + b * s for a, b, s in zip(first, starts, strides, strict=True)),
            "steps": tuple(a * b for a, b in zip(strides, steps, strict=True)),
        }
        changed = draft.change(node, inputs=inner.inputs, attributes=attributes)
        draft.remove_unread(source)
        draft.record_change("one slice of two", node.name)
        return changed
    if inner.kind != "concat" or 0 in draft.shape(output):
        return None
    axis = inner.attributes["axis"]
    begin = starts[axis]
    end = begin + (draft.shape(output)[axis] - 1) * steps[axis]
    offset = 0
    for part in inner.inputs:
        assert part is not None
        extent = draft.shape(part)[axis]
        if offset <= min(begin, end) and max(begin, end) < offset + extent:
            moved = tuple(start - offset if i == axis else start for i, start in enumerate(starts))
            changed = draft.change(node, inputs=(part,), attributes={"starts": moved, "steps": steps})
            draft.remove_unread(source)
            draft.record_change("a slice of one part of what was joined", node.name)
            return changed
        offset += extent
    return None
