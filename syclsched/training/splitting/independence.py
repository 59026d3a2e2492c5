# SPDX-License-Identifier: Apache-2.0
"""Check that a model computes each sample of a batch by itself, so that parts of the batch give the same results."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import TYPE_CHECKING

from syclsched.frontends.onnx.network import Network

if TYPE_CHECKING:
    from syclsched.onnx.specialised import Shapes
    from syclsched.training.steps.step_model import StepModel


def why_not_in_parts(model: StepModel, shapes: Shapes) -> str | None:
    """Return why parts of a batch, of shapes of all inputs, would change the result of a step; None if they do not.

    The model is one whose batches are cut.
    """
    samples, parts = model.samples(shapes), model.cut(shapes)
    if len(parts) < 2:
        return "a batch of one sample has no parts"
    if model.prediction_shape(shapes)[:1] != (samples,):
        return f"{model.output!r} has no axis of samples"
    batched, count = model.batched(shapes), parts[0].count
    mixing = mixing_node(model.forward(shapes), parts[0].network, batched, samples, count)
    return None if mixing is None else f"it computes across the samples of a batch: {mixing!r}"


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
