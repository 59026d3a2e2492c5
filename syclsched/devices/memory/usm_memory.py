# SPDX-License-Identifier: Apache-2.0
"""USM memory: allocation, and zero-copy views of it as `usm_ndarray` and as NumPy array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from syclsched.devices.memory.gc_safe_memory import memory_kinds
from syclsched.devices.memory.memory_pool import ALIGNMENT_BYTES, MemoryBlock
from syclsched.devices.native.sycl_types import SyclQueue
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


class _OnQueue:
    """USM array interface of memory, or of a part of it, with a queue of the same context."""

    def __init__(self, memory: Any, queue: SyclQueue, start: int = 0, nbytes: int | None = None) -> None:
        self.memory = memory  # kept alive by the view made from this object
        self.__sycl_usm_array_interface__ = {
            "data": (memory._pointer + start, False),
            "shape": (memory.nbytes if nbytes is None else nbytes,),
            "strides": None,
            "typestr": "|u1",
            "version": 1,
            "syclobj": queue,
            "offset": 0,
        }


class _OfBlock:
    """USM array interface of a block of a pool, which it keeps alive."""

    def __init__(self, block: MemoryBlock, queue: SyclQueue) -> None:
        self.block = block
        self.__sycl_usm_array_interface__ = {
            "data": (block.pointer, False),
            "shape": (max(block.nbytes, SMALLEST_ALLOCATION_BYTES),),
            "strides": None,
            "typestr": "|u1",
            "version": 1,
            "syclobj": queue,
            "offset": 0,
        }


class _OfArray:
    """USM array interface of the memory of a NumPy array, which it keeps alive."""

    def __init__(self, array: NumpyArray, queue: SyclQueue) -> None:
        self.array = array
        self.__sycl_usm_array_interface__ = {
            "data": (array.__array_interface__["data"][0], False),
            "shape": (array.nbytes,),
            "strides": None,
            "typestr": "|u1",
            "version": 1,
            "syclobj": queue,
            "offset": 0,
        }


def usm_memory_of(array: NumpyArray, queue: SyclQueue) -> Any:
    """Return the USM memory that a NumPy array is a view of, without a copy; None if it is not USM memory."""
    from dpctl import memory

    if not array.nbytes or array.__array_interface__["data"][0] % ALIGNMENT_BYTES:
        return None
    try:
        return memory.as_usm_memory(_OfArray(array, queue))
    except ValueError:  # not USM memory of that context
        return None


def block_memory(block: MemoryBlock, queue: SyclQueue) -> Any:
    """Return a block of a pool as USM memory, without a copy."""
    return type(block.owner)(_OfBlock(block, queue))


def memory_slice(memory: Any, start: int, nbytes: int) -> Any:
    """Return a slice of USM memory, without a copy."""
    return type(memory)(_OnQueue(memory, memory.sycl_queue, start, nbytes)) if nbytes else memory


def as_usm_array(memory: Any, shape: tuple[int, ...], dtype: str, queue: SyclQueue) -> Any:
    """Return a `dpctl.tensor.usm_ndarray` on memory, without a copy."""
    from dpctl import tensor

    view = memory if memory.sycl_queue == queue else type(memory)(_OnQueue(memory, queue))
    return tensor.usm_ndarray(shape, dtype=dtype, buffer=view)


def as_numpy(memory: Any, shape: tuple[int, ...], dtype: str) -> NumpyArray:
    """Return a NumPy array on shared or host memory, without a copy.

    This does not wait: the host must not access the array while a kernel may.
    """
    kind = np.dtype(dtype)
    nbytes = math.prod(shape) * kind.itemsize
    raw: NumpyArray = np.asarray(memory)
    return raw[:nbytes].view(kind).reshape(shape)


def as_bytes(array: NumpyArray) -> NumpyArray:
    """Return a C-contiguous NumPy array as bytes, as `SyclQueue.memcpy_async` takes host memory."""
    return array.reshape(-1).view(np.uint8)
