# SPDX-License-Identifier: Apache-2.0
"""RoiAlign with pictures that are out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import syclsched

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import helper  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

from syclsched.errors import ArgumentError, ModelError  # noqa: E402

X = np.arange(72, dtype=np.float32).reshape(2, 1, 6, 6)
REGIONS = np.array([[0, 0, 3, 3], [1, 1, 5, 5]], np.float32)


def model(samples: int, inputs: dict[str, Any], constants: dict[str, Any]) -> Any:
    node = helper.make_node(
        "RoiAlign", ["x", "regions", "of"], ["y"], output_height=2, output_width=2, sampling_ratio=samples
    )
    return model_of([node], inputs, ["y"], {"regions": REGIONS, **constants}, opset=16, dtypes={"of": 7})


@pytest.mark.parametrize("samples", [0, 2])
@pytest.mark.parametrize("wrong", [-1, 2])
def test_a_constant_picture_out_of_range_is_refused(samples: int, wrong: int) -> None:
    made = model(samples, {"x": X.shape}, {"of": np.array([0, wrong])})
    with pytest.raises(ModelError, match=f"a region of picture {wrong}, and there are 2"):
        imported(made)


@pytest.mark.sycl
@pytest.mark.parametrize("samples", [0, 2])
def test_an_input_with_a_picture_out_of_range_is_refused(samples: int) -> None:
    with syclsched.compile(model(samples, {"x": X.shape, "of": (2,)}, {}), devices="cpu", autotune=False) as compiled:
        right = compiled(x=X, of=np.array([1, 0]))["y"]
        np.testing.assert_array_equal(
            right - compiled(x=X, of=np.array([0, 0]))["y"], [[[[36] * 2] * 2], [[[0] * 2] * 2]]
        )
        for wrong in (-1, 2):
            with pytest.raises(
                ArgumentError, match=f"index {wrong} is out of range: RoiAlign 'RoiAlign_y' picks from 2"
            ):
                compiled(x=X, of=np.array([0, wrong]))
