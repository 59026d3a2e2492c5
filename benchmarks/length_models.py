# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models of texts, sounds and lines of text of any length, with seeded random weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

#: Numbers for each place of a text.
WIDTH = 16
_TEXT = (1, "length", WIDTH)


def _model(nodes: list[tuple[Any, ...]], shape: tuple[Any, ...], constants: Mapping[str, Any] | None = None) -> Any:
    """Return a model of ``x`` to ``y``; nodes are an operator, its inputs, its output, and attributes."""
    from onnx import helper, numpy_helper

    made = [
        helper.make_node(kind, inputs.split(), [output], **(attributes[0] if attributes else {}))
        for kind, inputs, output, *attributes in nodes
    ]
    x = helper.make_tensor_value_info("x", 1, shape)
    y = helper.make_tensor_value_info("y", 1, None)
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(made, "of any length", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def _normal(*shape: int) -> Any:
    random = np.random.default_rng(0)
    return (random.standard_normal(shape) / np.sqrt(max(1, int(np.prod(shape[1:]))))).astype(np.float32)


def reader() -> Any:
    """Return a reader of lines of text: convolutions, poolings, and an LSTM along the width."""
    nodes = [
        ("Conv", "x w1", "c1", {"pads": [1] * 4}),
        ("Relu", "c1", "r1"),
        ("MaxPool", "r1", "p1", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Conv", "p1 w2", "c2", {"pads": [1] * 4}),
        ("Relu", "c2", "r2"),
        ("MaxPool", "r2", "p2", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Reshape", "p2 lines", "l"),
        ("Transpose", "l", "t", {"perm": [2, 0, 1]}),
        ("LSTM", "t wl rl", "s", {"hidden_size": 32}),
        ("Squeeze", "s one", "y"),
    ]
    weights = {"w1": _normal(16, 1, 3, 3), "w2": _normal(32, 16, 3, 3)}
    weights |= {"wl": _normal(1, 128, 256), "rl": _normal(1, 128, 32)}
    return _model(nodes, (1, 1, 32, "length"), {**weights, "lines": [1, 256, -1], "one": [1]})


def statistics() -> Any:
    """Return means and standard deviations along a text."""
    nodes = [
        ("ReduceMean", "x one", "m"),
        ("Sub", "x m", "d"),
        ("Mul", "d d", "dd"),
        ("ReduceMean", "dd one", "v"),
        ("Sqrt", "v", "s"),
        ("Concat", "m s", "y", {"axis": 2}),
    ]
    return _model(nodes, _TEXT, {"one": [1]})


def shifted() -> Any:
    """Return a mix of each place and the one before."""
    nodes = [("Slice", "x zero last one", "b"), ("Pad", "b pads", "p"), ("Sub", "x p", "d"), ("MatMul", "d w", "y")]
    constants = {"zero": [0], "last": [-1], "one": [1], "pads": [0, 1, 0, 0, 0, 0]}
    return _model(nodes, _TEXT, {**constants, "w": _normal(WIDTH, WIDTH)})


def attending() -> Any:
    """Return attention with biases by the distance of two places."""
    nodes = [
        ("Shape", "x", "s"),
        ("Gather", "s at", "n"),
        ("Range", "zero n step", "r"),
        ("Unsqueeze", "r first", "r0"),
        ("Unsqueeze", "r second", "r1"),
        ("Sub", "r0 r1", "d"),
        ("Clip", "d low high", "c"),
        ("Add", "c high", "i"),
        ("Gather", "table i", "b"),
        ("Transpose", "x", "xt", {"perm": [0, 2, 1]}),
        ("MatMul", "x xt", "p"),
        ("Add", "p b", "pb"),
        ("Softmax", "pb", "a"),
        ("MatMul", "a x", "y"),
    ]
    constants = {"at": 1, "zero": 0, "step": 1, "first": [0], "second": [1], "low": -8, "high": 8}
    return _model(nodes, _TEXT, {**constants, "table": _normal(17)})


def pooled() -> Any:
    """Return the places with the greatest numbers, and the last place of sums along a text, as numbers."""
    nodes = [
        ("CumSum", "x axis", "s"),
        ("Gather", "s last", "e", {"axis": 1}),
        ("ArgMax", "x", "g", {"axis": 1, "keepdims": 0}),
        ("Cast", "g", "f", {"to": 1}),
        ("Add", "e f", "y"),
    ]
    return _model(nodes, _TEXT, {"axis": 1, "last": -1})


def normalised() -> Any:
    """Return a convolution of a text whose channels are normalised."""
    nodes = [
        ("Transpose", "x", "t", {"perm": [0, 2, 1]}),
        ("InstanceNormalization", "t scale bias", "i"),
        ("Conv", "i w", "y", {"pads": [1, 1]}),
    ]
    return _model(nodes, _TEXT, {"scale": _normal(WIDTH), "bias": _normal(WIDTH), "w": _normal(8, WIDTH, 3)})


#: Name -> function that makes the model, and the shape of its input without the length.
MODELS: Mapping[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "reader of lines": (reader, (1, 1, 32, 0)),
    "means and deviations": (statistics, (1, 0, WIDTH)),
    "places and those before": (shifted, (1, 0, WIDTH)),
    "attention by distance": (attending, (1, 0, WIDTH)),
    "sums and greatest places": (pooled, (1, 0, WIDTH)),
    "normalised channels": (normalised, (1, 0, WIDTH)),
}


def inputs(name: str, length: int) -> dict[str, Any]:
    """Return the inputs of a model for a length."""
    return {"x": _normal(*[each or length for each in MODELS[name][1]])}
