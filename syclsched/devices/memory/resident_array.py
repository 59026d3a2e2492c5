# SPDX-License-Identifier: Apache-2.0
"""Arrays in a device's own memory, which the host reads and writes by copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syclsched.devices.memory import usm_memory
from syclsched.errors import ExecutionError

if TYPE_CHECKING:
    from syclsched.devices.native.memory_range import MemoryRange
    from syclsched.devices.native.sycl_types import SyclQueue

NumpyArray = np.ndarray[Any, np.dtype[Any]]


class ResidentArray:
    """An array in memory of a device that the host cannot address; it stays there from run to run.

    Reading and writing wait for the copy. No run that uses the array may be in flight.
    """

    __slots__ = ("dtype", "memory", "shape")

    def __init__(self, memory: MemoryRange, shape: tuple[int, ...], dtype: str) -> None:
        self.memory, self.shape, self.dtype = memory, shape, np.dtype(dtype)

    @property
    def address(self) -> int:
        """The device's address of the first byte."""
        return int(self.memory._pointer)

    def is_reachable_by(self, queue: SyclQueue) -> bool:
        """Return whether kernels of a queue's context can address it."""
        return bool(self.memory.queue.sycl_context == queue.sycl_context)

    def read(self) -> NumpyArray:
        """Return a copy of the value in host memory; raise `ExecutionError` if the device is lost."""
        made = np.empty(self.shape, self.dtype)
        try:
            usm_memory.read_into(made, self.memory.memory)
        except Exception as error:
            raise _not_copied("read", error) from error
        return made

    def write(self, value: Any) -> None:
        """Set the value, as by NumPy's assignment; raise `ExecutionError` if the device is lost."""
        given = np.ascontiguousarray(np.broadcast_to(np.asarray(value, self.dtype), self.shape))
        try:
            usm_memory.write_from(given, self.memory.memory)
        except Exception as error:
            raise _not_copied("written", error) from error


class CopiedArray(ResidentArray):
    """An array in the host's memory that was copied to a device before the run that reads it; neither changes."""

    __slots__ = ("host",)

    def __init__(self, memory: MemoryRange, host: NumpyArray) -> None:
        super().__init__(memory, host.shape, host.dtype.name)
        self.host = host

    def read(self) -> NumpyArray:
        """Return the array in the host's memory."""
        return self.host


#: The value of an input.
InputValue = NumpyArray | ResidentArray


def host_value(held: InputValue) -> NumpyArray:
    """Return an array of either kind for the host: itself, or a copy of the device's data."""
    return held.read() if isinstance(held, ResidentArray) else held


def set_value(held: InputValue, value: Any) -> None:
    """Set all elements of an array of either kind."""
    if isinstance(held, ResidentArray):
        held.write(value)
    else:
        held[...] = value


def address_of(held: InputValue) -> int:
    """Return the address of an array of either kind."""
    return held.address if isinstance(held, ResidentArray) else int(held.__array_interface__["data"][0])


def _not_copied(what: str, error: Exception) -> ExecutionError:
    return ExecutionError(
        f"the memory of a device cannot be {what}: {error}",
        where="resident array",
        hint="If the device was lost, what was in its memory is, too: begin again, in training from a checkpoint",
    )
