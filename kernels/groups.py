# SPDX-License-Identifier: Apache-2.0
"""Work-group implementations in OpenCL C for GPUs.

A CPU runtime runs a work-item on a thread, and a work-item that computes a whole row in vectors is fast there. A GPU
runs the work-items of a sub-group in lock-step: neighbours should read neighbouring elements and share results through
local memory. Implementations of this kind require a GPU, so they are neither chosen nor calibrated elsewhere. Group
sizes follow from the device's limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from syclsched.kernels.common import C_TYPES, OPENCL_C, element_type
from syclsched.model.operation import (
    DeviceLimits,
    Form,
    Implementation,
    Launch,
    OpenCLSource,
    Prepare,
    Signature,
    Tailored,
)

#: Name of these implementations.
NAME: Final = "opencl-c-groups"
#: Most work-items of a group: with more, barriers cost more than the memory latency they hide.
MOST_ITEMS: Final = 256
#: Work-items whose accesses coalesce: the usual sub-group size of GPU compilers, if the device reports none.
_LANES, _MOST_LANES = 16, 32


def implementation(
    source: Callable[[Signature, DeviceLimits], OpenCLSource],
    launch: Callable[[Signature, DeviceLimits], Launch],
    *,
    refuses: Callable[[Signature], str | None] | None = None,
    prepare: Prepare | None = None,
    form: Form | None = None,
    device_kinds: tuple[str, ...] = ("gpu",),
) -> Implementation:
    """Return a work-group implementation of an operation, for GPUs only unless other kinds of devices are named."""
    return Implementation(
        NAME,
        "opencl-c",
        partial(_load, source=source),
        launch,
        replace(OPENCL_C, device_kinds=device_kinds, refuses=refuses),
        efficiency=0.6,
        prepare=prepare,
        form=form,
    )


def _load(signature: Signature, *, source: Callable[[Signature, DeviceLimits], OpenCLSource]) -> Any:
    return Tailored(partial(source, signature))


def floor_power_of_two(value: int) -> int:
    """Return the greatest power of two that is at most ``value`` (positive)."""
    return 1 << value.bit_length() - 1


def ceil_power_of_two(value: int) -> int:
    """Return the least power of two that is at least ``value``; 1 for 0."""
    return 1 << max(value - 1, 0).bit_length()


def most_items(limits: DeviceLimits, local_bytes: int) -> int:
    """Return the most work-items a group may have, a power of two."""
    fitting = limits.local_memory_bytes // local_bytes
    return floor_power_of_two(max(1, min(MOST_ITEMS, limits.max_work_group_size, fitting)))


def lanes(limits: DeviceLimits) -> int:
    """Return how many neighbouring work-items should access neighbouring elements, a power of two."""
    wide = max((size for size in limits.sub_group_sizes if size <= _MOST_LANES), default=_LANES)
    return floor_power_of_two(min(wide, limits.max_work_group_size))


def head(dtype: str, working: str, elements: int) -> str:
    """Return the type definitions and access macros at the top of a program."""
    read, write = "((A)(p)[i])", "(p)[i] = (T)(v)"
    if dtype == "float16":
        read, write = "vload_half(i, p)", "vstore_half(v, i, p)"
    # The index type must hold the number of elements rounded up to whole groups.
    index = "int" if elements < 1 << 30 else "long"
    return (
        f"{element_type(dtype)}\ntypedef {C_TYPES[working]} A;\ntypedef {index} I;\n"
        f"#define READ(p, i) {read}\n#define WRITE(p, i, v) {write}\n"
    )
