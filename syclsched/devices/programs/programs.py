# SPDX-License-Identifier: Apache-2.0
"""Device programs: SPIR-V and OpenCL C built once and cached, several kernels in one program.

The OpenCL CPU runtime has 0.4 MiB and more for each program until it is released, and the fixed cost of a program is
larger than that of a kernel: kernels needed together are built together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Final

from syclsched.devices.backends.registry import backend_of
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.programs.bounded_cache import BoundedCache
from syclsched.devices.programs.build_log import describe_log
from syclsched.devices.programs.combined_source import ProgramPart, combined_source, program_part, suffix
from syclsched.devices.programs.program_cache import ProgramCache, key_of, logger, program_cache
from syclsched.errors import CapabilityError, ExecutionError, ProgramBuildError
from syclsched.model.operation import OpenCLSource, SpirvModule

__all__ = ["build_together", "compile_code", "program_count"]

#: Most programs combined into one. More are built up to a tenth faster, but a process that needs one loads all: with
#: 20, networks held 1 to 12 MiB more, and their first calls took up to 0.05 s more.
_MOST_TOGETHER = 8


@dataclass(slots=True)
class _Count:
    """The number of programs that this process has built or loaded; changed under the lock of `_PROGRAMS`."""

    programs: int = 0


_MADE = _Count()


@dataclass(frozen=True, slots=True)
class _Built:
    """A built program, and the suffix of its kernels' names."""

    program: Any
    suffix: str = ""

    @property
    def program_id(self) -> int:
        """Equal for kernels that were built together."""
        return id(self.program)


#: Programs kept beside those in use, so that a few dozen shapes of several models compile nothing again.
PROGRAMS_KEPT: Final = 128
_PROGRAMS = BoundedCache(PROGRAMS_KEPT, attrgetter("program_id"))


def compile_code(loaded: Any, queue: SyclQueue, where: str) -> Any:
    """Return the kernel of SPIR-V or OpenCL C source; cached in memory and on disk, thread-safe."""
    if not isinstance(loaded, (SpirvModule, OpenCLSource)):
        raise ExecutionError(
            f"load() returned {type(loaded).__name__}, not an OpenCLSource or SpirvModule", where=where
        )

    def make() -> _Built:
        stored = _Stored.of(queue)
        found = stored.find(loaded) if stored is not None else None
        if found is not None:
            return found
        built = _Built(_build(loaded, queue, where))
        _MADE.programs += 1
        if stored is not None:
            stored.save(built, [loaded])
        return built

    built = _PROGRAMS.get(_key(loaded, queue), make)
    name = loaded.kernel_name + built.suffix
    if not built.program.has_sycl_kernel(name):
        raise ExecutionError(
            f"the program has no kernel {loaded.kernel_name!r}",
            where=where,
            hint="A kernel must not have the name of a built-in function of OpenCL C, which some compilers change",
        )
    return built.program.get_sycl_kernel(name)


def program_count() -> int:
    """Return how many programs this process has built or loaded; kernels built together are one."""
    return _MADE.programs


def build_together(codes: Iterable[OpenCLSource], queue: SyclQueue) -> None:
    """Build programs that are not cached for a device yet, combined into few, for `compile_code`; thread-safe.

    Programs that cannot be combined, or are refused, are left to `compile_code`, which reports their errors.
    """
    from dpctl import program

    stored = _Stored.of(queue)
    with _PROGRAMS.lock:
        missing = {key: code for code in codes if (key := _key(code, queue)) not in _PROGRAMS}
        for key, code in tuple(missing.items()):
            found = None if stored is None else stored.find(code)
            if found is not None:
                _PROGRAMS.get(key, partial(_Built, found.program, found.suffix))
                del missing[key]
        for group in _compatible_groups(missing):
            logger.debug(
                "compiling kernels %s for %s",
                ", ".join(part.code.kernel_name for _, part in group),
                queue.sycl_device.name.strip(),
            )
            try:
                program_of_all = backend_of(queue).build(
                    OpenCLSource(combined_source([part for _, part in group]), "", group[0][1].code.options), queue
                )
            except (program.SyclProgramCompilationError, ValueError, CapabilityError):
                continue
            _MADE.programs += 1
            for number, (key, _) in enumerate(group):
                _PROGRAMS.get(key, partial(_Built, program_of_all, suffix(number)))
            if stored is not None:
                stored.save(_Built(program_of_all, suffix(0)), [part.code for _, part in group])


class _Stored:
    """The programs in the on-disk cache for the device of a queue.

    The entry of a program is the driver's binary. That of each part of a combined program is the combined program's key
    and the suffix of the part's kernels, so that every part is found whichever others are wanted with it.
    """

    def __init__(self, cache: ProgramCache, queue: SyclQueue) -> None:
        self._cache = cache
        self._queue = queue

    @classmethod
    def of(cls, queue: SyclQueue) -> _Stored | None:
        """Return the stored programs for the device of a queue, or None if the cache is switched off."""
        cache = program_cache()
        return None if cache is None else cls(cache, queue)

    def find(self, code: SpirvModule | OpenCLSource) -> _Built | None:
        """Return the program of a kernel made from its binary, or None if there is none or the driver refuses it."""
        key = self._key(code)
        stored = self._cache.read(key)
        if stored is None:
            return None
        kind, _, content = stored.partition(b"\n")
        words = kind.decode(errors="replace").split()
        if words[:1] == ["part"] and len(words) == 3:
            key, ending = words[1:]
            whole = self._cache.read(key)
            content = b"" if whole is None else whole.partition(b"\n")[2]
        else:
            ending = ""
        memory_key = (key, self._queue.sycl_context, self._queue.sycl_device)
        known = _PROGRAMS.find(memory_key)
        if known is not None:
            return _Built(known.program, ending)
        made = backend_of(self._queue).load_binary(content, self._queue) if content else None
        if made is None or not made.has_sycl_kernel(code.kernel_name + ending):
            return None
        _MADE.programs += 1
        logger.debug("loaded the program of kernel %s from the cache", code.kernel_name)
        return _Built(_PROGRAMS.get(memory_key, lambda: _Built(made)).program, ending)

    def save(self, built: _Built, codes: Sequence[SpirvModule | OpenCLSource]) -> None:
        """Store a program built of one kernel's code, or of several, whose parts are numbered in this order."""
        name = codes[0].kernel_name + built.suffix
        if not built.program.has_sycl_kernel(name):
            return
        binary = backend_of(self._queue).binary(built.program.get_sycl_kernel(name), self._queue)
        if not binary:
            return
        keys = [self._key(code) for code in codes]
        if not built.suffix:
            self._cache.write(keys[0], b"program\n" + binary)
            return
        whole = hashlib.sha256("".join(keys).encode()).hexdigest()
        self._cache.write(whole, b"program\n" + binary)
        for number, key in enumerate(keys):
            self._cache.write(key, f"part {whole} {suffix(number)}\n".encode())

    def _key(self, code: SpirvModule | OpenCLSource) -> str:
        return key_of(self._queue.sycl_device, _digest(code))


def _compatible_groups(codes: Mapping[Hashable, OpenCLSource]) -> list[list[tuple[Hashable, ProgramPart]]]:
    """Return groups of at least two programs that can be combined, in their order."""
    alike: dict[tuple[str, ...], list[tuple[Hashable, ProgramPart]]] = {}
    for key, code in codes.items() if len(codes) > 1 else ():
        part = program_part(code)
        if part is not None:
            alike.setdefault(part.setting, []).append((key, part))
    pieces = (
        parts[first : first + _MOST_TOGETHER]
        for parts in alike.values()
        for first in range(0, len(parts), _MOST_TOGETHER)
    )
    return [group for group in pieces if len(group) > 1]


def _key(loaded: SpirvModule | OpenCLSource, queue: SyclQueue) -> Hashable:
    return _digest(loaded), queue.sycl_context, queue.sycl_device


def _digest(code: SpirvModule | OpenCLSource) -> bytes:
    content, options = (code.code, "") if isinstance(code, SpirvModule) else (code.source.encode(), code.options)
    return hashlib.sha256(b"\0".join((type(code).__name__.encode(), options.encode(), content))).digest()


def _build(loaded: SpirvModule | OpenCLSource, queue: SyclQueue, where: str) -> Any:
    from dpctl import program

    try:
        logger.debug("compiling kernel %s for %s", loaded.kernel_name, queue.sycl_device.name.strip())
        return backend_of(queue).build(loaded, queue)
    except CapabilityError as error:
        raise type(error)(error.what, where=where, hint=error.hint) from error
    except (program.SyclProgramCompilationError, ValueError) as error:
        if isinstance(loaded, SpirvModule):
            language, log = "SPIR-V", ""
        else:
            language, log = "OpenCL C", describe_log(backend_of(queue).build_log(loaded, queue), loaded.source)
        said = ":\n".join(filter(None, (str(error), log)))
        raise ProgramBuildError(
            f"the device's compiler refuses the kernel's {language}: {said}".rstrip(": "), where=where
        ) from error
