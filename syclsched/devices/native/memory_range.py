# SPDX-License-Identifier: Apache-2.0
"""Ranges of USM memory by address, whose dpctl objects are made on first use.

The compiled loop needs addresses only. Making a dpctl memory object asks the runtime for the kind of the pointer, which
takes tens of microseconds, more than all other preparation of a small task.
"""

from __future__ import annotations

from typing import Any

from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.oneapi.dpctl_interface import usm_arrays


class UsmInterface:
    """USM array interface of bytes at an address, with a queue whose context they belong to."""

    def __init__(self, owner: Any, address: int, nbytes: int, queue: SyclQueue) -> None:
        self.owner = owner  # kept alive by the view made from this object
        self.__sycl_usm_array_interface__ = {
            "data": (address, False),
            "shape": (nbytes,),
            "strides": None,
            "typestr": "|u1",
            "version": 1,
            "syclobj": queue,
            "offset": 0,
        }


class MemoryRange:
    """Some bytes of USM memory, kept alive by their owner."""

    __slots__ = ("_kind", "_memory", "_owner", "_pointer", "nbytes", "queue")

    def __init__(self, kind: type, owner: Any, pointer: int, nbytes: int, queue: SyclQueue) -> None:
        self._kind = kind
        self._memory: Any = None
        self._owner = owner
        #: Address of the first byte; dpctl's memory objects have the same attribute.
        self._pointer = pointer
        self.nbytes = nbytes
        #: A queue of the memory's context.
        self.queue = queue

    @classmethod
    def around(cls, memory: Any) -> MemoryRange:
        """Return the range of a dpctl memory object."""
        made = cls(type(memory), memory, int(memory._pointer), int(memory.nbytes), memory.sycl_queue)
        made._memory = memory
        return made

    @property
    def memory(self) -> Any:
        """The range as dpctl memory object, without a copy."""
        if self._memory is None:
            self._memory = self._on(self.queue)
        return self._memory

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's interface of the bytes, for memory that the host can access."""
        return {"data": (self._pointer, False), "shape": (self.nbytes,), "typestr": "|u1", "version": 3}

    def part(self, start: int, nbytes: int) -> MemoryRange:
        """Return a part of the range; an empty one is the whole range, as SYCL has no memory of size zero."""
        if not nbytes:
            return self
        return MemoryRange(self._kind, self._owner, self._pointer + start, nbytes, self.queue)

    def usm_array(self, shape: tuple[int, ...], dtype: str, queue: SyclQueue) -> Any:
        """Return a ``usm_ndarray`` on the memory and a queue of its context, without a copy."""
        view = self.memory if self.queue is queue or self.queue == queue else self._on(queue)
        return usm_arrays().usm_ndarray(shape, dtype=dtype, buffer=view)

    def _on(self, queue: SyclQueue) -> Any:
        return self._kind(UsmInterface(self._owner, self._pointer, self.nbytes, queue))
