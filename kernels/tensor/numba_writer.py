# SPDX-License-Identifier: Apache-2.0
"""Kernels put into Python as numba-dpex compiles it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

from syclsched.kernels.common import NUMBA_DTYPES
from syclsched.kernels.tensor.writer import BLOCK_VECTORS, LANES, STEP_VECTORS, UNSIGNED, Writer
from syclsched.model.operation import Parameter, Signature


def numba_writer(signature: Signature, parameters: tuple[Parameter, ...]) -> Writer:
    """Return a `Writer` whose ``finish`` gives a ``numba_dpex.kernel``."""
    return _NumbaWriter(signature, parameters)


class _NumbaWriter(Writer):
    """Writes Python as numba-dpex compiles it; dtypes are called as functions, ``float32(x)``."""

    item, plane_row, plane_column = "item.get_global_id(0)", "item.get_global_id(1)", "item.get_global_id(0)"
    block_vectors, step_vectors = BLOCK_VECTORS["numba-dpex"], STEP_VECTORS["numba-dpex"]
    row_vectors = 1  # more take seconds to compile, and are no faster
    group, groups = "item.get_group().get_group_id(0)", "item.get_group().get_group_range(0)"
    local, width = "item.get_local_id(0)", "item.get_local_range(0)"

    def __init__(self, signature: Signature, parameters: tuple[Parameter, ...]) -> None:
        super().__init__(signature, parameters)
        self._constants: dict[tuple[str, str], str] = {}
        self._values: dict[str, tuple[str, str]] = {}

    def _at(self, array: str, index: str) -> str:
        return f"{array}[{flat_index(len(self.signature.shapes[array]), index)}]"

    def index(self, expression: str) -> str:
        name = self.fresh("i")
        self.line(f"{name} = {expression}")
        return name

    def value(self, dtype: str, expression: str) -> str:
        name = self.fresh()
        self.assign(name, dtype, expression)
        return name

    def variable(self, dtype: str | None, expression: str) -> str:
        name = self.fresh("v")
        self.assign(name, dtype, expression)
        return name

    def assign(self, name: str, dtype: str | None, expression: str) -> None:
        if dtype in (None, "bool"):
            self.line(f"{name} = {expression}")
        else:
            self.line(f"{name} = {dtype}({expression})")

    def store(self, array: str, index: str, value: str) -> None:
        self.line(f"{self._at(array, index)} = {value}")

    def private(self, dtype: str, size: int) -> str:
        name = self.fresh("a")
        self.line(f"{name} = PrivateArray({size}, {'uint8' if dtype == 'bool' else dtype})")
        return name

    @contextmanager
    def loop(self, start: str, stop: str, step: str = "1") -> Iterator[str]:
        name = self.fresh("k")
        with self.block(f"for {name} in range({start}, {stop}, {step}):"):
            yield name

    def when(self, condition: str) -> Any:
        return self.block(f"if {condition}:")

    def repeat(self, condition: str) -> Any:
        return self.block(f"while {condition}:")

    def load(self, array: str, index: str) -> str:
        return self._at(array, index)

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

    def select(self, condition: str, yes: str, no: str) -> str:
        return f"({yes} if {condition} else {no})"

    def call(self, function: str, *operands: str) -> str:
        return f"math.{function}({', '.join(operands)})"

    def div(self, a: str, b: str) -> str:
        return f"({a} // {b})"

    def both(self, *conditions: str) -> str:
        return f"({' and '.join(conditions)})" if conditions else "True"

    def either(self, *conditions: str) -> str:
        return f"({' or '.join(conditions)})" if conditions else "False"

    def negate(self, condition: str) -> str:
        return f"(not {condition})"

    def truncated(self, a: str, b: str, dtype: str) -> str:
        if dtype in UNSIGNED:
            return f"({a} // {b})"
        floor = self.value(dtype, f"{a} // {b}")
        rest = self.value(dtype, f"{a} - {floor} * {b}")
        return f"({floor} + 1 if {rest} != 0 and ({a} < 0) != ({b} < 0) else {floor})"

    def rounded(self, x: str, dtype: str) -> str:
        floor = self.value(dtype, f"math.floor({x})")
        rest = self.value(dtype, f"{x} - {floor}")
        half = self.constant(0.5, dtype)
        even = self.value(dtype, f"math.floor({floor} * {half})")
        odd = self.value(dtype, f"{floor} - {even} - {even}")
        one = self.constant(1.0, dtype)
        return f"({floor} + {one} if {rest} > {half} or ({rest} == {half} and {odd} == {one}) else {floor})"

    def wide(self, dtype: str, expression: str, vectors: int = 1) -> str:
        # An array each: longer ones do not become registers.
        name = self.fresh("w")
        for number in range(vectors):
            self.line(f"{name}_{number} = PrivateArray({LANES}, {dtype})")
            with self.loop("0", str(LANES)) as lane:
                self.assign(f"{name}_{number}[{lane}]", dtype, expression)
        return name

    def over_wide(self, vectors: int, body: Callable[[Callable[[str], str], str], None]) -> None:
        for number in range(vectors):
            with self.loop("0", str(LANES)) as lane:
                body(partial(_lane, number, lane), f"{number * LANES} + {lane}")

    def load_wide(self, array: str, index: str) -> str:
        return self.load(array, index)

    def store_wide(self, array: str, index: str, value: str, given: str) -> None:
        self.store(array, index, value)

    def fold_wide(self, wide: str, vectors: int, dtype: str, total: str, combine: Callable[[str, str], str]) -> None:
        for number in range(vectors):
            with self.loop("0", str(LANES)) as lane:
                self.assign(total, dtype, combine(total, f"{wide}_{number}[{lane}]"))

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


def _lane(number: int, lane: str, wide: str) -> str:
    return f"{wide}_{number}[{lane}]"


def flat_index(rank: int, index: str = "i") -> str:
    """Return what is put in brackets for an element of a contiguous array, counted in memory order.

    Parameters
    ----------
    rank : int
        Of the array.
    index : str, optional
        The element's number.
    """
    # Nothing checks an index against its axis, and the array is contiguous: the last axis reaches every element. A
    # signed index would be looked at for being negative.
    return ", ".join([*["0"] * (rank - 1), f"uint64({index})"]) if rank else "()"


@lru_cache(maxsize=1024)
def python_kernel(text: str, name: str, constants: tuple[tuple[str, str, str], ...] = ()) -> Any:
    """Return the numba-dpex kernel of a text, the same for the same text: numba keeps what it compiled with it.

    Parameters
    ----------
    text : str
        A function. It knows ``math``, ``PrivateArray``, and dtypes by their names.
    name : str
        Of the function.
    constants : tuple of (str, str, str), optional
        Name, dtype and value of each number it knows besides.
    """
    import numba_dpex
    import numpy as np
    from numba_dpex.kernel_api import PrivateArray

    known: dict[str, Any] = {name: getattr(np, name) for name in NUMBA_DTYPES if name != "bool"}
    known |= {"math": math, "PrivateArray": PrivateArray, "nan": math.nan, "inf": math.inf}
    # A constant's text is the repr of a number; the text of a kernel is made of such and of operators known here.
    known |= {
        name: np.dtype(dtype).type(float(number) if dtype.startswith("float") else int(number))
        for name, dtype, number in constants
    }
    exec(compile(text, "<syclsched generated kernel>", "exec"), known)
    return numba_dpex.kernel(known[name], error_model="numpy")
