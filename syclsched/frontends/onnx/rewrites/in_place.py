# SPDX-License-Identifier: Apache-2.0
"""Residuals whose memory becomes that of the sum: one array less goes through the caches.

A convolution that adds a residual reads one array and writes another of the same size. Where nobody needs the residual
any more, the sum can take its place. Nothing else changes: who reads the residual besides is needed for the sum anyway,
so that no task waits for more than it did. Matrix products gain nothing by it, as was measured.
"""

from __future__ import annotations

from syclsched.frontends.onnx.network import Node
from syclsched.frontends.onnx.rewrites.editing import Draft

#: Where the residual is among a node's inputs.
_RESIDUAL = 3


def mark(draft: Draft) -> None:
    """Say of every convolution with a residual whether it adds in the residual's memory (attribute ``in_place``)."""
    for node in draft.each("conv"):
        marked = bool(node.attributes.get("in_place"))
        if marked == _can_be_overwritten(draft, node):
            continue
        draft.change(node, attributes={**node.attributes, "in_place": not marked})
        draft.did("residual is added in two arrays again" if marked else "residual is added in place", node.name)


def _can_be_overwritten(draft: Draft, node: Node) -> bool:
    """Return whether the sum can take the residual's memory."""
    made = node.outputs[0]
    residual = node.inputs[_RESIDUAL] if len(node.inputs) > _RESIDUAL else None
    if made is None or residual is None:
        return False
    source = residual
    while (reshaping := draft.made_by(source, "reshape")) is not None and reshaping.inputs[0] is not None:
        source = reshaping.inputs[0]
    held = _under_all_shapes(draft, source)
    if draft.maker(source) is None or any(map(draft.asked, held | _under_all_shapes(draft, made))):
        return False
    if sum(name in held for name in node.inputs) != 1 or draft.dtype(source) != draft.dtype(made):
        return False
    readers = {each.name for name in held for each in draft.readers(name) if each.kind != "reshape"}
    return _all_before(draft, readers - {node.name}, node, source)


def _under_all_shapes(draft: Draft, value: str) -> set[str]:
    """Return the values that are the same memory as one that some node makes: itself, and what it is reshaped to."""
    found, waiting = {value}, [value]
    while waiting:
        for node in draft.readers(waiting.pop()):
            target = node.outputs[0] if node.kind == "reshape" else None
            if target is not None and target not in found:
                found.add(target)
                waiting.append(target)
    return found


def _all_before(draft: Draft, names: set[str], node: Node, source: str) -> bool:
    """Return whether a node needs all that some others make, which all read ``source``."""
    first, missing = draft.maker(source), set(names)
    seen, waiting = {node.name}, [node]
    while waiting and missing:
        for value in waiting.pop().inputs:
            maker = draft.maker(value)
            if maker is not None and maker is not first and maker.name not in seen:
                seen.add(maker.name)
                missing.discard(maker.name)
                waiting.append(maker)
    return not missing
