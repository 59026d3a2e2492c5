# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from support.networks import Builder, kinds, rewritten


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_dense_weights_are_permuted_instead_of_the_image(transposed: bool, batch: int) -> None:
    made = Builder(dtype="float64")
    stored = made.input("stored", (batch, 4, 5, 3))
    flat = made.reshape(made.transpose(stored, 0, 3, 1, 2), batch, 60)
    made.matmul(flat, made.normal(7, 60) if transposed else made.normal(60, 7), transpose_b=transposed)
    assert kinds(rewritten(made, "flattened")) == ["reshape", "matmul"]


def test_a_batch_that_moves_stays() -> None:
    made = Builder(dtype="float64")
    stored = made.input("stored", (2, 4, 5, 3))
    made.matmul(made.reshape(made.transpose(stored, 1, 3, 0, 2), 4, 30), made.normal(30, 7))
    assert kinds(rewritten(made, "flattened")) == ["transpose", "reshape", "matmul"]


def test_a_flattened_image_that_others_read_stays() -> None:
    made = Builder(dtype="float64")
    stored = made.input("stored", (1, 4, 5, 3))
    flat = made.reshape(made.transpose(stored, 0, 3, 1, 2), 1, 60)
    one, other = made.matmul(flat, made.normal(60, 7)), made.softmax(flat, 1)
    network = rewritten(made, "flattened", outputs=(one, other))
    assert kinds(network) == ["transpose", "reshape", "matmul", "softmax"]
