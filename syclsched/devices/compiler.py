# SPDX-License-Identifier: Apache-2.0
"""From a task's implementation to something that can be submitted to a queue, compiled once and remembered.

numba-dpex compiles and does not submit: its own launcher costs ten times what a bare submission costs. It makes SPIR-V,
which dpctl turns into a kernel; OpenCL C and ready SPIR-V take the same road from there.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from syclsched.devices.executables import (
    Executable,
    HostExecutable,
    KernelExecutable,
    LibraryExecutable,
    SequenceExecutable,
    Submission,
)
from syclsched.devices.spirv import KernelCompilationError, kernel_spirv
from syclsched.errors import CapabilityError, ExecutionError, SyclschedError
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Operation,
    Signature,
    SpirvModule,
)
from syclsched.model.sequence import Part

__all__ = ["Executable", "Submission", "compile_task"]

T = TypeVar("T")
MAX_DIMENSIONS = 3


class _Cache:
    """A bounded table that makes each entry once, whichever thread asks first; oldest use goes first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.RLock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the entry of a key, made now if there is none; what ``make`` raises is not remembered."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                found: T = self._entries[key]
                return found
            made = make()
            self._entries[key] = made
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)
            return made


# Bounded, as a program keeps its context, and those of closed devices must not pile up; but far from tight: the OpenCL
# CPU runtime keeps 1 to 2 MB for each program it has built, also when nobody refers to that any more. One that was
# dropped and is built again costs them twice.
_PROGRAMS = _Cache(4096)
_EXECUTABLES = _Cache(4096)


def compile_task(
    operation: Operation,
    implementation: Implementation,
    signature: Signature,
    queue: Any,
    limits: DeviceLimits | None,
) -> Executable:
    """Return an implementation compiled for one signature and the device of a queue; remembered, thread-safe.

    Parameters
    ----------
    operation : Operation
        What to compute.
    implementation : Implementation
        One of its implementations.
    signature : Signature
        Shapes, dtypes and scalars.
    queue : dpctl.SyclQueue or None
        Any queue of the device and context it will run on; None for a host implementation.
    limits : DeviceLimits or None
        The device's; None for a host implementation.

    Returns
    -------
    Executable
        Bind it to arrays and submit it, or call its ``function``.

    Raises
    ------
    CapabilityError
        If the device cannot run it: no numba-dpex, SPIR-V or OpenCL C refused, work-groups too large.
    ExecutionError
        If it does not compile; says which operation, implementation and device, and the compiler's explanation.
    """
    device = "host" if queue is None else queue.sycl_device.name.strip()
    where = f"operation {operation.name!r}, implementation {implementation.name!r}, device {device!r}"
    if implementation.kind == "host":
        return HostExecutable(_load(implementation, signature, where), where)
    if queue is None or limits is None:
        raise ExecutionError("it needs a SYCL queue to be compiled for", where=where)
    key = (operation, implementation, signature_key(signature), queue.sycl_context, queue.sycl_device)
    return _EXECUTABLES.get(key, lambda: _make(operation, implementation, signature, queue, limits, where))


def signature_key(signature: Signature) -> Hashable:
    """Return a signature as something hashable: equal for equal signatures.

    Parameters
    ----------
    signature : Signature
        Shapes, dtypes and scalars.

    Returns
    -------
    hashable
        Scalars with their types, because 1 and 1.0 are passed differently.
    """
    return (
        tuple(signature.shapes.items()),
        tuple(signature.dtypes.items()),
        tuple((name, type(value), value) for name, value in signature.scalars.items()),
        signature.constants,
    )


def _make(
    operation: Operation,
    implementation: Implementation,
    signature: Signature,
    queue: Any,
    limits: DeviceLimits,
    where: str,
) -> Executable:
    loaded = _load(implementation, signature, where)
    if implementation.kind == "library":
        return LibraryExecutable(loaded, signature.scalars, where)
    if implementation.kind == "sequence":
        return SequenceExecutable(
            [
                (compile_task(p.operation, p.implementation, p.signature, queue, limits), _array_arguments(p))
                for p in loaded
                if not p.writes_nothing
            ]
        )
    launch = _index_space(implementation, signature, limits, where)
    if implementation.kind == "numba-dpex":
        grouped = launch.local_range is not None
        ndim = len(launch.global_range)
        try:
            loaded = kernel_spirv(loaded, operation, signature, ndim, grouped=grouped, device=queue.sycl_device)
        except KernelCompilationError as error:
            raise ExecutionError(f"numba-dpex cannot compile the kernel: {error}", where=where) from error
    return KernelExecutable(
        kernel=compile_code(loaded, queue, where),
        operation=operation,
        signature=signature,
        global_range=list(reversed(launch.global_range)),
        local_range=None if launch.local_range is None else list(reversed(launch.local_range)),
        descriptors=implementation.kind == "numba-dpex",
        code=loaded,
    )


def _array_arguments(part: Part) -> tuple[tuple[str, str], ...]:
    """Return which array of the sequence each array parameter of a step takes; its scalars are compiled in."""
    arrays = {p.name for p in part.operation.arrays}
    return tuple((own, whole) for own, whole in part.arguments if own in arrays)


def _load(implementation: Implementation, signature: Signature, where: str) -> Any:
    try:
        return implementation.load(signature)
    except SyclschedError:
        raise
    except ImportError as error:
        raise CapabilityError(f"a package it needs cannot be imported: {error}", where=where) from error
    except Exception as error:
        raise ExecutionError(f"load() failed: {type(error).__name__}: {error}", where=where) from error


def _index_space(implementation: Implementation, signature: Signature, limits: DeviceLimits, where: str) -> Launch:
    if implementation.launch is None:
        raise ExecutionError("a kernel implementation must have a launch function", where=where)
    try:
        launch = implementation.launch(signature, limits)
    except SyclschedError:
        raise
    except Exception as error:
        raise ExecutionError(f"launch() failed: {type(error).__name__}: {error}", where=where) from error
    wrong = _wrong_launch(launch, limits)
    if wrong is not None:
        raise CapabilityError(wrong, where=where)
    return launch


def _wrong_launch(launch: Launch, limits: DeviceLimits) -> str | None:
    """Return what is wrong with an index space, or None."""
    size, group = launch.global_range, launch.local_range
    if not 1 <= len(size) <= MAX_DIMENSIONS or any(n < 0 for n in size):
        return f"global range {size} must be 1 to {MAX_DIMENSIONS} non-negative extents"
    if group is None:
        return None
    if len(group) != len(size) or any(n < 1 for n in group):
        return f"local range {group} must be one positive extent per dimension of {size}"
    if any(n % g for n, g in zip(size, group, strict=True)):
        return f"local range {group} does not divide global range {size}"
    items = 1
    for n in group:
        items *= n
    if items > limits.max_work_group_size:
        return f"work-groups of {items} work-items are larger than the device's {limits.max_work_group_size}"
    return None


def compile_code(loaded: Any, queue: Any, where: str) -> Any:
    """Return the kernel of SPIR-V or OpenCL C source; remembered, thread-safe.

    Parameters
    ----------
    loaded : OpenCLSource or SpirvModule
        Program and name of the kernel.
    queue : dpctl.SyclQueue
        Of the device and context it will run on.
    where : str
        What it is for, for errors.

    Returns
    -------
    dpctl.program.SyclKernel

    Raises
    ------
    CapabilityError
        If the device's compiler refuses it.
    ExecutionError
        If there is no such kernel in it.
    """
    if isinstance(loaded, SpirvModule):
        code, options = loaded.code, ""
    elif isinstance(loaded, OpenCLSource):
        code, options = loaded.source.encode(), loaded.options
    else:
        raise ExecutionError(
            f"load() returned {type(loaded).__name__}, not an OpenCLSource or SpirvModule", where=where
        )
    name = loaded.kernel_name
    digest = hashlib.sha256(b"\0".join((type(loaded).__name__.encode(), options.encode(), code))).digest()
    program = _PROGRAMS.get((digest, queue.sycl_context, queue.sycl_device), lambda: _build(loaded, queue, where))
    if not program.has_sycl_kernel(name):
        raise ExecutionError(f"the program has no kernel {name!r}", where=where)
    return program.get_sycl_kernel(name)


def _build(loaded: SpirvModule | OpenCLSource, queue: Any, where: str) -> Any:
    import dpctl
    from dpctl import program

    try:
        if isinstance(loaded, SpirvModule):
            return program.create_program_from_spirv(queue, loaded.code)
        if queue.backend != dpctl.backend_type.opencl:
            raise CapabilityError(f"a {queue.backend.name} device takes no OpenCL C", where=where)
        return program.create_program_from_source(queue, loaded.source, loaded.options)
    except (program.SyclProgramCompilationError, ValueError) as error:
        language = "SPIR-V" if isinstance(loaded, SpirvModule) else "OpenCL C"
        raise CapabilityError(
            f"the device's compiler refuses the kernel's {language}: {error}".rstrip(": "), where=where
        ) from error
