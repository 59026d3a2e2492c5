# SPDX-License-Identifier: Apache-2.0
"""Kinds of memory: the default kind of each memory space, and a plan's choices for single arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from syclsched.model.platform import HOST, MemorySpace, Platform
from syclsched.model.profile import Name, Text
from syclsched.model.text.json_serialisation import Serialisable

UsmKind = Literal["device", "shared", "host"]
#: A kind of USM memory, or ordinary host memory (``plain``).
MemoryKind = Literal["device", "shared", "host", "plain"]

USM_KINDS: Final[tuple[UsmKind, ...]] = ("device", "shared", "host")


@dataclass(frozen=True, slots=True)
class ArrayMemory(Serialisable):
    """The memory that a plan chose for one array in one space, if it is not the space's default.

    Parameters
    ----------
    array, space : str
        Array and memory space that identify the buffer.
    kind : str
        ``device``, ``shared``, ``host`` (USM) or ``plain``.
    why : str
        Reason of the choice, for users: the compared alternatives with their numbers.
    context : str or None
        The space in whose devices' context it is allocated, if not its own; kernels of these devices can access it.
    resident : bool
        For an input: its value resides there from the start of a run; the plan does not copy it there.
    """

    array: Name
    space: Name
    kind: MemoryKind
    why: Text
    context: Name | None = None
    resident: bool = False


class PoolKey(NamedTuple):
    """Key of a memory pool: buffers of one space, kind and context can reuse each other's memory.

    Parameters
    ----------
    space : str
        The space whose capacity it uses.
    kind : str
        Kind of memory.
    context : str or None
        As for `ArrayMemory`.
    """

    space: str
    kind: MemoryKind
    context: str | None = None


def default_kind(space: MemorySpace, platform: Platform) -> MemoryKind:
    """Return the default kind of memory of a space.

    It is ``shared`` if host and device use the same memory: nothing migrates, and the host may access it. Otherwise it
    is ``device``, since pages of shared memory would migrate at times unknown to the plan. For host memory it is
    ``host`` (pinned), if some device has separate memory, since copies then need no staging; else ``plain``, which
    needs no runtime.
    """
    if space.name != HOST:
        return "shared" if space.host_accessible else "device"
    return "plain" if all(each.host_accessible for each in platform.spaces) else "host"


def default_kind_reason(key: PoolKey) -> str:
    """Return the reason for the default kind of memory of a space, for users."""
    if key.kind == "shared":
        return "host and device use the same memory, and no kind is measurably faster"
    if key.kind == "device":
        return "the device's own; shared pages would move at times no plan knows"
    return "the host's, pinned for copies" if key.kind == "host" else "the host's"


class PoolKeys:
    """Memory pool key of each buffer of a plan.

    Parameters
    ----------
    platform : Platform
        The plan's platform.
    chosen : iterable of ArrayMemory, optional
        Buffers that do not use the default kind of their space.
    """

    __slots__ = ("_chosen", "_usual")

    def __init__(self, platform: Platform, chosen: Iterable[ArrayMemory] = ()) -> None:
        self._usual = {s.name: PoolKey(s.name, default_kind(s, platform)) for s in platform.spaces}
        self._chosen = {(c.array, c.space): PoolKey(c.space, c.kind, c.context) for c in chosen}

    def get(self, buffer: tuple[str, str]) -> PoolKey | None:
        """Return the pool key of a buffer, or None for a space that the platform does not have."""
        return self._chosen.get(buffer) or self._usual.get(buffer[1])

    def __getitem__(self, buffer: tuple[str, str]) -> PoolKey:
        """Return the pool key of the buffer of a whole array, given by array and space."""
        return self._chosen.get(buffer) or self._usual[buffer[1]]
