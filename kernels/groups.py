# SPDX-License-Identifier: Apache-2.0
"""OpenCL C whose work-groups share a piece of work: the shape of kernels for GPUs.

A CPU's runtime runs a work-item on a thread, and what is fast there is a work-item that does a whole row in vectors. A
GPU runs the work-items of a group in lock-step: neighbours should read neighbours, and what they find out together goes
through local memory. Implementations of that shape are beside the others and ask for a GPU, so that they are neither
chosen nor tried elsewhere. Sizes of groups are made of the device's limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from syclsched.kernels.common import C_TYPES, OPENCL_C
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Prepare,
    Signature,
    Tailored,
)

#: What such implementations are called.
NAME: Final = "opencl-c-groups"
#: Work-items of a group at most: more wait longer for each other than they hide of memory's latency.
MOST_ITEMS: Final = 256
#: Work-items whose accesses become one, where the device does not say: the sub-group compilers of GPUs mostly take.
_LANES, _MOST_LANES = 16, 32


def implementation(
    source: Callable[[Signature, DeviceLimits], OpenCLSource],
    launch: Callable[[Signature, DeviceLimits], Launch],
    *,
    refuses: Callable[[Signature], str | None] | None = None,
    prepare: Prepare | None = None,
) -> Implementation:
    """Return the implementation of an operation for GPUs."""
    return Implementation(
        NAME,
        "opencl-c",
        partial(_load, source=source),
        launch,
        replace(OPENCL_C, device_kinds=("gpu",), refuses=refuses),
        efficiency=0.6,
        prepare=prepare,
    )


def _load(signature: Signature, *, source: Callable[[Signature, DeviceLimits], OpenCLSource]) -> Any:
    return Tailored(partial(source, signature))


def power_of_two(value: int) -> int:
    """Return the greatest power of two that is not greater than a positive number."""
    return 1 << value.bit_length() - 1


def covering(value: int) -> int:
    """Return the least power of two that is not less than a number; 1 for 0."""
    return 1 << max(value - 1, 0).bit_length()


def most_items(limits: DeviceLimits, local_bytes: int) -> int:
    """Return how many work-items a group may have, a power of two."""
    room = limits.local_memory_bytes // local_bytes
    return power_of_two(max(1, min(MOST_ITEMS, limits.max_work_group_size, room)))


def lanes(limits: DeviceLimits) -> int:
    """Return how many neighbouring work-items should access neighbouring elements, a power of two."""
    wide = max((size for size in limits.sub_group_sizes if size <= _MOST_LANES), default=_LANES)
    return power_of_two(min(wide, limits.max_work_group_size))


def head(dtype: str, working: str, elements: int) -> str:
    """Return the types of a program."""
    read, write = "((A)(p)[i])", "(p)[i] = (T)(v)"
    if dtype == "float16":
        read, write = "vload_half(i, p)", "vstore_half(v, i, p)"
    # One more than the number of elements, and group after group of them, must be there.
    index = "int" if elements < 1 << 30 else "long"
    return (
        f"{enabled(dtype)}typedef {C_TYPES[dtype]} T;\ntypedef {C_TYPES[working]} A;\ntypedef {index} I;\n"
        f"#define READ(p, i) {read}\n#define WRITE(p, i, v) {write}\n"
    )


def enabled(dtype: str) -> str:
    """Return what a program begins with that uses a dtype."""
    extension = {"float64": "cl_khr_fp64", "float16": "cl_khr_fp16"}.get(dtype)
    return f"#pragma OPENCL EXTENSION {extension} : enable\n" if extension else ""
