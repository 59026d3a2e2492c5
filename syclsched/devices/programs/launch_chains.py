# SPDX-License-Identifier: Apache-2.0
"""Launch chains: consecutive launches of several OpenCL C kernels made by one work-item, one after another.

A launch on the calling thread costs two microseconds, which is more than a kernel of a small model takes.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from syclsched.devices.native.sycl_types import SyclContext, SyclDevice, SyclQueue
from syclsched.devices.programs.bounded_cache import BoundedCache
from syclsched.devices.programs.combined_source import ProgramPart, program_part, suffix
from syclsched.devices.programs.executables import Executable, KernelExecutable, KernelSubmission, Submission
from syclsched.devices.programs.joined_launches import (
    ARGUMENT_BYTES,
    ATTRIBUTES,
    LARGEST_ARGUMENT_BYTES,
    plain_parameters,
)
from syclsched.devices.programs.programs import compile_code
from syclsched.errors import SyclschedError
from syclsched.model.operation import OpenCLSource

#: Arguments of a chain that every full-profile OpenCL device accepts.
MOST_ARGUMENTS = ARGUMENT_BYTES // LARGEST_ARGUMENT_BYTES
_EXTENT_BYTES = 4
#: By the code of chains: the extents of the first of them.
_FIRST = BoundedCache(256)
_LOCAL = re.compile(r"\bget_(?:local_id|local_size|enqueued_local_size|group_id|num_groups)\b")
_QUERY = re.compile(r"\bget_(?:global|local|enqueued|group|num)_\w+")
_RESTRICT = re.compile(r"\b(?:__)?restrict(?:__)?\b")
_WORD = re.compile(r"[A-Za-z_]\w*")
#: The queries of a work-item, of the loops' indices and the launch's ranges.
_QUERIES = {
    "get_global_id": "syclsched_id_##d",
    "get_global_size": "syclsched_size_##d",
    "get_local_size": "syclsched_local_##d",
    "get_enqueued_local_size": "syclsched_local_##d",
    "get_local_id": "(syclsched_id_##d % syclsched_local_##d)",
    "get_group_id": "(syclsched_id_##d / syclsched_local_##d)",
    "get_num_groups": "(syclsched_size_##d / syclsched_local_##d)",
}


#: What a kernel's function is given first.
_GIVEN = ("syclsched_id_0", "syclsched_id_1", "syclsched_size_0", "syclsched_size_1")


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A launch that can be part of a chain."""

    part: ProgramPart  # its kernel as a function, which takes the indices of a work-item and the ranges first
    parameters: tuple[tuple[str, str], ...]  # of the kernel, its extents left out: declaration and name
    global_range: tuple[int, ...]
    local_range: tuple[int, ...] | None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The extents of its index space and of its arrays, which the chain takes as arguments."""
        return (*_extents(self.global_range), *self.part.code.extents)

    @property
    def argument_count(self) -> int:
        """Number of the largest arguments that take as many bytes as its own, extents among them."""
        return len(self.parameters) + -(-_EXTENT_BYTES * len(self.numbers) // LARGEST_ARGUMENT_BYTES)


def chain_link(executable: Executable) -> ChainLink | None:
    """Return a launch as part of a chain; None if it cannot be one."""
    if not isinstance(executable, KernelExecutable) or not isinstance(executable.code, OpenCLSource):
        return None
    extents, local = tuple(executable.global_range), executable.local_range
    found = _function(executable.code)
    if found is None or len(extents) > 2 or 0 in extents:
        return None
    if local is None and _LOCAL.search(executable.code.source):
        return None  # the runtime chooses the groups
    return ChainLink(*found, extents, None if local is None else tuple(local))


def can_chain(links: Sequence[ChainLink], queue: SyclQueue) -> bool:
    """Return whether a device compiles a chain; this builds it."""
    return _kernel(tuple(links), queue.sycl_context, queue.sycl_device) is not None


def chain_launches(
    executables: Sequence[Executable], submissions: Sequence[Submission], queue: SyclQueue
) -> KernelSubmission:
    """Return one submission that does the work of several launches one after another; only if `can_chain`."""
    links = tuple(link for link in map(chain_link, executables) if link is not None)
    built = _kernel(links, queue.sycl_context, queue.sycl_device)
    assert built is not None
    kernel, takes_extents = built
    arrays, extents = list[Any](), list[Any]()
    for link, each in zip(links, submissions, strict=True):
        arrays += each.arguments[: len(link.parameters)]  # type: ignore[attr-defined]
        extents += [ctypes.c_int32(number) for number in link.numbers] if takes_extents else []
    return KernelSubmission(
        kernel=kernel,
        arguments=arrays + extents,
        global_range=[1],
        local_range=[1],
        open_ended=any(link.part.code.open_ended for link in links),
    )


@lru_cache(maxsize=64)  # a kernel keeps its program alive
def _kernel(links: tuple[ChainLink, ...], context: SyclContext, device: SyclDevice) -> tuple[Any, bool] | None:
    """Return the kernel of a chain, and whether it takes extents; None if the device does not compile it.

    The first chain of some kernels contains its extents, which saves up to 7 % of its time. Chains of the same kernels
    with other extents, as in plans for further lengths of a text, share a kernel that takes them.
    """
    import dpctl

    shared, numbers = chain_source(links, takes_extents=True), [link.numbers for link in links]
    takes_extents = _FIRST.get((shared, context, device), lambda: numbers) != numbers
    code = shared if takes_extents else chain_source(links)
    try:
        kernel = compile_code(code, dpctl.SyclQueue(context, device), f"chain of {len(links)} launches")
    except SyclschedError:
        return None
    return kernel, takes_extents


@lru_cache(maxsize=512)
def _function(code: OpenCLSource) -> tuple[ProgramPart, tuple[tuple[str, str], ...]] | None:
    """Return a program with its kernel as a function of a work-item's indices and ranges, and its parameters."""
    found = plain_parameters(code)
    if found is None:
        return None
    declared = re.compile(rf"\b(?:__)?kernel\b{ATTRIBUTES}\s+void\s+{re.escape(code.kernel_name)}\s*\(")
    places = list(declared.finditer(code.source))
    if len(places) != 1:
        return None
    before, behind = code.source[: places[0].start()], code.source[_end_of_body(code.source, places[0].end()) :]
    if _QUERY.search(before) or _QUERY.search(behind):  # other functions and macros have no access to the indices
        return None
    head = f"void {code.kernel_name}({''.join(f'const size_t {name}, ' for name in _GIVEN)}"
    part = program_part(replace(code, source=declared.sub(head, code.source)))
    if part is None or {word for head, _ in found for word in _WORD.findall(head)} & {*part.names, *part.macros}:
        return None
    return part, tuple(found[: len(found) - len(code.extents)])


def _end_of_body(source: str, begin: int) -> int:
    """Return where the body of the function ends whose parameters begin here."""
    depth = 0
    for found in re.compile(r"[{}]").finditer(source, begin):
        depth += 1 if found.group() == "{" else -1
        if depth == 0:
            return found.end()
    return len(source)


def chain_source(links: Sequence[ChainLink], *, takes_extents: bool = False) -> OpenCLSource:
    """Return a program with a kernel that does the work of launches of programs with equal settings, in order.

    It takes the arguments of all launches, one after another, and maybe their extents behind them, and is launched with
    a single work-item. Launches that differ in extents and ranges alone call the same function.
    """
    texts, declared, numbers, calls, functions = [], [], [], [], dict[str, int]()
    for number, link in enumerate(links):
        defined, undefined = _macros(link)
        text = f"{defined}{link.part.code.source}"
        function = functions.setdefault(text, number)
        if function == number:
            texts += [defined, link.part.numbered(number), undefined]
        declared += [f"{_RESTRICT.sub('', head)}{own}_{number}" for head, own in link.parameters]
        extents = list(map(str, link.numbers))
        if takes_extents:
            extents = [f"syclsched_extent_{number}_{index}" for index in range(len(extents))]
            numbers += [f"const int {each}" for each in extents]
        (wide, high), own_extents = extents[:2], extents[2:]
        arguments = "".join(
            f", {each}" for each in (wide, high, *(f"{own}_{number}" for _, own in link.parameters), *own_extents)
        )
        calls += [
            f"  for (size_t j = 0; j < {high}; ++j)",
            f"    for (size_t i = 0; i < {wide}; ++i)",
            f"      {link.part.code.kernel_name}{suffix(function)}(i, j{arguments});",
        ]
    name = f"syclsched_chain_of_{len(links)}"
    hint = "__attribute__((reqd_work_group_size(1, 1, 1)))"
    texts += [f"__kernel {hint} void {name}({', '.join(declared + numbers)}) {{", *calls, "}", ""]
    return OpenCLSource("\n".join(texts), name, links[0].part.code.options)


def _macros(link: ChainLink) -> tuple[str, str]:
    """Return definitions of the queries that a kernel makes, and the code that removes them."""
    macros = {f"{name}(d)": value for name, value in _QUERIES.items() if name in link.part.code.source}
    if macros.keys() - {"get_global_id(d)"} and link.local_range is not None:
        local = _extents(link.local_range)
        macros |= {f"syclsched_local_{d}": f"((size_t){size})" for d, size in enumerate(local)}
    defined = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    return defined, "".join(f"#undef {name.partition('(')[0]}\n" for name in macros)


def _extents(extents: Sequence[int]) -> tuple[int, int]:
    """Return a range's extents in the order of OpenCL, the fastest first."""
    return extents[-1], extents[0] if len(extents) == 2 else 1
