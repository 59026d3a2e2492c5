# SPDX-License-Identifier: Apache-2.0
"""GridSample of every form, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper  # noqa: E402
from support.beside_runtime import array, same_as_runtime  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

from syclsched.errors import ModelError  # noqa: E402

MODES = [(16, "bilinear"), (16, "bicubic"), (16, "nearest"), (20, "linear"), (20, "cubic"), (20, "nearest")]


@pytest.mark.parametrize(("opset", "mode"), MODES)
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3, 5, 6), (1, 1, 1, 4)])
def test_planes(opset: int, mode: str, padding: str, align: int, shape: tuple[int, ...]) -> None:
    made = helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding, align_corners=align)
    grid = 1.5 * array(shape[0], 4, 3, 2)
    grid[0, 0] = [[-1, -1], [1, 1], [0, 0]]
    same_as_runtime([made], {"x": array(*shape), "grid": grid}, ["y"], opset)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_volumes(mode: str, padding: str) -> None:
    made = helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding)
    same_as_runtime([made], {"x": array(2, 2, 3, 4, 5), "grid": array(2, 2, 3, 4, 3)}, ["y"], 20)


@pytest.mark.parametrize(
    ("shape", "grid", "said"),
    [((1, 1, 3, 3), (2, 2, 2, 2), "a grid of shape"), ((1, 1, 3, 3), (1, 2, 2, 3), "a grid of shape")],
)
def test_grids_must_fit(shape: Any, grid: Any, said: str) -> None:
    made = helper.make_node("GridSample", ["x", "grid"], ["y"])
    with pytest.raises(ModelError, match=said):
        imported(model_of([made], {"x": shape, "grid": grid}, ["y"], opset=20))


def test_nan_coordinates_read_nothing_beyond_the_array() -> None:
    from support.host_evaluation import evaluate

    made = helper.make_node("GridSample", ["x", "grid"], ["y"], mode="nearest", padding_mode="border")
    network = imported(model_of([made], {"x": (1, 1, 2, 2), "grid": (1, 1, 2, 2)}, ["y"], opset=20))
    grid = np.full((1, 1, 2, 2), np.nan, np.float32)
    assert evaluate(network, {"x": np.ones((1, 1, 2, 2), np.float32), "grid": grid})["y"].shape == (1, 1, 1, 2)


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
def test_nearest_of_two_equally_near_positions(padding_mode: str, align: int) -> None:
    # Coordinates are rounded first, then moved into the array.
    made = helper.make_node(
        "GridSample", ["x", "grid"], ["y"], mode="nearest", padding_mode=padding_mode, align_corners=align
    )
    halves = np.arange(-9, 10, dtype=np.float32) / 4
    grid = np.stack(np.meshgrid(halves, halves), axis=-1)[None]
    same_as_runtime([made], {"x": array(1, 2, 4, 4), "grid": grid}, ["y"], 20)


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_zero_padding_ignores_the_border_values(mode: str) -> None:
    made = helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode="zeros")
    x, grid = np.full((1, 1, 4, 4), np.inf, np.float32), np.full((1, 1, 2, 2), 3, np.float32)
    same_as_runtime([made], {"x": x, "grid": grid}, ["y"], 20)
