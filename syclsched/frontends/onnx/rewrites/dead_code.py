# SPDX-License-Identifier: Apache-2.0
"""What nobody needs is not computed."""

from __future__ import annotations

from syclsched.frontends.onnx.rewrites.editing import Draft


def drop(draft: Draft) -> None:
    """Take out nodes of which no output of the network needs anything, and forget single outputs nobody reads."""
    for node in reversed(tuple(draft.each())):
        read = tuple(name if name is not None and draft.reads(name) else None for name in node.outputs)
        if not any(name is not None for name in read):
            draft.remove(node)
            draft.did("not needed", node.name)
        elif read != node.outputs:
            draft.change(node, outputs=read)
            draft.did("one of several results not needed", node.name)
