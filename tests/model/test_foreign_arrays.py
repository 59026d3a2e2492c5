# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries as data, inputs and shapes: by DLPack and by NumPy's protocols."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import syclsched
from syclsched.errors import ArgumentError
from syclsched.kernels import get

DATA = np.arange(6, dtype="float32").reshape(2, 3)


class Tensor:
    """An array that can be read by DLPack only, whose dtype is no dtype of NumPy, such as PyTorch's."""

    dtype = "torch.float32"

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self.data = data
        self.shape = data.shape

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self.data.__dlpack_device__()


class OnAnotherDevice(Tensor):
    """An array in a device's memory."""

    def __dlpack_device__(self) -> Any:
        return (2, 0)  # CUDA

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("memory of CUDA")


class Column:
    """A column of a table, which makes itself a NumPy array."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return DATA if dtype is None else DATA.astype(dtype)


class Interface:
    """An object with NumPy's array interface."""

    __array_interface__ = DATA.__array_interface__


@pytest.mark.parametrize("value", [Tensor(DATA), Interface()], ids=["dlpack", "interface"])
def test_foreign_arrays_are_not_copied(value: Any) -> None:
    graph = syclsched.TaskGraph()
    array = graph.array("x", data=value)
    assert (array.shape, array.dtype) == ((2, 3), "float32")
    assert np.shares_memory(graph.data["x"], DATA)


def test_arrays_in_inaccessible_memory_are_refused_with_a_hint() -> None:
    with pytest.raises(ArgumentError, match=r"array 'x'.*OnAnotherDevice cannot be read by the host.*\.cpu\(\)"):
        syclsched.TaskGraph().array("x", data=OnAnotherDevice(DATA))


def test_shape_and_dtype_like_another() -> None:
    graph = syclsched.TaskGraph()
    first = graph.array("first", like=DATA)
    assert (graph.array("second", like=first).shape, first.dtype) == ((2, 3), "float32")
    assert graph.array("foreign", like=Tensor(DATA)).dtype == "float32"
    third = graph.array("third", like=first, dtype="int32")
    assert (third.shape, third.dtype, graph.data) == ((2, 3), "int32", {})


@pytest.mark.sycl
@pytest.mark.parametrize("value", [Tensor(DATA), Column(), Interface()], ids=["dlpack", "column", "interface"])
def test_foreign_arrays_are_data_and_inputs(value: Any) -> None:
    graph = syclsched.TaskGraph()
    x = graph.array("x", data=value)
    y = graph.array("y", like=x)
    graph.kernel(get("copy"), y=y, x=x)
    with syclsched.run(graph) as run:
        np.testing.assert_array_equal(run.result(y), DATA)
    with syclsched.run(graph, inputs={"x": value}) as run:
        np.testing.assert_array_equal(run.result(y), DATA)
