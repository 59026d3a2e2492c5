# SPDX-License-Identifier: Apache-2.0
"""Evaluation of expressions with NumPy: the host implementation, and the reference for the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from syclsched.kernels.tensor.writing.expression import Expression, TypedExpression, infer_dtypes
from syclsched.kernels.vectors import error_function

Array = Any


def evaluate(expression: Expression, inputs: Sequence[Array], shape: tuple[int, ...] | None = None) -> Array:
    """Return the value of an expression for inputs, broadcast to a shape."""
    extents = np.broadcast_shapes(*(each.shape for each in inputs)) if shape is None else shape
    return evaluate_typed(infer_dtypes(expression, tuple(each.dtype.name for each in inputs)), inputs, extents)


def evaluate_typed(root: TypedExpression, inputs: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """Return the value of a typed expression; see `evaluate`."""
    done: dict[int, Array] = {}
    # Iterative depth-first traversal; shared subexpressions are evaluated once.
    stack = [root]
    with np.errstate(all="ignore"):
        while stack:
            node = stack[-1]
            missing = [each for each in node.operands if id(each) not in done]
            if missing:
                stack += missing
                continue
            stack.pop()
            if id(node) not in done:
                done[id(node)] = _value(node, [done[id(each)] for each in node.operands], inputs, shape)
        return np.asarray(done[id(root)]).astype(root.dtype, copy=False)


def compute_dtype(dtype: str) -> str:
    """Return the compute dtype of a dtype: float32 for float16, else the same."""
    return "float32" if dtype == "float16" else dtype


def _value(node: TypedExpression, operands: list[Array], inputs: Sequence[Array], shape: tuple[int, ...]) -> Array:
    dtype = np.dtype(compute_dtype(node.dtype))
    if node.operator == "input":
        return inputs[node.parameters[0]].astype(dtype, copy=False)
    if node.operator == "const":
        return dtype.type(node.parameters[0]) if node.dtype == "bool" else np.array(node.parameters[0]).astype(dtype)
    if node.operator == "index":
        axis = node.parameters[0]
        return np.arange(shape[axis], dtype=dtype).reshape(-1, *[1] * (-axis - 1))
    if node.operator == "cast":
        return operands[0].astype(node.dtype).astype(dtype, copy=False)
    result = FUNCTIONS[node.operator](*operands, *node.parameters)
    return np.asarray(result).astype(dtype, copy=False)


# --- operators: operands first, then parameters ------------------------------------------------------


def _div(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return a / b
    quotient = np.floor_divide(a, b)  # 0 where b is 0
    rest = a - quotient * b
    return quotient + ((rest != 0) & ((a < 0) != (b < 0)) & (b != 0))


def _pow(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.power(a, b.astype(a.dtype))
    if b.dtype.kind == "f":
        power = np.power(a.astype("float64"), b.astype("float64"))
        return np.where(b == np.rint(b), np.rint(power), power).astype(a.dtype)  # pow is inexact
    exponent = b.astype("int64") if b.dtype != np.uint64 else b
    positive = np.power(a, np.where(exponent < 0, 0, exponent).astype(a.dtype if a.dtype.kind == "u" else "int64"))
    minus_one = (a < 0) & (a + a.dtype.type(1) == 0)
    negative = np.where(a == 1, 1, np.where(minus_one, np.where(exponent % 2 == 0, 1, -1), 0))
    return np.where(exponent < 0, negative.astype(a.dtype), positive.astype(a.dtype))


def _shift(a: Array, b: Array, function: Callable[[Array, Array], Array]) -> Array:
    bits = 8 * a.dtype.itemsize
    inside = (b >= 0) & (b < bits)
    shifted = function(a, np.where(inside, b, 0).astype(a.dtype))
    signs = np.where(a < 0, -1, 0).astype(a.dtype) if function is np.right_shift else 0
    return np.where(inside, shifted, signs)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


def _clip(x: Array, low: float | None, high: float | None) -> Array:
    for bound, least in ((low, True), (high, False)):
        if bound is not None:
            value = x.dtype.type(bound)
            x = np.where(x < value if least else x > value, value, x)
    return x


def _shrink(x: Array, lambd: float, bias: float) -> Array:
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))


def _isinf(x: Array, negative: float, positive: float) -> Array:
    return (np.isposinf(x) & bool(positive)) | (np.isneginf(x) & bool(negative))


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def _narrow(x: Array, bits: float, exponent: float) -> Array:
    _, exponents = np.frexp(x)
    unit = bits - np.maximum(exponents - 1, int(exponent))
    rounded = np.ldexp(np.rint(np.ldexp(x.astype("float64"), unit.astype("int32"))), -unit.astype("int32"))
    return np.where(np.isfinite(x), rounded, x).astype(x.dtype)


def _bfloat16_bits(x: Array) -> Array:
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), np.uint32(0x7FC0), rounded)


FUNCTIONS: dict[str, Callable[..., Array]] = {
    **{
        name: getattr(np, name)
        for name in ("exp", "log", "log1p", "expm1", "sqrt", "sin", "cos", "tan", "sinh", "cosh")
    },
    **{name: getattr(np, name) for name in ("tanh", "abs", "sign", "square", "floor", "ceil", "trunc", "isnan")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    **{name: getattr(np, name) for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")},
    **{name: getattr(np, name) for name in ("add", "mod", "fmod", "where")},
    **{name: getattr(np, f"logical_{name}") for name in ("and", "or", "xor", "not")},
    **{f"bit_{name}": getattr(np, f"bitwise_{name}") for name in ("and", "or", "xor", "not")},
    "neg": np.negative,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _div,
    "min": np.minimum,
    "max": np.maximum,
    "pow": _pow,
    "prelu": lambda x, slope: np.where(x < 0, slope * x, x),
    "shift_left": lambda a, b: _shift(a, b, np.left_shift),
    "shift_right": lambda a, b: _shift(a, b, np.right_shift),
    "round": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "erf": error_function.of_array,
    "relu": lambda x: np.where(x < 0, x.dtype.type(0), x),
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "gelu": lambda x: 0.5 * x * (1 + error_function.of_array(x * math.sqrt(0.5))),
    "gelu_tanh": _gelu_tanh,
    "silu": lambda x: x * _sigmoid(x),
    "mish": lambda x: x * np.tanh(_softplus(x)),
    "leaky_relu": lambda x, alpha: np.where(x < 0, alpha * x, x),
    "elu": _elu,
    "celu": lambda x, alpha: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0) / alpha), x),
    "selu": lambda x, alpha, gamma: gamma * _elu(x, alpha),
    "thresholded_relu": lambda x, alpha: np.where(x > alpha, x, 0),
    "hard_sigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "shrink": _shrink,
    "scale": lambda x, alpha: x * x.dtype.type(alpha),
    "narrow": _narrow,
    "bfloat16_bits": _bfloat16_bits,
    "of_bfloat16_bits": lambda x: (x.astype(np.uint32) << np.uint32(16)).view(np.float32),
    "clip": _clip,
    "isinf": _isinf,
}
