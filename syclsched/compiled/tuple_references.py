# SPDX-License-Identifier: Apache-2.0
"""Named tuples passed to compiled functions by reference: numba's type for them, its memory layout and its attributes.

numba passes a named tuple by value: every field of every array is an argument of each call, some hundred numbers, and
every function takes them apart and puts them together again. This is most of the time of compiling such functions.
Here the wrapper that Python calls writes the fields to memory once, and functions pass the address.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from typing import Any

from llvmlite import ir
from numba.core import cgutils, imputils, types
from numba.core.datamodel import models
from numba.core.typing.templates import AttributeTemplate
from numba.core.typing.typeof import Purpose, typeof
from numba.extending import NativeValue, infer_getattr, lower_getattr_generic, register_model, unbox

_BYTE = ir.IntType(8)
_ALIGNMENT = 8


class TupleReference(types.Type):  # type: ignore[misc]
    """The address of the fields of a named tuple."""

    def __init__(self, kind: type, fields: tuple[Any, ...]) -> None:
        self.kind, self.fields = kind, fields
        # Names of functions in machine code contain this name: it is short.
        digest = hashlib.blake2b(str(fields).encode(), digest_size=8).hexdigest()
        super().__init__(f"{kind.__module__}.{kind.__qualname__}.{digest}")

    def place(self, attribute: str) -> int:
        """Return the index of a field; -1 if there is none of this name."""
        names: tuple[str, ...] = self.kind._fields  # type: ignore[attr-defined]
        return names.index(attribute) if attribute in names else -1


def argument_type(value: Any) -> Any:
    """Return numba's type of an argument; named tuples are references."""
    if isinstance(value, tuple):
        return tuple_type(type(value), [argument_type(each) for each in value])
    return typeof(value, Purpose.argument)


def tuple_type(kind: type, fields: list[Any]) -> Any:
    """Return numba's type of an argument that is a tuple, by its class and the types of its items."""
    if hasattr(kind, "_fields"):
        return TupleReference(kind, tuple(fields))
    return types.BaseTuple.from_types(fields, kind)


@register_model(TupleReference)
class _Address(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: TupleReference) -> None:
        super().__init__(manager, kind, _BYTE.as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = TupleReference

    def generic_resolve(self, kind: TupleReference, attribute: str) -> Any:
        place = kind.place(attribute)
        return None if place < 0 else kind.fields[place]


@lower_getattr_generic(TupleReference)  # type: ignore[untyped-decorator]
def _field(context: Any, builder: Any, kind: TupleReference, address: Any, attribute: str) -> Any:
    """Read one field."""
    place = kind.place(attribute)
    field, offset = kind.fields[place], _offsets(context, kind)[place]
    model = context.data_model_manager[field]
    data = builder.load(_pointer(builder, address, offset, model.get_data_type()))
    return imputils.impl_ret_borrowed(context, builder, field, model.from_data(builder, data))


def _pointer(builder: Any, address: Any, offset: int, kind: Any) -> Any:
    return builder.bitcast(builder.gep(address, [ir.Constant(ir.IntType(64), offset)]), kind.as_pointer())


@functools.cache
def _offsets(context: Any, kind: TupleReference) -> list[int]:
    """Return the offset of each field, and the size of all, in bytes."""
    sizes = [_size(context, context.data_model_manager[field].get_data_type()) for field in kind.fields]
    return [0, *itertools.accumulate(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)]


@functools.cache
def _size(context: Any, kind: Any) -> int:
    return int(context.get_abi_sizeof(kind))


@unbox(TupleReference)  # type: ignore[untyped-decorator]
def _written(kind: TupleReference, value: Any, c: Any) -> NativeValue:
    """Write the fields of a named tuple to the stack."""
    *offsets, size = _offsets(c.context, kind)
    memory = cgutils.alloca_once(c.builder, ir.ArrayType(ir.IntType(64), max(size // _ALIGNMENT, 1)))
    address = c.builder.bitcast(memory, _BYTE.as_pointer())
    failed = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    written = []
    for n, (field, offset) in enumerate(zip(kind.fields, offsets, strict=True)):
        native = c.unbox(field, c.pyapi.tuple_getitem(value, n))
        with c.builder.if_then(native.is_error, likely=False):
            c.builder.store(cgutils.true_bit, failed)
        data = c.context.data_model_manager[field].as_data(c.builder, native.value)
        c.builder.store(data, _pointer(c.builder, address, offset, data.type))
        written.append((field, native))

    def cleanup() -> None:
        for field, native in reversed(written):
            if native.cleanup is not None:
                native.cleanup()
            if c.context.enable_nrt:
                c.context.nrt.decref(c.builder, field, native.value)

    return NativeValue(address, cleanup=cleanup, is_error=c.builder.load(failed))
