# SPDX-License-Identifier: Apache-2.0
"""USM memory: allocation, and zero-copy views of it as `usm_ndarray` and as NumPy array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from syclsched.devices.memory.gc_safe_memory import memory_kinds
from syclsched.devices.memory.memory_pool import ALIGNMENT_BYTES, MemoryBlock
from syclsched.devices.native.memory_range import MemoryRange, UsmInterface
from syclsched.devices.native.sycl_types import SyclEvent, SyclQueue
from syclsched.errors import MemoryLimitError
from syclsched.model.usm import UsmKind

#: SYCL has no allocation of size zero, and an empty `usm_ndarray` needs space for one element (complex128).
SMALLEST_ALLOCATION_BYTES = 16

NumpyArray = np.ndarray[Any, np.dtype[Any]]


def allocate(queue: SyclQueue, nbytes: int, kind: UsmKind) -> Any:
    """Allocate USM memory; it is freed with the last reference to it."""
    from dpctl import memory

    try:
        return memory_kinds()[kind](max(nbytes, SMALLEST_ALLOCATION_BYTES), queue=queue)
    except (memory.USMAllocationError, MemoryError) as error:
        raise MemoryLimitError(
            f"{nbytes} bytes of USM {kind} memory could not be allocated",
            where=f"device {queue.sycl_device.name.strip()!r}",
            hint="Free memory, or split the work into smaller arrays",
        ) from error


def usm_memory_of(array: NumpyArray, queue: SyclQueue) -> Any:
    """Return the USM memory that a NumPy array is a view of, without a copy; None if it is not USM memory."""
    from dpctl import memory

    address = array.__array_interface__["data"][0]
    if not array.nbytes or address % ALIGNMENT_BYTES:
        return None
    try:
        return memory.as_usm_memory(UsmInterface(array, address, array.nbytes, queue))
    except ValueError:  # not USM memory of that context
        return None


def block_memory(block: MemoryBlock, queue: SyclQueue) -> MemoryRange:
    """Return the memory of a block of a pool, without a copy."""
    nbytes = max(block.nbytes, SMALLEST_ALLOCATION_BYTES)
    return MemoryRange(type(block.owner), block, block.pointer, nbytes, queue)


def memory_slice(memory: Any, start: int, nbytes: int) -> Any:
    """Return a slice of USM memory, without a copy."""
    if not nbytes:
        return memory
    return type(memory)(UsmInterface(memory, memory._pointer + start, nbytes, memory.sycl_queue))


def as_numpy(memory: Any, shape: tuple[int, ...], dtype: str) -> NumpyArray:
    """Return a NumPy array on shared or host memory, without a copy.

    This does not wait: the host must not access the array while a kernel may.
    """
    kind = np.dtype(dtype)
    nbytes = math.prod(shape) * kind.itemsize
    raw: NumpyArray = np.asarray(memory)
    return raw[:nbytes].view(kind).reshape(shape)


def read_into(target: NumpyArray, memory: Any) -> None:
    """Copy USM memory into a C-contiguous NumPy array of its size, and wait."""
    if target.nbytes:
        # Any queue of the memory's context will do: everything before this copy has completed.
        memory.sycl_queue.memcpy_async(as_bytes(target), memory, target.nbytes, []).wait()


def start_reading(target: NumpyArray, memory: Any, queue: SyclQueue, after: list[SyclEvent]) -> SyclEvent:
    """Begin to copy USM memory into a C-contiguous NumPy array of its size, after events of the queue."""
    return queue.memcpy_async(as_bytes(target), memory, target.nbytes, after)


def write_from(value: NumpyArray, memory: Any) -> None:
    """Copy a C-contiguous NumPy array into USM memory of its size, and wait."""
    if value.nbytes:
        memory.sycl_queue.memcpy_async(memory, as_bytes(value), value.nbytes, []).wait()


def as_bytes(array: NumpyArray) -> NumpyArray:
    """Return a C-contiguous NumPy array as bytes, as `SyclQueue.memcpy_async` takes host memory."""
    return array.reshape(-1).view(np.uint8)
