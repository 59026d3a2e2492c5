# SPDX-License-Identifier: Apache-2.0
"""Atomic references in kernels: SPIR-V's atomic instructions, or loops with compare-and-exchange instead of them.

Floating-point numbers are loaded, stored and exchanged as integers of their size. Additions, minima and maxima of them
are instructions where the compilation's options say that the device has these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.typing.templates import AttributeTemplate

from syclsched.kernel_compiler.kernel_api.memory import AtomicRef
from syclsched.kernel_compiler.kernel_api.memory_model import AddressSpace, MemoryOrder, MemoryScope
from syclsched.kernel_compiler.lowering.arrays import element_pointer, is_whole_index, load_element, store_element
from syclsched.kernel_compiler.lowering.declarations import declare_function, template
from syclsched.kernel_compiler.lowering.spirv_calls import call, letter, mangled
from syclsched.kernel_compiler.lowering.synchronisation import constant_of, scope, semantics
from syclsched.kernel_compiler.target.contexts import current_flags, lowering_registry, typing_registry
from syclsched.kernel_compiler.target.kernel_types import AtomicRefType, DeviceArray

_ELEMENTS: Final = (types.int32, types.int64, types.uint32, types.uint64, types.float32, types.float64)
#: The order of a compare-and-exchange that finds another value: it stores nothing, so it releases nothing.
_FAILURE_ORDERS: Final = {MemoryOrder.RELEASE: MemoryOrder.RELAXED, MemoryOrder.ACQ_REL: MemoryOrder.ACQUIRE}
#: SPIR-V's instructions for integers: signed, unsigned.
_INTEGER: Final = {
    "add": ("IAdd", "IAdd"),
    "sub": ("ISub", "ISub"),
    "min": ("SMin", "UMin"),
    "max": ("SMax", "UMax"),
    "and": ("And", "And"),
    "or": ("Or", "Or"),
    "xor": ("Xor", "Xor"),
}
_FLOATING: Final = {"add": "FAddEXT", "min": "FMinEXT", "max": "FMaxEXT"}


# --- typing -------------------------------------------------------------------------------------------


def _reference_type(
    ref: Any,
    index: Any,
    memory_order: Any = MemoryOrder.RELAXED,
    memory_scope: Any = MemoryScope.DEVICE,
    address_space: Any = None,
) -> Any:
    if not isinstance(ref, DeviceArray) or ref.dtype not in _ELEMENTS:
        raise TypingError(f"an AtomicRef refers to an array of 32 or 64-bit numbers, not to {ref}")
    if not is_whole_index(ref, index):
        raise TypingError(f"an AtomicRef refers to one element, which {index} does not select")
    order = constant_of(memory_order, "memory_order", MemoryOrder)
    extent = constant_of(memory_scope, "memory_scope", MemoryScope)
    if address_space != types.none:
        space = constant_of(address_space, "address_space", AddressSpace)
        if space != ref.address_space:
            actual = AddressSpace(ref.address_space).name
            raise TypingError(f"an AtomicRef to {AddressSpace(space).name} memory, but the array is {actual}")
    return AtomicRefType(ref.dtype, order, extent, ref.address_space)


declare_function(AtomicRef, _reference_type)


def _load_typer(reference: Any) -> Callable[..., Any]:
    return lambda: reference.dtype


def _store_typer(reference: Any) -> Callable[..., Any]:
    return lambda val: types.none


def _value_typer(reference: Any) -> Callable[..., Any]:
    return lambda val: reference.dtype


def _integer_typer(reference: Any) -> Callable[..., Any]:
    def typer(val: Any) -> Any:
        if not isinstance(reference.dtype, types.Integer):
            raise TypingError(f"atomic operations on bits take integers, not {reference.dtype}")
        return reference.dtype

    return typer


def _exchange_typer(reference: Any) -> Callable[..., Any]:
    def typer(expected: Any, desired: Any, expected_idx: Any = 0) -> Any:
        if not isinstance(expected, DeviceArray) or expected.dtype != reference.dtype:
            raise TypingError(f"compare_exchange takes an array of {reference.dtype} with the expected value")
        return types.boolean

    return typer


# --- code ---------------------------------------------------------------------------------------------


def _make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    reference = context.make_helper(builder, signature.return_type)
    reference.pointer = element_pointer(
        context, builder, signature.args[0], arguments[0], signature.args[1], arguments[1]
    )
    return reference._getvalue()


lowering_registry.lower(AtomicRef, DeviceArray, *[types.Any] * 4)(_make)


class _Reference:
    """The pointer of an atomic reference, and the calls of SPIR-V's atomic instructions on it."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        self.context, self.builder, self.kind = context, builder, kind
        self.pointer = context.make_helper(builder, kind, value).pointer
        self.element = context.get_value_type(kind.dtype)
        self.bits = ir.IntType(kind.dtype.bitwidth)

    def as_bits(self, value: Any) -> Any:
        """Return a number as an integer of its size."""
        return value if value.type == self.bits else self.builder.bitcast(value, self.bits)

    def as_number(self, value: Any) -> Any:
        """Return a number from an integer of its size."""
        return value if self.element == self.bits else self.builder.bitcast(value, self.element)

    def cast(self, kind: Any, value: Any) -> Any:
        """Return an argument as the element's type."""
        return self.context.cast(self.builder, value, kind, self.kind.dtype)

    def bit_pointer(self) -> Any:
        """Return the pointer to the element as an integer."""
        wanted = ir.PointerType(self.bits, self.kind.address_space)
        return self.pointer if self.element == self.bits else self.builder.bitcast(self.pointer, wanted)

    def instruction(self, name: str, pointer: Any, *operands: Any, result: Any, orders: tuple[Any, ...]) -> Any:
        """Call an atomic instruction."""
        given = [pointer, scope(self.kind.memory_scope), *orders, *operands]
        letters = letter(pointer.type) + "j" * (1 + len(orders)) + "".join(letter(each.type) for each in operands)
        return call(self.builder, mangled(f"__spirv_Atomic{name}", letters), result, given)

    @property
    def order(self) -> Any:
        """SPIR-V's constant of the memory order."""
        return semantics(self.kind.memory_order)

    def load(self, order: int) -> Any:
        """Return the value's bits."""
        return self.instruction("Load", self.bit_pointer(), result=self.bits, orders=(semantics(order),))

    def compare_exchange(self, expected: Any, desired: Any) -> Any:
        """Store bits where others are expected; return the bits found."""
        success = MemoryOrder(self.kind.memory_order)
        orders = (self.order, semantics(_FAILURE_ORDERS.get(success, success)))
        return self.instruction(
            "CompareExchange", self.bit_pointer(), desired, expected, result=self.bits, orders=orders
        )

    def replace(self, change: Callable[[Any], Any]) -> Any:
        """Replace the value by a function of it in a loop; return the value before."""
        builder = self.builder
        found = cgutils.alloca_once(builder, self.bits)
        builder.store(self.load(MemoryOrder.RELAXED), found)
        loop, done = builder.append_basic_block("exchange"), builder.append_basic_block("exchanged")
        builder.branch(loop)
        builder.position_at_end(loop)
        before = builder.load(found)
        after = self.as_bits(change(self.as_number(before)))
        actual = self.compare_exchange(before, after)
        builder.store(actual, found)
        builder.cbranch(builder.icmp_unsigned("==", actual, before), done, loop)
        builder.position_at_end(done)
        return self.as_number(before)


def _load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    reference = _Reference(context, builder, signature.args[0], arguments[0])
    return reference.as_number(reference.load(reference.kind.memory_order))


def _store(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    reference = _Reference(context, builder, signature.args[0], arguments[0])
    bits = reference.as_bits(reference.cast(signature.args[1], arguments[1]))
    reference.instruction("Store", reference.bit_pointer(), bits, result=ir.VoidType(), orders=(reference.order,))
    return context.get_dummy_value()


def _exchange(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    reference = _Reference(context, builder, signature.args[0], arguments[0])
    bits = reference.as_bits(reference.cast(signature.args[1], arguments[1]))
    orders = (reference.order,)
    before = reference.instruction("Exchange", reference.bit_pointer(), bits, result=reference.bits, orders=orders)
    return reference.as_number(before)


def _compare_exchange(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    reference = _Reference(context, builder, signature.args[0], arguments[0])
    dtype = reference.kind.dtype
    pointer = element_pointer(context, builder, signature.args[1], arguments[1], signature.args[3], arguments[3])
    expected = reference.as_bits(load_element(context, builder, dtype, pointer))
    desired = reference.as_bits(reference.cast(signature.args[2], arguments[2]))
    found = reference.compare_exchange(expected, desired)
    is_equal = builder.icmp_unsigned("==", found, expected)
    with builder.if_then(builder.not_(is_equal)):
        store_element(context, builder, dtype, reference.as_number(found), pointer)
    return is_equal


def _fetch(operation: str) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        reference = _Reference(context, builder, signature.args[0], arguments[0])
        value = reference.cast(signature.args[1], arguments[1])
        dtype = reference.kind.dtype
        if isinstance(dtype, types.Integer):
            name = _INTEGER[operation][not dtype.signed]
            return reference.instruction(
                name, reference.pointer, value, result=reference.element, orders=(reference.order,)
            )
        wanted = operation
        if operation == "sub":
            wanted, value = "add", builder.fneg(value)
        if f"{wanted} {dtype}" in current_flags().float_atomics:
            name = _FLOATING[wanted]
            return reference.instruction(
                name, reference.pointer, value, result=reference.element, orders=(reference.order,)
            )
        return reference.replace(lambda before: _changed(builder, wanted, before, value))

    return emit


def _changed(builder: Any, operation: str, before: Any, value: Any) -> Any:
    """Return the number after an operation."""
    if operation == "add":
        return builder.fadd(before, value)
    is_kept = builder.fcmp_ordered("<=" if operation == "min" else ">=", before, value)
    is_kept = builder.or_(is_kept, builder.fcmp_unordered("uno", value, value))
    return builder.select(is_kept, before, value)


_METHODS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "load": (_load_typer, _load),
    "store": (_store_typer, _store),
    "exchange": (_value_typer, _exchange),
    "compare_exchange": (_exchange_typer, _compare_exchange),
    **{f"fetch_{name}": (_value_typer, _fetch(name)) for name in ("add", "sub", "min", "max")},
    **{f"fetch_{name}": (_integer_typer, _fetch(name)) for name in ("and", "or", "xor")},
}


for _name, (_, _emit) in _METHODS.items():
    for _count in range(4):
        lowering_registry.lower(f"AtomicRef.{_name}", AtomicRefType, *[types.Any] * _count)(_emit)


@typing_registry.register_attr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = AtomicRefType

    def generic_resolve(self, reference: Any, name: str) -> Any:
        if name not in _METHODS:
            return None
        return types.BoundFunction(template(f"AtomicRef.{name}", _METHODS[name][0](reference)), reference)
