# SPDX-License-Identifier: Apache-2.0
"""Names for use in Python kernels: work-items and groups, memory, atomic references, barriers.

`call_kernel` runs a kernel's function in Python, one work-item after another, to try it out.

Examples
--------
>>> import numpy as np
>>> import syclsched
>>> from syclsched import kernel_api
>>> @syclsched.kernel
... def count(item: kernel_api.Item, counts, x):
...     kernel_api.AtomicRef(counts, x[item.get_id(0)]).fetch_add(1)
>>> counts, x = np.zeros(3, int), np.array([2, 0, 2])
>>> kernel_api.call_kernel(count, kernel_api.Range(3), counts, x)
>>> counts.tolist()
[1, 0, 2]
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.kernel_compiler.kernel_api import (
    AddressSpace,
    AtomicRef,
    Group,
    Item,
    LocalAccessor,
    MemoryOrder,
    MemoryScope,
    NdItem,
    NdRange,
    PrivateArray,
    Range,
    atomic_fence,
    group_barrier,
)
from syclsched.kernel_compiler.python_kernel import PythonKernel

__all__ = [
    "AddressSpace",
    "AtomicRef",
    "Group",
    "Item",
    "LocalAccessor",
    "MemoryOrder",
    "MemoryScope",
    "NdItem",
    "NdRange",
    "PrivateArray",
    "Range",
    "atomic_fence",
    "call_kernel",
    "group_barrier",
]


def call_kernel(kernel: PythonKernel | Callable[..., None], index_space: Range | NdRange, *arguments: Any) -> None:
    """Run a kernel's function in Python for every work-item in turn, to try it out without a device.

    Parameters
    ----------
    kernel : PythonKernel or function
        The kernel, or its function. It may not wait at a barrier.
    index_space : Range or NdRange
        Its work-items.
    *arguments
        NumPy arrays, numbers and `LocalAccessor`, whose memory exists once for each work-group.

    Raises
    ------
    ArgumentError
        If ``index_space`` is no index space.
    ExecutionError
        If the kernel waits at a barrier.
    """
    function = kernel.function if isinstance(kernel, PythonKernel) else kernel
    if isinstance(index_space, Range):
        for index in product(*map(range, index_space)):
            function(Item(index_space, index), *arguments)
        return
    if not isinstance(index_space, NdRange):
        raise ArgumentError(f"an index space is a Range or an NdRange, not {type(index_space).__name__}")
    whole, local = index_space.global_range, index_space.local_range
    groups = Range(*(extent // of_group for extent, of_group in zip(whole, local, strict=True)))
    for group_index in product(*map(range, groups)):
        held = [np.empty(each.shape, each.dtype) if isinstance(each, LocalAccessor) else each for each in arguments]
        for index in product(*map(range, local)):
            place = [g * extent + i for g, extent, i in zip(group_index, local, index, strict=True)]
            group = Group(whole, local, groups, group_index, leader=not any(index))
            function(NdItem(Item(whole, place), Item(local, index), group), *held)
