# SPDX-License-Identifier: Apache-2.0
"""Branch-free single-precision functions, written once for OpenCL C and Python kernels.

A function is a sequence of `FloatOps` calls, each one operation on scalars or vectors. `opencl` emits them as OpenCL C
text, `syclsched.kernels.vectors.kernel_vectors` as LLVM instructions. Because control flow does not depend on the data,
compilers can vectorise the functions across neighbouring work-items.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

#: A function of an emitter (`FloatOps`) and operands.
Function = Callable[..., Any]


def operand_names(function: Function) -> list[str]:
    """Return the names of a function's operands; its first parameter, the `FloatOps`, is not one of them."""
    return [*inspect.signature(function).parameters][1:]


class FloatOps(ABC):
    """Elementary operations on floating-point numbers; a Python float is a constant."""

    @abstractmethod
    def binary(self, symbol: str, a: Any, b: Any) -> Any:
        """Add, subtract, multiply or divide: ``+``, ``-``, ``*`` or ``/``."""

    @abstractmethod
    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """Return ``a b + c``, rounded once."""

    @abstractmethod
    def choose(self, symbol: str, a: Any, b: Any, yes: Any, no: Any) -> Any:
        """Return ``yes`` or ``no`` by a comparison (``<`` or ``>``), which is false if a or b is NaN."""

    @abstractmethod
    def two_to(self, z: Any) -> Any:
        """Return the number whose biased exponent is in the low bits of ``z``, read as an integer."""

    @abstractmethod
    def magnitude(self, x: Any) -> Any:
        """Return the absolute value."""

    @abstractmethod
    def signed(self, x: Any, sign: Any) -> Any:
        """Return ``x`` with the sign of ``sign``."""

    @abstractmethod
    def near_inverse_root(self, x: Any) -> Any:
        """Return an approximation of x^(-1/2), accurate to 11 bits or more."""

    def polynomial(self, coefficients: Sequence[float], x: Any) -> Any:
        """Return the value of a polynomial, given its coefficients, constant term first.

        Estrin's scheme: neighbouring terms are combined in pairs, then the pairs. Its latency is a third of Horner's
        rule, for two or three more multiplications.
        """
        terms: list[Any] = [*coefficients]
        while len(terms) > 1:
            pairs = [self.fma(b, x, a) for a, b in zip(terms[::2], terms[1::2], strict=False)]
            terms = pairs + terms[len(pairs) * 2 :]
            x = self.binary("*", x, x) if len(terms) > 1 else x
        return terms[0]


class _OpenCLFloatOps(FloatOps):
    def __init__(self, width: int) -> None:
        self.suffix = "" if width == 1 else str(width)
        self.lines: list[str] = []

    def _named(self, text: str) -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(f"  const float{self.suffix} {name} = {text};\n")
        return name

    def _number(self, x: Any) -> str:
        return f"(float{self.suffix})({x!r}f)" if isinstance(x, float) else str(x)

    def binary(self, symbol: str, a: Any, b: Any) -> str:
        return self._named(f"{self._number(a)} {symbol} {self._number(b)}")

    def fma(self, a: Any, b: Any, c: Any) -> str:
        return self._named(f"fma({self._number(a)}, {self._number(b)}, {self._number(c)})")

    def choose(self, symbol: str, a: Any, b: Any, yes: Any, no: Any) -> str:
        given = [self._number(each) for each in (a, b, yes, no)]
        return self._named(f"{given[0]} {symbol} {given[1]} ? {given[2]} : {given[3]}")

    def two_to(self, z: Any) -> str:
        return self._named(f"as_float{self.suffix}(as_int{self.suffix}({z}) << 23)")

    def magnitude(self, x: Any) -> str:
        return self._named(f"fabs({x})")

    def signed(self, x: Any, sign: Any) -> str:
        return self._named(f"copysign({x}, {sign})")

    def near_inverse_root(self, x: Any) -> str:
        return self._named(f"native_rsqrt({x})")


def opencl(function: Function, name: str, width: int) -> str:
    """Return a function as OpenCL C."""
    words, given = _OpenCLFloatOps(width), operand_names(function)
    result = function(words, *given)
    kind = f"float{words.suffix}"
    # Without always_inline, compilers stop inlining many uses and pass the vectors through memory.
    head = f"inline __attribute__((always_inline)) {kind} {name}({', '.join(f'{kind} {each}' for each in given)}) {{\n"
    return f"{head}{''.join(words.lines)}  return {result};\n}}\n"
