# SPDX-License-Identifier: Apache-2.0
"""Admission of plans to the memory of one process: all bound plans fit in memory together, or one is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from syclsched.devices.memory.available_memory import available_bytes
from syclsched.errors import MemoryLimitError
from syclsched.model.platform import HOST, MemorySpace
from syclsched.model.text.units import format_bytes

#: Most holders that an error names.
_MOST_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class _Holder:
    """Memory that is held for a bound plan."""

    what: str  # the graph and the client that has bound it
    nbytes: Mapping[str, int]  # by space; that of the host stands for all in the machine's memory


class BoundMemory:
    """Memory that is held for the plans bound in this process; usable from any thread.

    Memory spaces that the host can address are in the machine's memory, and share it; each has a limit of its own, too.
    ``available`` returns the bytes of memory that the machine has left; None if that is unknown.
    """

    def __init__(self, available: Callable[[], int | None] = available_bytes) -> None:
        self._available = available
        self._lock = threading.Lock()
        self._held: dict[str, _Holder] = {}

    def claim(self, key: str, what: str, needed: Mapping[str, int], spaces: Iterable[MemorySpace]) -> None:
        """Hold memory for a plan, by space, until `release`; raise `MemoryLimitError` if there is not enough left."""
        limits: dict[str, int] = {}
        nbytes: dict[str, int] = {}
        for space in spaces:
            for group in dict.fromkeys((HOST if space.host_accessible else space.name, space.name)):
                limits[group] = max(limits.get(group, 0), space.capacity_bytes)
                nbytes[group] = nbytes.get(group, 0) + needed.get(space.name, 0)
        with self._lock:
            for group, size in nbytes.items():
                self._check(what, group, size, limits[group] or None)
            self._held[key] = _Holder(what, nbytes)

    def release(self, key: str) -> None:
        """Hold memory for a plan no longer."""
        with self._lock:
            self._held.pop(key, None)

    def _check(self, what: str, group: str, size: int, limit: int | None) -> None:
        """Raise an error if further memory of a group does not fit."""
        holders = [(held.nbytes[group], held.what) for held in self._held.values() if held.nbytes.get(group)]
        left = None if limit is None else limit - sum(nbytes for nbytes, _ in holders)
        free = self._available() if group == HOST else None
        if size == 0 or ((left is None or size <= left) and (free is None or size <= free)):
            return
        named = [f"{who} holds {format_bytes(nbytes)}" for nbytes, who in sorted(holders, reverse=True)]
        if len(named) > _MOST_NAMED:
            named[_MOST_NAMED:] = [f"{len(named) - _MOST_NAMED} more hold less"]
        if left is not None and size > left:
            rest = f"{format_bytes(max(0, left))} of {format_bytes(limit or 0)} are left"
        else:
            rest = f"the machine has {format_bytes(free or 0)} left beside other programs"
        raise MemoryLimitError(
            f"{what} needs {format_bytes(size)} of memory {group!r}, and {rest}"
            + (f": {'; '.join(named)}" if named else ""),
            space=group,
            hint="Wait until others are done, close runners that are not used, or plan again so that this machine "
            "gets less; `print(cluster.status())` shows what each machine holds",
        )
