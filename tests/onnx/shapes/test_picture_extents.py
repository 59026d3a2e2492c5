# SPDX-License-Identifier: Apache-2.0
"""Extents of resized images that depend on values of inputs."""

from __future__ import annotations

import numpy as np
import pytest

import syclsched

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from support.small_models import model_of  # noqa: E402
from support.value_extents import EXTENTS, array, check, node, two, x  # noqa: E402

pytestmark = pytest.mark.sycl


PLACES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
MODES = [*(("linear", each, {}) for each in PLACES), ("nearest", "half_pixel", {})]
MODES += [("cubic", each, {}) for each in (*PLACES, "half_pixel_symmetric")]
MODES += [
    ("cubic", "half_pixel", {"exclude_outside": 1, "cubic_coeff_a": -0.5}),
    ("linear", "half_pixel_symmetric", {}),
]
MODES += [("nearest", "asymmetric", {"nearest_mode": each}) for each in ("floor", "ceil", "round_prefer_ceil")]


@pytest.mark.parametrize(("mode", "places", "more"), MODES)
def test_pictures_of_any_size(mode: str, places: str, more: dict[str, str]) -> None:
    how = {"mode": mode, "coordinate_transformation_mode": places, **more}
    nodes = [node("Resize", ["x", "", "", "n"], ["y"], **how), node("ReduceMean", ["y"], ["mean"])]
    values = [{"x": x(1, 2, 5, 6), "n": two(1, 2, n, k)} for n in EXTENTS[:7] for k in (1, 6, 12)]
    check(nodes, {"y": "float32", "mean": "float32"}, values, 6, by_definition=mode == "cubic")


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
def test_pictures_that_keep_their_proportions(policy: str, mode: str) -> None:
    nodes = [node("Resize", ["x", "", "", "n"], ["y"], mode=mode, keep_aspect_ratio_policy=policy, axes=[2, 3])]
    values = [{"x": x(1, 2, 5, 6), "n": two(n, k)} for n in EXTENTS[:6] for k in (1, 6, 12)]
    check(nodes, {"y": "float32"}, values, 7, by_definition=True)


REGIONS = ((0, 1, 0.1, 0.9), (0.25, 0.75, 0, 1), (-0.2, 1.1, 0.3, 0.5), (0, 1, 0.1, 0.9), (0.5, 0.4, 0, 0.7))


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize("sizes", ["n", "size"])
def test_parts_of_pictures(mode: str, sizes: str) -> None:
    how = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    nodes = [
        node("Constant", [], ["size"], value_ints=[1, 2, 4, 7]),
        node("Concat", ["begins", "ends"], ["roi"], axis=0),
        node("Resize", ["x", "roi", "", sizes], ["y"], **how),
    ]
    values = []
    for i, (top, bottom, left, right) in enumerate(REGIONS):
        each = {"x": x(1, 2, 5, 6), "begins": array([0, 0, top, left], "float32")}
        each["ends"] = array([1, 1, bottom, right], "float32")
        values.append(each | ({"n": two(1, 2, 3 + i % 3, 5)} if sizes == "n" else {}))
    check(nodes, {"y": "float32"}, values, 4, by_definition=True)


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
def test_parts_of_pictures_scaled_by_real_numbers(mode: str) -> None:
    how = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    inputs = ["x", "roi", "s"]
    shapes = {"x": (1, 2, 5, 6), "roi": (8,), "s": (4,)}
    model = model_of([node("Resize", inputs, ["y"], **how)], shapes, ["y"], {}, opset=19)
    with syclsched.compile(model, devices="cpu", autotune=False) as compiled:
        for i, (top, bottom, left, right) in enumerate(REGIONS[:4]):
            picture, region = x(1, 2, 5, 6), array([0, 0, top, left, 1, 1, bottom, right], "float32")
            scales = array([1, 1, 1 + i % 2, 2.5], "float32")
            constants = {"roi": region, "s": scales}
            fixed = model_of([node("Resize", inputs, ["y"], **how)], {"x": shapes["x"]}, ["y"], constants, opset=19)
            with syclsched.compile(fixed, devices="cpu", autotune=False) as other:
                wanted = other(picture)["y"]
            found = compiled(picture, region, scales)["y"]
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, atol=2e-6)
        assert not compiled._plans.by_value.inputs and len(compiled.kept_shapes) == 1


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_pictures_scaled_by_real_numbers(mode: str) -> None:
    nodes = [node("Resize", ["x", "", "s"], ["y"], mode=mode)]
    values = [
        {"x": x(1, 2, 5, 6), "s": array([1, 1, a, b], "float32")} for a in (1, 1.5, 2, 0.7) for b in (2, 0.5, 1.25)
    ]
    check(nodes, {"y": "float32"}, values, 5)


def test_convolutions_of_resized_pictures() -> None:
    nodes = [
        node("Resize", ["x", "", "", "n"], ["h"], mode="linear"),
        node("Conv", ["h", "kernels"], ["c"], pads=[1, 1, 1, 1], strides=[2, 1]),
        node("MaxPool", ["c"], ["y"], kernel_shape=[2, 2], pads=[1, 0, 0, 1]),
    ]
    values = [{"x": x(1, 3, 5, 6), "n": two(1, 3, n, k)} for n in EXTENTS[:7] for k in (4, 6, 12)]
    check(nodes, {"y": "float32"}, values, 7)
