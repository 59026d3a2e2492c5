# SPDX-License-Identifier: Apache-2.0
"""The vector type of Python kernels, and helpers that its operations share; importing it requires numba.

A type's ``lower`` functions emit LLVM instructions; a typer returns the type of a result, or None if it refuses the
arguments' types. A scalar operand beside a vector is broadcast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import register_model, type_callable

from syclsched.kernel_compiler.python_kernel import CompilerExtension

SCALAR = (types.Number, types.Boolean)
LANE_INDEX = ir.IntType(32)


class Vector(types.Type):  # type: ignore[misc]
    """A SPIR-V vector of numbers or of conditions."""

    def __init__(self, dtype: Any, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(name=f"vector({dtype}, {lanes})")


@register_model(Vector)
class _VectorModel(PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        element = manager.lookup(kind.dtype).get_value_type()
        super().__init__(manager, kind, ir.VectorType(element, kind.lanes))


def add_model(extension: CompilerExtension) -> None:
    """Add the type to a compiler, whose target copied numba's data models when it was created."""
    extension.data_models.register(Vector, _VectorModel)


_DEFINED: set[Any] = set()


def define(symbol: Any, typer: Callable[..., Any]) -> None:
    """Give a function or operator a typer, once for all compilers; numba inspects the number of its parameters."""
    if symbol not in _DEFINED:
        _DEFINED.add(symbol)
        type_callable(symbol)(lambda context: typer)


def lower_pairs(extension: CompilerExtension, symbol: Any, emit: Callable[..., Any]) -> None:
    """Lower an operator for two vectors, and for a vector and a scalar."""
    for pair in ((Vector, Vector), (Vector, types.Any), (types.Any, Vector)):
        extension.lower(symbol, *pair)(emit)


def of_count(typer: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Return a typer of ``count`` arguments."""
    return (lambda a: typer(a), lambda a, b: typer(a, b), lambda a, b, c: typer(a, b, c))[count - 1]


def common(*given: Any) -> Any:
    """Return the one vector type among types of vectors and scalars; None if there is not exactly one."""
    vectors = {each for each in given if isinstance(each, Vector)}
    others = [each for each in given if not isinstance(each, Vector)]
    return vectors.pop() if len(vectors) == 1 and all(isinstance(each, SCALAR) for each in others) else None


def common_pair(a: Any, b: Any) -> Any:
    """Return the one vector type among two types; None if there is not exactly one."""
    return common(a, b)


def broadcast(context: Any, builder: Any, value: Any, given: Any, wanted: Any) -> Any:
    """Broadcast a scalar to a vector type; return a vector unchanged."""
    if isinstance(given, Vector):
        return value
    number = context.cast(builder, value, given, wanted.dtype)
    kind = ir.VectorType(number.type, wanted.lanes)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), number, ir.Constant(LANE_INDEX, 0))
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), lane_mask([0] * wanted.lanes))


def broadcast_all(context: Any, builder: Any, values: Any, given: Any, wanted: Any) -> list[Any]:
    """Broadcast the scalars among values of the given types to a vector type."""
    return [broadcast(context, builder, value, kind, wanted) for value, kind in zip(values, given, strict=True)]


def operands(context: Any, builder: Any, signature: Any, arguments: Any) -> tuple[Any, Any, Any]:
    """Return the dtype of two operands, and both as vectors."""
    kind = common(*signature.args)
    a, b = broadcast_all(context, builder, arguments, signature.args, kind)
    return kind.dtype, a, b


def lane_mask(lanes: Any) -> Any:
    """Return the constant mask of a shuffle."""
    return ir.Constant(ir.VectorType(LANE_INDEX, len(lanes)), [*lanes])
