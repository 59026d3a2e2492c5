# SPDX-License-Identifier: Apache-2.0
"""Memory of a process that calls a model with one new shape after another.

    python benchmarks/many_shapes.py [--models convolutions encoder] [--count 300] [--every 20]

The models are three convolutions with pooling, for pictures of 16 to 60 rows and columns, and a transformer of two
layers, for 1 to 20 texts of 16 to 60 words. Plans of the last 16 shapes are kept, as by default. Growth is that of the
second half of the calls, and what is left after `close`, less than before the model, is the process's for good.
"""

from __future__ import annotations

import gc

import numpy as np
from common import parser, print_table, resident_bytes
from onnx import TensorProto, helper, numpy_helper

import syclsched
from syclsched.devices.programs.programs import program_count
from syclsched.testing.models import encoder_model

_MIB = 1 << 20


def convolutions() -> object:
    """Return a model of three convolutions."""
    random = np.random.default_rng(0)
    shapes = {"w0": (8, 3, 3, 3), "w1": (16, 8, 3, 3), "w2": (16, 16, 1, 1)}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "w1"], ["d"], pads=[1] * 4),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("Conv", ["e", "w2"], ["f"]),
        helper.make_node("GlobalAveragePool", ["f"], ["g"]),
        helper.make_node("Softmax", ["g"], ["y"], axis=1),
    ]
    weights = [numpy_helper.from_array(random.normal(size=s).astype("float32"), name) for name, s in shapes.items()]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, "rows", "columns"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "convolutions", [given], [result], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def arguments(name: str, number: int) -> tuple[np.ndarray, ...]:
    """Return inputs of a shape that no other number has."""
    slow, fast = divmod(number, 20)
    if name == "convolutions":
        return (np.ones((1, 3, 16 + slow, 16 + 2 * fast), np.float32),)
    shape = 1 + fast, 16 + slow
    return tuple(np.full(shape, value, np.int64) for value in (7, 1, 0))


def main() -> None:
    """Call each model with new shapes, and print the memory."""
    given = parser(__doc__, models=["convolutions", "encoder"], count=300, every=20).parse_args()
    for name in given.models:
        model = convolutions() if name == "convolutions" else encoder_model(2, 64, 4, vocabulary=100)
        rows: list[tuple[str, ...]] = []
        resident: list[int] = []
        with syclsched.compile(model, devices="cpu") as compiled:
            for number in range(given.count):
                compiled(*arguments(name, number))
                resident.append(resident_bytes())
                if (number + 1) % given.every == 0:
                    rows.append((str(number + 1), f"{resident[-1] / _MIB:.1f}", str(program_count())))
        gc.collect()
        print_table(name, ("shapes", "resident MiB", "programs made"), rows, [])
        half = given.count // 2
        growth = (resident[-1] - resident[half - 1]) / _MIB / (given.count - half)
        print(f"{growth:.2f} MiB a shape in the second half; {resident_bytes() / _MIB:.1f} MiB after close")


if __name__ == "__main__":
    main()
