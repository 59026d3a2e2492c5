# SPDX-License-Identifier: Apache-2.0
"""SYCL's memory model: orders, scopes and address spaces, with SYCL's numbers."""

from __future__ import annotations

from enum import IntEnum


class MemoryOrder(IntEnum):
    """Ordering of memory accesses around an atomic operation or fence (``sycl::memory_order``)."""

    RELAXED = 0
    ACQUIRE = 1
    CONSUME_UNSUPPORTED = 2
    RELEASE = 3
    ACQ_REL = 4
    SEQ_CST = 5


class MemoryScope(IntEnum):
    """The work-items for which an ordering holds (``sycl::memory_scope``)."""

    WORK_ITEM = 0
    SUB_GROUP = 1
    WORK_GROUP = 2
    DEVICE = 3
    SYSTEM = 4


class AddressSpace(IntEnum):
    """The memory that a pointer points to (``sycl::access::address_space``)."""

    PRIVATE = 0
    GLOBAL = 1
    CONSTANT = 2
    LOCAL = 3
    GENERIC = 4
