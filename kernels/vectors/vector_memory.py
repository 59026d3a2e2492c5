# SPDX-License-Identifier: Apache-2.0
"""Loads, stores and transposition of vectors in numba-dpex kernels; importing it requires numba-dpex."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba.core import types
from numba_dpex.core.types import USMNdArray
from numba_dpex.kernel_api_impl.spirv.overloads._registry import lower

from syclsched.kernels.common import transpose_shuffles
from syclsched.kernels.vectors.vector_functions import LANES, load_second, load_vector, store_vector, turn
from syclsched.kernels.vectors.vector_type import Vector, define, lane_mask


def register() -> tuple[Any, ...]:
    """Register the functions with numba-dpex's compiler; return them."""
    define(load_vector, _load_type)
    define(load_second, _load_type)
    lower(load_vector, USMNdArray, types.Integer)(_load)
    lower(load_second, USMNdArray, types.Integer)(_load_second)
    define(store_vector, _store_type)
    lower(store_vector, USMNdArray, types.Integer, Vector)(_store)
    define(turn, _transposition_type)
    lower(turn, USMNdArray, types.Integer, types.Integer, USMNdArray, types.Integer, types.Integer)(_transposition)
    return load_vector, load_second, store_vector, turn


def _address(context: Any, builder: Any, array: Any, given: Any, place: Any, lanes: int) -> Any:
    """Return the pointer to a vector at an offset of an array of the given types, and the type of its elements."""
    view = context.make_array(given[0])(context, builder, array)
    index = context.cast(builder, place, given[1], types.intp)
    element = builder.gep(view.data, [index], inbounds=True)
    kind = ir.VectorType(element.type.pointee, lanes)
    return builder.bitcast(element, kind.as_pointer(element.type.addrspace)), element.type.pointee


def _element_bytes(element: Any) -> int:
    return {"float": 4, "double": 8}.get(str(element)) or max(element.width // 8, 1)


def _load_type(array: Any, place: Any) -> Any:
    return Vector(array.dtype, LANES) if isinstance(place, types.Integer) else None


def _load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    pointer, element = _address(context, builder, arguments[0], signature.args, arguments[1], LANES)
    return builder.load(pointer, align=_element_bytes(element))


def _load_second(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    # Two overlapping loads: nothing beyond the last requested element is read.
    pointer, element = _address(context, builder, arguments[0], signature.args, arguments[1], LANES)
    first = builder.bitcast(pointer, element.as_pointer(pointer.type.addrspace))
    other = builder.gep(first, [ir.Constant(ir.IntType(64), LANES - 1)], inbounds=True)
    pieces = [
        builder.load(each, align=_element_bytes(element)) for each in (pointer, builder.bitcast(other, pointer.type))
    ]
    return builder.shuffle_vector(*pieces, lane_mask([*range(0, LANES, 2), *range(LANES + 1, 2 * LANES, 2)]))


def _store_type(array: Any, place: Any, vector: Any) -> Any:
    return types.void if isinstance(place, types.Integer) and isinstance(vector, Vector) else None


def _store(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array, _, given = signature.args
    pointer, element = _address(context, builder, arguments[0], signature.args, arguments[1], given.lanes)
    value = _converted(context, builder, arguments[2], given.dtype, array.dtype, given.lanes)
    builder.store(value, pointer, align=_element_bytes(element))
    return context.get_dummy_value()


def _converted(context: Any, builder: Any, vector: Any, given: Any, wanted: Any, lanes: int) -> Any:
    """Return a vector of integers converted to another dtype."""
    if given == wanted:
        return vector
    kind = ir.VectorType(context.get_value_type(wanted), lanes)
    if wanted.bitwidth > given.bitwidth:
        return (builder.sext if given.signed else builder.zext)(vector, kind)
    return builder.trunc(vector, kind)


def _transposition_type(y: Any, to: Any, y_apart: Any, x: Any, start: Any, x_apart: Any) -> Any:
    whole = all(isinstance(each, types.Integer) for each in (to, y_apart, start, x_apart))
    return types.void if whole and y.dtype == x.dtype else None


def _transposition(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    def places(given: int) -> Iterator[tuple[Any, int]]:
        """Yield pointer and alignment of each line: argument ``given`` is the start, the next the stride."""
        place, apart = (
            context.cast(builder, arguments[each], signature.args[each], types.intp) for each in (given, given + 1)
        )
        kinds = (signature.args[given - 1], types.intp)
        for _ in range(LANES):
            pointer, element = _address(context, builder, arguments[given - 1], kinds, place, LANES)
            yield pointer, _element_bytes(element)
            place = builder.add(place, apart)

    lines = [builder.load(pointer, align=align) for pointer, align in places(4)]
    for a, b, *masks in transpose_shuffles():
        lines[a], lines[b] = [builder.shuffle_vector(lines[a], lines[b], lane_mask(mask)) for mask in masks]
    for line, (pointer, align) in zip(lines, places(1), strict=True):
        builder.store(line, pointer, align=align)
    return context.get_dummy_value()
