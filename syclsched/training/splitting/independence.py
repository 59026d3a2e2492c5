# SPDX-License-Identifier: Apache-2.0
"""Check that a model computes each sample of a batch by itself, so that parts of the batch give the same results."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from syclsched.frontends.onnx.network import Network


def mixing_node(whole: Network, part: Network, batched: Collection[str], samples: int, count: int) -> str | None:
    """Return the name of a node that computes across samples; None if there is none.

    ``part`` is the same model for ``count`` of the samples. Every value that depends on a batch must shrink with it: a
    mean over samples does not. Nodes along axis 0, such as a softmax, are taken to mix samples as well.
    """
    reached = set(batched)
    for node in whole.nodes:
        if reached.isdisjoint(name for name in node.inputs if name is not None):
            continue
        if node.kind == "moments" or (node.attributes.get("axis") == 0 and node.inputs[0] in reached):
            return node.name
        for name in node.outputs:
            if name is None:
                continue
            reached.add(name)
            size, own = prod(whole.values[name].shape), part.values.get(name)
            if own is None or size * count != prod(own.shape) * samples:
                return node.name
    return None
