# SPDX-License-Identifier: Apache-2.0
"""Construction, reduction and halving of vectors in Python kernels; importing it requires numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types

from syclsched.kernel_compiler.python_kernel import CompilerExtension
from syclsched.kernels.vectors.vector_functions import BY_LANES, LANES, high, largest, low, places, total
from syclsched.kernels.vectors.vector_type import LANE_INDEX, SCALAR, Vector, broadcast, define, lane_mask


def register(extension: CompilerExtension) -> None:
    """Register the functions with a compiler."""
    lower = extension.lower
    for lanes, (splat, *_) in BY_LANES.items():
        define(splat, _splat_type(lanes))
        lower(splat, types.Any)(_splat)
    define(places, lambda zero: Vector(zero, LANES) if isinstance(zero, types.Integer) else None)
    lower(places, types.Integer)(_places)
    define(total, _reduction_type)
    lower(total, Vector)(_total)
    define(largest, _reduction_type)
    lower(largest, Vector)(_largest)
    for symbol, first in ((low, 0), (high, 1)):
        define(symbol, _half_type)
        lower(symbol, Vector)(_half(first))


def _splat_type(lanes: int) -> Callable[..., Any]:
    return lambda value: Vector(types.unliteral(value), lanes) if isinstance(value, SCALAR) else None


def _splat(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return broadcast(context, builder, arguments[0], signature.args[0], signature.return_type)


def _places(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return ir.Constant(context.get_value_type(signature.return_type), list(range(LANES)))


def _reduction_type(vector: Any) -> Any:
    return vector.dtype if isinstance(vector, Vector) and vector.dtype != types.boolean else None


def _total(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    real = isinstance(signature.return_type, types.Float)
    return _reduced(builder, arguments[0], builder.fadd if real else builder.add)


def _largest(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    dtype = signature.return_type
    compare = builder.fcmp_ordered if isinstance(dtype, types.Float) else builder.icmp_signed
    compare = builder.icmp_unsigned if isinstance(dtype, types.Integer) and not dtype.signed else compare
    return _reduced(builder, arguments[0], lambda a, b: builder.select(compare(">", a, b), a, b))


def _reduced(builder: Any, vector: Any, join: Callable[[Any, Any], Any]) -> Any:
    """Reduce a vector to a scalar by combining halves."""
    lanes = vector.type.count
    while lanes > 2:
        lanes //= 2
        nothing, halves = ir.Constant(vector.type, ir.Undefined), (range(lanes), range(lanes, 2 * lanes))
        vector = join(*(builder.shuffle_vector(vector, nothing, lane_mask(half)) for half in halves))
    return join(*(builder.extract_element(vector, ir.Constant(LANE_INDEX, lane)) for lane in range(2)))


def _half_type(vector: Any) -> Any:
    if not isinstance(vector, Vector):
        return None
    return vector.dtype if vector.lanes == 2 else Vector(vector.dtype, vector.lanes // 2)


def _half(number: int) -> Callable[..., Any]:
    """Return the lowering of the first (0) or second (1) half."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (vector,), count = arguments, signature.args[0].lanes // 2
        if count == 1:
            return builder.extract_element(vector, ir.Constant(LANE_INDEX, number))
        mask = lane_mask([number * count + lane for lane in range(count)])
        return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask)

    return emit
