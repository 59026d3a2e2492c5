# SPDX-License-Identifier: Apache-2.0
"""Compiler of Python kernels to SPIR-V: numba's front end and typing, LLVM, and LLVM's SPIR-V target.

`compile_kernel` compiles a function for given types of its arguments::

    from syclsched.kernel_compiler import ArrayArgument, ItemArgument, compile_kernel

    def add(item, a, b, c):
        i = item.get_id(0)
        c[i] = a[i] + b[i]

    vector = ArrayArgument("float32", ndim=1)
    kernel = compile_kernel(add, (ItemArgument(1), vector, vector, vector))

``kernel.spirv`` is a module with the entry point ``kernel.name``; ``kernel.parameters`` says in order what its
arguments hold (`KernelParameter`). The first Python argument, the item, is no kernel argument. Dimension 0 of an item
is OpenCL's dimension 0, as with numba-dpex. What the code does depends on the function, the types and the options
alone; LLVM may number the same instructions in another way each time.

What a kernel may use: `syclsched.kernel_compiler.kernel_api` (``Item``, ``NdItem``, ``Group``, ``PrivateArray``,
``LocalAccessor``, ``AtomicRef``, ``group_barrier``, ``atomic_fence``), functions marked with `device_function`,
Python's numbers, tuples, loops and conditions, ``math``, ``cmath``, NumPy's universal functions on scalars. Names are
imported on first use: numba is imported by the first compilation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syclsched.lazy_names import lazy_names

if TYPE_CHECKING:
    from syclsched.kernel_compiler.compilation import compile_kernel
    from syclsched.kernel_compiler.compiled_kernel import (
        Argument,
        ArrayArgument,
        CompiledKernel,
        ItemArgument,
        KernelOptions,
        KernelParameter,
        LocalArgument,
        Part,
        ScalarArgument,
    )
    from syclsched.kernel_compiler.target.device_functions import device_function

__all__ = [
    "Argument",
    "ArrayArgument",
    "CompiledKernel",
    "ItemArgument",
    "KernelOptions",
    "KernelParameter",
    "LocalArgument",
    "Part",
    "ScalarArgument",
    "compile_kernel",
    "device_function",
]

_PACKAGE = "syclsched.kernel_compiler"
__getattr__ = lazy_names(
    _PACKAGE,
    dict.fromkeys(__all__, f"{_PACKAGE}.compiled_kernel")
    | {
        "compile_kernel": f"{_PACKAGE}.compilation",
        "device_function": f"{_PACKAGE}.target.device_functions",
    },
)
