# SPDX-License-Identifier: Apache-2.0
"""Code generation for expressions; `expression_evaluator` is the counterpart for NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from syclsched.kernels.tensor.writing.expression import TypedExpression
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter, compute_dtype

#: Exponents computed by multiplication.
_POWERS = {2.0: "{0} * {0}", 3.0: "{0} * {0} * {0}", 4.0: "({0} * {0}) * ({0} * {0})", 1.0: "{0}"}

#: Operators of whole numbers that compilers simplify if the second operand is known.
_SIMPLIFIED = frozenset(("div", "mod", "fmod", "pow", "shift_left", "shift_right"))


def emit_expression(
    writer: KernelWriter, root: TypedExpression, inputs: Mapping[int, str], places: Mapping[int, str]
) -> str:
    """Emit an expression, and return the text of its value."""
    done: dict[int, str] = {}
    divisors = _known_divisors(root)
    stack = [root]
    while stack:
        node = stack[-1]
        operands = _erf_of_quotient(node) or node.operands
        missing = [each for each in operands if id(each) not in done]
        if missing:
            stack += missing
            continue
        stack.pop()
        if id(node) in divisors:
            done[id(node)] = writer.constant(node.parameters[0], node.dtype)
        if id(node) not in done:
            done[id(node)] = _write(writer, node, [done[id(each)] for each in operands], inputs, places)
    return done[id(root)]


def _known_divisors(root: TypedExpression) -> frozenset[int]:
    """Return the constants, by identity, by which compilers simplify an operator of whole numbers."""
    found, seen, stack = set[int](), set[int](), [root]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        stack += node.operands
        if node.operator in _SIMPLIFIED:
            divisor = node.operands[1]
            if divisor.operator == "const" and not divisor.dtype.startswith("float"):
                found.add(id(divisor))
    return frozenset(found)


def _erf_of_quotient(node: TypedExpression) -> tuple[TypedExpression, ...] | None:
    """Return x and c if a node is erf(x / c) with constant c in single precision."""
    # It is computed as erf(x * (1 / c)): a division takes half the time of erf, and the
    # difference in rounding is within the error of erf. Exporters write GELU in this form.
    quotient = node.operands[0] if node.operator == "erf" and node.dtype == "float32" else None
    if quotient is None or quotient.operator != "div" or quotient.operands[1].operator != "const":
        return None
    divisor = abs(float(quotient.operands[1].parameters[0]))
    return quotient.operands if 1e-3 < divisor < 1e3 else None


def _is_clipped_byte(node: TypedExpression) -> bool:
    """Return whether a node converts floats, clipped to the range of 32-bit integers, to 8 or 16 bits."""
    (operand,) = node.operands
    if operand.operator != "clip" or not operand.dtype.startswith("float") or len(operand.parameters) != 2:
        return False
    small = node.dtype in ("int8", "uint8", "int16", "uint16")
    return small and all(limit is not None and abs(limit) < 1 << 31 for limit in operand.parameters)


def _write(
    w: KernelWriter, node: TypedExpression, operands: list[str], inputs: Mapping[int, str], places: Mapping[int, str]
) -> str:
    if node.operator == "const":
        return w.parameter(node.parameters[0], node.dtype)
    if node.operator == "input":
        return w.value(node.dtype, inputs[node.parameters[0]])
    if node.operator == "index":
        return w.value("int64", places[node.parameters[0]])
    if node.operator == "cast":
        if _is_clipped_byte(node):
            # Processors convert vectors of floats to 32-bit integers only.
            whole = w.value("int32", w.cast("int32", operands[0], node.operands[0].dtype))
            return w.value(node.dtype, w.cast(node.dtype, whole, "int32"))
        return w.value(node.dtype, w.cast(node.dtype, operands[0], node.operands[0].dtype))
    if _erf_of_quotient(node):
        factor = w.constant(1 / float(node.operands[0].operands[1].parameters[0]), node.dtype)
        return w.value(node.dtype, w.erf(node.dtype, w.value(node.dtype, f"{operands[0]} * {factor}")))
    if node.operator in ("pow", "shift_left", "shift_right"):
        text = _pow(w, node, *operands) if node.operator == "pow" else _shift(w, node, *operands)
        return w.value(node.dtype, text)
    dtype = node.operands[-1].dtype
    function = GENERATORS.get((node.operator, "float" if dtype.startswith("float") else "whole"))
    return w.value(
        node.dtype, (function or GENERATORS[node.operator, ""])(w, compute_dtype(dtype), *operands, *node.parameters)
    )


# --- operators; arguments: writer, dtype of the operands, operands, parameters ------------------------------


def _function(name: str) -> Callable[..., str]:
    return lambda w, t, x: w.call(name, x)


def _infix(symbol: str) -> Callable[..., str]:
    return lambda w, t, a, b: f"({a} {symbol} {b})"


def _extreme(symbol: str, real: bool) -> Callable[..., str]:
    def words(w: KernelWriter, t: str, a: str, b: str) -> str:
        better = f"({a} {symbol} {b})"
        return w.select(w.any_of(better, f"({a} != {a})") if real else better, a, b)

    return words


def _integer_division(w: KernelWriter, t: str, a: str, b: str, kind: str) -> str:
    # Divisors that trap are replaced by 1: 0, and -1, because the least integer divided by it overflows.
    zero, one, signed = w.constant(0, t), w.constant(1, t), t.startswith("i")
    minus = w.constant(-1, t) if signed else zero
    trap = w.any_of(f"({b} == {zero})", f"({b} == {minus})") if signed else f"({b} == {zero})"
    divisor = w.value(t, w.select(trap, one, b))
    quotient = w.value(t, w.truncating_division(a, divisor, t))
    if kind == "div":
        negative = w.select(f"({b} == {minus})", w.value(t, f"{zero} - {a}"), quotient) if signed else quotient
        return w.select(f"({b} == {zero})", zero, negative)
    # With a trapping divisor replaced by 1, the remainder is 0.
    rest = w.value(t, f"{a} - {quotient} * {divisor}")
    if kind == "fmod" or not signed:
        return rest
    adjust = w.all_of(f"({rest} != {zero})", f"(({rest} < {zero}) != ({b} < {zero}))")
    return w.select(adjust, w.value(t, f"{rest} + {b}"), rest)


def _float_mod(w: KernelWriter, t: str, a: str, b: str) -> str:
    zero = w.constant(0, t)
    rest = w.value(t, w.call("fmod", a, b))
    signed_zero = w.value(t, w.select(f"({b} < {zero})", w.constant(-0.0, t), zero))
    adjusted = w.value(t, w.select(f"(({rest} < {zero}) != ({b} < {zero}))", w.value(t, f"{rest} + {b}"), rest))
    return w.select(f"({rest} == {zero})", signed_zero, adjusted)


def _pow(w: KernelWriter, node: TypedExpression, a: str, b: str) -> str:
    base, exponent = node.operands
    t = compute_dtype(base.dtype)
    if exponent.operator == "const":
        number = float(exponent.parameters[0])
        if number in _POWERS:
            return _POWERS[number].format(a)
        if t.startswith("float") and number in (0.5, -1.0):
            return w.call("sqrt", a) if number > 0 else f"({w.constant(1, t)} / {a})"
    if t.startswith("float"):
        return w.call("pow", a, w.value(t, w.cast(t, b, exponent.dtype)))
    if exponent.dtype.startswith("float"):
        wide = [w.value("float64", w.cast("float64", each, dtype)) for each, dtype in ((a, t), (b, exponent.dtype))]
        power, whole = w.value("float64", w.call("pow", *wide)), w.value("float64", w.round_to_even(wide[1], "float64"))
        # An integer to a whole number is an integer; pow is inexact.
        exact = w.select(f"({whole} == {wide[1]})", w.value("float64", w.round_to_even(power, "float64")), power)
        return w.cast(t, w.value("float64", exact), "float64")
    return _integer_pow(w, t, a, b, exponent.dtype)


def _integer_pow(w: KernelWriter, t: str, a: str, b: str, given: str) -> str:
    zero, one = w.constant(0, t), w.constant(1, t)
    count = w.variable("int64", w.cast("int64", b, given))
    none = w.constant(0, "int64")
    negative = w.value("bool", f"({count} < {none})")
    odd = w.value("bool", f"(({count} & {w.constant(1, 'int64')}) != {none})")
    base, result = w.variable(t, a), w.variable(t, one)
    with w.while_block(f"{count} > {none}"):
        with w.if_block(f"({count} & {w.constant(1, 'int64')}) != {none}"):
            w.assign(result, t, f"{result} * {base}")
        w.assign(base, t, f"{base} * {base}")
        w.assign(count, "int64", f"{count} >> {w.constant(1, 'int64')}")
    sign = zero
    if t.startswith("i"):
        minus = w.constant(-1, t)
        sign = w.select(f"({a} == {minus})", w.select(odd, minus, one), zero)
    return w.select(negative, w.select(f"({a} == {one})", one, sign), result)


def _shift(w: KernelWriter, node: TypedExpression, a: str, b: str) -> str:
    dtype, given = node.dtype, node.operands[1].dtype
    bits = int(dtype.lstrip("uint"))
    count = w.value("int64", w.cast("int64", b, given))
    inside = w.value("bool", w.all_of(f"({count} >= 0)", f"({count} < {bits})"))
    amount = w.value(dtype, w.cast(dtype, w.value("int64", w.select(inside, count, w.constant(0, "int64"))), "int64"))
    symbol = "<<" if node.operator == "shift_left" else ">>"
    shifted = w.value(dtype, f"{a} {symbol} {amount}")
    zero = signs = w.constant(0, dtype)
    if symbol == ">>" and not dtype.startswith("u"):
        signs = w.value(dtype, w.select(f"({a} < {zero})", w.constant(-1, dtype), zero))
    return w.select(inside, shifted, signs)


def _sigmoid(w: KernelWriter, t: str, x: str) -> str:
    # Uses exp(-|x|): `power` needs arguments <= 0.
    one, small = w.constant(1, t), w.value(t, w.power(t, w.value(t, f"-{w.call('fabs', x)}")))
    part = w.value(t, f"{one} / ({one} + {small})")
    return w.select(f"({x} < {w.constant(0, t)})", f"{small} * {part}", part)


def _softplus(w: KernelWriter, t: str, x: str) -> str:
    positive = w.select(f"({x} > {w.constant(0, t)})", x, w.constant(0, t))
    # The logarithm propagates NaN.
    return f"({positive} + {w.call('log1p', w.power(t, w.value(t, '-' + w.call('fabs', x))))})"


def _elu(w: KernelWriter, t: str, x: str, alpha: float, inner: float = 1.0) -> str:
    below = x if inner == 1 else f"{x} / {w.constant(inner, t)}"
    return w.select(f"({x} < {w.constant(0, t)})", f"{w.constant(alpha, t)} * {w.call('expm1', below)}", x)


def _selu(w: KernelWriter, t: str, x: str, alpha: float, gamma: float) -> str:
    return f"{w.constant(gamma, t)} * {w.value(t, _elu(w, t, x, alpha))}"


def _clip(w: KernelWriter, t: str, x: str, low: float | None, high: float | None) -> str:
    for bound, symbol in ((low, "<"), (high, ">")):
        if bound is not None:
            value = w.constant(bound, t)
            x = w.value(t, w.select(f"({x} {symbol} {value})", value, x))
    return x


def _narrow(w: KernelWriter, t: str, x: str, bits: float, exponent: float) -> str:
    """Scale into [1, 2) by exact powers of two, below the least exponent into [0, 1); round there and scale back."""
    small = w.value("bool", f"({w.call('fabs', x)} < {w.constant(1, t)})")
    unit = w.value(t, w.select(small, w.constant(2.0**exponent, t), w.constant(1, t)))
    rest = w.value(t, w.select(small, f"{x} * {w.constant(2.0**-exponent, t)}", x))
    for step in (64, 32, 16, 8, 4, 2, 1):
        large = w.value("bool", f"({w.call('fabs', rest)} >= {w.constant(2.0**step, t)})")
        unit = w.value(t, w.select(large, f"{unit} * {w.constant(2.0**step, t)}", unit))
        rest = w.value(t, w.select(large, f"{rest} * {w.constant(2.0**-step, t)}", rest))
    rounded = w.value(t, w.round_to_even(w.value(t, f"{rest} * {w.constant(2.0**bits, t)}"), t))
    made = w.value(t, f"{rounded} * {w.constant(2.0**-bits, t)} * {unit}")
    return w.select(f"({w.call('fabs', x)} < {w.constant(math.inf, t)})", made, x)


def _bfloat16_bits(w: KernelWriter, t: str, x: str) -> str:
    """Add half a unit of the upper 16 bits, less if they are even; a NaN stays one."""
    bits = w.value("uint32", w.bits(x))
    sixteen, one = w.constant(16, "uint32"), w.constant(1, "uint32")
    odd = w.value("uint32", f"(({bits} >> {sixteen}) & {one})")
    rounded = w.value("uint32", f"(({bits} + {w.constant(0x7FFF, 'uint32')} + {odd}) >> {sixteen})")
    chosen = w.value("uint32", w.select(f"({x} == {x})", rounded, w.constant(0x7FC0, "uint32")))
    return w.cast("uint16", chosen, "uint32")


def _of_bfloat16_bits(w: KernelWriter, t: str, x: str) -> str:
    wide = w.value("uint32", w.cast("uint32", x, "uint16"))
    return w.of_bits(w.value("uint32", f"({wide} << {w.constant(16, 'uint32')})"))


def _hard_sigmoid(w: KernelWriter, t: str, x: str, alpha: float, beta: float) -> str:
    return _clip(w, t, w.value(t, f"{w.constant(alpha, t)} * {x} + {w.constant(beta, t)}"), 0, 1)


def _gelu(w: KernelWriter, t: str, x: str) -> str:
    erf = w.erf(t, w.value(t, f"{x} * {w.constant(math.sqrt(0.5), t)}"))
    return f"({w.constant(0.5, t)} * {x} * ({w.constant(1, t)} + {erf}))"


def _gelu_tanh(w: KernelWriter, t: str, x: str) -> str:
    cubed = w.value(t, f"{x} + {w.constant(0.044715, t)} * {x} * {x} * {x}")
    tanh = w.call("tanh", w.value(t, f"{w.constant(math.sqrt(2 / math.pi), t)} * {cubed}"))
    return f"({w.constant(0.5, t)} * {x} * ({w.constant(1, t)} + {tanh}))"


def _sign(w: KernelWriter, t: str, x: str) -> str:
    zero, one = w.constant(0, t), w.constant(1, t)
    below = x if t.startswith("u") else w.select(f"({x} < {zero})", w.constant(-1, t), x)
    return w.select(f"({x} > {zero})", one, below)


def _shrink(w: KernelWriter, t: str, x: str, lambd: float, bias: float) -> str:
    up = w.value(t, f"{x} + {w.constant(bias, t)}")
    down = w.value(t, f"{x} - {w.constant(bias, t)}")
    above = w.select(f"({x} > {w.constant(lambd, t)})", down, w.constant(0, t))
    return w.select(f"({x} < {w.constant(-lambd, t)})", up, above)


def _isinf(w: KernelWriter, t: str, x: str, negative: float, positive: float) -> str:
    bounds = [value for value, wanted in ((-math.inf, negative), (math.inf, positive)) if wanted]
    return w.any_of(*(f"({x} == {w.constant(bound, t)})" for bound in bounds))


def _scaled_below(w: KernelWriter, t: str, x: str, slope: str) -> str:
    return w.select(f"({x} < {w.constant(0, t)})", f"{slope} * {x}", x)


def _table() -> dict[tuple[str, str], Callable[..., str]]:
    words: dict[tuple[str, str], Callable[..., str]] = {}
    functions = ("exp", "log", "log1p", "expm1", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh")
    for name in (*functions, "tanh", "asinh", "acosh", "atanh"):
        words[name, ""] = _function(name)
    words["erf", ""] = lambda w, t, x: w.erf(t, x)
    for name in ("floor", "ceil", "trunc"):
        words[name, "float"], words[name, "whole"] = _function(name), lambda w, t, x: x
    symbols = {"add": "+", "sub": "-", "mul": "*", "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<="}
    symbols |= {"greater": ">", "greater_equal": ">=", "xor": "!=", "bit_and": "&", "bit_or": "|", "bit_xor": "^"}
    for name, symbol in symbols.items():
        words[name, ""] = _infix(symbol)
    for name in ("div", "mod", "fmod"):
        words[name, "whole"] = lambda w, t, a, b, kind=name: _integer_division(w, t, a, b, kind)
    for name, symbol in (("max", ">="), ("min", "<=")):
        words[name, "float"], words[name, "whole"] = _extreme(symbol, True), _extreme(symbol, False)
    words |= {
        ("div", "float"): _infix("/"),
        ("mod", "float"): _float_mod,
        ("fmod", "float"): lambda w, t, a, b: w.call("fmod", a, b),
        ("round", "float"): lambda w, t, x: w.round_to_even(x, t),
        ("round", "whole"): lambda w, t, x: x,
        ("neg", ""): lambda w, t, x: f"(-{x})",
        ("neg", "whole"): lambda w, t, x: f"({w.constant(0, t)} - {x})",
        ("abs", "float"): _function("fabs"),
        ("abs", "whole"): lambda w, t, x: x if t.startswith("u") else w.select(f"({x} < 0)", f"-{x}", x),
        ("sign", ""): _sign,
        ("relu", ""): lambda w, t, x: w.select(f"({x} < {w.constant(0, t)})", w.constant(0, t), x),
        ("square", ""): lambda w, t, x: f"({x} * {x})",
        ("rsqrt", ""): lambda w, t, x: f"({w.constant(1, t)} / {w.call('sqrt', x)})",
        ("reciprocal", ""): lambda w, t, x: f"({w.constant(1, t)} / {x})",
        ("sigmoid", ""): _sigmoid,
        ("softplus", ""): _softplus,
        ("softsign", ""): lambda w, t, x: f"({x} / ({w.constant(1, t)} + {w.call('fabs', x)}))",
        ("hard_swish", ""): lambda w, t, x: f"{x} * {_hard_sigmoid(w, t, x, 1 / 6, 0.5)}",
        ("gelu", ""): _gelu,
        ("gelu_tanh", ""): _gelu_tanh,
        ("silu", ""): lambda w, t, x: f"{x} * {_sigmoid(w, t, x)}",
        ("mish", ""): lambda w, t, x: f"{x} * {w.call('tanh', w.value(t, _softplus(w, t, x)))}",
        ("leaky_relu", ""): lambda w, t, x, alpha: _scaled_below(w, t, x, w.constant(alpha, t)),
        ("prelu", ""): lambda w, t, x, slope: _scaled_below(w, t, x, slope),
        ("elu", ""): _elu,
        ("celu", ""): lambda w, t, x, alpha: _elu(w, t, x, alpha, alpha),
        ("selu", ""): _selu,
        ("thresholded_relu", ""): lambda w, t, x, a: w.select(f"({x} > {w.constant(a, t)})", x, w.constant(0, t)),
        ("hard_sigmoid", ""): _hard_sigmoid,
        ("shrink", ""): _shrink,
        ("scale", ""): lambda w, t, x, alpha: f"({x} * {w.constant(alpha, t)})",
        ("narrow", ""): _narrow,
        ("bfloat16_bits", ""): _bfloat16_bits,
        ("of_bfloat16_bits", ""): _of_bfloat16_bits,
        ("clip", ""): _clip,
        ("isnan", ""): lambda w, t, x: f"({x} != {x})",
        ("isinf", ""): _isinf,
        ("and", ""): lambda w, t, a, b: w.all_of(a, b),
        ("or", ""): lambda w, t, a, b: w.any_of(a, b),
        ("not", ""): lambda w, t, x: w.negate(x),
        ("bit_not", ""): lambda w, t, x: f"(~{x})",
        ("where", ""): lambda w, t, condition, a, b: w.select(condition, a, b),
    }
    return words


#: Code generators by operator and kind of operands: "float", "whole" (integer), or "" for both.
GENERATORS = _table()
