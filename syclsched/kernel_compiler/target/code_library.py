# SPDX-License-Identifier: Apache-2.0
"""numba's code generation interface: LLVM modules with the layout of SPIR-V, linked into one for each kernel."""

from __future__ import annotations

from typing import Any

from llvmlite import binding as llvm
from llvmlite import ir
from numba.core import cgutils
from numba.core.codegen import Codegen, CodeLibrary

from syclsched.kernel_compiler.target import spirv

#: Calling conventions of kernels and of functions in LLVM IR for SPIR-V.
KERNEL_CONVENTION = "spir_kernel"
FUNCTION_CONVENTION = "spir_func"


class KernelLibrary(CodeLibrary):  # type: ignore[misc]
    """The LLVM module of a function, and the libraries of the functions that it calls."""

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self._module: Any = None
        self._callees: dict[KernelLibrary, None] = {}

    def add_ir_module(self, module: Any) -> None:
        """Add a module made with llvmlite's builder; its functions will be inlined wherever they are called."""
        for function in module.functions:
            if not function.is_declaration:
                function.attributes.discard("noinline")
                function.attributes.add("alwaysinline")
        text = cgutils.normalize_ir_text(str(module))
        self._module = llvm.parse_assembly(text) if self._module is None else _linked(self._module, text)

    def add_linking_library(self, library: Any) -> None:
        """Note a library whose functions are called."""
        self._callees[library] = None

    def finalize(self) -> None:
        """End the changes."""
        self._finalized = True

    def linked_module(self) -> Any:
        """Return a new module with all code that the functions need."""
        whole = self._module.clone()
        for library in self._all_callees():
            whole.link_in(library._module, preserve=True)
        return whole

    def _all_callees(self) -> dict[KernelLibrary, None]:
        seen: dict[KernelLibrary, None] = {}
        left = list(self._callees)
        while left:
            library = left.pop()
            if library is not self and library not in seen:
                seen[library] = None
                left += library._callees
        return seen

    def get_function(self, name: str) -> Any:
        """Return a function of the module."""
        return self._module.get_function(name)

    def get_llvm_str(self) -> str:
        """Return the module's text."""
        return str(self._module)

    def get_asm_str(self) -> str:
        """Return nothing: there is machine code only for whole kernels."""
        return ""


def _linked(module: Any, text: str) -> Any:
    module.link_in(llvm.parse_assembly(text))
    return module


class KernelCodegen(Codegen):  # type: ignore[misc]
    """Maker of empty modules and libraries."""

    _library_class = KernelLibrary

    def __init__(self) -> None:
        self._data_layout = spirv.data_layout()
        self._target_data = llvm.create_target_data(self._data_layout)

    def _create_empty_module(self, name: str) -> Any:
        module = ir.Module(cgutils.normalize_ir_text(name))
        module.triple = spirv.triple()
        module.data_layout = self._data_layout
        return module

    def _add_module(self, module: Any) -> None:
        """Accept a module without further work."""
