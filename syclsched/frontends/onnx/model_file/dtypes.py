# SPDX-License-Identifier: Apache-2.0
"""ONNX element types and their NumPy dtype names.

Networks compute with NumPy's own dtypes. Elements of the narrow types that NumPy lacks (of the package ml_dtypes) are
held as the numbers they stand for, in a carrier: a NumPy dtype that represents all of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from syclsched.errors import RuntimeMissingError


class NarrowFloat(NamedTuple):
    """A floating-point format narrower than its carrier."""

    fraction_bits: int
    least_exponent: int  # of normal numbers
    most: float  # the largest number
    beyond: float | None  # the result for larger numbers if they are not clipped; None: they are always clipped


#: Narrow floating-point types; their carrier is float32.
NARROW_FLOATS: Final = {
    "bfloat16": NarrowFloat(7, -126, 3.3895313892515355e38, float("inf")),
    "float8_e4m3fn": NarrowFloat(3, -6, 448.0, float("nan")),
    "float8_e4m3fnuz": NarrowFloat(3, -7, 240.0, float("nan")),
    "float8_e5m2": NarrowFloat(2, -14, 57344.0, float("inf")),
    "float8_e5m2fnuz": NarrowFloat(2, -15, 57344.0, float("nan")),
    "float4_e2m1fn": NarrowFloat(1, 0, 6.0, None),
    "float6_e2m3fn": NarrowFloat(3, 0, 7.5, None),
    "float6_e3m2fn": NarrowFloat(2, -2, 28.0, None),
}
#: Narrow integer types: bits. Their carriers are int8 and uint8.
NARROW_INTEGERS: Final = {"uint4": 4, "int4": 4, "uint2": 2, "int2": 2}

#: ONNX element type number (TensorProto.DataType) -> dtype name.
DTYPES: Final = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    25: "uint2",
    26: "int2",
    27: "float6_e2m3fn",
    28: "float6_e3m2fn",
}
#: Dtype name -> ONNX element type number.
NUMBERS: Final = {name: number for number, name in DTYPES.items()}

#: Names of the unsupported element types, for error messages.
_UNSUPPORTED: Final = {0: "undefined", 8: "string", 14: "complex64", 15: "complex128", 24: "float8e8m0"}

FLOATS: Final = frozenset({"float16", "float32", "float64"})
UNSIGNED: Final = frozenset({"uint8", "uint16", "uint32", "uint64"})


def element_type_name(number: int) -> str:
    """Return the name of an element type."""
    return DTYPES.get(number) or _UNSUPPORTED.get(number) or f"type {number}"


@lru_cache(maxsize=256)
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a NumPy dtype, which NumPy composes anew each time."""
    return dtype.name


def carrier(dtype: str) -> str:
    """Return the dtype that elements of a type are held in: its own, unless the type is narrow."""
    if dtype in NARROW_FLOATS:
        return "float32"
    return ("uint8" if dtype[0] == "u" else "int8") if dtype in NARROW_INTEGERS else dtype


def is_narrow(dtype: str) -> bool:
    """Return whether NumPy lacks a dtype."""
    return dtype in NARROW_FLOATS or dtype in NARROW_INTEGERS


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """Return a dtype; those that NumPy lacks are of the package ml_dtypes."""
    if is_narrow(dtype):
        try:
            import ml_dtypes
        except ImportError as error:
            raise RuntimeMissingError(
                f"elements of {dtype} need the package ml_dtypes: {error}", hint="pip install ml_dtypes"
            ) from error
        return np.dtype(getattr(ml_dtypes, dtype))
    return np.dtype(dtype)
