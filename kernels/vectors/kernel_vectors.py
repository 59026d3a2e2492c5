# SPDX-License-Identifier: Apache-2.0
"""A vector type for Python kernels, like OpenCL C's.

The language of Python kernels has scalars only. The device's compiler vectorises by itself, across neighbouring
work-items or in loops over a private array, but gives up where a maximum must propagate NaN, or where a value is
selected or stored in each row. So this module adds a SPIR-V vector type to the compilers of Python kernels, with the
operators and functions that kernels need. A scalar operand beside a vector is broadcast.

The modules imported in `register` require numba. They keep typers and lowerings of one subject each.
"""

from __future__ import annotations

from typing import Any, Final

from syclsched.kernel_compiler.python_kernel import CompilerExtension
from syclsched.kernels.vectors import vector_functions

#: The functions of `syclsched.kernels.vectors.vector_functions` by name, as kernels call them.
FUNCTIONS: Final[dict[str, Any]] = {
    each.__name__: each
    for each in (
        *(each for of_lanes in vector_functions.BY_LANES.values() for each in of_lanes),
        *(
            each
            for name, each in vars(vector_functions).items()
            if getattr(each, "__module__", "") == vector_functions.__name__ and not name.startswith("_")
        ),
    )
}


def register(extension: CompilerExtension) -> None:
    """Register `FUNCTIONS` with a compiler; for vectors also + - * /, comparisons, and & | ~ of conditions."""
    from syclsched.kernels.vectors import (
        vector_lanes,
        vector_mathematics,
        vector_memory,
        vector_operators,
        vector_type,
    )

    vector_type.add_model(extension)
    for module in (vector_operators, vector_mathematics, vector_memory, vector_lanes):
        module.register(extension)
