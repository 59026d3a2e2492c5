# SPDX-License-Identifier: Apache-2.0
"""Executables: task implementations compiled for one device, bound to arrays and submitted to a queue."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from syclsched.devices.native.fences import submit_fence
from syclsched.devices.native.host_tasks import expect_host_tasks
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.devices.native.sycl_types import SyclEvent, SyclQueue
from syclsched.devices.programs.arguments import (
    ArrayForm,
    BoundArray,
    flatten_array,
    flatten_extents,
    flatten_scalar,
    scalar_dtype,
)
from syclsched.errors import ExecutionError, SyclschedError
from syclsched.model.operation import Copies, NativeCall, OpenCLSource, Operation, Scalar, Signature, SpirvModule

#: A ``usm_ndarray``, or a `BoundArray` of one.
Argument = Any
#: Queries that differ in a launch of some of the work-groups; and atomics, as other work-items may wait for them.
_LAUNCH_QUERIES = re.compile(r"\bget_(?:group_id|num_groups|global_size|global_offset|global_linear)|\batom(?:ic)?_")
#: Submits a library's work on these arguments after some events, and returns its event.
LibraryCall = Callable[[SyclQueue, Mapping[str, Argument], list[SyclEvent]], SyclEvent]


class Submission(Protocol):
    """Work with its arguments, which can be submitted any number of times."""

    def submit(self, queue: SyclQueue, depends: list[SyclEvent]) -> SyclEvent:
        """Submit asynchronously and return the event."""
        ...


class Executable(Protocol):
    """A compiled implementation."""

    @property
    def function(self) -> Callable[..., Any] | None:
        """The Python function of a host implementation; None for work that is submitted to a queue."""
        ...

    def with_constants(self, arrays: Mapping[str, Any], uploads: tuple[Any, ...]) -> Executable:
        """Return a copy with some arguments bound permanently."""
        ...

    def bind(self, arguments: Mapping[str, Argument]) -> Submission:
        """Return a submission of this work on these arguments."""
        ...


@dataclass(frozen=True, slots=True)
class KernelSubmission:
    """A kernel with flattened arguments."""

    kernel: Any
    arguments: list[Any]
    global_range: list[int]
    local_range: list[int] | None
    divisible: bool = False  # whether launches of parts of its work-groups do the same, any number of times
    open_ended: bool = False  # whether its time follows from values and has no limit

    def submit(self, queue: SyclQueue, depends: list[SyclEvent]) -> SyclEvent:
        """Submit the kernel; see `Submission.submit`."""
        arguments = [a.memory if isinstance(a, MemoryRange) else a for a in self.arguments]
        return queue.submit_async(self.kernel, arguments, self.global_range, self.local_range, depends)


@dataclass(frozen=True, slots=True)
class EmptySubmission:
    """A kernel over an empty index space: submitted as a fence, which keeps the order."""

    def submit(self, queue: SyclQueue, depends: list[SyclEvent]) -> SyclEvent:
        """Submit a fence; see `Submission.submit`."""
        return submit_fence(queue, depends)


@dataclass(frozen=True, slots=True)
class CopySubmission:
    """A copy within a memory space."""

    to: Any
    source: Any
    nbytes: int

    def submit(self, queue: SyclQueue, depends: list[SyclEvent]) -> SyclEvent:
        """Submit the copy; see `Submission.submit`."""
        return queue.memcpy_async(self.to, self.source, self.nbytes, depends)


@dataclass(frozen=True, slots=True)
class LibrarySubmission:
    """A library call with its arguments."""

    call: LibraryCall
    arguments: Mapping[str, Argument]
    where: str

    @property
    def is_native(self) -> bool:
        """Whether the compiled loop can call the library without Python."""
        return hasattr(self.call, "native")

    def native(self, queue: SyclQueue) -> tuple[NativeCall, ...]:
        """Return the native calls for the compiled loop, one after another; only if `is_native`."""
        try:
            made = self.call.native(queue, self.arguments)  # type: ignore[attr-defined]
        except SyclschedError:
            raise
        except Exception as error:
            raise ExecutionError(f"native() failed: {type(error).__name__}: {error}", where=self.where) from error
        calls = made if isinstance(made, tuple) and made else (made,)
        for each in calls:
            if not isinstance(each, NativeCall):
                raise ExecutionError(f"native() returned {type(each).__name__}, not a NativeCall", where=self.where)
        return calls

    def submit(self, queue: SyclQueue, depends: list[SyclEvent]) -> SyclEvent:
        """Make the library submit its work; see `Submission.submit`."""
        if not self.is_native:
            expect_host_tasks()
        event = self.call(queue, self.arguments, depends)
        # Checked on the type: reading the property would wait for the event while holding the GIL, which the library's
        # host task that keeps the arguments alive needs.
        if not hasattr(type(event), "profiling_info_end"):
            raise ExecutionError(
                f"the implementation's submit() returned {type(event).__name__}, not a dpctl.SyclEvent",
                where=self.where,
            )
        return event


@dataclass(frozen=True, slots=True)
class SequenceSubmission:
    """Several submissions, at least one, made one after another on one in-order queue."""

    steps: list[Submission]

    def submissions(self, queue: SyclQueue, depends: list[SyclEvent]) -> Iterator[SyclEvent]:
        """Submit the steps one by one to an in-order queue; yield the event of each."""
        for step in self.steps:
            yield step.submit(queue, depends)
            depends = []

    def submit(self, queue: SyclQueue, depends: list[SyclEvent]) -> SyclEvent:
        """Submit all steps to an in-order queue and return the last event; see `Submission.submit`."""
        *_, event = self.submissions(queue, depends)
        return event


class KernelExecutable:
    """A SYCL kernel with its index space."""

    __slots__ = (
        "_array_count",
        "_extents",
        "_form",
        "_kernel",
        "_names",
        "_parts",
        "_scalars",
        "code",
        "divisible",
        "function",
        "global_range",
        "local_range",
        "open_ended",
        "uploads",
    )

    def __init__(
        self,
        kernel: Any,
        operation: Operation,
        signature: Signature,
        global_range: list[int],
        local_range: list[int] | None,
        *,
        form: ArrayForm,
        code: OpenCLSource | SpirvModule | None = None,
    ) -> None:
        self.function = None
        self.code = code
        self.global_range = global_range
        self.local_range = local_range
        #: Whether launches of parts of its work-groups do the same, any number of times.
        self.divisible = isinstance(code, OpenCLSource) and is_divisible(code, operation)
        #: Whether its time follows from values and has no limit.
        self.open_ended = isinstance(code, OpenCLSource) and code.open_ended
        self._kernel = kernel
        self._form = form
        self._extents = flatten_extents(code)
        self._scalars = {p.name: scalar_dtype(p, signature) for p in operation.parameters if not p.is_array}
        self._array_count = len(operation.arrays)
        #: Keep the bound constants alive.
        self.uploads: tuple[Any, ...] = ()
        # In order of the parameters: an array's name, or a flattened scalar.
        self._parts: list[str | list[Any]] = [
            p.name if p.is_array else self._flat_scalar(p.name, signature.scalars[p.name]) for p in operation.parameters
        ]
        self._names = [p.name for p in operation.parameters]

    def with_constants(self, arrays: Mapping[str, Any], uploads: tuple[Any, ...]) -> KernelExecutable:
        """Return a copy with some arguments bound permanently; see `Executable.with_constants`."""
        made = copy.copy(self)
        made.uploads = (*self.uploads, *uploads)
        made._array_count -= len(arrays)
        made._parts = [
            self._flat_array(arrays[part]) if isinstance(part, str) and part in arrays else part for part in self._parts
        ]
        return made

    @property
    def arguments_count(self) -> int:
        """The number of kernel arguments, if arrays are passed as bare pointers."""
        return sum(1 if isinstance(part, str) else len(part) for part in self._parts) + len(self._extents)

    @property
    def kernel_arguments_count(self) -> int:
        """The number of arguments that the compiled kernel takes."""
        return int(self._kernel.get_num_args())

    @property
    def array_names(self) -> list[str]:
        """Names of the arrays that are no constants, in the order of their addresses among the arguments."""
        return [part for part in self._parts if isinstance(part, str)]

    @property
    def is_empty(self) -> bool:
        """Whether the index space is empty."""
        return 0 in self.global_range

    def _flat_array(self, array: Argument) -> list[Any]:
        return array.flat(self._form) if isinstance(array, BoundArray) else flatten_array(array, self._form)

    def _flat_scalar(self, name: str, value: Scalar) -> list[Any]:
        return flatten_scalar(name, value, self._scalars[name])

    def _parts_with(self, arguments: Mapping[str, Argument]) -> list[str | list[Any]]:
        """Return the parts with scalars from the arguments instead of the signature."""
        return [
            self._flat_scalar(name, arguments[name]) if name in self._scalars and name in arguments else part
            for name, part in zip(self._names, self._parts, strict=True)
        ]

    def bind(self, arguments: Mapping[str, Argument]) -> Submission:
        """Flatten the arguments; see `Executable.bind`."""
        if self.is_empty:
            return EmptySubmission()
        flat: list[Any] = []
        parts = self._parts if len(arguments) == self._array_count else self._parts_with(arguments)
        for part in parts:
            if not isinstance(part, str):
                flat += part
                continue
            flat += self._flat_array(arguments[part])
        flat += self._extents
        return KernelSubmission(
            self._kernel, flat, self.global_range, self.local_range, self.divisible, self.open_ended
        )


def is_divisible(code: OpenCLSource, operation: Operation) -> bool:
    """Return whether work-items depend on their indices only, and read no data that others write."""
    updates = any(each.mode is not None and each.mode.reads and each.mode.writes for each in operation.parameters)
    return not updates and not _LAUNCH_QUERIES.search(code.source)


@dataclass(frozen=True, slots=True)
class LibraryExecutable:
    """A library's asynchronous call."""

    call: LibraryCall
    scalars: Mapping[str, Scalar]
    where: str
    constants: Mapping[str, Any] = field(default_factory=dict)
    uploads: tuple[Any, ...] = ()

    @property
    def function(self) -> None:
        """None: it is submitted to a queue."""
        return None

    def with_constants(self, arrays: Mapping[str, Any], uploads: tuple[Any, ...]) -> LibraryExecutable:
        """Return a copy with some arguments bound permanently; see `Executable.with_constants`."""
        return replace(self, constants={**self.constants, **arrays}, uploads=(*self.uploads, *uploads))

    def bind(self, arguments: Mapping[str, Argument]) -> Submission:
        """Keep the arguments; see `Executable.bind`."""
        given: dict[str, Any] = {**self.scalars, **self.constants, **arguments}
        if not getattr(self.call, "takes_addresses", False):  # making a ``usm_ndarray`` takes tens of microseconds
            given = {name: a.array if isinstance(a, BoundArray) else a for name, a in given.items()}
        if isinstance(self.call, Copies):
            made: list[Submission] = [CopySubmission(*copy) for copy in self.call.of(given)]
            return made[0] if len(made) == 1 else SequenceSubmission(made)
        return LibrarySubmission(self.call, given, self.where)


@dataclass(frozen=True, slots=True)
class SequenceExecutable:
    """Compiled steps, each with pairs of its array parameter and the sequence's argument.

    Steps that write nothing are left out: libraries and drivers lose the order of empty work.
    """

    steps: Sequence[tuple[Executable, tuple[tuple[str, str], ...]]]

    @property
    def function(self) -> None:
        """None: it is submitted to a queue."""
        return None

    def with_constants(self, arrays: Mapping[str, Any], uploads: tuple[Any, ...]) -> SequenceExecutable:
        """Return a copy with some arguments of its steps bound permanently; see `Executable.with_constants`."""
        made = []
        for step, wiring in self.steps:
            bound = {own: arrays[whole] for own, whole in wiring if whole in arrays}
            left = tuple((own, whole) for own, whole in wiring if whole not in arrays)
            made.append((step.with_constants(bound, uploads) if bound else step, left))
        return SequenceExecutable(made)

    def bind(self, arguments: Mapping[str, Argument]) -> Submission:
        """Bind every step; see `Executable.bind`."""
        if not self.steps:
            return EmptySubmission()
        return SequenceSubmission(
            [step.bind({own: arguments[whole] for own, whole in wiring}) for step, wiring in self.steps]
        )


@dataclass(frozen=True, slots=True)
class HostExecutable:
    """A Python function for a host lane."""

    function: Callable[..., Any]
    where: str

    def with_constants(self, arrays: Mapping[str, Any], uploads: tuple[Any, ...]) -> HostExecutable:
        """Return a copy with some arguments bound permanently; see `Executable.with_constants`."""
        return HostExecutable(partial(self.function, **arrays), self.where)

    def bind(self, arguments: Mapping[str, Argument]) -> Submission:
        """Raise an error: a host function is called, not submitted."""
        raise ExecutionError("a host implementation cannot be submitted to a queue", where=self.where)


def calls_library(executable: Executable) -> bool:
    """Return whether an executable or one of its steps calls a library that submits its own work to the queue."""
    if isinstance(executable, SequenceExecutable):
        return any(calls_library(step) for step, _ in executable.steps)
    return isinstance(executable, LibraryExecutable) and not isinstance(executable.call, Copies)


def needs_python(executable: Executable) -> bool:
    """Return whether an executable or one of its steps calls a library that only Python can call."""
    if isinstance(executable, SequenceExecutable):
        return any(needs_python(step) for step, _ in executable.steps)
    if not isinstance(executable, LibraryExecutable) or isinstance(executable.call, Copies):
        return False
    return not hasattr(executable.call, "native")
