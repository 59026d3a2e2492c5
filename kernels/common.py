# SPDX-License-Identifier: Apache-2.0
"""What all kernels share: element types, index spaces and requirements."""

from __future__ import annotations

from syclsched.model.operation import DeviceLimits, Launch, Requirements

#: A shape, or other numbers by axis.
Ints = tuple[int, ...]
#: Steps done to every element of a result, in order: see `syclsched.kernels.nn.activation`.
Activation = tuple[tuple[str | float, ...], ...]
#: Floating-point element types every kernel here is written for.
REAL_DTYPES = ("float32", "float64")
#: Element types of the element-wise kernels.
NUMERIC_DTYPES = ("float32", "float64", "int32", "int64")

#: NumPy dtype name -> OpenCL C type of an array's elements. Half precision is read with `vload_half` and reckoned
#: with in single; a bool is a byte.
C_TYPES = {
    "bool": "uchar",
    "int8": "char",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "uint8": "uchar",
    "uint16": "ushort",
    "uint32": "uint",
    "uint64": "ulong",
    "float16": "half",
    "float32": "float",
    "float64": "double",
}
#: Every element type of tensors.
ALL_DTYPES = tuple(C_TYPES)
#: NumPy dtype name -> size in bytes.
ITEM_BYTES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
}
#: Those numba-dpex compiles: it knows no half precision.
NUMBA_DTYPES = tuple(name for name in ALL_DTYPES if name != "float16")

#: Work-groups a compute unit should get, so that one that starts late does not decide the finish.
GROUPS_PER_UNIT = 4
#: Work-items that fill the widest vector register in use (512 bits of float32).
VECTOR_ITEMS = 16

NUMBA_DPEX = Requirements(packages=("numba_dpex",))
#: Level Zero takes SPIR-V only, which the compiler of the OpenCL CPU runtime makes.
OPENCL_C = Requirements(backends=("opencl", "level_zero"), backend_packages=(("level_zero", "intel-opencl-rt"),))
ONEMKL = Requirements(packages=("dpnp",), device_kinds=("cpu", "gpu"))


def ceil_div(value: int, divisor: int) -> int:
    """Return ``value / divisor`` rounded up."""
    return -(-value // divisor)


def group_size(limits: DeviceLimits, items: int, *, rows: int = 1) -> int:
    """Return how many work-items a work-group takes of a line of ``items``.

    The largest power of two that the device allows, that is not needlessly longer than the line, and that still leaves
    `GROUPS_PER_UNIT` groups to each compute unit; but never less than a vector register holds.
    """
    wanted_groups = GROUPS_PER_UNIT * limits.compute_units
    size = min(VECTOR_ITEMS, limits.max_work_group_size)
    while size * 2 <= limits.max_work_group_size and size < items and rows * ceil_div(items, size * 2) >= wanted_groups:
        size *= 2
    return size


def line_launch(limits: DeviceLimits, items: int) -> Launch:
    """Return a one-dimensional index space of at least ``items`` work-items, in whole groups."""
    size = group_size(limits, items)
    return Launch((ceil_div(items, size) * size,), (size,))


def block_launch(limits: DeviceLimits, row_blocks: int, columns: int) -> Launch:
    """Return an index space of ``row_blocks`` lines of groups, each line covering ``columns`` work-items.

    Group ``g`` of a line of ``w`` groups works on row block ``g // w`` and on the columns from
    ``g % w`` times the group size: uniform within a group, so that a compiler that maps neighbouring work-items to
    vector lanes needs no gather for what they share.
    """
    size = group_size(limits, columns, rows=row_blocks)
    return Launch((row_blocks * ceil_div(columns, size) * size,), (size,))


def turning() -> list[tuple[int, int, list[int], list[int]]]:
    """Return how lines of a square of `VECTOR_ITEMS` become columns, in registers."""
    steps, apart = [], VECTOR_ITEMS // 2
    while apart:
        low = [lane + (VECTOR_ITEMS - apart if lane & apart else 0) for lane in range(VECTOR_ITEMS)]
        high = [lane + (VECTOR_ITEMS if lane & apart else apart) for lane in range(VECTOR_ITEMS)]
        steps += [(line, line + apart, low, high) for line in range(VECTOR_ITEMS) if not line & apart]
        apart //= 2
    return steps
