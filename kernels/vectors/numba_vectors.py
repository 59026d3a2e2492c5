# SPDX-License-Identifier: Apache-2.0
"""A vector type for numba-dpex kernels, like OpenCL C's.

numba-dpex has scalars only. The device's compiler vectorises by itself, across neighbouring work-items or in loops over
a private array, but gives up where a maximum must propagate NaN, or where a value is selected or stored in each row. So
this module adds a type of `LANES` numbers, a SPIR-V vector, to numba-dpex's compiler, with the operators and functions
that kernels need. A scalar operand beside a vector is broadcast.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

from syclsched.kernels.common import transpose_shuffles
from syclsched.kernels.vectors import scaled_exponential
from syclsched.kernels.vectors.error_function import error_function
from syclsched.kernels.vectors.exponential import power
from syclsched.kernels.vectors.inverse_root import inverse_three_quarters
from syclsched.kernels.vectors.straight_line import Function, operand_names
from syclsched.kernels.vectors.vector_functions import (
    LANES,
    choose,
    high,
    largest,
    load_second,
    load_vector,
    low,
    places,
    quotient,
    splat,
    store_vector,
    total,
    turn,
    unordered,
    vadd_power,
    verf,
    vexp,
    vexpm1,
    vexponent,
    vfabs,
    vfma,
    vinverse_three_quarters,
    vlog,
    vlog1p,
    vpower,
    vpower_over,
    vscaling,
    vsqrt,
    vtanh,
)

_ARITHMETIC = {operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.truediv: "div"}
_COMPARISONS = {
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.eq: "==",
    operator.ne: "!=",
}
_LOGIC = {operator.and_: "and_", operator.or_: "or_"}
_FUNCTIONS = (vexp, vlog, vsqrt, vfabs, vtanh, vexpm1, vlog1p, vfma)
#: Function -> its branch-free single-precision version, and the OpenCL built-in for double precision, if any.
_STRAIGHT: dict[Any, tuple[Function, str | None]] = {
    vpower: (power, "exp"),
    verf: (error_function, "erf"),
    vexponent: (scaled_exponential.exponent, None),
    vscaling: (scaled_exponential.scaling, None),
    vpower_over: (scaled_exponential.power_over, None),
    vadd_power: (scaled_exponential.add_power, None),
    vinverse_three_quarters: (inverse_three_quarters, None),
}


@cache
def functions() -> SimpleNamespace:
    """Return the functions of `syclsched.kernels.vectors.vector_functions`, registered with numba-dpex's compiler.

    Registered for vectors as well: + - * /, comparisons, and & | ~ of conditions.
    """
    from llvmlite import ir
    from numba.core import types
    from numba.core.datamodel.models import PrimitiveModel
    from numba.extending import register_model, type_callable
    from numba_dpex.core.descriptor import dpex_kernel_target
    from numba_dpex.core.types import USMNdArray
    from numba_dpex.kernel_api_impl.spirv.overloads._registry import lower

    from syclsched.kernels.vectors.llvm_ops import LlvmFloatOps, call_builtin

    class Vector(types.Type):  # type: ignore[misc]
        def __init__(self, dtype: Any, lanes: int) -> None:
            self.dtype, self.lanes = dtype, lanes
            super().__init__(name=f"vector({dtype}, {lanes})")

    @register_model(Vector)
    class VectorModel(PrimitiveModel):  # type: ignore[misc]
        def __init__(self, manager: Any, kind: Any) -> None:
            element = manager.lookup(kind.dtype).get_value_type()
            super().__init__(manager, kind, ir.VectorType(element, kind.lanes))

    # The compiler's target copied the data models when it was created, so the new one must be added.
    dpex_kernel_target.target_context.data_model_manager.register(Vector, VectorModel)
    scalar = (types.Number, types.Boolean)

    def common(*given: Any) -> Any:
        vectors = {each for each in given if isinstance(each, Vector)}
        others = [each for each in given if not isinstance(each, Vector)]
        return vectors.pop() if len(vectors) == 1 and all(isinstance(each, scalar) for each in others) else None

    def of_count(typed: Any, count: int) -> Any:
        """Return a function of ``count`` arguments; numba inspects the number of parameters."""
        return (lambda a: typed(a), lambda a, b: typed(a, b), lambda a, b, c: typed(a, b, c))[count - 1]

    def spread(context: Any, builder: Any, value: Any, given: Any, wanted: Any) -> Any:
        """Broadcast a scalar to a vector type; return a vector unchanged."""
        if isinstance(given, Vector):
            return value
        number = context.cast(builder, value, given, wanted.dtype)
        kind = ir.VectorType(number.type, wanted.lanes)
        first = builder.insert_element(ir.Constant(kind, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), wanted.lanes), [0] * wanted.lanes)
        return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), zeros)

    def operands(context: Any, builder: Any, signature: Any, arguments: Any) -> tuple[Any, Any, Any]:
        kind = common(*signature.args)
        a, b = (
            spread(context, builder, value, given, kind) for value, given in zip(arguments, signature.args, strict=True)
        )
        return kind.dtype, a, b

    def of_pairs(symbol: Any, function: Any) -> None:
        for pair in ((Vector, Vector), (Vector, types.Any), (types.Any, Vector)):
            lower(symbol, *pair)(function)

    for symbol, word in _ARITHMETIC.items():

        @type_callable(symbol)
        def typed_arithmetic(context: Any) -> Any:
            return lambda a, b: common(a, b)

        def lowered_arithmetic(context: Any, builder: Any, signature: Any, arguments: Any, word: str = word) -> Any:
            dtype, a, b = operands(context, builder, signature, arguments)
            return getattr(builder, f"f{word}" if isinstance(dtype, types.Float) else word)(a, b)

        of_pairs(symbol, lowered_arithmetic)

    @type_callable(operator.neg)
    def typed_negation(context: Any) -> Any:
        return lambda x: x if isinstance(x, Vector) else None

    @lower(operator.neg, Vector)
    def lowered_negation(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = isinstance(signature.args[0].dtype, types.Integer)
        return (builder.neg if whole else builder.fneg)(arguments[0])

    @type_callable(quotient)
    def typed_quotient(context: Any) -> Any:
        def typer(a: Any, b: Any) -> Any:
            kind = common(a, b)
            return kind if kind and isinstance(kind.dtype, types.Integer) else None

        return typer

    def lowered_quotient(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        dtype, a, b = operands(context, builder, signature, arguments)
        return (builder.sdiv if dtype.signed else builder.udiv)(a, b)

    of_pairs(quotient, lowered_quotient)

    for symbol, word in _COMPARISONS.items():

        @type_callable(symbol)
        def typed_comparison(context: Any) -> Any:
            def typer(a: Any, b: Any) -> Any:
                kind = common(a, b)
                return kind and Vector(types.boolean, kind.lanes)

            return typer

        def lowered_comparison(context: Any, builder: Any, signature: Any, arguments: Any, word: str = word) -> Any:
            dtype, a, b = operands(context, builder, signature, arguments)
            if isinstance(dtype, types.Float):
                # NaN compares unequal to everything.
                return (builder.fcmp_unordered if word == "!=" else builder.fcmp_ordered)(word, a, b)
            return (builder.icmp_signed if dtype.signed else builder.icmp_unsigned)(word, a, b)

        of_pairs(symbol, lowered_comparison)

    @type_callable(unordered)
    def typed_unordered(context: Any) -> Any:
        def typer(a: Any, b: Any) -> Any:
            kind = common(a, b)
            return Vector(types.boolean, kind.lanes) if kind and isinstance(kind.dtype, types.Float) else None

        return typer

    def lowered_unordered(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, a, b = operands(context, builder, signature, arguments)
        return builder.fcmp_unordered("uno", a, b)

    of_pairs(unordered, lowered_unordered)

    for symbol, word in _LOGIC.items():

        @type_callable(symbol)
        def typed_logic(context: Any) -> Any:
            def typer(a: Any, b: Any) -> Any:
                return a if a == b and isinstance(a, Vector) and a.dtype == types.boolean else None

            return typer

        @lower(symbol, Vector, Vector)
        def lowered_logic(context: Any, builder: Any, signature: Any, arguments: Any, word: str = word) -> Any:
            return getattr(builder, word)(*arguments)

    @type_callable(operator.invert)
    def typed_inversion(context: Any) -> Any:
        return lambda x: x if isinstance(x, Vector) and x.dtype == types.boolean else None

    @lower(operator.invert, Vector)
    def lowered_inversion(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.not_(arguments[0])

    for symbol, (function, name) in _STRAIGHT.items():
        count = len(operand_names(function))

        @type_callable(symbol)
        def typed_straight(context: Any, count: int = count, double: bool = name is not None) -> Any:
            def typed(*given: Any) -> Any:
                kind = common(*given) or (given[0] if len({*given}) == 1 else None)
                real = getattr(kind, "dtype", kind)
                return kind if isinstance(real, types.Float) and (double or real.bitwidth == 32) else None

            return of_count(typed, count)

        def lowered_straight(
            context: Any,
            builder: Any,
            signature: Any,
            arguments: Any,
            function: Any = function,
            name: str | None = name,
        ) -> Any:
            kind = signature.return_type
            if isinstance(kind, Vector):
                pairs = zip(arguments, signature.args, strict=True)
                arguments = [spread(context, builder, value, given, kind) for value, given in pairs]
            if name is not None and getattr(kind, "dtype", kind).bitwidth != 32:
                return call_builtin(context, builder, name, kind, [*arguments])
            return function(LlvmFloatOps(context, builder, kind), *arguments)

        for operands_are in itertools.product((Vector, types.Float), repeat=count):
            lower(symbol, *operands_are)(lowered_straight)

    for function in _FUNCTIONS:

        @type_callable(function)
        def typed_function(context: Any, function: Any = function) -> Any:
            def real(kind: Any) -> Any:
                return kind if kind and isinstance(kind.dtype, types.Float) else None

            return of_count(lambda *given: real(common(*given)), 3 if function is vfma else 1)

        def lowered_function(
            context: Any, builder: Any, signature: Any, arguments: Any, name: str = function.__name__[1:]
        ) -> Any:
            wanted = signature.return_type
            pairs = zip(arguments, signature.args, strict=True)
            vectors = [spread(context, builder, value, given, wanted) for value, given in pairs]
            return call_builtin(context, builder, name, wanted, vectors)

        for operands_of in itertools.product((Vector, types.Any), repeat=3 if function is vfma else 1):
            if Vector in operands_of:
                lower(function, *operands_of)(lowered_function)

    @type_callable(splat)
    def typed_splat(context: Any) -> Any:
        return lambda value: Vector(types.unliteral(value), LANES) if isinstance(value, scalar) else None

    @lower(splat, types.Any)
    def lowered_splat(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return spread(context, builder, arguments[0], signature.args[0], signature.return_type)

    @type_callable(places)
    def typed_places(context: Any) -> Any:
        return lambda zero: Vector(zero, LANES) if isinstance(zero, types.Integer) else None

    @lower(places, types.Integer)
    def lowered_places(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(context.get_value_type(signature.return_type), list(range(LANES)))

    @type_callable(choose)
    def typed_choose(context: Any) -> Any:
        def typer(condition: Any, yes: Any, no: Any) -> Any:
            return common(yes, no) if isinstance(condition, Vector) else None

        return typer

    @lower(choose, Vector, types.Any, types.Any)
    def lowered_choose(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pairs = zip(arguments[1:], signature.args[1:], strict=True)
        choices = [spread(context, builder, value, given, signature.return_type) for value, given in pairs]
        return builder.select(arguments[0], *choices)

    def address(context: Any, builder: Any, array: Any, given: Any, place: Any, lanes: int) -> Any:
        view = context.make_array(given[0])(context, builder, array)
        index = context.cast(builder, place, given[1], types.intp)
        element = builder.gep(view.data, [index], inbounds=True)
        kind = ir.VectorType(element.type.pointee, lanes)
        return builder.bitcast(element, kind.as_pointer(element.type.addrspace)), element.type.pointee

    def size_of(element: Any) -> int:
        return {"float": 4, "double": 8}.get(str(element)) or max(element.width // 8, 1)

    for symbol in (load_vector, load_second):

        @type_callable(symbol)
        def typed_load(context: Any) -> Any:
            return lambda array, place: Vector(array.dtype, LANES) if isinstance(place, types.Integer) else None

    @lower(load_vector, USMNdArray, types.Integer)
    def lowered_load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer, element = address(context, builder, arguments[0], signature.args, arguments[1], LANES)
        return builder.load(pointer, align=size_of(element))

    @lower(load_second, USMNdArray, types.Integer)
    def lowered_second(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        # Two overlapping loads: nothing beyond the last requested element is read.
        pointer, element = address(context, builder, arguments[0], signature.args, arguments[1], LANES)
        first = builder.bitcast(pointer, element.as_pointer(pointer.type.addrspace))
        other = builder.gep(first, [ir.Constant(ir.IntType(64), LANES - 1)], inbounds=True)
        pieces = [
            builder.load(each, align=size_of(element)) for each in (pointer, builder.bitcast(other, pointer.type))
        ]
        taken = [*range(0, LANES, 2), *range(LANES + 1, 2 * LANES, 2)]
        return builder.shuffle_vector(*pieces, ir.Constant(ir.VectorType(ir.IntType(32), LANES), taken))

    @type_callable(store_vector)
    def typed_store(context: Any) -> Any:
        def typer(array: Any, place: Any, vector: Any) -> Any:
            return types.void if isinstance(place, types.Integer) and isinstance(vector, Vector) else None

        return typer

    @lower(store_vector, USMNdArray, types.Integer, Vector)
    def lowered_store(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, _, given = signature.args
        pointer, element = address(context, builder, arguments[0], signature.args, arguments[1], given.lanes)
        value = converted(context, builder, arguments[2], given.dtype, array.dtype, given.lanes)
        builder.store(value, pointer, align=size_of(element))
        return context.get_dummy_value()

    @type_callable(turn)
    def typed_turn(context: Any) -> Any:
        def typer(y: Any, to: Any, y_apart: Any, x: Any, start: Any, x_apart: Any) -> Any:
            whole = all(isinstance(each, types.Integer) for each in (to, y_apart, start, x_apart))
            return types.void if whole and y.dtype == x.dtype else None

        return typer

    @lower(turn, USMNdArray, types.Integer, types.Integer, USMNdArray, types.Integer, types.Integer)
    def lowered_turn(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def places(given: int) -> Iterator[tuple[Any, int]]:
            """Yield pointer and alignment of each line: argument ``given`` is the start, the next the stride."""
            place, apart = (
                context.cast(builder, arguments[each], signature.args[each], types.intp) for each in (given, given + 1)
            )
            kinds = (signature.args[given - 1], types.intp)
            for _ in range(LANES):
                pointer, element = address(context, builder, arguments[given - 1], kinds, place, LANES)
                yield pointer, size_of(element)
                place = builder.add(place, apart)

        lines = [builder.load(pointer, align=align) for pointer, align in places(4)]
        for a, b, *masks in transpose_shuffles():
            kind = ir.VectorType(ir.IntType(32), LANES)
            turned = [builder.shuffle_vector(lines[a], lines[b], ir.Constant(kind, mask)) for mask in masks]
            lines[a], lines[b] = turned
        for line, (pointer, align) in zip(lines, places(1), strict=True):
            builder.store(line, pointer, align=align)
        return context.get_dummy_value()

    def converted(context: Any, builder: Any, vector: Any, given: Any, wanted: Any, lanes: int) -> Any:
        if given == wanted:
            return vector
        kind = ir.VectorType(context.get_value_type(wanted), lanes)
        if wanted.bitwidth > given.bitwidth:
            return (builder.sext if given.signed else builder.zext)(vector, kind)
        return builder.trunc(vector, kind)

    def typed_fold(context: Any) -> Any:
        return lambda vector: vector.dtype if isinstance(vector, Vector) and vector.dtype != types.boolean else None

    def of_halves(builder: Any, vector: Any, join: Any) -> Any:
        """Reduce a vector to a scalar by combining halves."""
        lanes, index = vector.type.count, ir.IntType(32)
        while lanes > 2:
            lanes //= 2
            nothing, kind = ir.Constant(vector.type, ir.Undefined), ir.VectorType(index, lanes)
            masks = (range(lanes), range(lanes, 2 * lanes))
            vector = join(*(builder.shuffle_vector(vector, nothing, ir.Constant(kind, [*mask])) for mask in masks))
        return join(*(builder.extract_element(vector, ir.Constant(index, lane)) for lane in range(2)))

    type_callable(total)(typed_fold)
    type_callable(largest)(typed_fold)

    @lower(total, Vector)
    def lowered_total(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        real = isinstance(signature.return_type, types.Float)
        return of_halves(builder, arguments[0], builder.fadd if real else builder.add)

    @lower(largest, Vector)
    def lowered_largest(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        dtype = signature.return_type
        compare = builder.fcmp_ordered if isinstance(dtype, types.Float) else builder.icmp_signed
        compare = builder.icmp_unsigned if isinstance(dtype, types.Integer) and not dtype.signed else compare
        return of_halves(builder, arguments[0], lambda a, b: builder.select(compare(">", a, b), a, b))

    for half, first in ((low, 0), (high, 1)):

        @type_callable(half)
        def typed_half(context: Any) -> Any:
            def typer(vector: Any) -> Any:
                if not isinstance(vector, Vector):
                    return None
                return vector.dtype if vector.lanes == 2 else Vector(vector.dtype, vector.lanes // 2)

            return typer

        @lower(half, Vector)
        def lowered_half(context: Any, builder: Any, signature: Any, arguments: Any, first: int = first) -> Any:
            (vector,), count = arguments, signature.args[0].lanes // 2
            if count == 1:
                return builder.extract_element(vector, ir.Constant(ir.IntType(32), first))
            places = [first * count + lane for lane in range(count)]
            mask = ir.Constant(ir.VectorType(ir.IntType(32), count), places)
            return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask)

    known = (
        turn,
        splat,
        places,
        load_vector,
        load_second,
        store_vector,
        choose,
        quotient,
        unordered,
        total,
        largest,
        low,
        high,
        *_STRAIGHT,
        *_FUNCTIONS,
    )
    return SimpleNamespace(**{each.__name__: each for each in known})
