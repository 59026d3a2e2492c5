# SPDX-License-Identifier: Apache-2.0
"""Dead code elimination."""

from __future__ import annotations

from syclsched.frontends.onnx.rewrites.editing import Draft


def drop(draft: Draft) -> None:
    """Remove nodes that no network output depends on, and unread outputs of other nodes."""
    for node in reversed(tuple(draft.each())):
        read = tuple(name if name is not None and draft.reads(name) else None for name in node.outputs)
        if not any(name is not None for name in read):
            draft.remove(node)
            draft.did("not needed", node.name)
        elif read != node.outputs:
            draft.change(node, outputs=read)
            draft.did("one of several results not needed", node.name)
