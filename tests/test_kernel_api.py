# SPDX-License-Identifier: Apache-2.0
"""Kernel functions called from Python, compared with the kernel on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from syclsched import dpex, kernel_api
from syclsched.errors import ArgumentError, ExecutionError


@dpex.device_func
def scaled(value: Any) -> Any:
    return value * 10


@dpex.kernel
def places(item: Any, out: Any) -> None:
    i, j = item.get_global_id(0), item.get_global_id(1)
    group = item.get_group()
    out[i, j] = scaled(item.get_global_linear_id()) + group.get_group_linear_id() * 1000 + item.get_local_id(1)


@dpex.kernel
def shared(item: Any, out: Any, memory: Any) -> None:
    i = item.get_local_id(0)
    memory[i] = item.get_global_id(0)
    out[item.get_global_id(0)] = memory[0] + kernel_api.PrivateArray(1, np.int64, fill_zeros=True)[0]


@dpex.kernel
def counted(item: Any, out: Any) -> None:
    kernel_api.AtomicRef(out, 0).fetch_add(item.get_id(0))


@dpex.kernel
def waiting(item: Any, out: Any) -> None:
    kernel_api.group_barrier(item.get_group())


def test_kernels_run_in_python() -> None:
    out = np.zeros((4, 6), "int64")
    kernel_api.call_kernel(places, kernel_api.NdRange((4, 6), (2, 3)), out)
    i, j = np.indices((4, 6))
    np.testing.assert_array_equal(out, (i * 6 + j) * 10 + (i // 2 * 2 + j // 3) * 1000 + j % 3)
    line = np.zeros(8, "int64")
    kernel_api.call_kernel(shared.function, kernel_api.NdRange((8,), (4,)), line, kernel_api.LocalAccessor(4, "int64"))
    np.testing.assert_array_equal(line, [0, 0, 0, 0, 4, 4, 4, 4])
    kernel_api.call_kernel(counted, kernel_api.Range(5), line[:1])
    assert line[0] == 10


def test_barriers_and_invalid_ranges_are_refused_in_python() -> None:
    with pytest.raises(ExecutionError, match="barrier"):
        kernel_api.call_kernel(waiting, kernel_api.NdRange((1,), (1,)), np.zeros(1))
    with pytest.raises(ArgumentError, match="Range or an NdRange, not int"):
        kernel_api.call_kernel(counted, 3, np.zeros(1))  # type: ignore[arg-type]


@pytest.mark.sycl
def test_the_device_has_equal_results() -> None:
    from syclsched import oneapi

    oneapi.load()
    import dpnp

    for kernel, space, shape in (
        (places, kernel_api.NdRange((4, 6), (2, 3)), (4, 6)),
        (counted, kernel_api.Range(5), (1,)),
    ):
        wanted, out = np.zeros(shape, "int64"), dpnp.zeros(shape, dtype="int64", device="cpu")
        kernel_api.call_kernel(kernel, space, wanted)
        dpex.call_kernel(kernel, space, out)
        np.testing.assert_array_equal(dpnp.asnumpy(out), wanted)
