# SPDX-License-Identifier: Apache-2.0
"""Barriers and fences in kernels, and SPIR-V's numbers for SYCL's memory orders and scopes."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError

from syclsched.kernel_compiler.kernel_api.memory import atomic_fence, group_barrier
from syclsched.kernel_compiler.kernel_api.memory_model import MemoryOrder, MemoryScope
from syclsched.kernel_compiler.lowering.declarations import declare_function
from syclsched.kernel_compiler.lowering.spirv_calls import call, mangled
from syclsched.kernel_compiler.target.contexts import lowering_registry
from syclsched.kernel_compiler.target.kernel_types import GroupType

_NUMBER: Final = ir.IntType(32)
#: SPIR-V's Scope.
_SCOPES: Final = {
    MemoryScope.SYSTEM: 0,
    MemoryScope.DEVICE: 1,
    MemoryScope.WORK_GROUP: 2,
    MemoryScope.SUB_GROUP: 3,
    MemoryScope.WORK_ITEM: 4,
}
#: SPIR-V's Memory Semantics: the order, and the memory of sub-group, work-group and device to which it applies.
_ORDERS: Final = {
    MemoryOrder.RELAXED: 0,
    MemoryOrder.ACQUIRE: 0x2,
    MemoryOrder.RELEASE: 0x4,
    MemoryOrder.ACQ_REL: 0x8,
    MemoryOrder.SEQ_CST: 0x10,
}
_ALL_MEMORY: Final = 0x80 | 0x100 | 0x200


def number(value: int) -> Any:
    """Return a 32-bit constant."""
    return ir.Constant(_NUMBER, value)


def scope(value: int) -> Any:
    """Return SPIR-V's constant of a memory scope."""
    return number(_SCOPES[MemoryScope(value)])


def semantics(value: int) -> Any:
    """Return SPIR-V's constant of a memory order."""
    return number(_ORDERS[MemoryOrder(value)] | _ALL_MEMORY)


def constant_of(kind: Any, name: str, allowed: type[IntEnum]) -> int:
    """Return the value of an argument that must be a constant of an enumeration."""
    if not isinstance(kind, types.IntegerLiteral):
        raise TypingError(f"{name} must be a constant of {allowed.__name__}, not {kind}")
    if allowed is MemoryOrder and kind.literal_value == MemoryOrder.CONSUME_UNSUPPORTED:
        raise TypingError("memory order CONSUME is not supported")
    if kind.literal_value not in list(allowed):
        raise TypingError(f"{name} has no value {kind.literal_value}")
    return int(kind.literal_value)


def _barrier_type(group: Any, fence_scope: Any = MemoryScope.WORK_GROUP) -> Any:
    if not isinstance(group, GroupType):
        raise TypingError(f"group_barrier takes a Group, not {group}")
    constant_of(fence_scope, "fence_scope", MemoryScope)
    return types.none


def _fence_type(memory_order: Any, memory_scope: Any) -> Any:
    constant_of(memory_order, "memory_order", MemoryOrder)
    constant_of(memory_scope, "memory_scope", MemoryScope)
    return types.none


declare_function(group_barrier, _barrier_type)
declare_function(atomic_fence, _fence_type)


def _barrier(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    fence = scope(signature.args[1].literal_value)
    operands = [scope(MemoryScope.WORK_GROUP), fence, semantics(MemoryOrder.SEQ_CST)]
    call(builder, mangled("__spirv_ControlBarrier", "jjj"), ir.VoidType(), operands, "convergent")
    return context.get_dummy_value()


def _fence(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    order, extent = (kind.literal_value for kind in signature.args)
    call(builder, mangled("__spirv_MemoryBarrier", "jj"), ir.VoidType(), [scope(extent), semantics(order)])
    return context.get_dummy_value()


lowering_registry.lower(group_barrier, GroupType, types.Any)(_barrier)
lowering_registry.lower(atomic_fence, types.Any, types.Any)(_fence)
