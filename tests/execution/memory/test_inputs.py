# SPDX-License-Identifier: Apache-2.0
"""Copies of inputs into host memory."""

from __future__ import annotations

import numpy as np
import pytest

from syclsched.errors import ArgumentError
from syclsched.execution.memory.inputs import gather_inputs, to_numpy
from syclsched.model.graph import TaskGraph
from syclsched.model.graph_parts.argument_validation import check_data
from syclsched.model.task import LogicalArray
from syclsched.oneapi import load
from syclsched.oneapi.dpctl_interface import usm_arrays


@pytest.mark.parametrize("order", ["<", ">"])
def test_numbers_in_another_byte_order_are_the_same_numbers(order: str) -> None:
    given = np.arange(6).astype(f"{order}f4")
    check_data(LogicalArray("a", (6,), "float32"), given)
    found = to_numpy(given)
    assert found.dtype == np.dtype("float32")
    assert found.dtype.isnative
    assert found.tolist() == [0, 1, 2, 3, 4, 5]
    assert (found is given) == given.dtype.isnative


def test_another_dtype_is_refused() -> None:
    with pytest.raises(ArgumentError, match="dtype float64"):
        check_data(LogicalArray("a", (6,), "float32"), np.arange(6.0))


@pytest.mark.sycl
@pytest.mark.parametrize("kind", ["shared", "host"])
def test_device_arrays_that_the_host_can_read_are_read_in_place(kind: str) -> None:
    load()
    tensor = usm_arrays()

    whole = tensor.asarray(np.arange(24, dtype="float32").reshape(6, 4), usm_type=kind)
    for given in (whole, whole[2:5], whole[3, 1]):
        found = to_numpy(given)
        assert found.ctypes.data == given._pointer
        np.testing.assert_array_equal(found, tensor.asnumpy(given))
    del whole, given
    np.testing.assert_array_equal(found, np.float32(13))


@pytest.mark.sycl
def test_device_arrays_the_host_cannot_read_directly_are_copied() -> None:
    load()
    tensor = usm_arrays()

    apart = tensor.asarray(np.arange(24, dtype="float32").reshape(6, 4), usm_type="device")
    turned = tensor.asarray(np.arange(24, dtype="float32").reshape(6, 4), usm_type="shared").T
    empty = tensor.empty((0, 4), dtype="float32", usm_type="shared")
    for given in (apart, turned, empty):
        found = to_numpy(given)
        assert found.flags.c_contiguous
        assert found.flags.owndata or not found.size or found.ctypes.data != given._pointer
        np.testing.assert_array_equal(found, tensor.asnumpy(given))


def test_values_without_names_are_refused() -> None:
    graph = TaskGraph("named")
    graph.host(lambda x: None, name="look", x=graph.array("x", (2,)).read())
    with pytest.raises(ArgumentError, match="a list is given") as refused:
        gather_inputs(None, graph, [np.zeros(2)], needed=())  # type: ignore[arg-type]
    assert refused.value.where == "inputs"
