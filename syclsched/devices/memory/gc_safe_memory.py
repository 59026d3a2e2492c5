# SPDX-License-Identifier: Apache-2.0
"""USM memory types that are freed correctly when the garbage collector finds them in a cycle.

dpctl 0.17 frees memory through the queue its object refers to, and leaks it if that reference is gone. In a cycle of
garbage the collector clears references before it deletes objects, so memory held by such a cycle would be lost. Objects
of the types made here survive the collection by one extra reference, and are deleted normally afterwards.
"""

from __future__ import annotations

import gc
from functools import cache
from typing import Any, Final

#: Memory objects found by the current garbage collection, kept alive until it ends.
_found: Final[list[Any]] = []
_is_collecting = False


@cache
def memory_kinds() -> dict[str, type]:
    """Return the types of USM memory by kind: ``device``, ``shared``, ``host``."""
    from dpctl import memory

    gc.callbacks.append(_note_collection)
    kinds = {"device": memory.MemoryUSMDevice, "shared": memory.MemoryUSMShared, "host": memory.MemoryUSMHost}
    return {
        kind: type(base.__name__, (base,), {"__slots__": (), "__del__": _keep_alive, "__doc__": base.__doc__})
        for kind, base in kinds.items()
    }


def _keep_alive(memory: Any) -> None:
    # Called before the collector clears anything.
    if _is_collecting:
        _found.append(memory)


def _note_collection(phase: str, _: object) -> None:
    global _is_collecting
    _is_collecting = phase == "start"
    if not _is_collecting:
        _found.clear()
