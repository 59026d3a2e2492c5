# SPDX-License-Identifier: Apache-2.0
"""Element types, index spaces and requirements shared by all kernels."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from syclsched.model.operation import DeviceLimits, Implementation, Launch, Operation, Requirements
from syclsched.model.platform import OPENCL_C as OPENCL_C

_Given = ParamSpec("_Given")

#: A shape, or one number for each axis.
Ints = tuple[int, ...]
#: Element-wise steps applied to a result, in order; see `syclsched.kernels.nn.activation`.
Activation = tuple[tuple[str | float, ...], ...]
#: Floating-point element types that every kernel here supports.
REAL_DTYPES = ("float32", "float64")
#: NumPy dtype name -> OpenCL C element type. Half precision is read with `vload_half` and computed in single; a bool
#: is a byte.
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
#: Definition of the OpenCL C type, by element type, lanes and bytes of an element, of a vector that may begin at any
#: element. Access through pointers to it takes the compiler of Intel's CPU runtime 0.2 ms less, for each place in the
#: source, than a call of ``vload`` or ``vstore``.
VECTOR_AT_ANY = "typedef {0}{1} {0}{1}_at_any __attribute__((aligned({2})));\n"
#: All tensor element types.
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
    "complex64": 8,
    "complex128": 16,
}
#: NumPy dtype name of complex numbers -> that of their parts.
REAL_PARTS = {"complex64": "float32", "complex128": "float64"}
#: Element types of Python kernels; numba-dpex has no half precision.
NUMBA_DTYPES = tuple(name for name in ALL_DTYPES if name != "float16")

#: Target number of work-groups per compute unit; it limits the tail effect of the last group.
GROUPS_PER_UNIT = 4
#: Work-items that fill the widest vector register (512 bits of float32).
VECTOR_ITEMS = 16

#: Of Python kernels: numba-dpex, or the package's own compiler, makes SPIR-V of them with numba.
PYTHON_KERNEL = Requirements(packages=("numba",))
ONEMKL = Requirements(packages=("dpnp",), device_kinds=("cpu", "gpu"), libraries=("oneMKL",))


def extension_pragma(dtype: str) -> str:
    """Return the OpenCL pragma that a program needs for a dtype; empty for none."""
    extension = {"float64": "cl_khr_fp64", "float16": "cl_khr_fp16"}.get(dtype)
    return f"#pragma OPENCL EXTENSION {extension} : enable\n" if extension else ""


def element_type(dtype: str) -> str:
    """Return OpenCL C that defines the type ``T`` of elements."""
    return f"{extension_pragma(dtype)}typedef {C_TYPES[dtype]} T;"


def numpy_implementation(function: Callable[..., None], efficiency: float) -> Implementation:
    """Return the implementation by a host function for all signatures."""
    return Implementation("numpy", "host", load=lambda _: function, efficiency=efficiency)


def ceil_div(value: int, divisor: int) -> int:
    """Return ``value / divisor`` rounded up."""
    return -(-value // divisor)


def group_size(limits: DeviceLimits, items: int, *, rows: int = 1) -> int:
    """Return the work-group size for a line of ``items`` work-items.

    The largest power of two that the device allows, that is not needlessly longer than the line, and that still leaves
    `GROUPS_PER_UNIT` groups for each compute unit; at least `VECTOR_ITEMS` where the device allows it.
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
    """Return an index space of ``row_blocks`` lines of work-groups, each line covering ``columns`` work-items.

    Group ``g`` of a line of ``w`` groups computes row block ``g // w`` and the columns from ``g % w`` times the group
    size. Both are uniform within a group, so a compiler that maps neighbouring work-items to vector lanes needs no
    gather for data the group shares.
    """
    size = group_size(limits, columns, rows=row_blocks)
    return Launch((row_blocks * ceil_div(columns, size) * size,), (size,))


def transpose_shuffles() -> list[tuple[int, int, list[int], list[int]]]:
    """Return the shuffles that transpose a `VECTOR_ITEMS` x `VECTOR_ITEMS` square held in registers.

    Each entry is (row a, row b, lanes of the new a, lanes of the new b); lanes count through both rows.
    """
    steps, distance = [], VECTOR_ITEMS // 2
    while distance:
        low = [lane + (VECTOR_ITEMS - distance if lane & distance else 0) for lane in range(VECTOR_ITEMS)]
        high = [lane + (VECTOR_ITEMS if lane & distance else distance) for lane in range(VECTOR_ITEMS)]
        steps += [(line, line + distance, low, high) for line in range(VECTOR_ITEMS) if not line & distance]
        distance //= 2
    return steps


def with_recipe(factory: Callable[_Given, Operation]) -> Callable[_Given, Operation]:
    """Let a factory of operations note in each its own name and the arguments: gradients follow from these."""
    signature = inspect.signature(factory)

    @wraps(factory)
    def make(*given: _Given.args, **named: _Given.kwargs) -> Operation:
        operation = factory(*given, **named)
        if operation.recipe is None:
            bound = signature.bind(*given, **named)
            bound.apply_defaults()
            # The factory returns the same object for equal arguments, so that it is noted once.
            object.__setattr__(operation, "recipe", (factory.__name__, dict(bound.arguments)))
        return operation

    return make
