# SPDX-License-Identifier: Apache-2.0
"""Calls of OpenCL's and SPIR-V's own functions, by the mangled names that LLVM translates to instructions."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba.core import cgutils

from syclsched.kernel_compiler.target.code_library import FUNCTION_CONVENTION

#: SYCL promises that no index exceeds 31 bits; so indices are known not to be negative.
_INDEX_LIMIT: Final = 2**31
#: Letters of the Itanium C++ ABI for types.
_LETTERS: Final = {"i8": "c", "i16": "s", "i32": "i", "i64": "l", "half": "Dh", "float": "f", "double": "d", "i1": "b"}
_UNSIGNED_LETTERS: Final = {"i8": "h", "i16": "t", "i32": "j", "i64": "m"}


def letter(kind: Any, *, unsigned: bool = False) -> str:
    """Return the mangled name of an LLVM type."""
    if isinstance(kind, ir.PointerType):
        pointee = letter(kind.pointee, unsigned=unsigned)
        return f"PU3AS{kind.addrspace}{pointee}" if kind.addrspace else f"P{pointee}"
    if isinstance(kind, ir.VectorType):
        return f"Dv{kind.count}_{letter(kind.element, unsigned=unsigned)}"
    return (_UNSIGNED_LETTERS if unsigned else {}).get(str(kind)) or _LETTERS[str(kind)]


def mangled(name: str, letters: str) -> str:
    """Return the mangled name of a function with mangled argument types."""
    return f"_Z{len(name)}{name}{letters}"


def call(builder: Any, name: str, result: Any, arguments: Any, *attributes: str) -> Any:
    """Call a function by its mangled name."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    function.calling_convention = FUNCTION_CONVENTION
    for attribute in ("nounwind", *attributes):
        function.attributes.add(attribute)
    return builder.call(function, arguments)


def work_item_function(builder: Any, name: str, axis: Any) -> Any:
    """Return an index or extent of the calling work-item in one dimension."""
    index = ir.IntType(64)
    value = call(builder, mangled(name, "j"), index, [axis], "readnone")
    limits = [ir.Constant(index, 0), ir.Constant(index, _INDEX_LIMIT)]
    value.set_metadata("range", builder.module.add_metadata(limits))
    return value
