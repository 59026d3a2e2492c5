# SPDX-License-Identifier: Apache-2.0
"""Calls of OpenCL's functions on vectors wider than a processor's registers, replaced by calls on parts of them.

A driver's library of functions is compiled C. On CPUs, C passes a vector wider than the registers in memory. A driver
that links a kernel's calls with the library as they are, such as PoCL 6, then computes with other numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from llvmlite import binding as llvm
from llvmlite import ir

from syclsched.kernel_compiler.target.code_library import FUNCTION_CONVENTION
from syclsched.kernel_compiler.target.optimisation import inline

#: A declaration in LLVM's text: result, name and parameters.
_DECLARATION: Final = re.compile(r"^declare [^<@\n]*(<\d+ x \w+>) @\"?([\w.]+)\"?\((.*)\)", re.MULTILINE)
_PARAMETER: Final = re.compile(r"(<\d+ x \w+>|\w+)[^,]*")
_VECTOR: Final = re.compile(r"<(\d+) x (\w+)>")
#: LLVM's functions that SPIR-V has as OpenCL's; the last part of the name is the type.
_INTRINSIC: Final = re.compile(r"(llvm\..+)\.v\d+(\w+)")
_ELEMENTS: Final = {
    "float": (ir.FloatType(), 32),
    "double": (ir.DoubleType(), 64),
    **{f"i{bits}": (ir.IntType(bits), bits) for bits in (8, 16, 32, 64)},
}


@dataclass(frozen=True)
class _Callee:
    """A function of vectors with its name in the module, and the function of the parts' type."""

    name: str
    part_name: str
    element: Any
    lanes: int
    part_lanes: int
    is_vector: tuple[bool, ...]  # of each parameter; the others are flags

    @property
    def defined_name(self) -> str:
        """The name of the function that calls the other on parts: LLVM's own names cannot be defined."""
        return f"parts.{self.name}" if self.name.startswith("llvm.") else self.name


def split_vector_calls(module: Any, kernel: str, vector_bits: int | None) -> Any:
    """Return a module whose calls pass vectors of at most this many bits; for None, the module as it is."""
    if vector_bits is None:
        return module
    text = str(module)
    callees = [each for found in _DECLARATION.finditer(text) if (each := _wide_callee(found, vector_bits)) is not None]
    if not callees:
        return module
    for each in callees:
        if each.defined_name != each.name:
            text = text.replace(f"@{each.name}(", f"@{each.defined_name}(")
    whole = llvm.parse_assembly(text.replace("immarg", ""))
    for each in callees:
        whole.link_in(llvm.parse_assembly(str(_definition(each))))
    inline(whole, kernel)
    return whole


def _wide_callee(declaration: re.Match[str], vector_bits: int) -> _Callee | None:
    """Return the function of a declaration if it takes vectors of more bits."""
    result, name, parameters = declaration.groups()
    lanes_text, element_name = _VECTOR.fullmatch(result).groups()  # type: ignore[union-attr]
    if element_name not in _ELEMENTS:
        return None
    element, bits = _ELEMENTS[element_name]
    lanes, part_lanes = int(lanes_text), max(vector_bits // bits, 1)
    kinds = _PARAMETER.findall(parameters)
    if lanes <= part_lanes or lanes % part_lanes or not {*kinds} <= {result, "i1"}:
        return None
    intrinsic = _INTRINSIC.fullmatch(name)
    if intrinsic is not None:
        part_name = f"{intrinsic.group(1)}.v{part_lanes}{intrinsic.group(2)}"
    elif f"Dv{lanes}_" in name:
        part_name = name.replace(f"Dv{lanes}_", f"Dv{part_lanes}_")
    else:
        return None
    return _Callee(name, part_name, element, lanes, part_lanes, tuple(each == result for each in kinds))


def _definition(callee: _Callee) -> ir.Module:
    """Return a module that defines a function by calls on parts."""
    module = ir.Module(callee.name)
    whole, part, flag = (
        ir.VectorType(callee.element, callee.lanes),
        ir.VectorType(callee.element, callee.part_lanes),
        ir.IntType(1),
    )
    function, called = (
        ir.Function(module, ir.FunctionType(kind, [kind if each else flag for each in callee.is_vector]), name)
        for kind, name in ((whole, callee.defined_name), (part, callee.part_name))
    )
    if not callee.name.startswith("llvm."):
        function.calling_convention = called.calling_convention = FUNCTION_CONVENTION
    function.attributes.add("alwaysinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    parts = [
        builder.call(
            called,
            [
                _lanes(builder, each, first, callee.part_lanes) if is_vector else flag(0)
                for each, is_vector in zip(function.args, callee.is_vector, strict=True)
            ],
            cconv=called.calling_convention,
        )
        for first in range(0, callee.lanes, callee.part_lanes)
    ]
    while len(parts) > 1:
        parts = [_joined(builder, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    builder.ret(parts[0])
    return module


def _lanes(builder: ir.IRBuilder, vector: Any, first: int, count: int) -> Any:
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), _mask(first, count))


def _joined(builder: ir.IRBuilder, a: Any, b: Any) -> Any:
    return builder.shuffle_vector(a, b, _mask(0, 2 * a.type.count))


def _mask(first: int, count: int) -> ir.Constant:
    return ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(first, first + count)))
