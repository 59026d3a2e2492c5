# SPDX-License-Identifier: Apache-2.0
"""The error function of NumPy arrays."""

from __future__ import annotations

import numpy as np
import pytest

from syclsched.kernels.vectors.error_function import _FEW, of_array


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 4), (_FEW,), (_FEW + 1,)])
def test_few_and_many_numbers_have_the_same_results(dtype: str, shape: tuple[int, ...]) -> None:
    special = pytest.importorskip("scipy.special")
    x = np.random.default_rng(0).normal(0, 2, shape).astype(dtype)
    x = np.where(np.asarray(x) > 3, np.array(np.inf, dtype), np.asarray(x))
    found = of_array(x)
    assert (found.dtype, found.shape) == (x.dtype, x.shape)
    np.testing.assert_allclose(found, special.erf(x), rtol=1e-6)
