# SPDX-License-Identifier: Apache-2.0
"""ONNX element types and their NumPy dtype names."""

from __future__ import annotations

from typing import Final

#: ONNX element type number (TensorProto.DataType) -> NumPy dtype name.
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
}
#: NumPy dtype name -> ONNX element type number.
NUMBERS: Final = {name: number for number, name in DTYPES.items()}

#: Names of the unsupported element types, for error messages.
_UNSUPPORTED: Final = {
    0: "undefined",
    8: "string",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8e4m3fn",
    18: "float8e4m3fnuz",
    19: "float8e5m2",
    20: "float8e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4e2m1",
    24: "float8e8m0",
    25: "uint2",
    26: "int2",
    27: "float6e2m3",
    28: "float6e3m2",
}

FLOATS: Final = frozenset({"float16", "float32", "float64"})
UNSIGNED: Final = frozenset({"uint8", "uint16", "uint32", "uint64"})


def element_type_name(number: int) -> str:
    """Return the name of an element type."""
    return DTYPES.get(number) or _UNSUPPORTED.get(number) or f"type {number}"
