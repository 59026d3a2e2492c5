# SPDX-License-Identifier: Apache-2.0
"""Constant folding."""

from __future__ import annotations

from typing import Final

from syclsched.frontends.onnx.host_evaluation import evaluate_node
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft
from syclsched.frontends.onnx.shapes import nbytes

#: A node is folded if its result is at most this many times as large as its inputs (dequantised ones are four times
#: as large), or at most this many bytes.
_GROWTH: Final = 4
_FREE_BYTES: Final = 1 << 16


def fold_constants(draft: NetworkDraft) -> None:
    """Evaluate the nodes whose inputs are all constants."""
    for node in draft.each():
        outputs = [name for name in node.outputs if name is not None]
        if node.kind in ("loop", "reference", "operation") or any(draft.is_output(name) for name in outputs):
            continue
        if not all(name is None or name in draft.constants for name in node.inputs):
            continue
        given = sum(draft.constants[name].nbytes for name in node.inputs if name is not None)
        made = sum(nbytes(draft.shape(name), draft.dtype(name)) for name in outputs)
        if made > max(_GROWTH * given, _FREE_BYTES):
            continue
        for name, array in evaluate_node(node, draft.values, draft.constants).items():
            draft.redirect(name, draft.add_constant(array, name))
        draft.remove(node)
        draft.record_change("computed beforehand", node.name)
