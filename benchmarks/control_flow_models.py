# SPDX-License-Identifier: Apache-2.0
"""ONNX models with control flow and results of unknown length, with seeded weights: cells in loops, a detector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

_FLOAT, _INT, _BOOL = 1, 7, 9


def _normal(random: np.random.Generator, *shape: int) -> Any:
    """Return random weights as at the start of training."""
    return (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def _model(name: str, nodes: list[Any], x: tuple[int, ...], outputs: Mapping[str, int], weights: Any) -> Any:
    from onnx import helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", _FLOAT, x)],
        [helper.make_tensor_value_info(each, kind, None) for each, kind in outputs.items()],
        [numpy_helper.from_array(value, each) for each, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def cell(operator: str, steps: int, batch: int, width: int) -> Any:
    """Return an LSTM whose cell is written out in the body of a Loop or a Scan."""
    from onnx import helper

    node, random = helper.make_node, np.random.default_rng(0)
    weights = {
        "w": _normal(random, 2 * width, 4 * width),
        "b": 0.1 * _normal(random, 4 * width),
        "steps": np.array(steps),
        "start": np.zeros((batch, width), np.float32),
    }
    is_loop = operator == "Loop"
    nodes = [
        *([node("Gather", ["x", "i"], ["line"], axis=0), node("Identity", ["go"], ["on"])] if is_loop else []),
        node("Concat", ["line", "h"], ["both"], axis=1),
        node("MatMul", ["both", "w"], ["product"]),
        node("Add", ["product", "b"], ["gates"]),
        node("Split", ["gates"], ["i0", "o0", "f0", "g0"], axis=1, num_outputs=4),
        *(node("Sigmoid", [f"{gate}0"], [f"{gate}1"]) for gate in "iof"),
        node("Tanh", ["g0"], ["g1"]),
        node("Mul", ["f1", "c"], ["kept"]),
        node("Mul", ["i1", "g1"], ["new"]),
        node("Add", ["kept", "new"], ["c1"]),
        node("Tanh", ["c1"], ["c2"]),
        node("Mul", ["o1", "c2"], ["h1"]),
        node("Identity", ["h1"], ["made"]),
    ]
    state = [helper.make_tensor_value_info(each, _FLOAT, (batch, width)) for each in ("h", "c")]
    given = [helper.make_tensor_value_info("i", _INT, ()), helper.make_tensor_value_info("go", _BOOL, ())]
    line = [helper.make_tensor_value_info("line", _FLOAT, (batch, width))]
    made = [helper.make_tensor_value_info(each, _FLOAT, (batch, width)) for each in ("h1", "c1", "made")]
    on = [helper.make_tensor_value_info("on", _BOOL, ())]
    outputs = ["h2", "c3", "y"]
    if is_loop:
        body = helper.make_graph(nodes, "cell", [*given, *state], [*on, *made])
        looped = node("Loop", ["steps", "", "start", "start"], outputs, body=body)
    else:
        body = helper.make_graph(nodes, "cell", [*state, *line], made)
        looped = node("Scan", ["start", "start", "x"], outputs, body=body, num_scan_inputs=1)
    return _model(operator, [looped], (steps, batch, width), dict.fromkeys(outputs, _FLOAT), weights)


def detector(size: int) -> Any:
    """Return a detector of three classes: convolutions, NonMaxSuppression, and the selected boxes."""
    from onnx import helper

    node, random, weights = helper.make_node, np.random.default_rng(0), {}
    nodes, before, channels = [], "x", 3
    for layer, width in enumerate((16, 32, 64)):
        weights |= {
            f"w{layer}": _normal(random, width, channels, 3, 3),
            f"b{layer}": 0.1 * _normal(random, width, 1)[:, 0],
        }
        nodes.append(node("Conv", [before, f"w{layer}", f"b{layer}"], [f"c{layer}"], strides=[2, 2], pads=[1, 1, 1, 1]))
        nodes.append(node("Relu", [f"c{layer}"], [f"a{layer}"]))
        before, channels = f"a{layer}", width
    places = (size // 8) ** 2
    weights |= {
        "head": 4 * _normal(random, 7, channels, 1, 1),
        "lines": np.array([1, 7, places]),
        "parts": np.array([4, 3]),
        "most": np.array([20]),
        "overlap": np.array([0.5], np.float32),
        "least": np.array([0.7], np.float32),
        "last": np.array(2),
        "grid": np.stack(np.divmod(np.arange(places), size // 8), 1).astype(np.float32) * 8,
        "scale": np.array([0, 0, 32, 32], np.float32),
        "zeros": np.zeros((places, 2), np.float32),
    }
    nodes += [
        node("Conv", [before, "head"], ["map"]),
        node("Sigmoid", ["map"], ["shares"]),
        node("Reshape", ["shares", "lines"], ["rows"]),
        node("Split", ["rows", "parts"], ["corners", "scores"], axis=1),
        node("Transpose", ["corners"], ["offsets"], perm=[0, 2, 1]),
        node("Mul", ["offsets", "scale"], ["sizes"]),
        node("Concat", ["grid", "zeros"], ["centres"], axis=1),
        node("Add", ["sizes", "centres"], ["boxes"]),
        node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["chosen"], center_point_box=1),
        node("Gather", ["chosen", "last"], ["at"], axis=1),
        node("Gather", ["boxes", "at"], ["found"], axis=1),
        node("GatherND", ["scores", "chosen"], ["kept"]),
    ]
    outputs = {"chosen": _INT, "found": _FLOAT, "kept": _FLOAT}
    return _model("detector", nodes, (1, 3, size, size), outputs, weights)


#: Name -> function that makes the model, and the target ratio to ONNX Runtime's time.
CONTROL_FLOW: Mapping[str, tuple[Callable[[], Any], float]] = {
    "loop, 200 steps, 64": (partial(cell, "Loop", 200, 1, 64), 1.2),
    "loop, batch 8, 50 steps, 128": (partial(cell, "Loop", 50, 8, 128), 1.2),
    "scan, 200 steps, 64": (partial(cell, "Scan", 200, 1, 64), 1.2),
    "detector, 256": (partial(detector, 256), 1.2),
}
