# SPDX-License-Identifier: Apache-2.0
"""Computations with known answers, to test whether a device computes correctly.

Each exists as a Python kernel and as OpenCL C, for every dtype, and runs at lengths that no vector width divides:
wrong vector code shows in single lanes and in the remainder. The computations are those that failed on processors
unknown to the OpenCL CPU runtime: a ramp of indices, an element-wise formula with transcendental functions, a
reduction. All inputs are chosen so that every order of evaluation gives the same rounding, except in transcendental
functions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

RAMP = "arange"
FORMULA = "element-wise"
REDUCTION = "reduction"
KINDS = (RAMP, FORMULA, REDUCTION)

#: No length is a multiple of a vector width; the last is one less than a multiple.
LENGTHS = (17, 1000, 1023)
#: Work-items of the Python reduction (fewer than the smallest length) and of the OpenCL one, in groups.
REDUCTION_ITEMS = 16
OPENCL_REDUCTION_ITEMS = 64
OPENCL_GROUP_ITEMS = 16


@dataclass(frozen=True, slots=True)
class Dtype:
    """An element type: its names in NumPy and OpenCL C, and the tolerance of results relative to 1."""

    name: str
    opencl: str
    tolerance: float

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.name.startswith("float")


#: OpenCL allows sin, cos and exp 4 units in the last place; the sums of three of them here stay within these.
DTYPES = (
    Dtype("float32", "float", 4e-6),
    Dtype("float64", "double", 8e-15),
    Dtype("int32", "int", 0.0),
    Dtype("int64", "long", 0.0),
)


# --- inputs and expected results -------------------------------------------------------------------


def inputs(kind: str, dtype: Dtype, length: int) -> Array:
    """Return the input of a computation; the ramp takes its start and step from the first two values."""
    index = np.arange(length, dtype=np.int64)
    if kind == REDUCTION:
        return ((index * 31) % 97 - 48).astype(dtype.name)
    if dtype.is_float:
        return ((index - length // 2) / 128.0).astype(dtype.name)
    scale = 1_048_577 if dtype.name == "int64" else 3  # squares exceed 32 bits where the type is wider
    return ((index - length // 2) * scale).astype(dtype.name)


def expected(kind: str, dtype: Dtype, length: int) -> Array:
    """Return the correct result; of a reduction, the partial sum of each work-item of the Python kernel."""
    given: Array = inputs(kind, dtype, length)
    answer: Array
    if kind == RAMP:
        answer = given[1] * np.arange(length).astype(dtype.name) + given[0]
    elif kind == REDUCTION:
        answer = strided_totals(given, REDUCTION_ITEMS)
    elif dtype.is_float:
        x = given.astype(np.float64)
        answer = np.exp(-x * x) + np.sin(x) * np.cos(x) + np.sqrt(x * x)
    else:
        answer = given * given * 5 + (given ^ 21) - (given >> 2)
    return answer


def strided_totals(values: Array, items: int) -> Array:
    """Return for each of ``items`` work-items the sum of every ``items``-th value from its own on."""
    return np.array([values[item::items].sum() for item in range(items)], dtype=values.dtype)


def opencl_group_totals(values: Array) -> Array:
    """Return the partial sum of each work-group of the OpenCL reduction, then zeros.

    There is one element for every work-item, so that a runtime that makes other groups than requested writes wrong
    values instead of past the end.
    """
    per_item = strided_totals(values, OPENCL_REDUCTION_ITEMS)
    totals = np.zeros(OPENCL_REDUCTION_ITEMS, dtype=values.dtype)
    per_group = per_item.reshape(-1, OPENCL_GROUP_ITEMS).sum(axis=1, dtype=values.dtype)
    totals[: per_group.size] = per_group
    return totals


def mismatch(result: Array, answer: Array, tolerance: float) -> str | None:
    """Describe how a result differs from the correct one; None if it does not."""
    got, right = np.asarray(result), np.asarray(answer)
    if got.shape != right.shape:
        return f"shape {got.shape} instead of {right.shape}"
    if tolerance == 0.0:
        wrong = got != right
    else:
        error = np.abs(got.astype(np.float64) - right)
        wrong = ~(error <= tolerance * np.maximum(1.0, np.abs(right)))  # inverted, so that NaN is wrong
    places = np.flatnonzero(wrong)
    if places.size == 0:
        return None
    first = int(places[0])
    return f"{places.size} of {right.size} values are wrong (at {first}: {got[first]} instead of {right[first]})"


# --- the computations as Python kernels (decorated by the compiling function). The keys of the shipped SPIR-V
# contain the source text of the two kernels, docstrings included: do not change it without making them anew.


def float_kernel(item: Any, out: Any, given: Any) -> None:
    """Ramp; exp(-x^2) + sin(x) cos(x) + |x| of given's first half; sums of every 16th element of its second half."""
    i = item.get_id(0)
    half = given.shape[0] // 2
    out[i] = i
    out[i] = given[1] * out[i] + given[0]
    x = given[i]
    out[half + i] = math.exp(-x * x) + math.sin(x) * math.cos(x) + math.sqrt(x * x)
    if i < 16:
        total = out[2 * half + i]
        for j in range(half + i, 2 * half, 16):
            total += given[j]
        out[2 * half + i] = total


def integer_kernel(item: Any, out: Any, given: Any) -> None:
    """Ramp; 5 x^2 + (x ^ 21) - (x >> 2) of given's first half; sums of every 16th element of its second half."""
    i = item.get_id(0)
    half = given.shape[0] // 2
    out[i] = i
    out[i] = given[1] * out[i] + given[0]
    x = given[i]
    out[half + i] = x * x * 5 + (x ^ 21) - (x >> 2)
    if i < 16:
        total = out[2 * half + i]
        for j in range(half + i, 2 * half, 16):
            total += given[j]
        out[2 * half + i] = total


def python_function(dtype: Dtype) -> Any:
    """Return the Python kernel's function of a dtype; it writes the results of `KINDS` one after another.

    They share a kernel because building a program takes a driver longer than running it. ``given`` has the input of the
    formula, whose first two values are the ramp's, followed by that of the reduction, equally long; ``out`` is passed
    as zeros.
    """
    return float_kernel if dtype.is_float else integer_kernel


# --- the computations in OpenCL C --------------------------------------------------------------------

_FLOAT_FORMULA = "exp(-x * x) + sin(x) * cos(x) + sqrt(x * x)"
_INTEGER_FORMULA = "x * x * 5 + (x ^ 21) - (x >> 2)"

_OPENCL_TEMPLATE = """
__kernel void all_{name}(__global {type} *out, __global const {type} *given, long length) {{
    size_t i = get_global_id(0);
    out[i] = given[1] * ({type})i + given[0];
    {type} x = given[i];
    out[length + i] = {formula};
    if (i < {items}) {{
        {type} total = 0;
        for (long j = length + i; j < 2 * length; j += {items})
            total += given[j];
        out[2 * length + i] = total;
    }}
}}
"""

_OPENCL_GROUPS = """
__kernel void groups(__global {type} *out, __global const {type} *given, long length) {{
    __local {type} partial[{group}];
    size_t me = get_local_id(0);
    {type} total = 0;
    for (long j = get_global_id(0); j < length; j += get_global_size(0))
        total += given[j];
    partial[me] = total;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me == 0) {{
        for (size_t other = 1; other < {group}; ++other)
            total += partial[other];
        out[get_group_id(0)] = total;
    }}
}}
"""

#: The only dtype that is summed through local memory: compiling a barrier is slow, whatever the dtype.
OPENCL_GROUPS_DTYPE = DTYPES[0]
OPENCL_GROUPS = "groups"


def opencl_kernel(dtype: Dtype) -> str:
    """Return the name of the OpenCL C kernel of a dtype; it computes the same as `python_function`."""
    return f"all_{dtype.name}"


def opencl_source(dtypes: tuple[Dtype, ...]) -> str:
    """Return one OpenCL C program with the kernels of all the dtypes, and the reduction by work-groups."""
    kernels = [
        _OPENCL_TEMPLATE.format(
            name=dtype.name,
            type=dtype.opencl,
            formula=_FLOAT_FORMULA if dtype.is_float else _INTEGER_FORMULA,
            items=REDUCTION_ITEMS,
        )
        for dtype in dtypes
    ]
    return "".join([*kernels, _OPENCL_GROUPS.format(type=OPENCL_GROUPS_DTYPE.opencl, group=OPENCL_GROUP_ITEMS)])
