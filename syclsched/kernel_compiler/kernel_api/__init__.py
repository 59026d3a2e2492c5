# SPDX-License-Identifier: Apache-2.0
"""Names for use in kernels, after SYCL's: index spaces, memory, atomic references, barriers."""

from syclsched.kernel_compiler.kernel_api.index_space import Group, Item, NdItem, NdRange, Range
from syclsched.kernel_compiler.kernel_api.memory import (
    AtomicRef,
    LocalAccessor,
    PrivateArray,
    atomic_fence,
    group_barrier,
)
from syclsched.kernel_compiler.kernel_api.memory_model import AddressSpace, MemoryOrder, MemoryScope

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
    "group_barrier",
]
