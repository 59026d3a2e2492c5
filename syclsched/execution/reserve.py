# SPDX-License-Identifier: Apache-2.0
"""Memory got and touched before a run starts, so that no page fault falls into a copy or a kernel.

The first write to fresh pages costs more than the write itself: on the CPU device a copy of 512 KiB takes several
times as long into fresh memory. A plan says what it will allocate and free, so what it needs at once is known
beforehand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from syclsched.execution.program import Buffer
from syclsched.model.plan import Instruction

#: Memory space and size in bytes: blocks of one kind replace each other.
Kind = tuple[str, int]

_PAGE_BYTES = 4096


def buffers_to_prepare(instructions: Iterable[Instruction], peak_bytes: Mapping[str, int]) -> list[Buffer]:
    """Return the buffers that need a block of their own; those allocated later fit into blocks that were freed.

    Parameters
    ----------
    instructions : iterable of Instruction
        In global order.
    peak_bytes : Mapping[str, int]
        The plan's peak per space: where blocks of different sizes follow each other, no more than this is taken.

    Returns
    -------
    list of (str, str)
        Array and space, in order of allocation.
    """
    idle: Counter[Kind] = Counter()
    left = dict(peak_bytes)
    found: list[Buffer] = []
    for instruction in instructions:
        if instruction.kind not in ("alloc", "free") or not instruction.nbytes:
            continue
        use = instruction.uses[0]
        kind = (use.space, instruction.nbytes)
        if instruction.kind == "free":
            idle[kind] += 1
        elif idle[kind]:
            idle[kind] -= 1
        elif instruction.nbytes <= left.get(use.space, 0):
            left[use.space] -= instruction.nbytes
            found.append((use.array, use.space))
    return found


def touch(storage: Any) -> None:
    """Write to every page of memory the host can address."""
    view = storage if isinstance(storage, np.ndarray) else np.asarray(storage)
    view.reshape(-1).view(np.uint8)[::_PAGE_BYTES] = 0


class Reserve:
    """Blocks that were given back and can be used again, by space and size.

    Parameters
    ----------
    limits : Mapping[str, int]
        Bytes per space that are to be held at most, in use and waiting together.
    """

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = limits
        self._idle: dict[Kind, list[Any]] = {}
        self._idle_bytes: Counter[str] = Counter()

    def take(self, space: str, nbytes: int, held_bytes: int) -> Any:
        """Return a block of this size, or None if there is none.

        Parameters
        ----------
        space : str
            Memory space.
        nbytes : int
            Size.
        held_bytes : int
            Bytes in use in that space: if a new block would then be too many, those that wait are given back.
        """
        blocks = self._idle.get((space, nbytes))
        if blocks:
            self._idle_bytes[space] -= nbytes
            return blocks.pop()
        if held_bytes + self._idle_bytes[space] + nbytes > self._limits.get(space, 0):
            self._drop(space)
        return None

    def give(self, space: str, nbytes: int, storage: Any) -> None:
        """Put a block aside for later use."""
        self._idle.setdefault((space, nbytes), []).append(storage)
        self._idle_bytes[space] += nbytes

    def clear(self) -> None:
        """Give everything back."""
        self._idle.clear()
        self._idle_bytes.clear()

    def _drop(self, space: str) -> None:
        for kind in [k for k in self._idle if k[0] == space]:
            del self._idle[kind]
        self._idle_bytes[space] = 0
