# SPDX-License-Identifier: Apache-2.0
"""Resampling, reductions and powers of integers, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402
from support.beside_runtime import same_as_runtime  # noqa: E402
from support.host_evaluation import evaluate  # noqa: E402
from support.repeatable import generator  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

import syclsched  # noqa: E402
from syclsched.frontends.onnx.model_file.dtypes import NUMBERS  # noqa: E402

RANDOM = generator(7)
node = helper.make_node


def integers(kind: str, *shape: int, most: int | None = None) -> Any:
    info = np.iinfo(kind)
    low, high = (info.min, info.max) if most is None else (max(-most, info.min), most)
    return RANDOM.integers(low, high, shape, kind, endpoint=True)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32"])
@pytest.mark.parametrize("scales", [[1, 1, 2, 2], [1, 1, 4, 2], [1, 1, 1, 2]])
def test_integers_are_truncated_after_linear_upsampling(kind: str, scales: list[int]) -> None:
    """They were refused."""
    x, given = integers(kind, 2, 3, 4, 5, most=100), {"s": np.array(scales, np.float32)}
    same_as_runtime([node("Upsample", ["x", "s"], ["y"], mode="linear")], {"x": x}, ["y"], 9, given)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric"])
def test_integers_are_truncated_after_linear_resizing(kind: str, coordinates: str) -> None:
    """They were rounded, by the host."""
    x, given = integers(kind, 2, 3, 4, 5, most=100), {"s": np.array([1, 1, 2, 4], np.float32)}
    how = {"mode": "linear", "coordinate_transformation_mode": coordinates}
    same_as_runtime([node("Resize", ["x", "", "s"], ["y"], **how)], {"x": x}, ["y"], 19, given)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint16"])
def test_integers_are_rounded_and_clipped_after_cubic_resizing(kind: str) -> None:
    """ONNX Runtime refuses them; the host computed them."""
    x, given = integers(kind, 2, 3, 4, 5), {"s": np.array([1, 1, 2, 4], np.float32)}
    made = node("Resize", ["x", "", "s"], ["y"], mode="cubic")
    model = model_of([made], {"x": x.shape}, ["y"], given, opset=19, dtypes={"x": NUMBERS[kind], "y": NUMBERS[kind]})
    network = imported(model)
    assert not any(each.kind == "reference" for each in network.nodes)
    np.testing.assert_array_equal(evaluate(network, {"x": x})["y"], ReferenceEvaluator(model).run(None, {"x": x})[0])


def test_the_mean_of_integers_is_within_their_range_where_the_sum_is_not() -> None:
    """The sum wrapped around."""
    x = integers("int32", 3, 40, 5)
    same_as_runtime([node("ReduceMean", ["x"], ["y"], axes=[1])], {"x": x}, ["y"], 13)


def test_a_norm_beyond_its_integers_is_the_largest() -> None:
    """It was the least."""
    for kind in ("int32", "int64"):
        x = np.full((2, 9), np.iinfo(kind).max, kind)
        same_as_runtime([node("ReduceL2", ["x"], ["y"], axes=[1])], {"x": x}, ["y"], 13)


@pytest.mark.sycl
@pytest.mark.parametrize("exponents", ["float16", "float32", "float64"])
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_integers_to_whole_numbers_are_exact(kind: str, exponents: str) -> None:
    """They were one less where the power of the floating-point numbers is a little less."""
    bases, powers = np.meshgrid(np.arange(2, 40), np.arange(6))
    x, y = bases.astype(kind), powers.astype(exponents)
    types = {"x": NUMBERS[kind], "y": NUMBERS[exponents], "z": NUMBERS[kind]}
    model = model_of([node("Pow", ["x", "y"], ["z"])], {"x": x.shape, "y": y.shape}, ["z"], opset=15, dtypes=types)
    exact = (bases.astype(np.int64) ** powers).astype(kind)
    np.testing.assert_array_equal(evaluate(imported(model), {"x": x, "y": y})["z"], exact)
    with syclsched.compile(model, devices="cpu", autotune=False) as compiled:
        np.testing.assert_array_equal(compiled(x, y)["z"], exact)
