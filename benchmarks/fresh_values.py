# SPDX-License-Identifier: Apache-2.0
"""Time of a call with new values of inputs on which a shape depends.

    python benchmarks/fresh_values.py [--values 20]

A vector is expanded to as many rows as a floating-point input gives; a matrix product and a softmax follow.
"""

from __future__ import annotations

import time

import numpy as np
import onnx
from common import format_range, parser
from onnx import helper, numpy_helper

import syclsched


def model() -> onnx.ModelProto:
    """Return the model."""
    nodes = [
        helper.make_node("Cast", ["n"], ["rows"], to=onnx.TensorProto.INT64),
        helper.make_node("Concat", ["rows", "columns"], ["shape"], axis=0),
        helper.make_node("Expand", ["x", "shape"], ["whole"]),
        helper.make_node("MatMul", ["whole", "weights"], ["product"]),
        helper.make_node("Softmax", ["product"], ["y"]),
    ]
    weights = np.random.default_rng(0).random((64, 64), np.float32)
    graph = helper.make_graph(
        nodes,
        "rows",
        [helper.make_tensor_value_info("n", 1, [1]), helper.make_tensor_value_info("x", 1, [1, 64])],
        [helper.make_tensor_value_info("y", 1, [None, 64])],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(np.array([64]), "columns")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def main() -> None:
    """Measure calls with new values."""
    count = parser(__doc__, values=20).parse_args().values
    with syclsched.compile(model(), devices="cpu") as compiled:
        x = np.ones((1, 64), np.float32)
        took = []
        for rows in (100, 60, 128, *range(65, 65 + count)):
            begun = time.perf_counter()
            compiled(np.array([rows], np.float32), x)
            took.append(1e3 * (time.perf_counter() - begun))
        print(f"a fresh value: {format_range(took[3:], 2)} ms, {len(compiled.kept_shapes)} plans kept")


if __name__ == "__main__":
    main()
