# SPDX-License-Identifier: Apache-2.0
"""Memory that the system gets back once a model is compiled: free heap, and code of the compiler's libraries."""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from ctypes import CDLL, c_int, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, Final

#: Smaller parts of libraries stay mapped.
LEAST_BYTES: Final = 8 << 20
#: A private mapping of a file that cannot be written, of which no page has been copied, in ``/proc/self/smaps``.
_UNCHANGED: Final = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) r-[x-]p [0-9a-f]+ \S+ [1-9]\d* +/.*\n(?:\w+: .*\n)*?Anonymous: +0 kB$", re.MULTILINE
)


def give_back(*, library_pages: bool) -> None:
    """Return free heap to the system, which the C library would keep, and maybe the pages of large libraries' code.

    Most of that code is only used to compile kernels. The system maps a page again when it is used, from its cache of
    the file. Nothing is lost: only pages are given back that are as in the file and cannot be written.
    """
    advise = _function("madvise", c_void_p, c_size_t, c_int) if library_pages else None
    if advise is not None:
        for start, size in _large_unchanged_mappings():
            advise(start, size, mmap.MADV_DONTNEED)
    trim = _function("malloc_trim", c_size_t)
    if trim is not None:  # last: the text of all mappings takes a megabyte of heap
        trim(0)


def _large_unchanged_mappings() -> Iterator[tuple[int, int]]:
    """Yield the address and the bytes of each large mapping that equals its file and cannot be written."""
    with suppress(OSError):  # another system, or one that hides it
        for found in _UNCHANGED.finditer(Path("/proc/self/smaps").read_bytes()):
            start, end = (int(address, 16) for address in found.groups())
            if end - start >= LEAST_BYTES:
                yield start, end - start


@cache
def _function(name: str, *arguments: Any) -> Callable[..., int] | None:
    """Return a function of the C library; None if there is none."""
    try:
        found = getattr(CDLL(None), name)
    except (OSError, AttributeError, TypeError):  # another C library, another system
        return None
    found.argtypes = arguments
    return found  # type: ignore[no-any-return]
