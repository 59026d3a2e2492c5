# SPDX-License-Identifier: Apache-2.0
"""Joined launches: several launches of one OpenCL C kernel made by a single submission."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

from syclsched.devices.native.sycl_types import SyclContext, SyclDevice, SyclQueue
from syclsched.devices.programs.combined_source import COMMENT
from syclsched.devices.programs.executables import Executable, KernelExecutable, KernelSubmission, Submission
from syclsched.devices.programs.programs import compile_code
from syclsched.errors import SyclschedError
from syclsched.model.operation import OpenCLSource

#: Bytes of arguments that every full-profile OpenCL device accepts (CL_DEVICE_MAX_PARAMETER_SIZE).
ARGUMENT_BYTES = 1024
LARGEST_ARGUMENT_BYTES = 8
#: Largest work-group where the original launches leave the choice to the runtime, which could mix launches in a group.
_GROUP = 256
_SMALL_GROUP = 16

#: Features a kernel to be joined may not use: queries that show the added dimension, local memory (guaranteed only in a
#: kernel that is launched itself: OpenCL C 3.0, 6.7.1), synchronisation of work-items (a group chosen by the runtime
#: could contain work-items of two launches).
_NOT_JOINED = re.compile(
    r"\b(?:__local|local|reqd_work_group_size|work_group_size_hint|get_work_dim|get_global_linear_id"
    r"|get_global_offset|barrier|work_group_\w+|sub_group_\w+|printf|image[123]d\w*|sampler_t|pipe)\b"
    r"|\bget_(?:global_id|local_id|group_id|num_groups|global_size|local_size|enqueued_local_size)\b(?!\s*\(\s*[01]\s*\))"
)
ATTRIBUTES = r"(?:\s*__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\))*"
_LAST_NAME = re.compile(r"([A-Za-z_]\w*)\s*$")


def join_key(executable: Executable, queue: SyclQueue) -> tuple[Hashable, int, int] | None:
    """Return a key equal for launches that can be joined, the most per submission, and how many run at a time.

    None if not joinable. Nothing is compiled here; `can_join` tells whether the device compiles the joined kernel.
    """
    if not isinstance(executable, KernelExecutable) or not isinstance(executable.code, OpenCLSource):
        return None
    most = ARGUMENT_BYTES // (LARGEST_ARGUMENT_BYTES * max(1, executable.arguments_count))
    if most < 2 or len(executable.global_range) > 2 or 0 in executable.global_range:
        return None
    local = executable.local_range
    ranges = tuple(executable.global_range), None if local is None else tuple(local)
    groups = math.prod(executable.global_range) // math.prod(local or (1,))
    at_a_time = queue.sycl_device.max_compute_units // groups
    return (executable.code, *ranges, queue.sycl_context, queue.sycl_device), most, at_a_time


def can_join(executable: Executable, count: int, queue: SyclQueue) -> bool:
    """Return whether a device compiles the kernel joined from ``count`` launches.

    This builds the joined kernel, which takes a tenth of a second: ask only for launches worth it.
    """
    assert isinstance(executable, KernelExecutable)
    assert isinstance(executable.code, OpenCLSource)
    return _joined_kernel(executable.code, count, queue.sycl_context, queue.sycl_device) is not None


def join_launches(executable: Executable, submissions: Sequence[Submission], queue: SyclQueue) -> KernelSubmission:
    """Return one submission that does the work of several launches concurrently; only if `can_join`."""
    assert isinstance(executable, KernelExecutable)
    assert isinstance(executable.code, OpenCLSource)
    kernel = _joined_kernel(executable.code, len(submissions), queue.sycl_context, queue.sycl_device)
    assert kernel is not None
    extents, local = executable.global_range, executable.local_range or _groups(executable.global_range)
    return KernelSubmission(
        kernel=kernel,
        arguments=[a for each in submissions if isinstance(each, KernelSubmission) for a in each.arguments],
        global_range=[len(submissions), *[1] * (2 - len(extents)), *extents],
        local_range=local and [1, *[1] * (2 - len(local)), *local],
        open_ended=executable.open_ended,
    )


@lru_cache(maxsize=64)  # a kernel keeps its program alive
def _joined_kernel(code: OpenCLSource, count: int, context: SyclContext, device: SyclDevice) -> Any:
    """Return the joined kernel; None if the device does not compile it."""
    import dpctl

    joined = joined_source(code, count)
    if joined is None:
        return None
    where = f"{count} launches of kernel {code.kernel_name!r}"
    try:
        return compile_code(joined, dpctl.SyclQueue(context, device), where)
    except SyclschedError:
        return None


def _groups(extents: Sequence[int]) -> list[int] | None:
    """Return the largest work-group that divides an index space; None if it would be very small."""
    fastest = extents[-1]
    size = next(size for size in range(min(fastest, _GROUP), 0, -1) if fastest % size == 0)
    return None if size < min(fastest, _SMALL_GROUP) else [1] * (len(extents) - 1) + [size]


def joined_source(code: OpenCLSource, count: int) -> OpenCLSource | None:
    """Return a program with a kernel that does the work of several launches of one kernel; None if impossible.

    The kernel takes the arguments of all launches, one after another, and is launched over one more dimension, the
    slowest: its index selects the arguments. The first two dimensions are unchanged.
    """
    plain = COMMENT.sub(" ", code.source)
    found = _declaration(plain, code.kernel_name)
    if found is None or _NOT_JOINED.search(plain):
        return None
    hints, parameters = found
    name = f"syclsched_{count}_{code.kernel_name}"
    declared = [f"{head}{own}_{n}" for n in range(count) for head, own in parameters]
    # One call: several would be inlined, each with the kernel's private memory.
    selected = [
        " : ".join([*(f"launch == {n} ? {own}_{n}" for n in range(count - 1)), f"{own}_{count - 1}"])
        for _, own in parameters
    ]
    text = "\n".join(
        (
            code.source,
            f"{hints}__kernel void {name}({', '.join(declared)}) {{",
            "    const size_t launch = get_global_id(2);",
            f"    {code.kernel_name}({', '.join(selected)});",
            "}",
        )
    )
    return OpenCLSource(text, name, code.options)


def plain_parameters(code: OpenCLSource) -> list[tuple[str, str]] | None:
    """Return declaration and name of a kernel's parameters; None if another kernel cannot stand in for its launches."""
    plain = COMMENT.sub(" ", code.source)
    found = None if _NOT_JOINED.search(plain) else _declaration(plain, code.kernel_name, ATTRIBUTES)
    return None if found is None else found[1]


def _declaration(source: str, kernel: str, between: str = "") -> tuple[str, list[tuple[str, str]]] | None:
    """Return the text before a kernel on its line, and declaration and name of each parameter; None if too complex.

    ``between`` matches what may stand between ``__kernel`` and ``void``.
    """
    declaration = rf"\b(?:__)?kernel\b{between}\s+void\s+{re.escape(kernel)}\s*\(([^()]*)\)\s*\{{"
    found = list(re.finditer(declaration, source))
    if len(found) != 1:
        return None
    before = source[: found[0].start()]
    hints = before[1 + max(before.rfind(end) for end in "\n;}") :]
    parameters = []
    for text in found[0].group(1).split(","):
        name = _LAST_NAME.search(text)
        if name is None or not text[: name.start()].strip():
            return None
        parameters.append((text[: name.start()], name.group(1)))
    return hints, parameters
