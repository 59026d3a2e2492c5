# SPDX-License-Identifier: Apache-2.0
"""Batches loaded and converted ahead of the computation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue
from syclsched.training.loading.batches import LoadedBatches

INPUTS = (DeclaredValue("x", "float32", (None, 2)),)


class Loaded:
    """A batch that records the thread and time of its conversion."""

    def __init__(self, value: float) -> None:
        self.value, self.converted, self.thread = value, threading.Event(), ""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        self.thread = threading.current_thread().name
        self.converted.set()
        return np.full((3, 2), self.value, np.float64 if dtype is None else dtype)


def test_the_next_batch_is_converted_while_one_is_computed() -> None:
    given = [Loaded(float(i)) for i in range(4)]
    with closing(LoadedBatches([(each, [i] * 3) for i, each in enumerate(given)], INPUTS, "fit()")) as loaded:
        for i, ((x,), y, _) in enumerate(loaded):
            assert x.dtype == np.float32 and (x == i).all() and y.tolist() == [i] * 3
            # In place of a step; without a loading thread it would never end.
            assert i + 1 == len(given) or given[i + 1].converted.wait(60)
    assert {each.thread for each in given} == {"syclsched batches"}


def test_the_next_batch_is_copied_while_one_is_computed() -> None:
    copied = [threading.Event() for _ in range(4)]

    def copy(x: Any, y: Any) -> None:
        copied[int(y[0])].set()

    with closing(LoadedBatches([(np.ones((3, 2)), [i] * 3) for i in range(4)], INPUTS, "fit()")) as loaded:
        for i, _ in enumerate(loaded):
            loaded.copy_next(copy)
            assert i + 1 == len(copied) or copied[i + 1].wait(60)
    assert not copied[0].is_set()


def test_errors_are_raised_after_the_earlier_batches() -> None:
    def batches() -> Iterator[Any]:
        yield np.ones((3, 2)), np.zeros(3)
        yield np.array([["a", "b"]]), np.zeros(1)

    with closing(LoadedBatches(batches(), INPUTS, "fit()")) as loaded:
        found = iter(loaded)
        assert next(found)[0][0].shape == (3, 2)
        with pytest.raises(ArgumentError, match="it is no array of float32"):
            next(found)
    three = pytest.raises(ArgumentError, match="a pair of x and y, not a tuple of 3")
    with closing(LoadedBatches([(1, 2, 3)], INPUTS, "fit()")) as loaded, three:
        next(iter(loaded))
    wrong = pytest.raises(ArgumentError, match=r"evaluate\(\).*not a int")
    with closing(LoadedBatches([1], INPUTS, "evaluate()")) as loaded, wrong:
        next(iter(loaded))


def test_a_generator_may_fill_the_same_arrays_again() -> None:
    x, y, yielded = np.zeros((3, 2), np.float32), np.zeros(3, np.int64), threading.Event()

    def batches() -> Iterator[Any]:
        for i in range(4):
            x[...], y[...] = i, i
            if i == 2:
                yielded.set()
            yield x, y

    with closing(LoadedBatches(batches(), INPUTS, "fit()")) as loaded:
        assert yielded.wait(60)
        assert [(float(x[0, 0]), int(y[0])) for (x,), y, _ in loaded] == [(i, i) for i in range(4)]
    given = np.ones((3, 2), np.float32)
    with closing(LoadedBatches([(given, y)], INPUTS, "fit()")) as loaded:
        assert next(iter(loaded))[0][0] is given


def test_a_loader_that_waits_ends_with_its_next_batch(caplog: pytest.LogCaptureFixture) -> None:
    go_on, yielded = threading.Event(), []

    def batches() -> Iterator[Any]:
        for number in range(3):
            if number:
                go_on.wait(60)
            yielded.append(number)
            yield np.ones((3, 2)), np.zeros(3)

    with closing(LoadedBatches(batches(), INPUTS, "fit()")) as loaded:
        next(iter(loaded))
        thread = next(each for each in threading.enumerate() if each.name == "syclsched batches")
    assert "the loader of batches has not ended yet" in caplog.text and thread.is_alive()
    go_on.set()
    thread.join(60)
    assert not thread.is_alive() and yielded == [0, 1]
