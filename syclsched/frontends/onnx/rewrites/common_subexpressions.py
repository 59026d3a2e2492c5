# SPDX-License-Identifier: Apache-2.0
"""Common subexpression elimination for nodes and constants."""

from __future__ import annotations

from typing import Any, Final

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft

#: Larger constants are not compared: reading all weights would take longer than sharing some would save.
_LARGEST_BYTES: Final = 1 << 16


def merge_common(draft: NetworkDraft) -> None:
    """Merge equal small constants, and nodes with equal kind, attributes and inputs."""
    _share_constants(draft)
    seen: dict[Any, CanonicalNode] = {}
    for node in draft.each():
        # A value stored in 16 bits is converted for each reader, so that no wide copy stays between them.
        widens = node.attributes.get("expression") == ("of_bfloat16_bits", 0)
        if widens or node.kind in ("loop", "reference", "operation"):
            continue
        made = tuple(None if name is None else (draft.shape(name), draft.dtype(name)) for name in node.outputs)
        key = (node.kind, node.inputs, tuple(sorted((k, _frozen(v)) for k, v in node.attributes.items())), made)
        first = seen.setdefault(key, node)
        first = draft.nodes.get(first.name, first)
        if first.name == node.name:
            continue
        pairs = [(old, new) for old, new in zip(node.outputs, first.outputs, strict=True) if old is not None]
        if any(new is None or (draft.is_output(old) and draft.is_output(new)) for old, new in pairs):
            continue
        draft.remove(node)
        for old, new in pairs:
            assert new is not None
            draft.redirect(old, new)
        draft.record_change("computed once instead of again", node.name)


def _share_constants(draft: NetworkDraft) -> None:
    seen: dict[Any, str] = {}
    for name, array in tuple(draft.constants.items()):
        if array.nbytes > _LARGEST_BYTES or draft.is_output(name):
            continue
        first = seen.setdefault((array.dtype.str, array.shape, array.tobytes()), name)
        if first != name and draft.readers(name):
            draft.redirect(name, first)
            draft.record_change("equal constants are one", name)


def _frozen(value: Any) -> Any:
    """Return a hashable key of an attribute's value with its type, as 1 == 1.0 == True."""
    if isinstance(value, (tuple, list)):
        return tuple(_frozen(each) for each in value)
    return (type(value).__name__, repr(value) if isinstance(value, float) else value)
