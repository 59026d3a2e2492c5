# SPDX-License-Identifier: Apache-2.0
"""Compilation of Python kernels to SPIR-V by the package's own compiler."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from syclsched import kernel_compiler
from syclsched.devices.backends.registry import backend_of_device
from syclsched.devices.native.sycl_types import SyclDevice
from syclsched.devices.programs.python_kernels.code_description import sources_digest
from syclsched.devices.programs.python_kernels.function_references import with_replaced
from syclsched.kernel_compiler.compiled_kernel import Argument, KernelOptions
from syclsched.kernel_compiler.python_kernel import CompilerExtension, DeviceFunction, PythonKernel
from syclsched.model.operation import SpirvModule

#: numba's tables of types and functions are not thread-safe.
_LOCK = threading.RLock()
#: Width in bits of the registers that every processor of SYCL's CPU devices has.
_LEAST_VECTOR_BITS: Final = 128


@lru_cache(maxsize=1)
def versions() -> tuple[str, ...]:
    """Return the inputs of the code: versions of the packages that make it, and the compiler's sources."""
    packages = tuple(f"{name} {_version(name)}" for name in ("numba", "llvmlite", "dpcpp-llvm-spirv"))
    return *packages, sources_digest(Path(kernel_compiler.__path__[0]))


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def traits(device: SyclDevice) -> tuple[str, ...]:
    """Return the facts of a device that change the code."""
    bits, atomics = _vector_bits(device), sorted(_float_atomics(device))
    vectors = () if bits is None else (f"vectors of {bits} bits",)
    return *vectors, *(f"atomic {each}" for each in atomics)


def _float_atomics(device: SyclDevice) -> frozenset[str]:
    return backend_of_device(device).float_atomics(device)


def _vector_bits(device: SyclDevice) -> int | None:
    """Return the bits of a CPU's vector registers; for other devices None."""
    return max(32 * device.native_vector_width_float, _LEAST_VECTOR_BITS) if device.is_cpu else None


def kernel_spirv(kernel: PythonKernel, arguments: tuple[Argument, ...], device: SyclDevice) -> SpirvModule:
    """Compile a kernel for arguments of the given types."""
    from syclsched.kernel_compiler.compilation import compile_kernel

    with _LOCK:
        if kernel.intrinsics is not None:
            _register(kernel.intrinsics)
        function = with_replaced(kernel.function, _counterpart)
        options = KernelOptions(kernel.fastmath, _float_atomics(device), vector_bits=_vector_bits(device))
        made = compile_kernel(function, arguments, options=options)
    return SpirvModule(made.spirv, made.name)


@lru_cache(maxsize=64)
def _register(intrinsics: Callable[[CompilerExtension], None]) -> None:
    """Register functions with the compiler, once."""
    from syclsched.kernel_compiler.target.contexts import lowering_registry
    from syclsched.kernel_compiler.target.kernel_types import DeviceArray, data_models

    intrinsics(CompilerExtension(lowering_registry.lower, DeviceArray, data_models))


def _counterpart(value: Any) -> Any:
    """Return the compiler's counterpart of a value that a kernel refers to: of a device function, its own."""
    return _compiled_function(value) if isinstance(value, DeviceFunction) else value


@lru_cache(maxsize=1024)
def _compiled_function(function: DeviceFunction) -> Any:
    from syclsched.kernel_compiler.target.device_functions import DeviceDispatcher

    return DeviceDispatcher(with_replaced(function.function, _counterpart))
