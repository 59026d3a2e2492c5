# SPDX-License-Identifier: Apache-2.0
"""Memory of a work-item and of a work-group, and atomic references to array elements.

In a kernel these names are compiled. In Python, private arrays and atomic references work on NumPy arrays, for trying a
kernel's function out in a single thread; a local accessor only describes memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from syclsched.errors import ExecutionError
from syclsched.kernel_compiler.kernel_api.index_space import Group
from syclsched.kernel_compiler.kernel_api.memory_model import AddressSpace, MemoryOrder, MemoryScope


class PrivateArray:
    """A small array of a single work-item (``sycl::private_memory``).

    Parameters
    ----------
    shape : int or tuple of int
        Extents; in a kernel, constants.
    dtype : dtype
        Type of the elements.
    fill_zeros : bool
        Whether the elements begin as zeros instead of undefined.
    """

    def __init__(self, shape: Any, dtype: Any, fill_zeros: bool = False) -> None:
        self._data = np.zeros(shape, dtype) if fill_zeros else np.empty(shape, dtype)

    def __getitem__(self, index: Any) -> Any:
        return self._data[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._data[index] = value


class LocalAccessor:
    """An array shared by the work-items of a group, allocated at launch (``sycl::local_accessor``).

    Parameters
    ----------
    shape : int or iterable of int
        1 to 3 extents.
    dtype : dtype
        Type of the elements.
    """

    def __init__(self, shape: int | Iterable[int], dtype: Any) -> None:
        extents = tuple(int(extent) for extent in (shape if isinstance(shape, Iterable) else (shape,)))
        if not 1 <= len(extents) <= 3 or min(extents) < 1:
            raise TypeError(f"a LocalAccessor has 1 to 3 extents of at least 1, not {shape!r}")
        self.shape, self.dtype = extents, np.dtype(dtype)
        if self.dtype.kind not in "biufc":
            raise TypeError(f"a LocalAccessor has elements of a numeric dtype, not {self.dtype}")

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __getitem__(self, index: Any) -> Any:
        raise ExecutionError("the elements of a LocalAccessor exist only in a kernel")

    def __setitem__(self, index: Any, value: Any) -> None:
        raise ExecutionError("the elements of a LocalAccessor exist only in a kernel")


class AtomicRef:
    """A reference to an array element whose operations are atomic (``sycl::atomic_ref``).

    Parameters
    ----------
    ref : array
        The array.
    index : int or tuple of int
        Place of the element.
    memory_order : MemoryOrder
        Ordering of other memory accesses; in a kernel, a constant as the next two.
    memory_scope : MemoryScope
        The work-items for which the ordering holds.
    address_space : AddressSpace, optional
        The array's memory; by default that of the array's type.
    """

    def __init__(
        self,
        ref: Any,
        index: Any,
        memory_order: MemoryOrder = MemoryOrder.RELAXED,
        memory_scope: MemoryScope = MemoryScope.DEVICE,
        address_space: AddressSpace | None = None,
    ) -> None:
        self._ref, self._index = ref, index
        self.memory_order, self.memory_scope = memory_order, memory_scope
        self.address_space = AddressSpace.GLOBAL if address_space is None else address_space

    def _replace(self, value: Any) -> Any:
        old = np.array(self._ref[self._index])[()]
        self._ref[self._index] = value
        return old

    @property
    def ref(self) -> Any:
        """The element's value."""
        return self._ref[self._index]

    def load(self) -> Any:
        """Return the value."""
        return self._ref[self._index]

    def store(self, val: Any) -> None:
        """Set the value."""
        self._ref[self._index] = val

    def exchange(self, val: Any) -> Any:
        """Set the value; return the one before."""
        return self._replace(val)

    def compare_exchange(self, expected: Any, desired: Any, expected_idx: Any = 0) -> bool:
        """Set the value to ``desired`` if it is ``expected[expected_idx]``, else store it there; return whether set."""
        if self._ref[self._index] == expected[expected_idx]:
            self._ref[self._index] = desired
            return True
        expected[expected_idx] = self._ref[self._index]
        return False

    def fetch_add(self, val: Any) -> Any:
        """Add to the value; return the one before."""
        return self._replace(self.load() + val)

    def fetch_sub(self, val: Any) -> Any:
        """Subtract from the value; return the one before."""
        return self._replace(self.load() - val)

    def fetch_min(self, val: Any) -> Any:
        """Set the value to the smaller of it and ``val``; return the one before."""
        return self._replace(min(self.load(), val))

    def fetch_max(self, val: Any) -> Any:
        """Set the value to the larger of it and ``val``; return the one before."""
        return self._replace(max(self.load(), val))

    def fetch_and(self, val: Any) -> Any:
        """Combine the value's bits with ``val`` by and; return the one before."""
        return self._replace(self.load() & val)

    def fetch_or(self, val: Any) -> Any:
        """Combine the value's bits with ``val`` by or; return the one before."""
        return self._replace(self.load() | val)

    def fetch_xor(self, val: Any) -> Any:
        """Combine the value's bits with ``val`` by exclusive or; return the one before."""
        return self._replace(self.load() ^ val)


def atomic_fence(memory_order: MemoryOrder, memory_scope: MemoryScope) -> None:
    """Order the memory accesses of a work-item before and after the call (``sycl::atomic_fence``).

    Without effect in Python.

    Parameters
    ----------
    memory_order : MemoryOrder
        Ordering of the accesses.
    memory_scope : MemoryScope
        The work-items for which it holds.
    """


def group_barrier(group: Group, fence_scope: MemoryScope = MemoryScope.WORK_GROUP) -> None:
    """Wait for all work-items of a group, and make their memory accesses visible (``sycl::group_barrier``).

    Parameters
    ----------
    group : Group
        The work-group.
    fence_scope : MemoryScope
        The work-items for which memory accesses become visible.

    Raises
    ------
    ExecutionError
        Outside a kernel, where there are no other work-items.
    """
    raise ExecutionError("a barrier exists only in a kernel")
