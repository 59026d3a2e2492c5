# SPDX-License-Identifier: Apache-2.0
"""Pure functions that run as machine code: made when the package is built, or compiled by numba on first use.

The build compiles the functions for the argument types that the package uses (``tools/machine_code``). A call finds its
machine code by a digest of the function, the argument types and the sources (`syclsched.compiled.machine_code`); numba
is not imported. For other types, changed sources, a processor below the instruction set of the build, or a build
without a C compiler, numba compiles the function on its first call and stores the machine code on disk
(`syclsched.compiled.dispatchers`). Results are the same.
"""

from syclsched.compiled.functions import call_address, compiled, lean, precompile, specialised

__all__ = ["call_address", "compiled", "lean", "precompile", "specialised"]
