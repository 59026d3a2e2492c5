# SPDX-License-Identifier: Apache-2.0
"""Dense layers and softmax, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from syclsched import kernels

pytestmark = pytest.mark.sycl

TOLERANCE = {"float32": 1e-4, "float64": 1e-12}


def names(operation: str) -> list[str]:
    return [each.name for each in kernels.get(operation).implementations]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (9, 10, 33), (16, 64, 32), (5, 131, 7)])
@pytest.mark.parametrize("name", names("dense"))
def test_dense(run: Any, name: str, m: int, n: int, k: int, activation: int, dtype: str) -> None:
    random = np.random.default_rng(m + n + k)
    x, w, b = (random.standard_normal(shape).astype(dtype) for shape in [(m, k), (k, n), (n,)])
    y = np.full((m, n), np.nan, dtype)  # written, never read
    got = run(kernels.get("dense"), name, {"y": y, "x": x, "w": w, "b": b}, activation=activation)["y"]
    wanted = x.astype("float64") @ w + b
    if activation:
        wanted = np.maximum(wanted, 0)
        assert m * n == 1 or (wanted == 0).any()
    np.testing.assert_allclose(got, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * k)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 10), (37, 5)])
@pytest.mark.parametrize("name", names("softmax"))
def test_softmax(run: Any, name: str, m: int, n: int, dtype: str) -> None:
    x = (np.random.default_rng(m).standard_normal((m, n)) * 20 + 800).astype(dtype)  # exp(800) would overflow
    got = run(kernels.get("softmax"), name, {"y": np.full((m, n), np.nan, dtype), "x": x})["y"]
    exact = np.exp(x.astype("float64") - x.max(axis=1, keepdims=True))
    wanted = exact / exact.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(got, wanted, rtol=TOLERANCE[dtype], atol=np.finfo(dtype).tiny)
    np.testing.assert_allclose(got.sum(axis=1), 1, rtol=1e-5)
