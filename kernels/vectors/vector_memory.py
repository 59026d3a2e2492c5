# SPDX-License-Identifier: Apache-2.0
"""Loads, stores and transposition of vectors in Python kernels; importing it requires numba."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from numba.core import types

from syclsched.kernel_compiler.python_kernel import CompilerExtension
from syclsched.kernels.common import transpose_shuffles
from syclsched.kernels.vectors.vector_functions import (
    BY_LANES,
    LANES,
    load,
    load_second,
    store,
    store_strided,
    store_vector,
    turn,
)
from syclsched.kernels.vectors.vector_type import LANE_INDEX, Vector, define, lane_mask


def register(extension: CompilerExtension) -> None:
    """Register the functions with a compiler."""
    lower, array = extension.lower, extension.array_type
    define(load, lambda array, place: array.dtype if isinstance(place, types.Integer) else None)
    lower(load, array, types.Integer)(_load_number)
    define(store, lambda array, place, value: types.void if isinstance(place, types.Integer) else None)
    lower(store, array, types.Integer, types.Any)(_store_number)
    for lanes, (_, load_vector, load_strided) in BY_LANES.items():
        define(load_vector, _load_type(lanes))
        lower(load_vector, array, types.Integer)(_load)
        define(load_strided, _strided_type(lanes))
        lower(load_strided, array, types.Integer, types.Integer)(_load_strided)
    define(load_second, _load_type(LANES))
    lower(load_second, array, types.Integer)(_load_second)
    define(store_strided, lambda array, place, stride, vector: types.void if isinstance(vector, Vector) else None)
    lower(store_strided, array, types.Integer, types.Integer, Vector)(_store_strided)
    define(store_vector, _store_type)
    lower(store_vector, array, types.Integer, Vector)(_store)
    define(turn, _transposition_type)
    lower(turn, array, types.Integer, types.Integer, array, types.Integer, types.Integer)(_transposition)


def _address(context: Any, builder: Any, array: Any, given: Any, place: Any, lanes: int) -> Any:
    """Return the pointer to a vector at an offset of an array of the given types, and the type of its elements."""
    element = _element(context, builder, array, given, place)
    kind = ir.VectorType(element.type.pointee, lanes)
    return builder.bitcast(element, kind.as_pointer(element.type.addrspace)), element.type.pointee


def _element(context: Any, builder: Any, array: Any, given: Any, place: Any) -> Any:
    """Return the pointer to an element at an offset of an array of the given types."""
    view = context.make_array(given[0])(context, builder, array)
    return builder.gep(view.data, [context.cast(builder, place, given[1], types.intp)], inbounds=True)


def _strided_function(module: Any, name: str, result: Any, pointer: Any, *given: Any) -> tuple[Any, bool]:
    """Return the function of a kernel's module that loads or stores with a stride, and whether it is new."""
    kind = ir.FunctionType(result, [pointer, ir.IntType(64), *given])
    name += "".join(character if character.isalnum() else "_" for character in str(kind))
    if name in module.globals:
        return module.globals[name], False
    function = ir.Function(module, kind, name)
    function.linkage, function.calling_convention = "internal", "spir_func"
    function.attributes.add("alwaysinline")
    return function, True


def _strided_call(
    context: Any, builder: Any, signature: Any, arguments: Any, name: str, result: Any, *given: Any
) -> Any:
    """Call a function of an offset's pointer, a stride and more, which is compiled once for a kernel."""
    pointer = _element(context, builder, arguments[0], signature.args, arguments[1])
    stride = context.cast(builder, arguments[2], signature.args[2], types.intp)
    function, is_new = _strided_function(builder.module, name, result, pointer.type, *(each.type for each in given))
    if is_new:
        inner = ir.IRBuilder(function.append_basic_block())
        first, apart, *vectors = function.args
        count = (vectors[0].type if vectors else result).count
        lanes = [ir.Constant(LANE_INDEX, lane) for lane in range(count)]
        places = [first]
        for _ in lanes[1:]:
            places.append(inner.gep(places[-1], [apart], inbounds=True))
        if vectors:
            for lane, place in zip(lanes, places, strict=True):
                inner.store(inner.extract_element(vectors[0], lane), place)
            inner.ret_void()
        else:
            vector = ir.Constant(result, ir.Undefined)
            for lane, place in zip(lanes, places, strict=True):
                vector = inner.insert_element(vector, inner.load(place), lane)
            inner.ret(vector)
    call = builder.call(function, [pointer, stride, *given])
    call.cconv = "spir_func"
    return call


def _load_number(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.load(_element(context, builder, arguments[0], signature.args, arguments[1]))


def _store_number(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    value = context.cast(builder, arguments[2], signature.args[2], signature.args[0].dtype)
    builder.store(value, _element(context, builder, arguments[0], signature.args, arguments[1]))
    return context.get_dummy_value()


def _element_bytes(element: Any) -> int:
    return {"float": 4, "double": 8}.get(str(element)) or max(element.width // 8, 1)


def _load_type(lanes: int) -> Callable[..., Any]:
    return lambda array, place: Vector(array.dtype, lanes) if isinstance(place, types.Integer) else None


def _load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    lanes = signature.return_type.lanes
    pointer, element = _address(context, builder, arguments[0], signature.args, arguments[1], lanes)
    return builder.load(pointer, align=_element_bytes(element))


def _strided_type(lanes: int) -> Callable[..., Any]:
    return lambda array, place, stride: Vector(array.dtype, lanes) if isinstance(place, types.Integer) else None


def _load_strided(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind = context.get_value_type(signature.return_type)
    return _strided_call(context, builder, signature, arguments, "load_strided", kind)


def _store_strided(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    _strided_call(context, builder, signature, arguments, "store_strided", ir.VoidType(), arguments[3])
    return context.get_dummy_value()


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
    """Return a vector of integers, or of floats that are whole, converted to a dtype of integers."""
    if given == wanted:
        return vector
    kind = ir.VectorType(context.get_value_type(wanted), lanes)
    if isinstance(given, types.Float):
        whole = builder.fptosi(vector, ir.VectorType(ir.IntType(max(given.bitwidth, wanted.bitwidth)), lanes))
        return builder.trunc(whole, kind) if wanted.bitwidth < given.bitwidth else whole
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
