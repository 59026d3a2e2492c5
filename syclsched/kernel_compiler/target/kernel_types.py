# SPDX-License-Identifier: Apache-2.0
"""numba's types and data models of kernel arguments: arrays with an address space, items, groups, atomic references."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.datamodel import DataModelManager, default_manager
from numba.core.datamodel.models import FloatModel, OpaqueModel, PrimitiveModel, StructModel

HALF = ir.HalfType()

#: Data models of the target: those below, before numba's.
data_models = DataModelManager().chain(default_manager)


class DevicePointer(types.Type):  # type: ignore[misc]
    """A pointer to elements in an address space."""

    mutable = True

    def __init__(self, dtype: Any, address_space: int) -> None:
        self.dtype, self.address_space = dtype, address_space
        super().__init__(name=f"pointer({dtype}, {address_space})")


class DeviceArray(types.Array):  # type: ignore[misc]
    """An array in an address space; contiguous (C, F) or with strides (A)."""

    def __init__(self, dtype: Any, ndim: int, layout: str, address_space: int, readonly: bool = False) -> None:
        self.address_space = address_space
        kind = "readonly array" if readonly else "array"
        name = f"{kind}({dtype}, {ndim}d, {layout}, address space {address_space})"
        super().__init__(dtype, ndim, layout, readonly=readonly, name=name)

    def copy(self, dtype: Any = None, ndim: Any = None, layout: Any = None, readonly: Any = None) -> DeviceArray:
        """Return the type with some properties changed."""
        return DeviceArray(
            self.dtype if dtype is None else dtype,
            self.ndim if ndim is None else ndim,
            self.layout if layout is None else layout,
            self.address_space,
            not self.mutable if readonly is None else readonly,
        )

    @property
    def key(self) -> Any:
        """Identity of the type."""
        return self.dtype, self.ndim, self.layout, self.mutable, self.address_space

    @property
    def mangling_args(self) -> Any:
        """Name and arguments for mangled names."""
        return type(self).__name__, [self.dtype, self.ndim, self.layout, self.address_space]

    def unify(self, typingctx: Any, other: Any) -> Any:
        """Return the common type of two arrays of the same address space."""
        if isinstance(other, DeviceArray) and other.address_space == self.address_space:
            common = super().unify(typingctx, other)
            if common is not None:
                return self.copy(layout=common.layout, readonly=not common.mutable)
        return None

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        """Return numba's measure of the conversion."""
        if isinstance(other, DeviceArray) and other.address_space == self.address_space:
            return super().can_convert_to(typingctx, other)
        return None


class IndexSpaceType(types.Type):  # type: ignore[misc]
    """A value without data that stands for the calling work-item."""

    def __init__(self, ndim: int) -> None:
        self.ndim = ndim
        super().__init__(name=f"{type(self).__name__}({ndim})")


class ItemType(IndexSpaceType):
    """The type of ``Item``."""


class NdItemType(IndexSpaceType):
    """The type of ``NdItem``."""


class GroupType(IndexSpaceType):
    """The type of ``Group``."""


class AtomicRefType(types.Type):  # type: ignore[misc]
    """The type of ``AtomicRef``: element, memory order and scope, address space."""

    def __init__(self, dtype: Any, memory_order: int, memory_scope: int, address_space: int) -> None:
        self.dtype, self.address_space = dtype, address_space
        self.memory_order, self.memory_scope = memory_order, memory_scope
        super().__init__(name=f"AtomicRef({dtype}, {memory_order}, {memory_scope}, {address_space})")


class DevicePointerModel(PrimitiveModel):  # type: ignore[misc]
    """An LLVM pointer to elements as they are stored."""

    def __init__(self, manager: Any, kind: Any) -> None:
        element = manager.lookup(kind.dtype).get_data_type()
        super().__init__(manager, kind, ir.PointerType(element, kind.address_space))


#: The fields of an array's value, which are those that numba's own array code expects.
ARRAY_FIELDS = ("meminfo", "parent", "nitems", "itemsize", "data", "shape", "strides")


class DeviceArrayModel(StructModel):  # type: ignore[misc]
    """A structure; the first two fields are always null."""

    def __init__(self, manager: Any, kind: Any) -> None:
        indices = types.UniTuple(types.intp, kind.ndim)
        pointer = DevicePointer(kind.dtype, kind.address_space)
        members = (types.MemInfoPointer(kind.dtype), types.pyobject, types.intp, types.intp, pointer, indices, indices)
        super().__init__(manager, kind, [*zip(ARRAY_FIELDS, members, strict=True)])


class AtomicRefModel(StructModel):  # type: ignore[misc]
    """A pointer to the element."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [("pointer", DevicePointer(kind.dtype, kind.address_space))])


class NumberModel(FloatModel):  # type: ignore[misc]
    """numba's model of floating-point numbers; those of 16 bits are values of 32."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, types.float32 if kind == types.float16 else kind)
        self._fe_type = kind

    def get_data_type(self) -> Any:
        """Return the type in memory."""
        return HALF if self._fe_type == types.float16 else super().get_data_type()

    def as_data(self, builder: Any, value: Any) -> Any:
        """Return a value as it is stored."""
        return builder.fptrunc(value, HALF) if self._fe_type == types.float16 else value

    def from_data(self, builder: Any, value: Any) -> Any:
        """Return a stored value."""
        return builder.fpext(value, ir.FloatType()) if self._fe_type == types.float16 else value


def round_to_half(builder: Any, value: Any) -> Any:
    """Return a value rounded to one of 16 bits."""
    return builder.fpext(builder.fptrunc(value, HALF), value.type)


data_models.register(types.Float, NumberModel)
data_models.register(DevicePointer, DevicePointerModel)
data_models.register(DeviceArray, DeviceArrayModel)
data_models.register(AtomicRefType, AtomicRefModel)
for each in (ItemType, NdItemType, GroupType):
    data_models.register(each, OpaqueModel)
