# SPDX-License-Identifier: Apache-2.0
"""Compilation of numba-dpex kernels to SPIR-V. All use of numba-dpex's internals is in this file."""

from __future__ import annotations

import re
import threading
from functools import lru_cache, partial
from typing import Any

import numpy as np

from syclsched.devices.native.sycl_types import SyclDevice
from syclsched.devices.programs.arguments import scalar_dtype
from syclsched.errors import CapabilityError
from syclsched.model.operation import Operation, Signature, SpirvModule

#: The code around numba's compiler here (overload tables, first refresh) is not thread-safe.
_LOCK = threading.RLock()
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class KernelCompilationError(Exception):
    """A kernel that numba-dpex cannot compile; the message summarises its explanation."""


def kernel_spirv(
    kernel: Any, operation: Operation, signature: Signature, ndim: int, *, grouped: bool, device: SyclDevice
) -> SpirvModule:
    """Compile a numba-dpex kernel for one signature."""
    with _LOCK:
        prepare_compiler()
        types = partial(_argument_types, operation, signature, ndim, grouped=grouped)
        try:
            return _compile(kernel, types(_common_queue_type(device)))
        except KernelCompilationError:  # 64-bit atomic operations, or an error, which is to name the device
            return _compile(kernel, types(_queue_type(device)))


def _compile(kernel: Any, types: tuple[Any, ...]) -> SpirvModule:
    import numba

    if not (callable(getattr(kernel, "compile", None)) and hasattr(kernel, "overloads")):
        raise KernelCompilationError(f"load() returned {type(kernel).__name__}, not a numba_dpex.kernel")
    try:
        kernel.compile(numba.types.void(*types))
    except Exception as error:  # numba raises a dozen unrelated types from as many compiler stages
        raise KernelCompilationError(_gist(error)) from error
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


def _argument_types(
    operation: Operation, signature: Signature, ndim: int, queue: Any, *, grouped: bool
) -> tuple[Any, ...]:
    from numba.np.numpy_support import from_dtype
    from numba_dpex.core.types import USMNdArray
    from numba_dpex.core.types.kernel_api.index_space_ids import ItemType, NdItemType

    types: list[Any] = [NdItemType(ndim) if grouped else ItemType(ndim)]
    for parameter in operation.parameters:
        if parameter.is_array:
            dtype = from_dtype(np.dtype(signature.dtypes[parameter.name]))
            rank = len(signature.shapes[parameter.name])
            # The USM kind does not change the generated code, so all kinds share one overload.
            types.append(USMNdArray(ndim=rank, layout="C", dtype=dtype, usm_type="device", queue=queue))
        else:
            types.append(from_dtype(np.dtype(scalar_dtype(parameter, signature))))
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


def _gist(error: BaseException) -> str:
    """Return the first lines of a numba error that describe the problem, with the place."""
    lines = [line.strip() for line in _ANSI.sub("", str(error)).splitlines()]
    lines = [line for line in lines if line and not line.startswith("Failed in ")]
    said: list[str] = []
    for line in lines:
        if line.startswith(("File ", "During:", "There are ")):
            break
        said.append(line)
    place = next((line for line in lines if line.startswith('File "')), "").rstrip(":")
    text = " ".join(said[:3]) or type(error).__name__
    return f"{text} ({place})" if place else text
