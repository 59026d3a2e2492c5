# SPDX-License-Identifier: Apache-2.0
"""Device programs: SPIR-V and OpenCL C built once and cached, several kernels in one program.

The OpenCL CPU runtime keeps 2 MB for each program it has built and never frees them, and the fixed cost of a program is
larger than that of a kernel: kernels needed together are built together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from syclsched.devices.backends.registry import backend_of
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.programs.bounded_cache import BoundedCache
from syclsched.devices.programs.build_log import describe_log
from syclsched.devices.programs.combined_source import ProgramPart, combined_source, program_part, suffix
from syclsched.errors import CapabilityError, ExecutionError
from syclsched.model.operation import OpenCLSource, SpirvModule

__all__ = ["build_together", "compile_code"]

# Bounded, because programs keep the contexts of closed devices alive; but large, because a program that was dropped and
# is built again costs its memory twice.
_PROGRAMS = BoundedCache(4096)
#: Most programs combined into one: more gain little, and lose more when one of them is refused.
_MOST_TOGETHER = 64


@dataclass(frozen=True, slots=True)
class _Built:
    """A built program, and the suffix of its kernels' names."""

    program: Any
    suffix: str = ""


def compile_code(loaded: Any, queue: SyclQueue, where: str) -> Any:
    """Return the kernel of SPIR-V or OpenCL C source; cached, thread-safe."""
    if not isinstance(loaded, (SpirvModule, OpenCLSource)):
        raise ExecutionError(
            f"load() returned {type(loaded).__name__}, not an OpenCLSource or SpirvModule", where=where
        )
    built = _PROGRAMS.get(_key(loaded, queue), lambda: _Built(_build(loaded, queue, where)))
    name = loaded.kernel_name + built.suffix
    if not built.program.has_sycl_kernel(name):
        raise ExecutionError(f"the program has no kernel {loaded.kernel_name!r}", where=where)
    return built.program.get_sycl_kernel(name)


def build_together(codes: Iterable[OpenCLSource], queue: SyclQueue) -> None:
    """Build programs that are not cached for a device yet, combined into few, for `compile_code`; thread-safe.

    Programs that cannot be combined, or are refused, are left to `compile_code`, which reports their errors.
    """
    from dpctl import program

    with _PROGRAMS.lock:
        missing = {key: code for code in codes if (key := _key(code, queue)) not in _PROGRAMS}
        for group in _compatible_groups(missing):
            try:
                program_of_all = backend_of(queue).build(
                    OpenCLSource(combined_source([part for _, part in group]), "", group[0][1].code.options), queue
                )
            except (program.SyclProgramCompilationError, ValueError, CapabilityError):
                continue
            for number, (key, _) in enumerate(group):
                _PROGRAMS.get(key, partial(_Built, program_of_all, suffix(number)))


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
    if isinstance(loaded, SpirvModule):
        code, options = loaded.code, ""
    else:
        code, options = loaded.source.encode(), loaded.options
    digest = hashlib.sha256(b"\0".join((type(loaded).__name__.encode(), options.encode(), code))).digest()
    return digest, queue.sycl_context, queue.sycl_device


def _build(loaded: SpirvModule | OpenCLSource, queue: SyclQueue, where: str) -> Any:
    from dpctl import program

    try:
        if isinstance(loaded, SpirvModule):
            return program.create_program_from_spirv(queue, loaded.code)
        return backend_of(queue).build(loaded, queue)
    except CapabilityError as error:
        raise CapabilityError(error.what, where=where, hint=error.hint) from error
    except (program.SyclProgramCompilationError, ValueError) as error:
        if isinstance(loaded, SpirvModule):
            language, log = "SPIR-V", ""
        else:
            language, log = "OpenCL C", describe_log(backend_of(queue).build_log(loaded, queue), loaded.source)
        said = f"{error}:\n{log}" if log else str(error)
        raise CapabilityError(
            f"the device's compiler refuses the kernel's {language}: {said}".rstrip(": "), where=where
        ) from error
