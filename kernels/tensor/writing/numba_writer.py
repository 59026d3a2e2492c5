# SPDX-License-Identifier: Apache-2.0
"""Code generator for Python kernels."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from syclsched.kernel_compiler.kernel_api import PrivateArray
from syclsched.kernel_compiler.python_kernel import PythonKernel
from syclsched.kernels.common import NUMBA_DTYPES
from syclsched.kernels.tensor.writing.kernel_writer import LANES, UNSIGNED, KernelWriter
from syclsched.kernels.vectors import kernel_vectors
from syclsched.model.operation import Parameter, Signature


def numba_writer(signature: Signature, parameters: tuple[Parameter, ...]) -> KernelWriter:
    """Return a `KernelWriter` whose ``finish`` returns a `PythonKernel`."""
    return _NumbaWriter(signature, parameters)


class _NumbaWriter(KernelWriter):
    """Writer of Python source; dtypes are called as functions: ``float32(x)``."""

    item, items = "item.get_global_id(0)", "item.get_global_range(0)"
    group, groups = "item.get_group().get_group_id(0)", "item.get_group().get_group_range(0)"
    local, width = "item.get_local_id(0)", "item.get_local_range(0)"
    plane_row, plane_column = "item.get_global_id(1)", "item.get_global_id(0)"

    def __init__(self, signature: Signature, parameters: tuple[Parameter, ...]) -> None:
        super().__init__(signature, parameters)
        self._constants: dict[tuple[str, str], str] = {}

    def _at(self, array: str, index: str) -> str:
        return f"{array}[{flat_index(len(self.signature.shapes[array]), index)}]"

    def extents(self, array: str, contained: Container[int] = ()) -> tuple[str, ...]:
        return tuple(self.index(f"{array}.shape[{axis}]") for axis in range(len(self.signature.shapes[array])))

    def index(self, expression: str) -> str:
        name = self.fresh("i")
        self.line(f"{name} = {expression}")
        return name

    def value(self, dtype: str, expression: str) -> str:
        name = self.fresh()
        self.assign(name, dtype, expression)
        return name

    def loaded(self, dtype: str, expression: str) -> str:
        return self.index(expression)  # a conversion to the same dtype takes time to compile

    def variable(self, dtype: str | None, expression: str) -> str:
        name = self.fresh("v")
        self.assign(name, dtype, expression)
        return name

    def assign(self, name: str, dtype: str | None, expression: str) -> None:
        if self._lanes > 1 or dtype in (None, "bool"):
            self.line(f"{name} = {expression}")
        else:
            self.line(f"{name} = {dtype}({expression})")

    def store(self, array: str, index: str, value: str) -> None:
        whole = self.signature.dtypes[array] == "bool"
        self.line(f"{self._at(array, index)} = {value}" if whole else f"store({array}, {index}, {value})")

    def private(self, dtype: str, size: int) -> str:
        name = self.fresh("a")
        self.line(f"{name} = PrivateArray({size}, {'uint8' if dtype == 'bool' else dtype})")
        return name

    @contextmanager
    def loop(self, start: str, stop: str, step: str = "1", *, short: bool = False) -> Iterator[str]:
        name = self.fresh("k")
        with self.block(f"for {name} in range({start}, {stop}, {step}):"):
            yield name

    def if_block(self, condition: str) -> Any:
        return self.block(f"if {condition}:")

    def while_block(self, condition: str) -> Any:
        return self.block(f"while {condition}:")

    def load(self, array: str, index: str) -> str:
        return self._at(array, index) if self.signature.dtypes[array] == "bool" else f"load({array}, {index})"

    def constant(self, value: Any, dtype: str) -> str:
        if dtype == "bool":
            return "True" if value else "False"
        key = (dtype, repr(value))
        return self._constants.setdefault(key, f"c{len(self._constants)}")

    def cast(self, dtype: str, value: str, given: str) -> str:
        if dtype == "bool":
            return value if given == "bool" else f"({value} != 0)"
        if given.startswith("float") and dtype in UNSIGNED:
            wrapped = f"{dtype}(int64({value}))"
            return f"({wrapped} if {value} < 0 else uint64({value}))" if dtype == "uint64" else wrapped
        return f"{dtype}({value})"

    def bits(self, x: str) -> str:
        return f"bits({x})"

    def of_bits(self, x: str) -> str:
        return f"of_bits({x})"

    def select(self, condition: str, yes: str, no: str) -> str:
        return f"choose({condition}, {yes}, {no})" if self._lanes > 1 else f"({yes} if {condition} else {no})"

    def call(self, function: str, *operands: str) -> str:
        return f"{'math.' if self._lanes == 1 else 'v'}{function}({', '.join(operands)})"

    def better_or_nan(self, symbol: str, x: str, best: str) -> str:
        # Comparisons with a NaN are false.
        opposite = {">": "<=", "<": ">="}[symbol]
        return self.all_of(self.negate(f"({x} {opposite} {best})"), f"({best} == {best})")

    def unordered(self, a: str, b: str) -> str:
        return f"unordered({a}, {b})"

    def power(self, dtype: str, x: str) -> str:
        return f"vpower({x})" if self._lanes > 1 or dtype == "float32" else self.call("exp", x)

    def erf(self, dtype: str, x: str) -> str:
        return f"verf({x})" if self._lanes > 1 or dtype == "float32" else self.call("erf", x)

    def branch_free(self, function: str, *operands: str) -> str:
        return f"v{function}({', '.join(operands)})"

    def multiply_add(self, a: str, b: str, c: str) -> str:
        return f"vfma({a}, {b}, {c})" if self._lanes > 1 else f"({a} * {b} + {c})"

    def add_multiple(self, dtype: str, number: str, b: str, c: str) -> str:
        return f"vfma({number}, {b}, {c})"

    def div(self, a: str, b: str) -> str:
        return f"({a} // {b})"

    def all_of(self, *conditions: str) -> str:
        return f"({(' & ' if self._lanes > 1 else ' and ').join(conditions)})" if conditions else "True"

    def any_of(self, *conditions: str) -> str:
        return f"({(' | ' if self._lanes > 1 else ' or ').join(conditions)})" if conditions else "False"

    def negate(self, condition: str) -> str:
        return f"({'not ' if self._lanes == 1 else '~'}{condition})"

    def truncating_division(self, a: str, b: str, dtype: str) -> str:
        if self._lanes > 1:
            return f"quotient({a}, {b})"
        if dtype in UNSIGNED:
            return f"({a} // {b})"
        floor = self.value(dtype, f"{a} // {b}")
        rest = self.value(dtype, f"{a} - {floor} * {b}")
        return f"({floor} + 1 if {rest} != 0 and ({a} < 0) != ({b} < 0) else {floor})"

    def round_to_even(self, x: str, dtype: str) -> str:
        floor = self.value(dtype, f"math.floor({x})")
        rest = self.value(dtype, f"{x} - {floor}")
        half = self.constant(0.5, dtype)
        even = self.value(dtype, f"math.floor({floor} * {half})")
        odd = self.value(dtype, f"{floor} - {even} - {even}")
        one = self.constant(1.0, dtype)
        return f"({floor} + {one} if {rest} > {half} or ({rest} == {half} and {odd} == {one}) else {floor})"

    def vector_group(self, dtype: str, expression: str, vectors: int = 1) -> str:
        name = self.fresh("w")
        for number in range(vectors):
            self.line(f"{name}_{number} = splat({dtype}({expression}))")
        return name

    def places(self, dtype: str) -> str:
        return self.value(dtype, f"places({self.constant(0, dtype)})")

    def load_vector(self, array: str, index: str) -> str:
        return f"load_vector{self._narrow()}({array}, {index})"

    def _narrow(self) -> str:
        return "" if self._lanes == LANES else str(self._lanes)

    def spread(self, dtype: str, value: str) -> str:
        return value if self._lanes == 1 else f"splat{self._narrow()}({value})"

    def load_strided(self, array: str, index: str, stride: str) -> str:
        return f"load_strided{self._narrow()}({array}, {index}, {stride})"

    def store_strided(self, array: str, index: str, value: str, stride: str) -> None:
        self.line(f"store_strided({array}, {index}, {stride}, {value})")

    def load_second(self, array: str, index: str) -> str:
        return f"load_second({array}, {index})"

    def store_vector(self, array: str, index: str, value: str, given: str) -> None:
        self.line(f"store_vector({array}, {index}, {value})")

    def halves(self, vector: str) -> tuple[str, str]:
        return f"low({vector})", f"high({vector})"

    def transpose_tile(self, to: str, y_apart: str, start: str, x_apart: str) -> None:
        self.line(f"turn(y, {to}, {y_apart}, x, {start}, {x_apart})")

    def finish(self) -> Any:
        names = [p.name for p in self.parameters]
        text = "\n".join(
            [
                f"def kernel_(item, {', '.join(names)}):",
                *(self.lines or ["  pass"]),
                "",
            ]
        )
        return python_kernel(text, "kernel_", tuple((name, *key) for key, name in self._constants.items()))


def flat_index(rank: int, index: str = "i") -> str:
    """Return the subscript of an element of a contiguous array by its number in memory order."""
    # Indices are not bounds-checked and the array is contiguous, so the last axis reaches every element. numba would
    # test a signed index for being negative.
    return ", ".join([*["0"] * (rank - 1), f"uint64({index})"]) if rank else "()"


@lru_cache(maxsize=1024)
def python_kernel(
    text: str, name: str, constants: tuple[tuple[str, str, str], ...] = (), real: str = "float32"
) -> PythonKernel:
    """Return the kernel of a source text, in which ``real`` is a dtype; cached, because compiled code is kept by it."""
    import numpy as np

    namespace: dict[str, Any] = {name: getattr(np, name) for name in NUMBA_DTYPES if name != "bool"}
    namespace |= kernel_vectors.FUNCTIONS
    namespace |= {"math": math, "PrivateArray": PrivateArray, "nan": math.nan, "inf": math.inf}
    namespace["real"] = np.dtype(real).type
    # Safe to execute: the text consists only of operators known here, and constants are reprs of numbers.
    namespace |= {
        name: np.dtype(dtype).type(float(number) if dtype.startswith("float") else int(number))
        for name, dtype, number in constants
    }
    exec(compile(text, "<syclsched generated kernel>", "exec"), namespace)
    return PythonKernel(namespace[name], intrinsics=kernel_vectors.register)
