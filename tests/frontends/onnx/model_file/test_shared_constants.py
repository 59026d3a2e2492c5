# SPDX-License-Identifier: Apache-2.0
"""Constants of equal memory or value are one object; others are not."""

from __future__ import annotations

import numpy as np

from syclsched.frontends.onnx.model_file.shared_constants import shared_constant


def test_views_of_the_same_data_share_a_constant() -> None:
    data = np.arange(16, dtype=np.float32).tobytes()
    first, second = (np.frombuffer(data, np.float32).reshape(1, 4, 4)[0] for _ in range(2))
    assert first is not second
    made = shared_constant(first)
    assert shared_constant(second) is made
    assert shared_constant(second.reshape(16)) is not made


def test_a_turned_view_is_another_constant() -> None:
    data = np.arange(16, dtype=np.float32).tobytes()
    matrix = np.frombuffer(data, np.float32).reshape(4, 4)
    made, turned = shared_constant(matrix), shared_constant(matrix.T)
    assert np.array_equal(made.data, matrix) and np.array_equal(turned.data, matrix.T)
    assert shared_constant(matrix) is made and np.array_equal(shared_constant(matrix.T).data, matrix.T)


def test_memory_that_is_used_again_is_another_constant() -> None:
    first = shared_constant(np.frombuffer(bytes(64), np.float32))
    data = bytearray(64)
    for number in range(3):
        data[0] = number
        made = shared_constant(np.frombuffer(bytes(data), np.float32))
        assert made.data.view(np.uint8)[0] == number
    assert not first.data.any()
