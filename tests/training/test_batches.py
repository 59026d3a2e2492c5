# SPDX-License-Identifier: Apache-2.0
"""Batches loaded and converted ahead of the computation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue
from syclsched.training.batches import ahead

INPUTS = (DeclaredValue("x", "float32", (None, 2)),)


class Loaded:
    """A batch that says where and when it is converted."""

    def __init__(self, value: float) -> None:
        self.value, self.converted, self.thread = value, threading.Event(), ""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        self.thread = threading.current_thread().name
        self.converted.set()
        return np.full((3, 2), self.value, np.float64 if dtype is None else dtype)


def test_the_next_batch_is_converted_while_one_is_computed() -> None:
    given = [Loaded(float(i)) for i in range(4)]
    for i, (x, y) in enumerate(ahead([(each, [i] * 3) for i, each in enumerate(given)], INPUTS, "fit()")):
        assert x["x"].dtype == np.float32 and (x["x"] == i).all() and y.tolist() == [i] * 3
        # In place of a step; without a thread it would never end.
        assert i + 1 == len(given) or given[i + 1].converted.wait(60)
    assert {each.thread for each in given} == {"syclsched batches"}


def test_errors_come_after_the_batches_before() -> None:
    def batches() -> Iterator[Any]:
        yield np.ones((3, 2)), np.zeros(3)
        yield np.array([["a", "b"]]), np.zeros(1)

    found = ahead(batches(), INPUTS, "fit()")
    assert next(found)[0]["x"].shape == (3, 2)
    with pytest.raises(ArgumentError, match="it is no array of float32"):
        next(found)
    with pytest.raises(ArgumentError, match=r"evaluate\(\).*not a int"):
        next(ahead([1], INPUTS, "evaluate()"))
