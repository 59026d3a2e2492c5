# SPDX-License-Identifier: Apache-2.0
"""Functions of single-precision numbers, without a branch or a call: written once, for OpenCL C and for numba-dpex.

A function is written as calls of `Words`, each of which does one thing to numbers, or to vectors of them. In OpenCL C
words are text (`opencl`); numba-dpex's compiler is given instructions (`syclsched.kernels.numba_vectors`). Both make
vectors of neighbouring work-items out of it, as nothing depends on what the numbers are.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

#: A function of some numbers.
Function = Callable[..., Any]


def operand_names(function: Function) -> list[str]:
    """Return the names of the numbers a function is of; before them, `Words` are given."""
    return [*inspect.signature(function).parameters][1:]


class Words(ABC):
    """What can be done to numbers; a Python float stands for itself."""

    @abstractmethod
    def binary(self, symbol: str, a: Any, b: Any) -> Any:
        """Add, subtract, multiply or divide: ``+``, ``-``, ``*`` or ``/``."""

    @abstractmethod
    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """Return ``a b + c``, rounded once."""

    @abstractmethod
    def choose(self, symbol: str, a: Any, b: Any, yes: Any, no: Any) -> Any:
        """Return one of two numbers, by a comparison (``<`` or ``>``) that does not hold beside a NaN."""

    @abstractmethod
    def two_to(self, z: Any) -> Any:
        """Return the number whose exponent, biased, is what the last bits of a number say, as a whole one."""

    @abstractmethod
    def magnitude(self, x: Any) -> Any:
        """Return a number without its sign."""

    @abstractmethod
    def signed(self, x: Any, sign: Any) -> Any:
        """Return a number with the sign of another."""

    @abstractmethod
    def near_inverse_root(self, x: Any) -> Any:
        """Return an approximation of a number to the power of -1/2, of some 11 bits or more."""

    def polynomial(self, coefficients: Sequence[float], x: Any) -> Any:
        """Return the value of a polynomial, given its coefficients from the constant term on.

        Neighbouring terms are joined in pairs, and those again (Estrin's scheme): a processor waits for a third of
        what it would with Horner's rule, and has two or three products more to do.
        """
        terms: list[Any] = [*coefficients]
        while len(terms) > 1:
            pairs = [self.fma(b, x, a) for a, b in zip(terms[::2], terms[1::2], strict=False)]
            terms = pairs + terms[len(pairs) * 2 :]
            x = self.binary("*", x, x) if len(terms) > 1 else x
        return terms[0]


class _OpenCL(Words):
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
    """Return a function in OpenCL C."""
    words, given = _OpenCL(width), operand_names(function)
    result = function(words, *given)
    kind = f"float{words.suffix}"
    # What is not told to be put in its place is called where there are many of it, with its vectors in memory.
    head = f"inline __attribute__((always_inline)) {kind} {name}({', '.join(f'{kind} {each}' for each in given)}) {{\n"
    return f"{head}{''.join(words.lines)}  return {result};\n}}\n"
