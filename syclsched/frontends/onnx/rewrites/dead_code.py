# SPDX-License-Identifier: Apache-2.0
"""Dead code elimination."""

from __future__ import annotations

from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft


def remove_dead_nodes(draft: NetworkDraft) -> None:
    """Remove nodes that no network output depends on, and unread outputs of other nodes."""
    for node in reversed(tuple(draft.each())):
        read = tuple(name if name is not None and draft.reads(name) else None for name in node.outputs)
        if node.kind == "recurrent" and any(read):
            states = 3 if node.attributes["cell"] == "lstm" else 2
            sums = node.outputs[states:] if any(read[states:]) else read[states:]
            # The operation writes the result in any case, and all sums of gates or none.
            read = (node.outputs[0], *read[1:states], *sums)
        if not any(name is not None for name in read):
            draft.remove(node)
            draft.record_change("not needed", node.name)
        elif read != node.outputs:
            draft.change(node, outputs=read)
            draft.record_change("one of several results not needed", node.name)
