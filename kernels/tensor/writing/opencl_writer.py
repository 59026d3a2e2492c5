# SPDX-License-Identifier: Apache-2.0
"""Code generator for OpenCL C 1.2 kernels, which every OpenCL device supports."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import Any

from syclsched.kernels.common import C_TYPES, ITEM_BYTES, VECTOR_AT_ANY, transpose_shuffles
from syclsched.kernels.tensor.writing.extent_arguments import ExtentArguments
from syclsched.kernels.tensor.writing.kernel_writer import LANES, UNSIGNED, KernelWriter, compute_dtype
from syclsched.kernels.vectors import inverse_root, scaled_exponential
from syclsched.kernels.vectors.error_function import error_function
from syclsched.kernels.vectors.exponential import power
from syclsched.kernels.vectors.straight_line import Function, opencl
from syclsched.model.operation import OpenCLSource, Parameter, Signature

#: The least number that single precision does not hold.
_LARGE = 2.0**128
_BRANCH_FREE = scaled_exponential.FUNCTIONS | inverse_root.FUNCTIONS


def opencl_writer(
    signature: Signature, parameters: tuple[Parameter, ...], *, takes_extents: bool = False
) -> KernelWriter:
    """Return a `KernelWriter` whose ``finish`` returns an `OpenCLSource`.

    With ``takes_extents`` the kernel takes those that `KernelWriter.extents` returns as arguments.
    """
    return _OpenCLWriter(signature, parameters, takes_extents=takes_extents)


class _OpenCLWriter(KernelWriter):
    """Writer of OpenCL C 1.2 source."""

    item, items = "get_global_id(0)", "get_global_size(0)"
    group, groups, local, width = "get_group_id(0)", "get_num_groups(0)", "get_local_id(0)", "get_local_size(0)"
    plane_row, plane_column = "get_global_id(1)", "get_global_id(0)"

    def __init__(self, signature: Signature, parameters: tuple[Parameter, ...], *, takes_extents: bool) -> None:
        super().__init__(signature, parameters)
        self._arguments = ExtentArguments()
        self._takes_extents = takes_extents
        self._attribute = ""
        self._functions: dict[str, tuple[Function, int]] = {}
        self._types: dict[str, None] = {}  # definitions of vector types, in order
        self._private: set[str] = set()  # arrays of the work-item's own
        #: Whether every index into an array, packed weights included, fits into 31 bits.
        self._is_small = all(math.prod(shape) < 1 << 30 for shape in signature.shapes.values())

    def _type(self, dtype: str) -> str:
        return "bool" if dtype == "bool" else f"{C_TYPES[compute_dtype(dtype)]}{self._lanes if self._lanes > 1 else ''}"

    def extents(self, array: str, contained: Container[int] = ()) -> tuple[str, ...]:
        return tuple(
            str(n) if axis in contained else self.number(f"{array}_{axis}", n)
            for axis, n in enumerate(self.signature.shapes[array])
        )

    def number(self, name: str, value: int) -> str:
        # As an index, of 64 bits, so that products do not overflow.
        return self.index(self._arguments(name, value)) if self._takes_extents else str(value)

    def real(self, name: str, value: float, dtype: str) -> str | None:
        is_shared = self._takes_extents and compute_dtype(dtype) == "float32"
        return self.value(dtype, self._arguments.real(name, value)) if is_shared else None

    def index(self, expression: str) -> str:
        # Signed and of 64 bits: with indices that may wrap, the CPU compiler does not recognise contiguous access.
        name = self.fresh("i")
        self.line(f"const long {name} = {expression};")
        return name

    def value(self, dtype: str, expression: str) -> str:
        name = self.fresh()
        self.line(f"const {self._type(dtype)} {name} = {expression};")
        return name

    def variable(self, dtype: str | None, expression: str) -> str:
        name = self.fresh("v")
        self.line(f"{'long' if dtype is None else self._type(dtype)} {name} = {expression};")
        return name

    def assign(self, name: str, dtype: str | None, expression: str) -> None:
        self.line(f"{name} = {expression};")

    def store(self, array: str, index: str, value: str) -> None:
        half = self.signature.dtypes[array] == "float16"
        self.line(f"vstore_half_rte({value}, {index}, {array});" if half else f"{array}[{index}] = {value};")

    def private(self, dtype: str, size: int) -> str:
        name = self.fresh("a")
        self._private.add(name)
        self.line(f"{self._type(dtype)} {name}[{size}];")
        return name

    @contextmanager
    def loop(self, start: str, stop: str, step: str = "1", *, short: bool = False) -> Iterator[str]:
        name, dtype = self.fresh("k"), "int" if short and self._is_small else "long"
        with self.block(f"for ({dtype} {name} = {start}; {name} < {stop}; {name} += {step}) {{", "}"):
            yield name

    def if_block(self, condition: str) -> Any:
        return self.block(f"if ({condition}) {{", "}")

    def while_block(self, condition: str) -> Any:
        return self.block(f"while ({condition}) {{", "}")

    def load(self, array: str, index: str) -> str:
        dtype = self.signature.dtypes[array]
        if dtype == "float16":
            return f"vload_half({index}, {array})"
        return f"({array}[{index}] != 0)" if dtype == "bool" else f"{array}[{index}]"

    def constant(self, value: Any, dtype: str) -> str:
        kind = compute_dtype(dtype)
        if kind == "bool":
            return "true" if value else "false"
        if kind in ("float32", "float64"):
            return _c_float(float(value), kind)
        if kind == "uint64":
            return f"{int(value)}UL"
        if kind == "int64":
            return f"{int(value)}L" if value > -(2**63) else f"({int(value) + 1}L - 1)"
        return f"(({C_TYPES[kind]}){int(value)})"

    def parameter(self, value: Any, dtype: str) -> str:
        # Layers that differ in scales or lengths share code. 0, 1, -1, infinity and NaN stay in it: compilers simplify
        # by them.
        kind = compute_dtype(dtype)
        if value not in (0, 1, -1):
            if kind == "float32" and abs(value) < _LARGE:
                return self._arguments.real(self.fresh("number"), value)
            if kind == "int64" and abs(value) < 1 << 31:
                return f"((long){self._arguments(self.fresh('number'), int(value))})"
        return self.constant(value, dtype)

    def cast(self, dtype: str, value: str, given: str) -> str:
        if dtype == "bool":
            return value if given == "bool" else f"({value} != 0)"
        if dtype == "float16":
            return f"half_rounded({self.cast('float32', value, given)})"
        if dtype in ("float32", "float64") and given in ("int64", "uint64"):
            return f"{C_TYPES[dtype]}_of_{C_TYPES[given]}({value})"
        if given.startswith("float") and dtype in UNSIGNED:
            wrapped = f"({C_TYPES[dtype]})(long)({value})"
            return f"({value} < 0 ? {wrapped} : (ulong)({value}))" if dtype == "uint64" else wrapped
        return f"({C_TYPES[dtype]})({value})"

    def bits(self, x: str) -> str:
        return f"as_uint({x})"

    def of_bits(self, x: str) -> str:
        return f"as_float({x})"

    def select(self, condition: str, yes: str, no: str) -> str:
        return f"({condition} ? {yes} : {no})"

    def call(self, function: str, *operands: str) -> str:
        return f"{function}({', '.join(operands)})"

    def better_or_nan(self, symbol: str, x: str, best: str) -> str:
        return self.any_of(f"({x} {symbol} {best})", self.all_of(f"({x} != {x})", f"({best} == {best})"))

    def unordered(self, a: str, b: str) -> str:
        return f"isunordered({a}, {b})"

    def power(self, dtype: str, x: str) -> str:
        return self._straight_line("power", power, dtype, x) or self.call("exp", x)

    def erf(self, dtype: str, x: str) -> str:
        return self._straight_line("error_function", error_function, dtype, x) or self.call("erf", x)

    def _straight_line(self, name: str, function: Function, dtype: str, x: str) -> str | None:
        if dtype != "float32":
            return None
        self._functions.setdefault(f"{name}{self._lanes}", (function, self._lanes))
        return self.call(f"{name}{self._lanes}", x)

    def branch_free(self, function: str, *operands: str) -> str:
        self._functions.setdefault(f"{function}{self._lanes}", (_BRANCH_FREE[function], self._lanes))
        return self.call(f"{function}{self._lanes}", *operands)

    def multiply_add(self, a: str, b: str, c: str) -> str:
        return f"fma({a}, {b}, {c})"

    def add_multiple(self, dtype: str, number: str, b: str, c: str) -> str:
        # As a named vector, the number would occupy a register: sums of products took 7 % longer.
        return f"fma({self.spread(dtype, number)}, {b}, {c})"

    def div(self, a: str, b: str) -> str:
        if self._takes_extents and self._is_small and not b.isdigit():
            return f"(long)((uint)({a}) / (uint)({b}))"  # processors take up to three times as long for 64 bits
        return f"({a} / {b})"

    def all_of(self, *conditions: str) -> str:
        return f"({(' && ' if self._lanes == 1 else ' & ').join(conditions)})" if conditions else "true"

    def any_of(self, *conditions: str) -> str:
        return f"({(' || ' if self._lanes == 1 else ' | ').join(conditions)})" if conditions else "false"

    def negate(self, condition: str) -> str:
        return f"(!{condition})"

    def truncating_division(self, a: str, b: str, dtype: str) -> str:
        return f"({a} / {b})"

    def round_to_even(self, x: str, dtype: str) -> str:
        return f"rint({x})"

    def vector_group(self, dtype: str, expression: str, vectors: int = 1) -> str:
        self._whole_vectors(dtype)
        name = self.fresh("w")
        for number in range(vectors):
            self.line(f"{C_TYPES[compute_dtype(dtype)]}{LANES} {name}_{number} = {expression};")
        return name

    def keep_items_apart(self) -> None:
        self._whole_vectors("float32")

    def _whole_vectors(self, dtype: str) -> None:
        # The hint keeps the CPU compiler from vectorising over work-items: the kernel uses vectors itself.
        lanes = self._lanes if self._lanes > 1 else LANES
        self._attribute = f"__attribute__((vec_type_hint({C_TYPES[compute_dtype(dtype)]}{lanes}))) "

    def places(self, dtype: str) -> str:
        return self.value(dtype, f"({C_TYPES[dtype]}{LANES})({', '.join(map(str, range(LANES)))})")

    def load_vector(self, array: str, index: str) -> str:
        if array in self._private:
            return f"vload{self._lanes}(0, {array} + {index})"
        dtype = self.signature.dtypes[array]
        if dtype == "float16":
            return f"vload_half{self._lanes}(0, {array} + {index})"
        return f"(*(__global const {self._vector_at_any(dtype)}*)({array} + {index}))"

    def _vector_at_any(self, dtype: str) -> str:
        """Return the type of vectors in memory; their kernel is not vectorised over work-items."""
        self._whole_vectors(dtype)
        self._types[VECTOR_AT_ANY.format(C_TYPES[dtype], self._lanes, ITEM_BYTES[dtype])] = None
        return f"{C_TYPES[dtype]}{self._lanes}_at_any"

    def spread(self, dtype: str, value: str) -> str:
        if self._lanes == 1:
            return value
        self._whole_vectors(dtype)
        return f"({self._type(dtype)})({value})"

    def load_strided(self, array: str, index: str, stride: str) -> str:
        dtype, first = self.signature.dtypes[array], self.index(index)
        parts = [self.load(array, f"{first} + {lane} * {stride}") for lane in range(self._lanes)]
        return f"({self._type(dtype)})({', '.join(parts)})"

    def store_strided(self, array: str, index: str, value: str, stride: str) -> None:
        for lane in range(self._lanes):
            self.store(array, f"{index} + {lane} * {stride}", f"{value}.s{lane:x}")

    def load_second(self, array: str, index: str) -> str:
        first, second = self.load_vector(array, index), self.load_vector(array, f"{index} + {LANES - 1}")
        return f"({C_TYPES[compute_dtype(self.signature.dtypes[array])]}{LANES})({first}.even, {second}.odd)"

    def store_vector(self, array: str, index: str, value: str, given: str) -> None:
        dtype = self.signature.dtypes.get(array, given)
        if dtype == "float16":
            self.line(f"vstore_half{self._lanes}_rte({value}, 0, {array} + {index});")
            return
        if dtype != given:
            value = f"convert_{C_TYPES[dtype]}{self._lanes}({value})"
        if array in self._private:
            self.line(f"vstore{self._lanes}({value}, 0, {array} + {index});")
        else:
            self.line(f"*(__global {self._vector_at_any(dtype)}*)({array} + {index}) = {value};")

    def halves(self, vector: str) -> tuple[str, str]:
        return f"{vector}.lo", f"{vector}.hi"

    def _lines(self, start: str, apart: str, count: int) -> tuple[str, list[str]]:
        """Emit the loads of the first `LANES` elements of some lines of ``x``; return their C type and their names."""
        size = ITEM_BYTES[self.signature.dtypes["x"]]
        kind, name = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}[size], self.fresh("b")
        self._whole_vectors("uint32")
        lines = [f"{name}_{line}" for line in range(count)]
        for line, each in enumerate(lines):
            place = f"{start} + {line} * {apart}"
            self.line(f"{kind}{LANES} {each} = vload{LANES}(0, (__global const {kind}*)x + {place});")
        return kind, lines

    def interleave(self, to: str, start: str, apart: str, count: int) -> None:
        kind, lines = self._lines(start, apart, count)
        for part in range(count):
            found = lines[0]
            for line, each in list(enumerate(lines))[1:]:
                places = [divmod(part * LANES + lane, count) for lane in range(LANES)]
                # All elements of the first line are placed with those of the second, later ones stay where they are.
                kept = [column if line == 1 else lane for lane, (column, _) in enumerate(places)]
                taken = [LANES + c if of == line else k for k, (c, of) in zip(kept, places, strict=True)]
                found = f"shuffle2({found}, {each}, ({kind}{LANES})({', '.join(map(str, taken))}))"
            self.line(f"vstore{LANES}({found}, 0, (__global {kind}*)y + {to} + {part * LANES});")

    def transpose_tile(self, to: str, y_apart: str, start: str, x_apart: str) -> None:
        kind, lines = self._lines(start, x_apart, LANES)
        with self.block("{", "}"):
            self.line(f"{kind}{LANES} t;")
            for a, b, low, high in transpose_shuffles():
                masks = [f"({kind}{LANES})({', '.join(map(str, lanes))})" for lanes in (low, high)]
                self.line(f"t = shuffle2({lines[a]}, {lines[b]}, {masks[0]});")
                self.line(f"{lines[b]} = shuffle2({lines[a]}, {lines[b]}, {masks[1]}); {lines[a]} = t;")
        for line, each in enumerate(lines):
            self.line(f"vstore{LANES}({each}, 0, (__global {kind}*)y + {to} + {line} * {y_apart});")

    def finish(self) -> OpenCLSource:
        dtypes = self.signature.dtypes
        arguments = ", ".join(
            f"__global {'' if p.mode is not None and p.mode.writes else 'const '}{C_TYPES[dtypes[p.name]]}* restrict "
            f"{p.name}"
            for p in self.parameters
        )
        body = "\n".join(self.lines)
        head = (
            "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
            if "float64" in dtypes.values() or "double" in body
            else ""
        )
        head += "".join(self._types)
        for name, (function, width) in self._functions.items():
            head += opencl(function, name, width)
        for given in ("long", "ulong"):
            head += "".join(_of_long(to, given) for to in ("float", "double") if f"{to}_of_{given}(" in body)
        if "half_rounded" in body:
            head += (
                "static float half_rounded(float x) {\n"
                "  ushort bits;\n  vstore_half_rte(x, 0, (half*)&bits);\n  return vload_half(0, (half*)&bits);\n}\n"
            )
        head += f"__kernel {self._attribute}void kernel_({arguments}{self._arguments.declared})"
        return OpenCLSource(f"{head} {{\n{body}\n}}\n", "kernel_", extents=self._arguments.values)


def _of_long(to: str, given: str) -> str:
    """Return the source of an inline conversion of 64-bit integers to floating point."""
    # The CPU runtime's conversion is a library call per vector. Here the two halves of 32 bits become the mantissas of
    # doubles with the exponents of 2^52 and 2^84; these constants are subtracted, and the sum is rounded once. For
    # single precision it is rounded again: beyond 2^53, bits that a double cannot hold are first merged into a sticky
    # bit, so that the result equals a single rounding.
    signed = given == "long"
    bias = 2.0**84 + 2.0**52 + (2.0**63 if signed else 0.0)
    small = "(ulong)(x + (1L << 53)) < (1UL << 54)" if signed else "x < (1UL << 53)"
    joined = f"  x = {small} ? x : (x | ((x & 0x7ff) + 0x7ff)) & ~({given})0x7ff;\n" if to == "float" else ""
    return f"""#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
inline __attribute__((always_inline)) {to} {to}_of_{given}({given} x) {{
#ifdef cl_khr_fp64
{joined}  const double low = as_double((x & 0xffffffffL) | 0x4330000000000000L);
  const double high = as_double(((ulong)x >> 32) ^ {"0x4530000080000000UL" if signed else "0x4530000000000000UL"});
  return ({to})((high - {bias!r}) + low);
#else
  return ({to})x;
#endif
}}
"""


def _c_float(value: float, dtype: str) -> str:
    import numpy as np

    if math.isnan(value):
        return "NAN" if dtype == "float32" else "(double)NAN"
    number = np.dtype(dtype).type(value)
    if math.isinf(number):
        text = "INFINITY" if dtype == "float32" else "(double)INFINITY"
        return text if number > 0 else f"(-{text})"
    digits = repr(float(number)) if dtype == "float64" else str(number)
    return (
        f"({digits}{'f' if dtype == 'float32' else ''})"
        if number < 0
        else f"{digits}{'f' if dtype == 'float32' else ''}"
    )
