# SPDX-License-Identifier: Apache-2.0
"""Kinds of memory: which one the arrays of a space lie in, unless a plan says otherwise of one of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, NamedTuple

from syclsched.model.platform import HOST, MemorySpace, Platform
from syclsched.model.profile import Name, Text

UsmKind = Literal["device", "shared", "host"]
#: USM memory, or the host's plain memory.
MemoryKind = Literal["device", "shared", "host", "plain"]

USM_KINDS: Final[tuple[UsmKind, ...]] = ("device", "shared", "host")


@dataclass(frozen=True, slots=True)
class ArrayMemory:
    """The memory that a plan chose for one array in one space, where that is not what is usual there.

    Parameters
    ----------
    array, space : str
        Which buffer.
    kind : str
        ``device``, ``shared``, ``host`` (USM) or ``plain``.
    why : str
        For people: what was compared, with its numbers.
    context : str or None
        The space whose devices' context it is allocated in, if not its own: kernels of these devices reach it.
    resident : bool
        Of an input: its value lies there when a run begins, and is not copied there by the plan.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "allow_inf_nan": False}

    array: Name
    space: Name
    kind: MemoryKind
    why: Text
    context: Name | None = None
    resident: bool = False


class PoolKey(NamedTuple):
    """Memory that can take each other's place: of one space and kind, allocated in one context.

    Parameters
    ----------
    space : str
        What it counts against.
    kind : str
        What it is.
    context : str or None
        As for `ArrayMemory`.
    """

    space: str
    kind: MemoryKind
    context: str | None = None


def usual_kind(space: MemorySpace, platform: Platform) -> MemoryKind:
    """Return the kind of memory that arrays of a space lie in, if nothing else is chosen.

    Parameters
    ----------
    space : MemorySpace
        A space of the platform.
    platform : Platform
        Its devices.

    Returns
    -------
    str
        ``shared`` where host and device use the same memory: nothing moves, and the host may touch it. ``device``
        where they do not: pages that move by themselves would do so at times no plan knows. For the host's own memory
        ``host``, which is pinned, if some device has memory of its own: copies to and from it then need no staging;
        else ``plain``, memory that needs no runtime.
    """
    if space.name != HOST:
        return "shared" if space.host_accessible else "device"
    return "plain" if all(each.host_accessible for each in platform.spaces) else "host"


def why_usual(key: PoolKey) -> str:
    """Return for people why memory is of the kind that is usual in its space."""
    if key.kind == "shared":
        return "host and device use the same memory, and no kind is measurably faster"
    if key.kind == "device":
        return "the device's own; shared pages would move at times no plan knows"
    return "the host's, pinned for copies" if key.kind == "host" else "the host's"


class PoolKeys:
    """Which memory each buffer of a plan lies in.

    Parameters
    ----------
    platform : Platform
        Its spaces.
    chosen : iterable of ArrayMemory, optional
        What differs from the usual.
    """

    __slots__ = ("_chosen", "_usual")

    def __init__(self, platform: Platform, chosen: Iterable[ArrayMemory] = ()) -> None:
        self._usual = {s.name: PoolKey(s.name, usual_kind(s, platform)) for s in platform.spaces}
        self._chosen = {(c.array, c.space): PoolKey(c.space, c.kind, c.context) for c in chosen}

    def get(self, buffer: tuple[str, str]) -> PoolKey | None:
        """Return where a buffer lies, or None in a space that the platform does not have."""
        return self._chosen.get(buffer) or self._usual.get(buffer[1])

    def __getitem__(self, buffer: tuple[str, str]) -> PoolKey:
        """Return where the buffer of a whole array lies.

        Parameters
        ----------
        buffer : (str, str)
            Array and space.
        """
        return self._chosen.get(buffer) or self._usual[buffer[1]]
