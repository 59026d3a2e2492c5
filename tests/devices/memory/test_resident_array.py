# SPDX-License-Identifier: Apache-2.0
"""Arrays in a device's own memory."""

from __future__ import annotations

import numpy as np
import pytest
from support.opened import live_on

from syclsched.devices.memory import usm_memory
from syclsched.devices.memory.resident_array import ResidentArray, address_of, host_value, set_value
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.errors import ExecutionError

pytestmark = pytest.mark.sycl


def resident_array(shape: tuple[int, ...], dtype: str = "float32") -> ResidentArray:
    _, live = live_on(None)
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = usm_memory.allocate(live.allocator_queue("cpu"), nbytes, "device")
    return ResidentArray(MemoryRange.around(memory), shape, dtype)


@pytest.mark.parametrize("shape", [(3, 4), (), (0, 4)])
def test_written_values_are_read_back(shape: tuple[int, ...]) -> None:
    array, value = resident_array(shape), np.random.default_rng(0).random(shape).astype("float32")
    array.write(value)
    assert array.read().tobytes() == value.tobytes() and array.read().shape == shape
    set_value(array, 2.0)  # like NumPy's assignment
    np.testing.assert_array_equal(host_value(array), np.full(shape, 2.0, "float32"))
    set_value(value, 2.0)
    np.testing.assert_array_equal(host_value(value), host_value(array))


def test_addresses_and_contexts() -> None:
    array, (_, live) = resident_array((2,)), live_on(None)
    assert address_of(array) == array.memory._pointer
    assert array.is_reachable_by(live.allocator_queue("cpu"))
    value = np.zeros(2)
    assert address_of(value) == value.ctypes.data


def test_failed_reads_and_writes_raise_execution_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise RuntimeError("device lost")

    monkeypatch.setattr(usm_memory, "read_into", lost)
    monkeypatch.setattr(usm_memory, "write_from", lost)
    array = resident_array((2,))
    with pytest.raises(ExecutionError, match=r"cannot be read: device lost.*checkpoint"):
        array.read()
    with pytest.raises(ExecutionError, match="cannot be written: device lost"):
        array.write(0)
