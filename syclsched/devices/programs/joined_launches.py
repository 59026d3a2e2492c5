# SPDX-License-Identifier: Apache-2.0
"""Joined launches: several launches of one OpenCL C kernel made by a single submission."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache

from syclsched.devices.native.sycl_types import SyclContext, SyclDevice, SyclQueue
from syclsched.devices.programs.executables import Executable, KernelExecutable, KernelSubmission, Submission
from syclsched.devices.programs.joined_source import joined_source
from syclsched.devices.programs.programs import compile_code
from syclsched.errors import SyclschedError
from syclsched.model.operation import OpenCLSource

#: Bytes of arguments that every full-profile OpenCL device accepts (CL_DEVICE_MAX_PARAMETER_SIZE).
_ARGUMENT_BYTES = 1024
_LARGEST_ARGUMENT_BYTES = 8
#: Largest work-group where the original launches leave the choice to the runtime, which could mix launches in a group.
_GROUP = 256
_SMALL_GROUP = 16


def join_key(executable: Executable, queue: SyclQueue) -> tuple[Hashable, int] | None:
    """Return a key equal for launches that can be joined, and the most per submission; None if not joinable.

    Nothing is compiled here; `can_join` tells whether the device compiles the joined kernel.
    """
    if not isinstance(executable, KernelExecutable) or not isinstance(executable.code, OpenCLSource):
        return None
    most = _ARGUMENT_BYTES // (_LARGEST_ARGUMENT_BYTES * max(1, executable.arguments_count))
    if most < 2 or len(executable.global_range) > 2 or 0 in executable.global_range:
        return None
    local = executable.local_range
    ranges = tuple(executable.global_range), None if local is None else tuple(local)
    return (executable.code, *ranges, queue.sycl_context, queue.sycl_device), most


def can_join(executable: Executable, count: int, queue: SyclQueue) -> bool:
    """Return whether a device compiles the kernel joined from ``count`` launches.

    This builds the joined kernel, which takes a tenth of a second and 2 MB for good: ask only for launches worth it.
    """
    assert isinstance(executable, KernelExecutable)
    assert isinstance(executable.code, OpenCLSource)
    return _can_join(executable.code, count, queue.sycl_context, queue.sycl_device)


def join_launches(executable: Executable, submissions: Sequence[Submission], queue: SyclQueue) -> KernelSubmission:
    """Return one submission that does the work of several launches concurrently."""
    assert isinstance(executable, KernelExecutable)
    assert isinstance(executable.code, OpenCLSource)
    joined = joined_source(executable.code, len(submissions))
    assert joined is not None
    extents, local = executable.global_range, executable.local_range or _groups(executable.global_range)
    return KernelSubmission(
        kernel=compile_code(joined, queue, f"{len(submissions)} launches of kernel {executable.code.kernel_name!r}"),
        arguments=[a for each in submissions if isinstance(each, KernelSubmission) for a in each.arguments],
        global_range=[len(submissions), *[1] * (2 - len(extents)), *extents],
        local_range=local and [1, *[1] * (2 - len(local)), *local],
    )


@lru_cache(maxsize=512)
def _can_join(code: OpenCLSource, count: int, context: SyclContext, device: SyclDevice) -> bool:
    """Return whether the device compiles the joined kernel."""
    import dpctl

    joined = joined_source(code, count)
    if joined is None:
        return False
    try:
        compile_code(joined, dpctl.SyclQueue(context, device), f"{count} launches of kernel {code.kernel_name!r}")
    except SyclschedError:
        return False
    return True


def _groups(extents: Sequence[int]) -> list[int] | None:
    """Return the largest work-group that divides an index space; None if it would be very small."""
    fastest = extents[-1]
    size = next(size for size in range(min(fastest, _GROUP), 0, -1) if fastest % size == 0)
    return None if size < min(fastest, _SMALL_GROUP) else [1] * (len(extents) - 1) + [size]
