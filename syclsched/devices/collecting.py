# SPDX-License-Identifier: Apache-2.0
"""USM memory that is given back also where the garbage collector finds it.

dpctl 0.17 gives memory back by the queue that its object refers to, and not at all if that reference is gone; in a
cycle of garbage the collector clears references before it lets go of objects, so what such a cycle held is lost. The
kinds of memory made here are kept out of that: they live until the collector is done, and then go as others do.
"""

from __future__ import annotations

import gc
from functools import cache
from typing import Any, Final

#: What the collector found in this collection.
_found: Final[list[Any]] = []
_is_collecting = False


@cache
def memory_kinds() -> dict[str, type]:
    """Return the types of USM memory by kind: ``device``, ``shared``, ``host``."""
    from dpctl import memory

    gc.callbacks.append(_note)
    kinds = {"device": memory.MemoryUSMDevice, "shared": memory.MemoryUSMShared, "host": memory.MemoryUSMHost}
    return {
        kind: type(base.__name__, (base,), {"__slots__": (), "__del__": _outlive, "__doc__": base.__doc__})
        for kind, base in kinds.items()
    }


def _outlive(memory: Any) -> None:
    # Called before the collector clears anything.
    if _is_collecting:
        _found.append(memory)


def _note(phase: str, _: object) -> None:
    global _is_collecting
    _is_collecting = phase == "start"
    if not _is_collecting:
        _found.clear()
