# SPDX-License-Identifier: Apache-2.0
"""Instructions of a plan as columns for simulation, read from objects or provided by planning."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, Protocol

import numpy as np

from syclsched.model.access import AccessMode
from syclsched.model.plan import BufferUse, Instruction, InstructionKind, Plan
from syclsched.simulation.machine import ALLOC, COPY, FREE, WORK, Floats, Ints

_KINDS: dict[InstructionKind, int] = {
    "alloc": ALLOC, "free": FREE, "copy": COPY, "launch": WORK, "host": WORK, "barrier": WORK
}  # fmt: skip

# Mapping these over instructions takes a third of the time of a loop.
_INSTRUCTIONS, _ID, _KIND, _WAITS, _DURATION_S, _NBYTES = map(
    attrgetter, ("instructions", "id", "kind", "waits", "duration_s", "nbytes")
)

#: Number of instructions read field by field at a time: they stay in the processor's cache, which halves the time.
_AT_ONCE = 512


class LaneLike(Protocol):
    """The part of a lane that simulation needs."""

    @property
    def device(self) -> str:
        """The device's name."""

    @property
    def kind(self) -> str:
        """``compute``, ``copy`` or ``host``."""


class InstructionColumns(NamedTuple):
    """Instructions, lane after lane in the order of each lane."""

    number: Ints  # gives the global order
    lane_starts: Ints  # ragged: the instructions of each lane
    kind: Ints  # `ALLOC`, `FREE`, `WORK` or `COPY` of `syclsched.simulation.machine`
    duration_s: Floats  # seconds alone on the machine
    nbytes: Ints  # size of a copy, an allocation or a free
    #: Ragged: the numbers of the instructions each waits for.
    wait_starts: Ints
    waits: Ints
    ways: tuple[tuple[str, str], ...]  # the different pairs of source and destination space of copies
    way: Ints  # of each copy, in order: index into ``ways``
    spaces: tuple[str, ...]  # the spaces of allocations and frees; an empty name if unknown
    space: Ints  # of each allocation and free, in order: index into ``spaces``


def read_columns(plan: Plan) -> InstructionColumns:
    """Return a plan's instructions as columns."""
    instructions = list(chain.from_iterable(map(_INSTRUCTIONS, plan.lanes)))
    parts = [_read(instructions[n : n + _AT_ONCE]) for n in range(0, len(instructions), _AT_ONCE)] or [_read([])]
    number, kind, duration_s, nbytes, waits, waited, pairs, held = zip(*parts, strict=True)
    ends = list(chain.from_iterable(pairs))
    ways = {pair: n for n, pair in enumerate(dict.fromkeys(ends))}
    where = list(chain.from_iterable(held))
    spaces = {space: n for n, space in enumerate(dict.fromkeys(where))}
    return InstructionColumns(
        np.concatenate(number),
        _starts(np.array([len(lane.instructions) for lane in plan.lanes], np.int64)),
        np.concatenate(kind),
        np.concatenate(duration_s),
        np.concatenate(nbytes),
        _starts(np.concatenate(waits)),
        np.concatenate(waited),
        tuple(ways),
        np.fromiter(map(ways.__getitem__, ends), np.int64, len(ends)),
        tuple(spaces),
        np.fromiter(map(spaces.__getitem__, where), np.int64, len(where)),
    )


def _read(part: Sequence[Instruction]) -> tuple[Ints, Ints, Floats, Ints, Ints, Ints, list[tuple[str, str]], list[str]]:
    """Return the columns of some instructions, with counts of waits instead of offsets, and spaces by name."""
    count = len(part)
    waits = list(map(_WAITS, part))
    kind = np.fromiter(map(_KINDS.__getitem__, map(_KIND, part)), np.int64, count)
    place = np.flatnonzero(kind == COPY)
    copies = [part[n] for n in place.tolist()]
    memory = np.flatnonzero(kind < WORK)
    held = [part[n] for n in memory.tolist()]
    nbytes = np.zeros(count, np.int64)
    nbytes[place] = list(map(_NBYTES, copies))
    nbytes[memory] = list(map(_NBYTES, held))
    return (
        np.fromiter(map(_ID, part), np.int64, count),
        kind,
        np.fromiter(map(_DURATION_S, part), np.float64, count),
        nbytes,
        np.fromiter(map(len, waits), np.int64, count),
        np.fromiter(chain.from_iterable(waits), np.int64),
        [_ends(copy.uses) for copy in copies],
        [each.uses[0].space if each.uses else "" for each in held],
    )


def _starts(lengths: Ints) -> Ints:
    """Return the start offset of each row in a flat array, and the end of the last."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _ends(uses: tuple[BufferUse, ...]) -> tuple[str, str]:
    """Return the source and destination space of a copy."""
    if len(uses) == 2 and uses[0].mode is AccessMode.READ and uses[1].mode is AccessMode.WRITE:
        return uses[0].space, uses[1].space  # as planning makes them; the rest handles any plan
    source = next((u.space for u in uses if not u.mode.writes), "")
    return source, next((u.space for u in uses if u.mode.writes), "")


def lane_devices(lanes: Sequence[LaneLike]) -> dict[str, int]:
    """Return the devices of some lanes, each with its index."""
    return {name: n for n, name in enumerate(dict.fromkeys(lane.device for lane in lanes))}
