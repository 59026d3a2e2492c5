# SPDX-License-Identifier: Apache-2.0
"""A vector type for numba-dpex kernels, like OpenCL C's.

numba-dpex has scalars only. The device's compiler vectorises by itself, across neighbouring work-items or in loops over
a private array, but gives up where a maximum must propagate NaN, or where a value is selected or stored in each row. So
this module adds a SPIR-V vector type to numba-dpex's compiler, with the operators and functions that kernels need. A
scalar operand beside a vector is broadcast.

The modules imported in `functions` require numba-dpex. They keep typers and lowerings of one subject each.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace


@cache
def functions() -> SimpleNamespace:
    """Return the functions of `syclsched.kernels.vectors.vector_functions`, registered with numba-dpex's compiler.

    Registered for vectors as well: + - * /, comparisons, and & | ~ of conditions.
    """
    from syclsched.kernels.vectors import vector_lanes, vector_mathematics, vector_memory, vector_operators

    modules = (vector_operators, vector_mathematics, vector_memory, vector_lanes)
    return SimpleNamespace(**{each.__name__: each for module in modules for each in module.register()})
