# SPDX-License-Identifier: Apache-2.0
"""Addresses of array elements in kernels, and loads and stores of elements.

Elements are addressed by LLVM's typed pointer arithmetic, from which drivers see that arrays are distinct, where
numba's code for its CPU target computes with integers.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba.core import types

from syclsched.kernel_compiler.target.kernel_types import ARRAY_FIELDS

_INDEX: Final = ir.IntType(64)


def contiguous_strides(builder: Any, extents: list[Any], size: Any, layout: str) -> list[Any]:
    """Return the strides in bytes of a contiguous array."""
    strides, stride = [], size
    for extent in extents if layout == "F" else reversed(extents):
        strides.append(stride)
        stride = builder.mul(stride, extent, flags=["nsw"])
    return strides if layout == "F" else strides[::-1]


def index_values(builder: Any, kind: Any, value: Any) -> tuple[list[Any], list[Any]]:
    """Return types and values of an index, which is one integer or a tuple of them."""
    if isinstance(kind, types.BaseTuple):
        return list(kind), [builder.extract_value(value, axis) for axis in range(len(kind))]
    return [kind], [value]


def is_whole_index(array: Any, kind: Any) -> bool:
    """Return whether an index selects a single element."""
    kinds = list(kind) if isinstance(kind, types.BaseTuple) else [kind]
    return len(kinds) == array.ndim and all(isinstance(each, types.Integer) for each in kinds)


class Fields:
    """The fields of an array value that addresses are computed from, without a copy of the value in memory."""

    def __init__(self, builder: Any, value: Any) -> None:
        self._builder, self._value = builder, value

    @property
    def data(self) -> Any:
        """Pointer to the first element."""
        return self._builder.extract_value(self._value, ARRAY_FIELDS.index("data"))

    @property
    def itemsize(self) -> Any:
        """Bytes of an element."""
        return self._builder.extract_value(self._value, ARRAY_FIELDS.index("itemsize"))

    def extent(self, axis: int) -> Any:
        """Return the number of elements along an axis."""
        return self._builder.extract_value(self._value, [ARRAY_FIELDS.index("shape"), axis])

    def stride(self, axis: int) -> Any:
        """Return the distance in bytes of neighbours along an axis."""
        return self._builder.extract_value(self._value, [ARRAY_FIELDS.index("strides"), axis])


def element_pointer(context: Any, builder: Any, kind: Any, value: Any, index_kind: Any, index: Any) -> Any:
    """Return a pointer to the element of an array at an index; negative indices count from the end."""
    array = Fields(builder, value)
    places = [
        from_start(context, builder, each, given, array.extent(axis) if counts_from_end(each) else None)
        for axis, (each, given) in enumerate(zip(*index_values(builder, index_kind, index), strict=True))
    ]
    return builder.gep(array.data, [element_offset(context, builder, kind, array, places)], inbounds=True)


def element_offset(context: Any, builder: Any, kind: Any, array: Fields, places: list[Any]) -> Any:
    """Return the distance in elements of a place from the begin of an array."""
    if kind.layout == "A":
        return _strided_offset(context, builder, kind, array, places)
    return _contiguous_offset(builder, kind, array, places)


def counts_from_end(kind: Any) -> bool:
    """Return whether an index of a type may be negative."""
    return kind.signed and not (isinstance(kind, types.IntegerLiteral) and kind.literal_value >= 0)


def from_start(context: Any, builder: Any, kind: Any, value: Any, extent: Any) -> Any:
    """Return an index counted from the start, where a negative one counts from the end."""
    place = context.cast(builder, value, kind, types.intp)
    if not counts_from_end(kind):
        return place
    is_negative = builder.icmp_signed("<", place, ir.Constant(_INDEX, 0))
    return builder.select(is_negative, builder.add(place, extent), place)


def _contiguous_offset(builder: Any, kind: Any, array: Fields, places: list[Any]) -> Any:
    axes = range(len(places)) if kind.layout == "C" else reversed(range(len(places)))
    offset: Any = None
    for axis in axes:
        if offset is None:
            offset = places[axis]
        else:
            lines = builder.mul(offset, array.extent(axis), flags=["nsw"])
            offset = builder.add(lines, places[axis], flags=["nsw"])
    return ir.Constant(_INDEX, 0) if offset is None else offset


def _strided_offset(context: Any, builder: Any, kind: Any, array: Fields, places: list[Any]) -> Any:
    size = ir.Constant(_INDEX, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    offset: Any = None
    for axis, place in enumerate(places):
        stride = builder.sdiv(array.stride(axis), size, flags=["exact"])
        step = builder.mul(place, stride, flags=["nsw"])
        offset = step if offset is None else builder.add(offset, step, flags=["nsw"])
    return ir.Constant(_INDEX, 0) if offset is None else offset


def load_element(context: Any, builder: Any, dtype: Any, pointer: Any) -> Any:
    """Return the value of an element."""
    if isinstance(dtype, types.Complex):
        number = context.make_complex(builder, dtype)
        number.real, number.imag = (builder.load(part) for part in _complex_parts(builder, pointer))
        return number._getvalue()
    return context.unpack_value(builder, dtype, pointer)


def store_element(context: Any, builder: Any, dtype: Any, value: Any, pointer: Any) -> None:
    """Store the value of an element."""
    if isinstance(dtype, types.Complex):
        number = context.make_complex(builder, dtype, value)
        for part, place in zip((number.real, number.imag), _complex_parts(builder, pointer), strict=True):
            builder.store(part, place)
    else:
        context.pack_value(builder, dtype, value, pointer)


def _complex_parts(builder: Any, pointer: Any) -> list[Any]:
    number = ir.IntType(32)
    return [builder.gep(pointer, [number(0), number(part)], inbounds=True) for part in (0, 1)]
