# SPDX-License-Identifier: Apache-2.0
"""Release of queues of closed devices: libraries drop their resources, and queues in use keep theirs."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from support.onednn_calls import needs_onednn

import syclsched

onnx = pytest.importorskip("onnx", reason="the models are ONNX models")

from onnx import helper, numpy_helper  # noqa: E402

pytestmark = pytest.mark.sycl


def perceptron(width: int) -> onnx.ModelProto:
    weights = np.random.default_rng(width).random((width, width), dtype=np.float32)
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (4, width)) for name in "xy")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "perceptron", [x], [y], [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def streams() -> int:
    gc.collect()
    return sum(type(each).__name__ == "DnnlStream" for each in gc.get_objects())


@needs_onednn
def test_closed_models_leave_no_streams() -> None:
    x = np.ones((4, 32), np.float32)
    with syclsched.compile(perceptron(32), devices="cpu", autotune=False) as kept:
        wanted = kept(x=x)["y"].copy()
        before = streams()
        for _ in range(5):
            with syclsched.compile(perceptron(32), devices="cpu", autotune=False) as other:
                np.testing.assert_array_equal(other(x=x)["y"], wanted)
            del other
            np.testing.assert_array_equal(kept(x=x)["y"], wanted)
        assert streams() <= before
