# SPDX-License-Identifier: Apache-2.0
"""Symbolic arrays, which gradient functions compute with: their arithmetic adds nodes to a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import dtype_name
from syclsched.frontends.onnx.shapes import broadcast
from syclsched.kernels.tensor.writing.expression import Expression, count_operators, result_dtype, substitute
from syclsched.model.operation import Operation
from syclsched.training.operations.operation_nodes import emit_operation

#: An expression with more operators or inputs is computed on its own before it is used.
_MOST_OPERATORS: Final = 48
_MOST_INPUTS: Final = 8

_UFUNCS: Final[dict[np.ufunc, str]] = {
    **{
        getattr(np, name): name
        for name in (
            *("exp", "expm1", "log", "log1p", "sqrt", "square", "sign", "reciprocal", "sin", "cos", "tan", "sinh"),
            *("cosh", "tanh", "floor", "ceil", "trunc", "less", "less_equal", "greater", "greater_equal", "equal"),
            *("not_equal", "isnan", "fmod"),
        )
    },
    np.add: "add",
    np.subtract: "sub",
    np.multiply: "mul",
    np.divide: "div",
    np.mod: "mod",
    np.negative: "neg",
    np.absolute: "abs",
    np.rint: "round",
    np.maximum: "max",
    np.minimum: "min",
    np.arcsin: "asin",
    np.arccos: "acos",
    np.arctan: "atan",
    np.arcsinh: "asinh",
    np.arccosh: "acosh",
    np.arctanh: "atanh",
    np.logical_and: "and",
    np.logical_or: "or",
    np.logical_xor: "xor",
    np.logical_not: "not",
    np.bitwise_and: "and",
    np.bitwise_or: "or",
    np.bitwise_xor: "xor",
    np.invert: "not",  # of truth values
}
#: Constant exponents that have an operator of their own.
_POWERS: Final[dict[float, str]] = {2.0: "square", 0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}


class EmptyArray(NamedTuple):
    """Shape and dtype of an array that an operation writes: ``np.empty_like`` of a symbolic array."""

    shape: tuple[int, ...]
    dtype: str


class SymbolicArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of a network under construction. Element-wise functions are joined to one expression."""

    __slots__ = ("_b", "_expression", "_inputs", "shape")

    def __init__(
        self,
        b: NetworkBuilder,
        inputs: Sequence[str],
        expression: Expression = 0,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        self._b, self._inputs, self._expression = b, tuple(inputs), expression
        self.shape = b.shape(inputs[0]) if shape is None else shape

    @property
    def value(self) -> str:
        """The name of the value in the network, which is computed if it is not yet."""
        if self._expression != 0 or self.shape != self._b.shape(self._inputs[0]):
            self._inputs = (self._b.elementwise(self._expression, *self._inputs, shape=self.shape),)
            self._expression = 0
        return self._inputs[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        return np.dtype(result_dtype(self._expression, tuple(map(self._b.dtype, self._inputs))))

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))

    @property
    def T(self) -> SymbolicArray:  # as NumPy's
        """The array with its axes in reverse order."""
        return self.transpose()

    # --- functions of NumPy ---------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any) -> Any:
        """Apply a universal function."""
        if method != "__call__" or named:
            raise _unknown(f"np.{ufunc.__name__}.{method} with these arguments")
        if ufunc is np.matmul:
            return self._product(*inputs)
        if ufunc in (np.power, np.float_power):
            return self._power(*inputs)
        if ufunc is np.positive:
            return self
        if ufunc not in _UFUNCS:
            raise _unknown(f"np.{ufunc.__name__}")
        return self._combined(lambda *each: (_UFUNCS[ufunc], *each), *inputs)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, given: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:
        """Apply a function."""
        known: dict[Any, Callable[..., Any]] = {
            np.where: lambda condition, x, y: self._combined(lambda *each: ("where", *each), condition, x, y),
            np.clip: lambda x, low=None, high=None: np.minimum(np.maximum(x, low), high),
            np.empty_like: lambda x, dtype=None, shape=None: EmptyArray(
                x.shape if shape is None else tuple(np.atleast_1d(shape).tolist()), np.dtype(dtype or x.dtype).name
            ),
            np.zeros_like: lambda x: x._filled(0.0),
            np.ones_like: lambda x: x._filled(1.0),
            np.tril: lambda x: x._triangle("greater_equal"),
            np.triu: lambda x: x._triangle("less_equal"),
            np.broadcast_to: lambda x, shape: SymbolicArray(self._b, x._inputs, x._expression, tuple(shape)),
            np.concatenate: lambda parts, axis=0: self._made(self._b.concat([self._value(p) for p in parts], axis)),
            np.transpose: lambda x, axes=None: x.transpose(*(axes or ())),
            np.reshape: lambda x, shape: x.reshape(shape),
            **{getattr(np, name): getattr(SymbolicArray, name) for name in ("sum", "mean", "max", "min", "prod")},
        }
        if function not in known:
            raise _unknown(f"np.{getattr(function, '__name__', function)}")
        return known[function](*given, **named)

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> SymbolicArray:
        """Return the sum over axes."""
        return self._reduced("sum", axis, keepdims)

    def mean(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> SymbolicArray:
        """Return the mean over axes."""
        return self._reduced("mean", axis, keepdims)

    def max(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> SymbolicArray:
        """Return the largest elements over axes."""
        return self._reduced("max", axis, keepdims)

    def min(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> SymbolicArray:
        """Return the least elements over axes."""
        return self._reduced("min", axis, keepdims)

    def prod(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> SymbolicArray:
        """Return the product over axes."""
        return self._reduced("prod", axis, keepdims)

    def reshape(self, *shape: Any) -> SymbolicArray:
        """Return the same elements in another shape; one extent may be -1."""
        extents = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        probe = np.broadcast_to(np.False_, self.shape).reshape(extents)
        return self._made(self._b.reshape(self.value, probe.shape))

    def transpose(self, *axes: Any) -> SymbolicArray:
        """Return the array with permuted axes."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or range(self.ndim)[::-1]
        return self._made(self._b.transpose(self.value, [axis % self.ndim for axis in order]))

    def astype(self, dtype: Any) -> SymbolicArray:
        """Return the array in another dtype."""
        return self._combined(lambda x: ("cast", np.dtype(dtype).name, x), self)

    def __getitem__(self, places: Any) -> SymbolicArray:
        """Return a part, by slices and numbers."""
        given = list(places) if isinstance(places, tuple) else [places]
        if any(each is Ellipsis for each in given):
            at = next(i for i, each in enumerate(given) if each is Ellipsis)
            given[at : at + 1] = [slice(None)] * (self.ndim - len(given) + 1)
        given += [slice(None)] * (self.ndim - len(given))
        if len(given) != self.ndim or not all(isinstance(each, slice | int) for each in given):
            raise _unknown(f"x[{places!r}]")
        ranges = [range(n)[each] for n, each in zip(self.shape, given, strict=True)]
        whole = [r if isinstance(r, range) else range(r, r + 1) for r in ranges]
        made = self._b.slice(self.value, [r.start for r in whole], [len(r) for r in whole], [r.step for r in whole])
        return self._made(self._b.reshape(made, tuple(len(r) for r in ranges if isinstance(r, range))))

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        raise _unknown("truth values of arrays (in if, and, or, not, max, min)")

    # --- operations -----------------------------------------------------------------------------------

    def apply(self, operation: Operation, arguments: Mapping[str, Any]) -> Any:
        """Add a call of an operation; return the values of its written arrays."""
        if operation.variant is not None:
            operation = operation.variant(arguments)
        where = f"operation {operation.name!r}"
        unknown = sorted(set(arguments) - {each.name for each in operation.parameters})
        if unknown:
            raise ArgumentError(f"it has no parameter {unknown[0]!r}", where=where)
        reads: dict[str, str] = {}
        results: dict[str, tuple[tuple[int, ...], str]] = {}
        scalars: dict[str, Any] = {}
        for each in operation.parameters:
            given = arguments.get(each.name, None if each.is_array else each.default)
            if each.mode is None and isinstance(given, int | float | np.number):
                scalars[each.name] = given
            elif each.mode is not None and each.mode.reads and isinstance(given, SymbolicArray):
                reads[each.name] = given.value
                if each.mode.writes:
                    results[each.name] = given.shape, given.dtype.name
            elif each.mode is not None and not each.mode.reads and isinstance(given, EmptyArray):
                results[each.name] = given
            else:
                kind = "a number" if each.mode is None else "an array" if each.mode.reads else "np.empty_like(an array)"
                raise ArgumentError(f"argument {each.name!r} must be {kind}, not {given!r}", where=where)
        made = [self._made(name) for name in emit_operation(self._b, operation, reads, scalars, results).values()]
        return made[0] if len(made) == 1 else tuple(made)

    # --- inside ---------------------------------------------------------------------------------------

    def _made(self, value: str) -> SymbolicArray:
        return SymbolicArray(self._b, (value,))

    def _value(self, x: Any) -> str:
        return x.value if isinstance(x, SymbolicArray) else self._b.constant(np.asarray(x, self.dtype))

    def _combined(self, joined: Callable[..., Expression], *operands: Any) -> SymbolicArray:
        arrays = [each for each in operands if isinstance(each, SymbolicArray)]
        if (
            sum(count_operators(each._expression) for each in arrays) > _MOST_OPERATORS
            or sum(len(each._inputs) for each in arrays) > _MOST_INPUTS
        ):
            for each in arrays:
                each.value  # noqa: B018  # computes it
        inputs: dict[str, int] = {}
        shapes: list[tuple[int, ...]] = []
        terms: list[Expression] = []
        for each in operands:
            if isinstance(each, bool | int | float | np.generic):
                number = each.item() if isinstance(each, np.generic) else each
                terms.append(("const", number))
                continue
            array = each if isinstance(each, SymbolicArray) else self._made(self._value(each))
            places = {i: inputs.setdefault(name, len(inputs)) for i, name in enumerate(array._inputs)}
            terms.append(substitute(array._expression, places))
            shapes.append(array.shape)
        return SymbolicArray(self._b, tuple(inputs), joined(*terms), broadcast(shapes))

    def _power(self, base: Any, exponent: Any) -> SymbolicArray:
        if isinstance(base, SymbolicArray) and isinstance(exponent, int | float):
            dtype = base.dtype.name
            if float(exponent) in _POWERS:
                return self._combined(lambda x: (_POWERS[float(exponent)], x), base)
            return self._combined(lambda x: ("pow", x, ("const", float(exponent), dtype)), base)
        if isinstance(base, int | float):
            dtype = exponent.dtype.name
            return self._combined(lambda x: ("pow", ("const", float(base), dtype), x), exponent)
        return self._combined(lambda x, y: ("pow", x, y), base, exponent)

    def _product(self, x: Any, y: Any) -> SymbolicArray:
        x, y = (each if isinstance(each, SymbolicArray) else self._made(self._value(each)) for each in (x, y))
        rows, columns = (x.reshape(1, -1) if x.ndim == 1 else x), (y.reshape(-1, 1) if y.ndim == 1 else y)
        made = self._made(self._b.matmul(rows.value, columns.value))
        shape = made.shape if y.ndim > 1 else made.shape[:-1]
        return made.reshape((*shape[: len(shape) - (2 if y.ndim > 1 else 1)], *shape[-1:]) if x.ndim == 1 else shape)

    def _reduced(self, mode: str, axis: int | tuple[int, ...] | None, keepdims: bool) -> SymbolicArray:
        axes = range(self.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
        if not self.ndim:
            return self
        return self._made(self._b.reduce(mode, self.value, [each % self.ndim for each in axes], keepdims=keepdims))

    def _filled(self, value: float) -> SymbolicArray:
        return self._made(self._b.filled(self.shape, dtype_name(self.dtype), value))

    def _triangle(self, comparison: str) -> SymbolicArray:
        kept = (comparison, ("index", -2), ("index", -1))
        return self._combined(lambda x: ("where", kept, x, ("const", 0)), self)


def _unknown(what: str) -> ArgumentError:
    return ArgumentError(
        f"gradients do not have {what}",
        hint="They have operators, np.where, np.sum and the like, element-wise functions, @, slices, and operations",
    )
