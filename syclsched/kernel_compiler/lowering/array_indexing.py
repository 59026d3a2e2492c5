# SPDX-License-Identifier: Apache-2.0
"""Indexing of arrays in kernels by integers, slices, ``None`` and ``...``, assignment to them, and iteration."""

from __future__ import annotations

import operator
from typing import Any, Final

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import UnsupportedError
from numba.core.imputils import RefType, iternext_impl
from numba.cpython import slicing
from numba.np import arrayobj

from syclsched.kernel_compiler.lowering.arrays import (
    Fields,
    element_offset,
    element_pointer,
    from_start,
    index_values,
    is_whole_index,
    load_element,
    store_element,
)
from syclsched.kernel_compiler.target.contexts import lowering_registry
from syclsched.kernel_compiler.target.kernel_types import DeviceArray

_INDEX: Final = ir.IntType(64)


def _getitem(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind, index_kind = signature.args
    if is_whole_index(kind, index_kind):
        pointer = element_pointer(context, builder, kind, arguments[0], index_kind, arguments[1])
        return load_element(context, builder, kind.dtype, pointer)
    kinds, values = index_values(builder, index_kind, arguments[1])
    return _view(context, builder, kind, arguments[0], kinds, values, signature.return_type)


def _view(context: Any, builder: Any, kind: Any, value: Any, kinds: list[Any], values: list[Any], result: Any) -> Any:
    """Return the part of an array that an index selects."""
    array = Fields(builder, value)
    missing = kind.ndim - sum(isinstance(each, types.Integer | types.SliceType) for each in kinds)
    places: list[Any] = []
    shape: list[Any] = []
    steps: list[Any] = []

    def whole(count: int) -> None:
        for _ in range(count):
            shape.append(array.extent(len(places)))
            steps.append(array.stride(len(places)))
            places.append(ir.Constant(_INDEX, 0))

    for each, given in zip(kinds, values, strict=True):
        axis = len(places)
        if isinstance(each, types.Integer):
            places.append(from_start(context, builder, each, given, array.extent(axis)))
        elif isinstance(each, types.SliceType):
            part = context.make_helper(builder, each, value=given)
            slicing.fix_slice(builder, part, array.extent(axis))
            places.append(part.start)
            shape.append(slicing.get_slice_length(builder, part))
            steps.append(slicing.fix_stride(builder, part, array.stride(axis)))
        elif each is types.ellipsis:
            whole(missing)
        else:
            shape.append(ir.Constant(_INDEX, 1))
            steps.append(ir.Constant(_INDEX, 0))
    whole(kind.ndim - len(places))
    data = builder.gep(array.data, [element_offset(context, builder, kind, array, places)])
    view = arrayobj.make_array(result)(context, builder)
    arrayobj.populate_array(view, data=data, shape=shape, strides=steps, itemsize=array.itemsize, meminfo=None)
    return view._getvalue()


def _setitem(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind, index_kind, value_kind = signature.args
    if is_whole_index(kind, index_kind):
        pointer = element_pointer(context, builder, kind, arguments[0], index_kind, arguments[1])
        value = context.cast(builder, arguments[2], value_kind, kind.dtype)
        store_element(context, builder, kind.dtype, value, pointer)
        return context.get_dummy_value()
    kinds, values = index_values(builder, index_kind, arguments[1])
    ndim = kind.ndim - sum(isinstance(each, types.Integer) for each in kinds) + kinds.count(types.none)
    part_kind = kind.copy(ndim=ndim, layout="A")
    part = _view(context, builder, kind, arguments[0], kinds, values, part_kind)
    _assign(context, builder, part_kind, part, value_kind, arguments[2])
    return context.get_dummy_value()


def _assign(context: Any, builder: Any, kind: Any, part: Any, value_kind: Any, value: Any) -> None:
    """Assign a number, or an array of as many or fewer dimensions, to all elements of a view."""
    array = Fields(builder, part)
    extents = [array.extent(axis) for axis in range(kind.ndim)]
    is_array = isinstance(value_kind, types.Array)
    if is_array and value_kind.ndim > kind.ndim:
        raise UnsupportedError(f"an array of {value_kind.ndim} dimensions cannot be assigned to {kind.ndim}")
    with cgutils.loop_nest(builder, extents, _INDEX) as places:
        number = value
        if is_array:
            source = Fields(builder, value)
            sizes = [source.extent(axis) for axis in range(value_kind.ndim)]
            own = places[kind.ndim - value_kind.ndim :]
            one, zero = ir.Constant(_INDEX, 1), ir.Constant(_INDEX, 0)
            own = [
                builder.select(builder.icmp_signed("==", size, one), zero, place)
                for size, place in zip(sizes, own, strict=True)
            ]
            offset = element_offset(context, builder, value_kind, source, own)
            number = load_element(context, builder, value_kind.dtype, builder.gep(source.data, [offset]))
        number = context.cast(builder, number, value_kind.dtype if is_array else value_kind, kind.dtype)
        offset = element_offset(context, builder, kind, array, list(places))
        store_element(context, builder, kind.dtype, number, builder.gep(array.data, [offset]))


for _kind in (types.Integer, types.BaseTuple, types.SliceType, types.NoneType, types.EllipsisType):
    lowering_registry.lower(operator.getitem, DeviceArray, _kind)(_getitem)
    lowering_registry.lower(operator.setitem, DeviceArray, _kind, types.Any)(_setitem)


@lowering_registry.lower("iternext", types.ArrayIterator)  # type: ignore[untyped-decorator]
@iternext_impl(RefType.BORROWED)  # type: ignore[untyped-decorator]
def _next_element(context: Any, builder: Any, signature: Any, arguments: Any, result: Any) -> None:
    kind = signature.args[0].array_type
    iterator = context.make_helper(builder, signature.args[0], value=arguments[0])
    array = Fields(builder, iterator.array)
    place = builder.load(iterator.index)
    is_valid = builder.icmp_signed("<", place, array.extent(0))
    result.set_valid(is_valid)
    with builder.if_then(is_valid):
        if kind.ndim == 1:
            offset = element_offset(context, builder, kind, array, [place])
            element = load_element(context, builder, kind.dtype, builder.gep(array.data, [offset]))
        else:
            element = _view(context, builder, kind, iterator.array, [types.intp], [place], signature.args[0].yield_type)
        result.yield_(element)
        builder.store(cgutils.increment_index(builder, place), iterator.index)
