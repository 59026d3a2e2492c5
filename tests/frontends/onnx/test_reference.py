# SPDX-License-Identifier: Apache-2.0
"""Host tasks by onnx's reference implementation, for older opsets, compared with ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper  # noqa: E402
from support.beside_runtime import array, same_as_runtime  # noqa: E402

from syclsched.frontends.onnx.reference import evaluate_reference  # noqa: E402


@pytest.mark.parametrize("opset", [10, 16])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_are_aligned(opset: int, mode: str) -> None:
    made = helper.make_node(
        "RoiAlign", ["x", "rois", "of"], ["y"], mode=mode, output_height=2, output_width=3, spatial_scale=0.7
    )
    inputs = {
        "x": array(2, 3, 9, 10),
        "rois": np.array([[0, 0, 9, 9], [2, 3, 7, 8], [-1, -2, 30, 12]], np.float32),
        "of": np.array([0, 1, 1], np.int64),
    }
    same_as_runtime([made], inputs, ["y"], opset, by_host=False)


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize(
    "inputs", [["b", "s"], ["b", "s", "most"], ["b", "s", "", "overlap"], ["b", "s", "most", "overlap"]]
)
def test_boxes_are_chosen_with_missing_or_scalar_limits(inputs: list[str], shape: tuple[int, ...]) -> None:
    node = helper.make_node("NonMaxSuppression", inputs, ["y"])
    given = {
        "b": np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 5, 1, 6]]], np.float32),
        "s": np.array([[[0.9, 0.8, 0.7]]], np.float32),
        "most": np.full(shape, 3),
        "overlap": np.full(shape, 0.5, np.float32),
    }
    opsets = (("", 17),)
    (found,) = evaluate_reference(node.SerializeToString(), opsets, {n: given[n] for n in inputs if n}, ("y",))
    assert [row[2] for row in found] == ([0, 2] if "most" in inputs else [])
