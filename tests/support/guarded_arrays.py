# SPDX-License-Identifier: Apache-2.0
"""Arrays next to a page of memory that must not be read: a kernel that reads beyond its input ends the process."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

_PAGE = mmap.PAGESIZE
_kept: list[mmap.mmap] = []


def guarded(values: Any, *, at_end: bool) -> Any:
    """Return an array of these values that ends, or begins, where memory must not be read."""
    values = np.array(values, order="C")
    room = max(1, -(-values.nbytes // _PAGE)) * _PAGE
    memory = mmap.mmap(-1, room + 2 * _PAGE)
    _kept.append(memory)  # the protection lasts as long as the mapping
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for page in (begin, begin + _PAGE + room):
        if protect(page, _PAGE, 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect refuses a page")
    offset = _PAGE + (room - values.nbytes if at_end else 0)
    made = np.frombuffer(memory, values.dtype, values.size, offset).reshape(values.shape)
    made[...] = values
    return made
