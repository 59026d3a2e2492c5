# SPDX-License-Identifier: Apache-2.0
"""Element-wise operations against NumPy, on lines and planes, for every element type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syclsched import kernels

pytestmark = pytest.mark.sycl

DTYPES = ("float32", "float64", "int32", "int64")
SHAPES = [(1001,), (7, 33)]
NAMES = [each.name for each in kernels.get("axpy").implementations]


def numbers(seed: int, shape: tuple[int, ...], dtype: str) -> Any:
    return np.random.default_rng(seed).integers(-50, 50, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_axpy_and_scale(run: Any, name: str, shape: tuple[int, ...], dtype: str) -> None:
    y, x = numbers(1, shape, dtype), numbers(2, shape, dtype)
    assert (run(kernels.get("axpy"), name, {"y": y, "x": x}, alpha=3)["y"] == y + 3 * x).all()
    assert (run(kernels.get("scale"), name, {"x": x}, alpha=-2)["x"] == -2 * x).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_add_fill_and_copy(run: Any, name: str, shape: tuple[int, ...], dtype: str) -> None:
    old, x, y = numbers(0, shape, dtype), numbers(1, shape, dtype), numbers(2, shape, dtype)
    assert (run(kernels.get("add"), name, {"z": old, "x": x, "y": y})["z"] == x + y).all()
    assert (run(kernels.get("fill"), name, {"x": old}, value=9)["x"] == 9).all()
    assert (run(kernels.get("copy"), name, {"y": old, "x": x})["y"] == x).all()


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(length=st.integers(1, 300), alpha=st.floats(-1e3, 1e3, width=32), seed=st.integers(0, 9))
def test_axpy_of_any_length_is_the_same_in_every_implementation(run: Any, length: int, alpha: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    y, x = random.standard_normal(length), random.standard_normal(length)
    for name in NAMES:
        got = run(kernels.get("axpy"), name, {"y": y, "x": x}, alpha=alpha)["y"]
        np.testing.assert_allclose(got, y + alpha * x, rtol=1e-14, atol=1e-12)
