# SPDX-License-Identifier: Apache-2.0
"""Indices and ranges of work-items and work-groups in kernels, from OpenCL's work-item functions.

Dimension 0 of an item is OpenCL's dimension 0, as in numba-dpex: launches give ranges in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AttributeTemplate

from syclsched.kernel_compiler.lowering.declarations import template
from syclsched.kernel_compiler.lowering.spirv_calls import work_item_function
from syclsched.kernel_compiler.target.contexts import lowering_registry, typing_registry
from syclsched.kernel_compiler.target.kernel_types import GroupType, IndexSpaceType, ItemType, NdItemType

_INDEX: Final = ir.IntType(64)
_DIMENSION: Final = ir.IntType(32)

#: OpenCL's functions by type and method, for one dimension.
_OF_DIMENSION: Final = {
    ItemType: {"get_id": "get_global_id", "get_range": "get_global_size"},
    NdItemType: {
        "get_global_id": "get_global_id",
        "get_local_id": "get_local_id",
        "get_global_range": "get_global_size",
        "get_local_range": "get_local_size",
    },
    GroupType: {
        "get_group_id": "get_group_id",
        "get_group_range": "get_num_groups",
        "get_local_range": "get_local_size",
    },
}
#: Index and range from which a position in row-major order is computed.
_LINEAR_INDEX: Final = {
    ItemType: {"get_linear_id": ("get_global_id", "get_global_size")},
    NdItemType: {
        "get_global_linear_id": ("get_global_id", "get_global_size"),
        "get_local_linear_id": ("get_local_id", "get_local_size"),
    },
    GroupType: {"get_group_linear_id": ("get_group_id", "get_num_groups")},
}
#: The range whose extents are multiplied.
_LINEAR_RANGE: Final = {
    ItemType: {"get_linear_range": "get_global_size"},
    NdItemType: {"get_global_linear_range": "get_global_size", "get_local_linear_range": "get_local_size"},
    GroupType: {"get_group_linear_range": "get_num_groups", "get_local_linear_range": "get_local_size"},
}


def _one(builder: Any, function: str, axis: int) -> Any:
    return work_item_function(builder, function, ir.Constant(_DIMENSION, axis))


def _lower_of_dimension(function: str) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        axis = context.cast(builder, arguments[1], signature.args[1], types.int32)
        return work_item_function(builder, function, axis)

    return emit


def _lower_linear_index(index: str, extent: str) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        position = _one(builder, index, 0)
        for axis in range(1, signature.args[0].ndim):
            position = builder.mul(position, _one(builder, extent, axis), flags=["nsw", "nuw"])
            position = builder.add(position, _one(builder, index, axis), flags=["nsw", "nuw"])
        return position

    return emit


def _lower_linear_range(extent: str) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        extents = [_one(builder, extent, axis) for axis in range(signature.args[0].ndim)]
        return reduce(lambda a, b: builder.mul(a, b, flags=["nsw", "nuw"]), extents)

    return emit


def _lower_group(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return context.get_constant_null(signature.return_type)


def _index_type() -> Any:
    return types.intp


def _idx_type(idx: Any) -> Any:
    return types.intp if isinstance(idx, types.Integer) else None


def _dim_type(dim: Any) -> Any:
    return types.intp if isinstance(dim, types.Integer) else None


def _group_of(ndim: int) -> Any:
    return template("NdItemType.get_group", lambda: GroupType(ndim))


#: The method that returns a group, by the number of dimensions.
_GROUPS: Final = {ndim: _group_of(ndim) for ndim in (1, 2, 3)}


def _method(kind: Any, name: str, typer: Callable[..., Any], emit: Callable[..., Any]) -> Any:
    """Register a method's code; return its declaration."""
    key = f"{kind.__name__}.{name}"
    lowering_registry.lower(key, kind)(emit)
    lowering_registry.lower(key, kind, types.Integer)(emit)
    return template(key, typer)


def _register(kind: Any) -> None:
    of_dimension = _dim_type if kind is GroupType else _idx_type
    methods = {
        name: _method(kind, name, of_dimension, _lower_of_dimension(function))
        for name, function in _OF_DIMENSION[kind].items()
    }
    for name, pair in _LINEAR_INDEX[kind].items():
        methods[name] = _method(kind, name, _index_type, _lower_linear_index(*pair))
    for name, extent in _LINEAR_RANGE[kind].items():
        methods[name] = _method(kind, name, _index_type, _lower_linear_range(extent))
    if kind is NdItemType:
        lowering_registry.lower("NdItemType.get_group", kind)(_lower_group)

    class Attributes(AttributeTemplate):  # type: ignore[misc]
        key = kind

        def generic_resolve(self, item: Any, name: str) -> Any:
            if (method := methods.get(name)) is not None:
                return types.BoundFunction(method, item)
            if name == "get_group" and kind is NdItemType:
                return types.BoundFunction(_GROUPS[item.ndim], item)
            if name == "dimensions":
                return types.IntegerLiteral(item.ndim)
            return types.boolean if name == "leader" and kind is GroupType else None

    typing_registry.register_attr(Attributes)


for _kind in (ItemType, NdItemType, GroupType):
    _register(_kind)


@lowering_registry.lower_getattr(IndexSpaceType, "dimensions")  # type: ignore[untyped-decorator]
def _dimensions(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return ir.Constant(_INDEX, kind.ndim)


@lowering_registry.lower_getattr(GroupType, "leader")  # type: ignore[untyped-decorator]
def _leader(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    ids = [_one(builder, "get_local_id", axis) for axis in range(kind.ndim)]
    return builder.icmp_signed("==", reduce(builder.or_, ids), ir.Constant(_INDEX, 0))
