# SPDX-License-Identifier: Apache-2.0
"""Constants in device memory: uploaded once in an implementation's form, and shared by all tasks that use it.

An uploaded form lives as long as an executable compiled with it. On a context that outlives the open devices it also
lives as long as the first of its constants, so that the next run with the same weights finds it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from syclsched.devices.memory import usm_memory
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.programs.arguments import BoundArray
from syclsched.devices.programs.executables import Executable, KernelExecutable, LibraryExecutable, SequenceExecutable
from syclsched.devices.programs.task_compiler import CompileRequest, signature_key, step_requests
from syclsched.errors import ExecutionError, MemoryLimitError, SyclschedError
from syclsched.model.constant import Constant
from syclsched.model.operation import Implementation, Signature
from syclsched.model.sequence import sequence_parts
from syclsched.model.usm import UsmKind


class UploadedConstants:
    """Constants in one form in the memory of one space."""

    __slots__ = ("__weakref__", "arrays", "names", "nbytes", "space")

    def __init__(self, arrays: Mapping[str, Any], space: str, names: tuple[str, ...]) -> None:
        self.arrays = dict(arrays)
        self.space = space
        self.names = names
        self.nbytes = sum(int(array.nbytes) for array in self.arrays.values())


_AS_IT_IS: Final = "as it is"

#: By constants, form, context, device and memory space.
_found: WeakValueDictionary[Hashable, UploadedConstants] = WeakValueDictionary()
#: Uploads kept as long as the first of their constants.
_kept: WeakKeyDictionary[Constant, dict[Hashable, UploadedConstants]] = WeakKeyDictionary()
_lock = threading.RLock()


def release_unused(constants: Iterable[Constant] | None = None) -> int:
    """Free uploaded constants that are not in use; return how many bytes were freed."""
    with _lock:
        before = sum(upload.nbytes for upload in _found.values())
        if constants is None:
            _kept.clear()
        else:
            for each in constants:
                keys = list(_kept.pop(each, ()))
                used = {key: upload for key in keys if (upload := _found.get(key)) is not None}
                if used:
                    _kept[each] = used
        return before - sum(upload.nbytes for upload in _found.values())


def uploaded_bytes(executables: Iterable[Executable | None]) -> dict[str, int]:
    """Return the bytes of constants used by executables, by memory space; each upload counts once."""
    found: dict[str, int] = {}
    for upload in uploads_of(executables):
        found[upload.space] = found.get(upload.space, 0) + upload.nbytes
    return found


def uploads_of(executables: Iterable[Executable | None]) -> list[UploadedConstants]:
    """Return the uploaded constants that executables use, each once."""
    return list({id(upload): upload for executable in executables for upload in _uploads(executable)}.values())


def forget(upload: UploadedConstants) -> None:
    """Make later uses of the constants upload them again: their values in device memory are wrong."""
    with _lock:
        for key in [key for key, found in _found.items() if found is upload]:
            del _found[key]
        for kept in _kept.values():
            for key in [key for key, found in kept.items() if found is upload]:
                del kept[key]


def _uploads(executable: Executable | None) -> Iterator[UploadedConstants]:
    if isinstance(executable, (KernelExecutable, LibraryExecutable)):
        yield from executable.uploads
    elif isinstance(executable, SequenceExecutable):
        for step, _ in executable.steps:
            yield from _uploads(step)


class ConstantUploader:
    """Uploads constants to memory that the devices of a platform can read."""

    def __init__(self, allocator_queue: Callable[[str], SyclQueue], kind: Callable[[str], str]) -> None:
        self._allocator_queue = allocator_queue
        self._kind = kind

    def bind(
        self, executable: Executable, made_for: CompileRequest, constants: Mapping[str, Constant], space: str
    ) -> Executable:
        """Return an executable with its constants bound; they need not be among its arguments any more."""
        queue, implementation = made_for.queue, made_for.implementation
        if not constants:
            return executable
        if queue is None:
            return executable.with_constants({name: each.data for name, each in constants.items()}, ())
        if isinstance(executable, SequenceExecutable):
            return self._bind_steps(executable, made_for, constants, space)
        if implementation.prepare is None:
            plain = {name: self._plain(name, each, queue, space) for name, each in constants.items()}
            arrays = {name: upload.arrays[_AS_IT_IS] for name, upload in plain.items()}
            return executable.with_constants(arrays, tuple(plain.values()))
        where = f"operation {made_for.operation.name!r}, implementation {implementation.name!r}, memory space {space!r}"
        prepared = self._prepared(implementation, made_for.signature, constants, queue, space, where)
        missing = constants.keys() - prepared.arrays.keys()
        if missing and isinstance(executable, KernelExecutable):
            raise ExecutionError(f"prepare() returned nothing for {', '.join(sorted(missing))}", where=where)
        return executable.with_constants(prepared.arrays, (prepared,))

    def _bind_steps(
        self, executable: SequenceExecutable, whole: CompileRequest, constants: Mapping[str, Constant], space: str
    ) -> Executable:
        parts = sequence_parts(whole.operation, whole.implementation, whole.signature)
        steps = []
        for part, (step, wiring) in zip(step_requests(parts, whole), executable.steps, strict=True):
            own = {mine: constants[outer] for mine, outer in wiring if outer in constants}
            left = tuple((mine, outer) for mine, outer in wiring if outer not in constants)
            steps.append((self.bind(step, part, own, space), left))
        return SequenceExecutable(steps)

    def _plain(self, name: str, constant: Constant, queue: SyclQueue, space: str) -> UploadedConstants:
        owner = self._allocator_queue(space)
        where = f"constant {constant.name or name!r}"

        def make() -> dict[str, Any]:
            return {_AS_IT_IS: self._uploaded(constant.data, owner, space, where)}

        return self._get((constant,), _AS_IT_IS, owner, space, make)

    def _prepared(
        self,
        implementation: Implementation,
        signature: Signature,
        constants: Mapping[str, Constant],
        queue: SyclQueue,
        space: str,
        where: str,
    ) -> UploadedConstants:
        prepare = implementation.prepare
        assert prepare is not None

        def make() -> dict[str, Any]:
            made = prepare(signature, queue, {name: each.data for name, each in constants.items()})
            owner = self._allocator_queue(space)
            return {
                name: self._uploaded(np.ascontiguousarray(each), owner, space, where)
                if isinstance(each, np.ndarray)
                else each
                for name, each in made.items()
            }

        try:
            form: Hashable = ("signature", prepare, signature_key(signature))
            if implementation.form is not None:
                form = ("form", tuple(constants), implementation.form(signature, queue))
            return self._get(tuple(constants.values()), form, queue, space, make)
        except (SyclschedError, MemoryError):
            raise
        except Exception as error:
            what = f"its constants could not be prepared: {type(error).__name__}: {error}"
            raise ExecutionError(what, where=where) from error

    def _get(
        self,
        constants: tuple[Constant, ...],
        form: Hashable,
        queue: SyclQueue,
        space: str,
        make: Callable[[], dict[str, Any]],
    ) -> UploadedConstants:
        key = (tuple(each.number for each in constants), form, queue.sycl_context, queue.sycl_device, space)
        with _lock:
            upload = _found.get(key)
            if upload is None:
                names = tuple(each.name or f"number {each.number}" for each in constants)
                upload = UploadedConstants(self._make(make), space, names)
                _found[key] = upload
            if queue.sycl_context == queue.sycl_device.sycl_platform.default_context:
                _kept.setdefault(constants[0], {})[key] = upload
            return upload

    @staticmethod
    def _make(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            return make()
        except (MemoryLimitError, MemoryError):
            if not release_unused():
                raise
            return make()

    def _uploaded(self, value: np.ndarray[Any, Any], queue: SyclQueue, space: str, where: str) -> Any:
        """Return a NumPy array as an array in a space."""
        kind: UsmKind = "device" if self._kind(space) == "device" else "shared"
        try:
            made = usm_memory.allocate(queue, value.nbytes, kind)
        except MemoryLimitError as error:
            raise MemoryLimitError(
                f"there is no memory for its {value.nbytes} bytes",
                where=f"{where}, memory space {space!r}",
                hint="Free memory, plan with a memory limit, or leave the device out",
                space=space,
            ) from error
        if math.prod(value.shape):
            queue.memcpy_async(made, usm_memory.as_bytes(value), value.nbytes, []).wait()
        return BoundArray(MemoryRange.around(made), tuple(value.shape), value.dtype.name, queue)
