# SPDX-License-Identifier: Apache-2.0
"""Inputs, attributes, labels and scores that the operators of ai.onnx.ml share."""

from __future__ import annotations

from typing import Any

import numpy as np

from syclsched.frontends.onnx.importing.import_state import Array
from syclsched.frontends.onnx.importing.importer_registry import UnsupportedFormError
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode


def class_labels(b: NetworkBuilder, node: ModelNode, name: str) -> tuple[int, ...]:
    """Return the integer labels of a classifier."""
    found = node.integers_or(name)
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
        no, yes = (("const", label, "int64") for label in labels)
        chosen: Any = ("where", ("greater", 0, ("const", threshold)), yes, no)
        return b.elementwise(chosen, b.reshape(scores, (rows,)), dtype="int64")
    best = b.emit("arg", [scores], mode="max", axis=1, keepdims=False, last=False)
    if labels == tuple(range(len(labels))):
        return best
    return b.gather(b.constant(np.array(labels, np.int64)), best)


def output_scores(b: NetworkBuilder, scores: str, post: str, *, second: str | None = None) -> str:
    """Return the output scores of a classifier, after post-processing."""
    if post not in ("NONE", "LOGISTIC", "SOFTMAX") or (post == "SOFTMAX" and second is not None):
        raise UnsupportedFormError
    if second == "rest" and post == "NONE":
        return b.concat([b.elementwise(("sub", ("const", 1.0), 0), scores), scores], 1)
    if second is not None:
        scores = b.concat([b.elementwise(("neg", 0), scores), scores], 1)
    if post == "LOGISTIC":
        return b.elementwise(("sigmoid", 0), scores)
    return b.emit("softmax", [scores], axis=1, log=False) if post == "SOFTMAX" else scores


def floating(b: NetworkBuilder, x: str) -> str:
    """Return features in floating point."""
    return x if b.dtype(x) in ("float32", "float64") else b.cast(x, "float32")


def numbers_of(node: ModelNode, name: str, dtype: Any = np.float32) -> Array:
    """Return a numeric attribute: a list or, in double precision, a tensor ``<name>_as_tensor``."""
    tensor = node.attributes.get(f"{name}_as_tensor")
    return tensor.reshape(-1) if isinstance(tensor, np.ndarray) else np.array(node.attributes.get(name) or (), dtype)
