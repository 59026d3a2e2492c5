# SPDX-License-Identifier: Apache-2.0
"""Compilation of task implementations to executables, each compiled once and cached.

Python kernels become SPIR-V, by a compiler that does not submit: numba-dpex's own launcher costs ten times a bare
submission. dpctl turns SPIR-V into a kernel. OpenCL C and ready SPIR-V are built the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.programs.arguments import ArrayForm
from syclsched.devices.programs.bounded_cache import BoundedCache
from syclsched.devices.programs.executables import (
    Executable,
    HostExecutable,
    KernelExecutable,
    LibraryExecutable,
    SequenceExecutable,
    Submission,
)
from syclsched.devices.programs.programs import build_together, compile_code
from syclsched.devices.programs.python_kernels.kernel_arguments import operation_arguments
from syclsched.devices.programs.python_kernels.python_compiler import compile_python
from syclsched.errors import CapabilityError, ExecutionError, SyclschedError
from syclsched.library_threads import LIBRARY_THREADS
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Operation,
    Signature,
    Tailored,
)
from syclsched.model.sequence import SequencePart
from syclsched.progress import Progress, StepCounter

__all__ = ["CompileRequest", "Executable", "Submission", "build_ahead", "compile_task", "compile_tasks"]

MAX_DIMENSIONS = 3

# Bounded, because a kernel keeps its program alive. One that is dropped is made again of the program if that is kept.
_EXECUTABLES = BoundedCache(512)


def compile_task(
    operation: Operation,
    implementation: Implementation,
    signature: Signature,
    queue: SyclQueue | None,
    limits: DeviceLimits | None,
) -> Executable:
    """Return an implementation compiled for one signature and the device of a queue; cached, thread-safe."""
    return _compiled(CompileRequest(operation, implementation, signature, queue, limits), {}, _tell_nobody)


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """The arguments of `compile_task`."""

    operation: Operation
    implementation: Implementation
    signature: Signature
    queue: SyclQueue | None
    limits: DeviceLimits | None

    @property
    def key(self) -> Hashable:
        """Equal for pieces that compile to the same executable; only with a queue."""
        assert self.queue is not None
        return (
            self.operation,
            self.implementation,
            signature_key(self.signature),
            self.queue.sycl_context,
            self.queue.sycl_device,
            self.limits,
        )

    @property
    def where(self) -> str:
        """Operation, implementation and device, for error messages."""
        device = "host" if self.queue is None else self.queue.sycl_device.name.strip()
        return f"operation {self.operation.name!r}, implementation {self.implementation.name!r}, device {device!r}"


def compile_tasks(pieces: Sequence[CompileRequest], progress: Progress | None = None) -> list[Executable]:
    """Compile several pieces like `compile_task`, building the OpenCL C of one device as few programs.

    ``progress`` is called with the kernels that are compiled now.
    """
    loaded: dict[Hashable, Any] = {}
    steps = StepCounter(progress)
    steps.expect(len(pieces))
    sources: dict[Hashable, tuple[SyclQueue, list[OpenCLSource]]] = {}
    for piece in pieces:
        _load_ahead(piece, loaded, sources)
    for queue, codes in sources.values():
        if len(codes) > 1:
            steps.tell(f"compiling {len(codes)} kernels of OpenCL C")
        build_together(codes, queue)
    made: list[Executable] = []
    for number, piece in enumerate(pieces):
        steps.done = number
        made.append(_compiled(piece, loaded, steps.tell))
    steps.done = len(pieces)
    steps.end()
    return made


def build_ahead(pieces: Iterable[CompileRequest]) -> None:
    """Build the OpenCL C of several pieces as few programs, for `compile_task` to find; errors are left to it."""
    sources: dict[Hashable, tuple[SyclQueue, list[OpenCLSource]]] = {}
    for piece in pieces:
        with suppress(SyclschedError):
            _load_ahead(piece, {}, sources)
    for queue, codes in sources.values():
        build_together(codes, queue)


def _load_ahead(
    piece: CompileRequest, loaded: dict[Hashable, Any], sources: dict[Hashable, tuple[SyclQueue, list[OpenCLSource]]]
) -> None:
    """Load the OpenCL C of a piece or of its steps, if it has not been compiled yet."""
    if piece.queue is None or piece.implementation.kind not in ("opencl-c", "sequence"):
        return
    key = piece.key
    if key in loaded or key in _EXECUTABLES:
        return
    made = loaded[key] = _load(piece)
    if piece.implementation.kind == "sequence":
        for step in step_requests(made, piece):
            _load_ahead(step, loaded, sources)
    elif isinstance(made, OpenCLSource):
        device = (piece.queue.sycl_context, piece.queue.sycl_device)
        sources.setdefault(device, (piece.queue, []))[1].append(made)


def step_requests(parts: Sequence[SequencePart], whole: CompileRequest) -> list[CompileRequest]:
    """Return the steps of a sequence, without those that write nothing."""
    return [
        CompileRequest(p.operation, p.implementation, p.signature, whole.queue, whole.limits)
        for p in parts
        if not p.writes_nothing
    ]


def _compiled(piece: CompileRequest, loaded: dict[Hashable, Any], tell: Callable[[str], None]) -> Executable:
    """Return a compiled piece; ``loaded`` has the sources that were loaded before, by key."""
    if piece.implementation.kind == "host":
        return HostExecutable(_load(piece), piece.where)
    if piece.queue is None or piece.limits is None:
        raise ExecutionError("it needs a SYCL queue to be compiled for", where=piece.where)
    key = piece.key

    def make() -> Executable:
        tell(f"compiling {piece.operation.name} ({piece.implementation.name})")
        if piece.implementation.is_python_kernel:
            return _make_from_python(piece)
        source = loaded[key] if key in loaded else _load(piece)
        return _make(piece, source, loaded, tell)

    return _EXECUTABLES.get(key, make)


def signature_key(signature: Signature) -> Hashable:
    """Return a hashable key of a signature: equal for equal signatures."""
    return (
        tuple(signature.shapes.items()),
        tuple(signature.dtypes.items()),
        tuple((name, type(value), value) for name, value in signature.scalars.items()),
        signature.constants,
    )


def _tell_nobody(_: str) -> None:
    pass


def _make(piece: CompileRequest, given: Any, loaded: dict[Hashable, Any], tell: Callable[[str], None]) -> Executable:
    operation, implementation, signature, where = piece.operation, piece.implementation, piece.signature, piece.where
    queue, limits = piece.queue, piece.limits
    assert queue is not None and limits is not None
    if implementation.kind == "library":
        check = getattr(given, "check", None)
        if check is not None:
            check(queue)
        return LibraryExecutable(given, signature.scalars, where)
    if implementation.kind == "sequence":
        parts = [p for p in given if not p.writes_nothing]
        return SequenceExecutable(
            [
                (_compiled(step, loaded, tell), _array_arguments(p))
                for p, step in zip(parts, step_requests(given, piece), strict=True)
            ]
        )
    launch = _index_space(implementation, signature, limits, where)
    made = _kernel(piece, launch, given, ArrayForm.POINTER)
    _check_argument_count(made, given, operation, where)
    return made


def _make_from_python(piece: CompileRequest) -> Executable:
    """Return a compiled Python kernel."""
    assert piece.queue is not None and piece.limits is not None
    launch = _index_space(piece.implementation, piece.signature, piece.limits, piece.where)
    arguments = operation_arguments(piece.operation, piece.signature, launch)
    made = compile_python(_load(piece), arguments, piece.queue.sycl_device, piece.where)
    return _kernel(piece, launch, made.module, made.form)


def _kernel(piece: CompileRequest, launch: Launch, code: Any, form: ArrayForm) -> KernelExecutable:
    """Return an executable of OpenCL C or SPIR-V."""
    assert piece.queue is not None
    return KernelExecutable(
        kernel=compile_code(code, piece.queue, piece.where),
        operation=piece.operation,
        signature=piece.signature,
        global_range=list(reversed(launch.global_range)),
        local_range=None if launch.local_range is None else list(reversed(launch.local_range)),
        form=form,
        code=code,
    )


def _check_argument_count(made: KernelExecutable, code: Any, operation: Operation, where: str) -> None:
    """Raise if a kernel takes another number of arguments than the operation has: the runtime would not say why."""
    taken, passed = made.kernel_arguments_count, made.arguments_count
    if taken != passed:
        extents = f" and the extents {', '.join(map(str, code.extents))}" if code.extents else ""
        names = ", ".join(parameter.name for parameter in operation.parameters) + extents
        raise ExecutionError(
            f"the kernel {code.kernel_name!r} takes {taken} argument{'s' * (taken != 1)}, and the operation passes "
            f"{passed}: {names}",
            where=where,
            hint="Give the kernel one argument for each parameter of the operation, and an int for each extent of the "
            "code, in the same order",
        )


def _array_arguments(part: SequencePart) -> tuple[tuple[str, str], ...]:
    """Return pairs of a step's array parameter and the sequence's array; its scalars are compiled in."""
    arrays = {p.name for p in part.operation.arrays}
    return tuple((own, whole) for own, whole in part.arguments if own in arrays)


def _load(piece: CompileRequest) -> Any:
    where = piece.where
    try:
        made = piece.implementation.load(piece.signature)
        LIBRARY_THREADS.look_again()  # it may have loaded a library
        return made.of(piece.limits) if isinstance(made, Tailored) and piece.limits is not None else made
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
    wrong = _launch_error(launch, limits)
    if wrong is not None:
        raise CapabilityError(wrong, where=where)
    return launch


def _launch_error(launch: Launch, limits: DeviceLimits) -> str | None:
    """Return the error in an index space, or None."""
    size, group = launch.global_range, launch.local_range
    if not 1 <= len(size) <= MAX_DIMENSIONS or any(n < 0 for n in size):
        return f"global range {size} must be 1 to {MAX_DIMENSIONS} non-negative extents"
    if group is None:
        return None
    if len(group) != len(size) or any(n < 1 for n in group):
        return f"local range {group} must be one positive extent per dimension of {size}"
    if any(n % g for n, g in zip(size, group, strict=True)):
        return f"local range {group} does not divide global range {size}"
    items = math.prod(group)
    if items > limits.max_work_group_size:
        return f"work-groups of {items} work-items are larger than the device's {limits.max_work_group_size}"
    return None
