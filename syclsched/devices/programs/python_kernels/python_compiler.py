# SPDX-License-Identifier: Apache-2.0
"""Compilation of Python kernels to SPIR-V: by the package's own compiler, or by numba-dpex where it is installed.

SPIR-V is looked up in the packs that were loaded, then in the user's cache on disk, both by content: the code of the
function and of all that it calls, its constants, the types of its arguments, and options. Neither imports a compiler.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Final

from syclsched.devices.native.sycl_types import SyclDevice
from syclsched.devices.programs.arguments import ArrayForm
from syclsched.devices.programs.bounded_cache import BoundedCache
from syclsched.devices.programs.program_cache import logger, program_cache
from syclsched.devices.programs.python_kernels import dpex_compiler, own_compiler, spirv_packs
from syclsched.devices.programs.python_kernels.spirv_key import cache_key, content_key
from syclsched.errors import ArgumentError, KernelCompilationError
from syclsched.kernel_compiler.compiled_kernel import Argument
from syclsched.kernel_compiler.python_kernel import COMPILERS, CompilerName, PythonKernel
from syclsched.model.operation import SpirvModule
from syclsched.oneapi import stack_generation

#: Variable: the compiler of kernels that name none, ``own`` or ``numba-dpex``.
VARIABLE: Final = "SYCLSCHED_KERNEL_COMPILER"


@dataclass(frozen=True, slots=True)
class _BackEnd:
    """A compiler of Python kernels."""

    form: ArrayForm  # how its kernels take arrays
    compile: Callable[[Any, tuple[Argument, ...], SyclDevice], SpirvModule]
    traits: Callable[[SyclDevice], tuple[str, ...]]  # facts of a device that change the code
    versions: Callable[[], tuple[str, ...]]


_BACK_ENDS: Final[dict[CompilerName, _BackEnd]] = {
    "own": _BackEnd(ArrayForm.EXTENTS, own_compiler.kernel_spirv, own_compiler.traits, own_compiler.versions),
    "numba-dpex": _BackEnd(
        ArrayForm.DESCRIPTOR, dpex_compiler.kernel_spirv, dpex_compiler.traits, dpex_compiler.versions
    ),
}

# Bounded, because an entry keeps its kernel alive.
_MODULES = BoundedCache(4096)


@dataclass(frozen=True, slots=True)
class CompiledPython:
    """A Python kernel in SPIR-V, and how it takes arrays."""

    module: SpirvModule
    form: ArrayForm


def compile_python(kernel: Any, arguments: tuple[Argument, ...], device: SyclDevice, where: str) -> CompiledPython:
    """Compile a `PythonKernel`, or a ``numba_dpex.kernel``, for arguments of the given types; cached, thread-safe."""
    compiler = compiler_of(kernel)
    back_end = _BACK_ENDS[compiler]
    key: Hashable = (kernel, arguments, compiler, back_end.traits(device))
    module: SpirvModule = _MODULES.get(key, lambda: _stored_or_made(kernel, compiler, arguments, device, where))
    return CompiledPython(module, back_end.form)


def compiler_of(kernel: Any) -> CompilerName:
    """Return the compiler of a kernel."""
    if not isinstance(kernel, PythonKernel):
        return "numba-dpex"
    return kernel.compiler or default_compiler()


def default_compiler() -> CompilerName:
    """Return the compiler of kernels that name none: numba-dpex where it can be used, else the package's own."""
    named = os.environ.get(VARIABLE, "").strip()
    for each in COMPILERS:
        if named == each:
            return each
    if named:
        raise ArgumentError(f"{named!r} is no compiler of Python kernels", where=VARIABLE, hint="Say own or numba-dpex")
    return "numba-dpex" if numba_dpex_can_be_used() else "own"


@lru_cache(maxsize=1)
def numba_dpex_can_be_used() -> bool:
    """Return whether numba-dpex is installed with packages that it works with."""
    return "numba-dpex" in stack_generation.installed().pins and find_spec("numba_dpex") is not None


def _stored_or_made(
    kernel: Any, compiler: CompilerName, arguments: tuple[Argument, ...], device: SyclDevice, where: str
) -> SpirvModule:
    """Return SPIR-V from a pack or the user's cache, or compile it."""
    back_end, cache = _BACK_ENDS[compiler], program_cache()
    content = content_key(kernel, compiler, arguments, back_end.traits(device))
    found = spirv_packs.find(content) if content is not None else None
    if found is not None:
        spirv_packs.note(content, found)
        return found
    key = None if content is None else cache_key(content, back_end.versions())
    found = cache.read_spirv(key) if cache is not None and key is not None else None
    if found is None:
        logger.debug("compiling Python kernel by %s: %s", compiler, where)
        try:
            found = back_end.compile(kernel, arguments, device)
        except KernelCompilationError as error:
            place = where if error.where is None else f"{where}, {error.where}"
            raise KernelCompilationError(error.what, where=place, hint=error.hint) from error
        if cache is not None and key is not None:
            cache.write_spirv(key, found)
    spirv_packs.note(content, found)
    return found
