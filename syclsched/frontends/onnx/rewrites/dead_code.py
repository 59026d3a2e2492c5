# SPDX-License-Identifier: Apache-2.0
"""Dead code elimination."""

from __future__ import annotations

from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft


def remove_dead_nodes(draft: NetworkDraft) -> None:
    """Remove nodes that no network output depends on, and unread outputs of other nodes."""
    for node in reversed(tuple(draft.each())):
        read = tuple(name if name is not None and draft.reads(name) else None for name in node.outputs)
        if node.kind == "recurrent" and any(read):
            read = (node.outputs[0], *read[1:])  # it is written in any case, and the layer's gradient reads it
        if not any(name is not None for name in read):
            draft.remove(node)
            draft.record_change("not needed", node.name)
        elif read != node.outputs:
            draft.change(node, outputs=read)
            draft.record_change("one of several results not needed", node.name)
