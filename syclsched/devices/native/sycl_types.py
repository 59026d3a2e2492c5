# SPDX-License-Identifier: Apache-2.0
"""Structural types of the dpctl objects in use: queue, event, device, context.

dpctl has no type annotations. Its objects get these types where they are made or found, and only members in use are
declared. The module imports nothing of dpctl.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class _NamedValue(Protocol):
    """A member of one of dpctl's enumerations."""

    name: str


class Waitable(Protocol):
    """An event that can be waited for, of SYCL or of a lane thread."""

    def wait(self) -> None:
        """Wait for the command of the event."""


class SyclEvent(Waitable, Protocol):
    """A ``dpctl.SyclEvent``."""

    execution_status: _NamedValue  # submitted, running or complete
    profiling_info_start: int  # nanoseconds of the device's clock; reading it waits for the command
    profiling_info_end: int

    def addressof_ref(self) -> int:
        """Return the address of dpctl's reference to the C++ object."""
        ...


class SyclPlatform(Protocol):
    """A ``dpctl.SyclPlatform``."""

    name: str
    vendor: str
    version: str
    default_context: SyclContext  # context of default queues


class SyclDevice(Protocol):
    """A ``dpctl.SyclDevice``; equal devices have equal hashes."""

    name: str
    vendor: str
    driver_version: str
    filter_string: str  # root devices only
    backend: _NamedValue
    device_type: _NamedValue  # cpu, gpu or accelerator
    parent_device: SyclDevice | None  # None for a root device
    sycl_platform: SyclPlatform
    max_compute_units: int
    max_work_group_size: int
    sub_group_sizes: Sequence[int]
    global_mem_size: int  # bytes
    global_mem_cache_size: int  # bytes
    local_mem_size: int  # bytes
    has_aspect_fp64: bool
    has_aspect_atomic64: bool
    has_aspect_usm_device_allocations: bool
    has_aspect_usm_host_allocations: bool
    native_vector_width_float: int
    is_cpu: bool
    is_gpu: bool

    def create_sub_devices(self, *, partition: int | list[int] | str) -> Sequence[SyclDevice]:
        """Return the parts of a partition."""
        ...

    def addressof_ref(self) -> int:
        """Return the address of dpctl's reference to the C++ object."""
        ...

    def __hash__(self) -> int: ...


class SyclContext(Protocol):
    """A ``dpctl.SyclContext``; equal contexts have equal hashes."""

    def get_devices(self) -> Sequence[SyclDevice]:
        """Return the devices of the context."""
        ...

    def addressof_ref(self) -> int:
        """Return the address of dpctl's reference to the C++ object."""
        ...

    def __hash__(self) -> int: ...


class SyclQueue(Protocol):
    """A ``dpctl.SyclQueue``; equal queues have equal hashes."""

    sycl_context: SyclContext
    sycl_device: SyclDevice
    backend: _NamedValue
    is_in_order: bool

    def submit_async(
        self,
        kernel: Any,
        arguments: list[Any],
        global_range: list[int],
        local_range: list[int] | None = None,
        depends: list[SyclEvent] | None = None,
        /,
    ) -> SyclEvent:
        """Submit a kernel that starts after some events; the caller keeps its arguments alive."""
        ...

    def memcpy_async(self, to: Any, source: Any, nbytes: int, depends: list[SyclEvent] | None = None, /) -> SyclEvent:
        """Submit a copy that starts after some events; the caller keeps the memory alive."""
        ...

    def memcpy(self, to: Any, source: Any, nbytes: int, /) -> None:
        """Copy, and wait for the copy."""

    def _submit_keep_args_alive(self, arguments: tuple[Any, ...], depends: list[SyclEvent], /) -> SyclEvent:
        """Submit a host task that keeps objects alive until some events have completed."""
        ...

    def wait(self) -> None:
        """Wait for all submitted commands."""

    def addressof_ref(self) -> int:
        """Return the address of dpctl's reference to the C++ object."""
        ...

    def __hash__(self) -> int: ...
