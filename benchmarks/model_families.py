# SPDX-License-Identifier: Apache-2.0
"""ONNX models of further families, with seeded weights: recurrent, control flow, tiny, quantised, pictures."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from classical_models import forest, k_means, pipeline
from control_flow_models import CONTROL_FLOW
from picture_models import PICTURES
from quantised_models import QUANTISED
from text_models import reader, text_classifier

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_FLOAT = 1


def _normal(random: np.random.Generator, *shape: int) -> Any:
    """Return random weights as at the start of training."""
    return (random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)


def _model(name: str, nodes: list[Any], x: tuple[int, ...], outputs: list[str], weights: Mapping[str, Any]) -> Any:
    from onnx import helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", _FLOAT, x)],
        [helper.make_tensor_value_info(each, _FLOAT, None) for each in outputs],
        [numpy_helper.from_array(value, each) for each, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def recurrent(
    operator: str, steps: int, batch: int, features: int, hidden: int, *, layers: int = 1, both: bool = False
) -> Any:
    """Return a recurrent network of one operator, layer upon layer, in one direction or both."""
    from onnx import helper

    random, gates, ways = np.random.default_rng(0), _GATES[operator], 1 + both
    nodes, weights, before, width = [], {}, "x", features
    for layer in range(layers):
        given = {
            f"w{layer}": _normal(random, ways, gates * hidden, width),
            f"r{layer}": _normal(random, ways, gates * hidden, hidden),
            f"b{layer}": 0.1 * _normal(random, ways, 2 * gates * hidden),
        }
        weights |= given
        direction = "bidirectional" if both else "forward"
        made = [f"y{layer}", f"h{layer}"]
        nodes.append(helper.make_node(operator, [before, *given], made, hidden_size=hidden, direction=direction))
        nodes.append(helper.make_node("Transpose", [made[0]], [f"t{layer}"], perm=[0, 2, 1, 3]))
        nodes.append(helper.make_node("Reshape", [f"t{layer}", f"shape{layer}"], [f"z{layer}"]))
        weights[f"shape{layer}"] = np.array([steps, batch, ways * hidden], np.int64)
        before, width = f"z{layer}", ways * hidden
    return _model(operator, nodes, (steps, batch, features), [before, f"h{layers - 1}"], weights)


def perceptron(batch: int, *widths: int) -> Any:
    """Return dense layers with ReLU between them."""
    from onnx import helper

    random, nodes, weights, before = np.random.default_rng(0), [], {}, "x"
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        weights |= {f"w{layer}": _normal(random, outputs, inputs), f"b{layer}": 0.1 * _normal(random, outputs)}
        nodes.append(helper.make_node("Gemm", [before, f"w{layer}", f"b{layer}"], [f"g{layer}"], transB=1))
        before = f"g{layer}"
        if layer + 2 < len(widths):
            nodes.append(helper.make_node("Relu", [before], [f"a{layer}"]))
            before = f"a{layer}"
    return _model("perceptron", nodes, (batch, widths[0]), [before], weights)


def gated(batch: int, width: int) -> Any:
    """Return a network that chooses between two branches by values."""
    from onnx import helper

    random, weights = np.random.default_rng(0), {}

    def branch(name: str) -> Any:
        weights[f"w_{name}"] = _normal(random, width, width)
        nodes = [helper.make_node("MatMul", ["x", f"w_{name}"], [f"m_{name}"])]
        nodes.append(helper.make_node("Tanh", [f"m_{name}"], [f"y_{name}"]))
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(f"y_{name}", _FLOAT, (batch, width))])

    choose = helper.make_node("If", ["c"], ["y"], then_branch=branch("then"), else_branch=branch("else"))
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], keepdims=0),
        helper.make_node("Greater", ["mean", "zero"], ["c"]),
        choose,
    ]
    return _model("gated", nodes, (batch, width), ["y"], {**weights, "zero": np.array(0, np.float32)})


#: Name -> function that makes the model, and the target ratio to ONNX Runtime's time.
FAMILIES: Mapping[str, tuple[Callable[[], Any], float]] = {
    "lstm, 200 steps, 64": (partial(recurrent, "LSTM", 200, 1, 64, 64), 1.2),
    "gru, 200 steps, 64": (partial(recurrent, "GRU", 200, 1, 64, 64), 1.2),
    "rnn, 100 steps, 128": (partial(recurrent, "RNN", 100, 1, 128, 128), 1.2),
    "lstm, batch 8, 50 steps, 128": (partial(recurrent, "LSTM", 50, 8, 128, 128), 1.2),
    "lstm, batch 32, 50 steps, 256": (partial(recurrent, "LSTM", 50, 32, 256, 256), 1.2),
    "lstm, both ways, 2 layers, 100 steps, 128": (
        partial(recurrent, "LSTM", 100, 1, 64, 128, layers=2, both=True),
        1.2,
    ),
    "gated": (partial(gated, 8, 128), 1.2),
    "perceptron, 64": (partial(perceptron, 1, 64, 64, 64, 10), 1.2),
    "perceptron, 784 to 10": (partial(perceptron, 16, 784, 512, 512, 10), 1.2),
    **QUANTISED,
    "isolation forest, 30 trees": (partial(forest, 1, 30, 8), 1.0),
    "isolation forest, 30 trees, 100 rows": (partial(forest, 100, 30, 8), 1.0),
    "random forest, 100 trees, 10 classes": (partial(forest, 1, 100, 10, classes=10, votes=True), 1.0),
    "random forest, 100 trees, 10 classes, 64 rows": (partial(forest, 64, 100, 10, classes=10, votes=True), 1.0),
    "boosted, 300 trees, 3 classes": (partial(forest, 1, 300, 6, classes=3), 1.0),
    "boosted, 300 trees, 3 classes, 256 rows": (partial(forest, 256, 300, 6, classes=3), 1.0),
    "scaler, components, regression": (partial(pipeline, 1, 64, 16, 10), 1.0),
    "scaler, components, regression, 100 rows": (partial(pipeline, 100, 64, 16, 10), 1.0),
    "text classifier, 64 words": (text_classifier, 1.1),
    "reader of a line of text": (reader, 1.1),
    "k-means, 100 rows": (partial(k_means, 100, 32, 8), 1.0),
    **CONTROL_FLOW,
    **PICTURES,
}


def saved(name: str, folder: Path) -> Path:
    """Return the file of a model; make it if it does not exist."""
    import onnx

    path = folder / f"{''.join(each if each.isalnum() else '-' for each in name)}.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(FAMILIES[name][0](), str(path))
    return path
