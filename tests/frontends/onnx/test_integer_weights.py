# SPDX-License-Identifier: Apache-2.0
"""Weights of integer products around zero: the same numbers as in wide arithmetic, in the narrowest type."""

from __future__ import annotations

import numpy as np
import pytest

from syclsched.frontends.onnx.integer_weights import centred_weights, integer_attributes


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("least", [-128, -64, 0, 3, 100])
@pytest.mark.parametrize("most", [-3, 0, 64, 127, 255])
def test_scalar_and_per_channel_zero_points(dtype: type, least: int, most: int) -> None:
    info = np.iinfo(dtype)
    low, high = max(least, info.min), min(most, info.max)
    if low > high:
        low, high = high, low
    low, high = max(low, info.min), max(high, info.min)
    weights = np.linspace(low, high, 77).astype(dtype).reshape(7, 11)
    for zero in {0, 1, info.min, info.max, low, high}:
        wanted = weights.astype(np.int64) - zero
        for given in (np.array(zero, dtype), np.full((7, 1), zero, dtype), np.array([zero], dtype)):
            found = centred_weights(weights, given)
            assert np.array_equal(found, wanted)
            assert found.dtype == (np.int8 if wanted.min() >= -128 and wanted.max() <= 127 else np.int16)
            assert integer_attributes(found, "int32")["narrow"] == bool((np.abs(wanted) <= 64).all())


def test_turned_and_empty_weights() -> None:
    weights = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert np.array_equal(centred_weights(weights.T, np.uint8(7)), weights.T.astype(int) - 7)
    assert centred_weights(weights[:0], np.uint8(7)).shape == (0, 4)
    assert integer_attributes(weights[:0], "int32")["narrow"]
