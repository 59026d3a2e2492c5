# SPDX-License-Identifier: Apache-2.0
"""Inputs, attributes, labels and scores that the operators of ai.onnx.ml share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from syclsched.frontends.onnx.importing.import_state import Array
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode
from syclsched.frontends.onnx.network import Decoding

Labels = tuple[int, ...] | tuple[str, ...]


def class_labels(b: NetworkBuilder, node: ModelNode, name: str) -> Labels:
    """Return the labels of a classifier: integers or text."""
    found: Labels = node.integers_or(name) or node.attributes.get("classlabels_strings") or ()
    if not found:
        raise b.wrong(f"attribute {name!r} is missing")
    return found


def predicted_label(b: NetworkBuilder, scores: str, labels: Labels, *, threshold: float | None = None) -> str:
    """Return the predicted label of each row of scores; if the labels are text, its position, which outputs decode."""
    rows, numbers = b.shape(scores)[0], tuple(range(len(labels)))
    is_text = isinstance(labels[0], str)
    values = numbers if is_text else labels
    if threshold is not None:
        no, yes = (("const", label, "int64") for label in values)
        chosen: Any = ("where", ("greater", 0, ("const", threshold)), yes, no)
        made = b.elementwise(chosen, b.reshape(scores, (rows,)), dtype="int64")
    else:
        made = b.emit("arg", [scores], mode="max", axis=1, keepdims=False, last=False)
        if values != numbers:
            made = b.gather(b.constant(np.array(labels, np.int64)), made)
    if is_text:
        b.decodings[made] = Decoding(labels)
    return made


def output_scores(b: NetworkBuilder, scores: str, post: str, *, second: str | None = None) -> str:
    """Return the output scores of a classifier, after post-processing.

    ``second`` says what the class beside that of a single score has: ``"rest"`` to 1, or its ``"negative"``. As in ONNX
    Runtime, such pairs are transformed by LOGISTIC alone.
    """
    if second is None or post not in ("NONE", "SOFTMAX", "SOFTMAX_ZERO"):
        if second is not None and post == "PROBIT":
            raise b.wrong(
                "post_transform PROBIT of one score for two classes is not defined", hint="Give a score of each class"
            )
        pair = scores if second is None else b.concat([b.elementwise(("neg", 0), scores), scores], 1)
        return transformed(b, pair, post)
    other = ("sub", ("const", 1.0), 0) if second == "rest" else ("neg", 0)
    return b.concat([b.elementwise(other, scores), scores], 1)


def transformed(b: NetworkBuilder, scores: str, post: str) -> str:
    """Return rows of scores after post-processing."""
    if post == "NONE":
        return scores
    if post == "LOGISTIC":
        return b.elementwise(("sigmoid", 0), scores)
    if post == "SOFTMAX":
        return b.emit("softmax", [scores], axis=1, log=False)
    if post == "PROBIT":
        return _probit(b, scores)
    if post != "SOFTMAX_ZERO":
        raise b.wrong(f"post_transform is {post!r}, expected NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT")
    # Scores of 0 stay, the others are divided by the sum of these.
    most = b.reduce("max", scores, (1,))
    is_zero = ("less_equal", ("abs", 0), ("const", 1e-7, b.dtype(scores)))
    powers = b.elementwise(("where", is_zero, ("const", 0.0, b.dtype(scores)), ("exp", ("sub", 0, 1))), scores, most)
    return b.elementwise(("div", 0, 1), powers, b.reduce("sum", powers, (1,)))


def _probit(b: NetworkBuilder, x: str) -> str:
    """Return quantiles of the normal distribution, by ONNX Runtime's approximation of the inverse error function."""
    a, doubled = 0.147, ("sub", ("mul", 0, ("const", 2.0)), ("const", 1.0))
    inside = ("mul", ("sub", ("const", 1.0), doubled), ("add", ("const", 1.0), doubled))
    half = ("add", ("mul", 1, ("const", 0.5)), ("const", 2 / (math.pi * a)))
    root = ("sqrt", ("sub", ("sqrt", ("sub", ("square", half), ("div", 1, ("const", a)))), half))
    size = ("mul", root, ("const", math.sqrt(2)))
    return b.elementwise(
        ("where", ("less", doubled, ("const", 0.0)), ("neg", size), size), x, b.elementwise(("log", inside), x)
    )


def floating(b: NetworkBuilder, x: str) -> str:
    """Return features in floating point."""
    return x if b.dtype(x) in ("float32", "float64") else b.cast(x, "float32")


def numbers_of(node: ModelNode, name: str, dtype: Any = np.float32) -> Array:
    """Return a numeric attribute: a list or, in double precision, a tensor ``<name>_as_tensor``."""
    tensor = node.attributes.get(f"{name}_as_tensor")
    return tensor.reshape(-1) if isinstance(tensor, np.ndarray) else np.array(node.attributes.get(name) or (), dtype)
