# SPDX-License-Identifier: Apache-2.0
"""Types, literals and headers shared by the generated OpenCL C of neural network operations."""

from __future__ import annotations

import math
from typing import Final

from syclsched.kernels.common import C_TYPES, element_type
from syclsched.model.operation import OpenCLSource

#: Floating-point dtypes of these operations; float16 runs where a device has fp16, and is summed in float32.
FLOATS: Final = ("float32", "float64", "float16")
#: dtype -> the dtype sums are kept in.
SUMS: Final = {"float16": "float32"}


def sum_dtype(dtype: str) -> str:
    """Return the dtype that sums of a dtype are kept in."""
    return SUMS.get(dtype, dtype)


def literal(value: float, dtype: str) -> str:
    """Return a number as an exact OpenCL C literal of a floating-point dtype; float16 becomes float."""
    if math.isnan(value):
        # NAN is a function call in some headers, which constant tables do not allow.
        return "(0.0f / 0.0f)"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    if float(value).is_integer() and abs(value) < 1e6:
        text = f"{value:.1f}"
    else:
        text = float(value).hex()
    return text + ("" if dtype == "float64" else "f")


def header(dtype: str) -> str:
    """Return a program's types: ``T`` of elements, ``A`` of sums."""
    return f"{element_type(dtype)}\ntypedef {C_TYPES[sum_dtype(dtype)]} A;\n"


def empty_kernel(name: str, parameters: str) -> OpenCLSource:
    """Return an empty kernel, for empty results; its parameters may have the type ``T`` of elements."""
    return OpenCLSource(f"typedef uchar T;\n__kernel void {name}({parameters}) {{}}\n", name)
