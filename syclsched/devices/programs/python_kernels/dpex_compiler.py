# SPDX-License-Identifier: Apache-2.0
"""Compilation of numba-dpex kernels to SPIR-V. All use of numba-dpex's internals is in this file."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from syclsched import oneapi
from syclsched.devices.native.sycl_types import SyclDevice
from syclsched.devices.programs.python_kernels.function_references import with_replaced
from syclsched.errors import CapabilityError, KernelCompilationError
from syclsched.kernel_compiler import kernel_api
from syclsched.kernel_compiler.compiled_kernel import Argument, ArrayArgument, ItemArgument, ScalarArgument
from syclsched.kernel_compiler.python_kernel import CompilerExtension, DeviceFunction, PythonKernel
from syclsched.model.operation import SpirvModule

#: The code around numba's compiler here (overload tables, first refresh) is not thread-safe.
_LOCK = threading.RLock()


def versions() -> tuple[str, ...]:
    """Return the versions that the code depends on."""
    found = oneapi.load().versions
    return tuple(f"{name} {found.get(name)}" for name in ("numba-dpex", "numba", "dpctl", "dpcpp-llvm-spirv"))


def traits(device: SyclDevice) -> tuple[str, ...]:
    """Return the facts of a device that change the code."""
    return f"fp64 {device.has_aspect_fp64}", f"atomic64 {device.has_aspect_atomic64}"


def kernel_spirv(kernel: Any, arguments: tuple[Argument, ...], device: SyclDevice) -> SpirvModule:
    """Compile a kernel for arguments of the given types."""
    with _LOCK:
        prepare_compiler()
        made = dpex_kernel(kernel) if isinstance(kernel, PythonKernel) else kernel
        try:
            return _compile(made, _argument_types(arguments, _common_queue_type(device)))
        except KernelCompilationError:  # 64-bit atomic operations, or an error, which is to name the device
            return _compile(made, _argument_types(arguments, _queue_type(device)))


@lru_cache(maxsize=1024)
def dpex_kernel(kernel: PythonKernel) -> Any:
    """Return the ``numba_dpex.kernel`` of a kernel; the same one each time, because numba stores the code in it."""
    import numba_dpex

    if kernel.intrinsics is not None:
        _register(kernel.intrinsics)
    options = {"error_model": "numpy", **dict(kernel.options)}
    if kernel.fastmath:
        options["fastmath"] = True
    return numba_dpex.kernel(with_replaced(kernel.function, _counterpart), **options)


@lru_cache(maxsize=64)
def _register(intrinsics: Callable[[CompilerExtension], None]) -> None:
    """Register functions with numba-dpex's compiler, once."""
    from numba_dpex.core.descriptor import dpex_kernel_target
    from numba_dpex.core.types import USMNdArray
    from numba_dpex.kernel_api_impl.spirv.overloads._registry import lower

    intrinsics(CompilerExtension(lower, USMNdArray, dpex_kernel_target.target_context.data_model_manager))


def _counterpart(value: Any) -> Any:
    """Return numba-dpex's counterpart of a value that a kernel refers to: its own kernel API, a device function."""
    from numba_dpex import kernel_api as counterparts

    if isinstance(value, DeviceFunction):
        return _dpex_function(value)
    if value is kernel_api or getattr(value, "__name__", None) == "syclsched.kernel_api":
        return counterparts
    if str(getattr(value, "__module__", "")).startswith(kernel_api.__name__):
        name = getattr(value, "__name__", None)
        if name is None:  # a member of an enumeration
            return getattr(getattr(counterparts, type(value).__name__), value.name)
        return getattr(counterparts, name, value)
    return value


@lru_cache(maxsize=1024)
def _dpex_function(function: DeviceFunction) -> Any:
    import numba_dpex

    return numba_dpex.device_func(with_replaced(function.function, _counterpart))


def _compile(kernel: Any, types: tuple[Any, ...]) -> SpirvModule:
    import numba

    from syclsched.kernel_compiler.failures import explained

    if not (callable(getattr(kernel, "compile", None)) and hasattr(kernel, "overloads")):
        raise KernelCompilationError(f"load() returned {type(kernel).__name__}, not a syclsched.kernel")
    with explained(kernel.py_func):
        kernel.compile(numba.types.void(*types))
    module = kernel.overloads[types].kernel_device_ir_module
    return SpirvModule(bytes(module.kernel_bitcode), str(module.kernel_name))


@lru_cache(maxsize=1)
def prepare_compiler() -> None:
    """Import numba-dpex and make numba register its lowerings; once for a process.

    Without this, a kernel compiled before any host function could not use ``range`` and the like: numba registers them
    when the CPU target is first used.
    """
    try:
        import numba_dpex  # noqa: F401
        from numba.core.registry import cpu_target
        from numba_dpex.core.descriptor import dpex_kernel_target
    except ImportError as error:
        raise CapabilityError(
            f"numba-dpex cannot be imported: {error}", hint="python -m syclsched doctor says what is missing"
        ) from error
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    _register_once(dpex_kernel_target.target_context)


def _register_once(context: Any) -> None:
    """Make numba-dpex (0.23) register its lowerings twice, instead of at each of numba's look-ups.

    It registers some 900 lowerings at each look-up, thousands for a kernel. They are never removed and all are searched
    for each operation, so each kernel takes longer to compile than the one before. The second registration comes behind
    numba's own for the same types, and so takes precedence; later ones add new lowerings only.
    """
    from numba_dpex.dpnp_iface import dpnpimpl
    from numba_dpex.kernel_api_impl.spirv.math import mathimpl

    whole = (mathimpl.registry.functions, dpnpimpl.registry.functions)
    times, known = [0] * len(whole), [0] * len(whole)
    insert = context.insert_func_defn

    def insert_new(definitions: Any) -> None:
        for number, each in enumerate(whole):
            if definitions is each:
                definitions = each if times[number] < 2 else each[known[number] :]
                times[number], known[number] = times[number] + 1, len(each)
                break
        insert(definitions)

    context.insert_func_defn = insert_new


def _argument_types(arguments: tuple[Argument, ...], queue: Any) -> tuple[Any, ...]:
    from numba.np.numpy_support import from_dtype
    from numba_dpex.core.types import USMNdArray
    from numba_dpex.core.types.kernel_api.index_space_ids import ItemType, NdItemType

    types: list[Any] = []
    for each in arguments:
        if isinstance(each, ItemArgument):
            types.append(NdItemType(each.dimensions) if each.grouped else ItemType(each.dimensions))
        elif isinstance(each, ArrayArgument):
            dtype = from_dtype(np.dtype(each.dtype))
            # The USM kind does not change the generated code, so all kinds share one overload.
            types.append(USMNdArray(ndim=each.ndim, layout=each.layout, dtype=dtype, usm_type="device", queue=queue))
        elif isinstance(each, ScalarArgument):
            types.append(from_dtype(np.dtype(each.dtype)))
        else:
            raise KernelCompilationError(f"an argument of {each} needs numba-dpex's own launcher")
    return tuple(types)


#: The type of `_common_queue_type`, once it is made.
_COMMON: list[Any] = []


def _common_queue_type(device: SyclDevice) -> Any:
    """Return one queue type for the kernels of all devices, so that each kernel is compiled once.

    A type of another device changes a kernel's name, and whether 64-bit atomic operations are refused: here they are.
    """
    if not _COMMON:
        made = _new_queue_type(device)
        made._device_has_aspect_atomic64 = False
        _COMMON.append(made)
    return _COMMON[0]


@lru_cache(maxsize=64)
def _queue_type(device: SyclDevice) -> Any:
    """Return the queue type of a device: the same object each time, so that overloads are found again."""
    return _new_queue_type(device)


def _new_queue_type(device: SyclDevice) -> Any:
    import dpctl
    from numba_dpex.core.types.dpctl_types import DpctlSyclQueue

    return DpctlSyclQueue(dpctl.SyclQueue(_root(device)))


def _root(device: SyclDevice) -> Any:
    """Return the root device of a sub-device: numba-dpex needs a filter string, which only root devices have."""
    while (parent := device.parent_device) is not None:
        device = parent
    return device
