# SPDX-License-Identifier: Apache-2.0
"""Labels and scores of classifiers (ai.onnx.ml)."""

from __future__ import annotations

from typing import Any

import numpy as np

from syclsched.frontends.onnx.importing.importer_registry import UnsupportedFormError
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode


def class_labels(b: NetworkBuilder, node: ModelNode, name: str) -> tuple[int, ...]:
    """Return the integer labels of a classifier."""
    found = node.integers(name) or ()
    if not found and node.attributes.get("classlabels_strings"):
        raise b.wrong(
            "its labels are strings, which is not supported",
            hint="Train it with whole numbers as labels, or look their texts up by the largest of its scores",
        )
    if not found:
        raise b.wrong(f"attribute {name!r} is missing")
    return found


def predicted_label(b: NetworkBuilder, scores: str, labels: tuple[int, ...], *, threshold: float | None = None) -> str:
    """Return the predicted label of each row of scores."""
    rows = b.shape(scores)[0]
    if threshold is not None:
        chosen: Any = ("where", ("greater", 0, ("const", threshold)), _whole(labels[1]), _whole(labels[0]))
        return b.elementwise(chosen, b.reshape(scores, (rows,)), dtype="int64")
    best = b.emit("arg", [scores], mode="max", axis=1, keepdims=False, last=False)
    if labels == tuple(range(len(labels))):
        return best
    return b.emit("gather", [b.constant(np.array(labels, np.int64)), best], axis=0)


def output_scores(b: NetworkBuilder, scores: str, post: str, *, second: str | None = None) -> str:
    """Return the output scores of a classifier, after post-processing."""
    if post not in ("NONE", "LOGISTIC", "SOFTMAX") or (post == "SOFTMAX" and second is not None):
        raise UnsupportedFormError
    if second == "rest" and post == "NONE":
        first = b.elementwise(("sub", ("const", 1.0), 0), scores)
        return b.emit("concat", [first, scores], axis=1)
    if second is not None:
        scores = b.emit("concat", [b.elementwise(("neg", 0), scores), scores], axis=1)
    if post == "LOGISTIC":
        return b.elementwise(("sigmoid", 0), scores)
    return b.emit("softmax", [scores], axis=1, log=False) if post == "SOFTMAX" else scores


def _whole(value: int) -> tuple[str, int, str]:
    return ("const", value, "int64")
