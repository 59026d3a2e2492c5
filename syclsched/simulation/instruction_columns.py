# SPDX-License-Identifier: Apache-2.0
"""Instructions of a plan as columns for simulation, read from its lanes or provided by planning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from syclsched.model.graph_parts.access_columns import WRITES, Flags
from syclsched.model.plan import Plan
from syclsched.model.tables.instruction_table import INSTRUCTION_KINDS, InstructionTable, table_of
from syclsched.model.tables.lazy_objects import lane_table
from syclsched.simulation.machine import ALLOC, COPY, FREE, WORK, Floats, Ints

_NUMBERS: Final = {kind: n for n, kind in enumerate(INSTRUCTION_KINDS)}
#: Codes of the engine, by kind of instruction.
_KINDS: Final = {"alloc": ALLOC, "free": FREE, "copy": COPY, "launch": WORK, "host": WORK, "barrier": WORK}
_CODES: Final = np.array([_KINDS[kind] for kind in INSTRUCTION_KINDS], np.int64)


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
    tables = list(map(lane_table, plan.lanes)) or [table_of(())]
    kind = np.concatenate([_CODES[table.kind.numbered(_NUMBERS)] for table in tables])
    nbytes = np.where(kind == WORK, 0, np.concatenate([table.nbytes for table in tables]))
    ends = [pair for table in tables for pair in _ends(table)]
    ways = {pair: n for n, pair in enumerate(dict.fromkeys(ends))}
    held = [space for table in tables for space in _held(table)]
    spaces = {space: n for n, space in enumerate(dict.fromkeys(held))}
    return InstructionColumns(
        np.concatenate([table.id for table in tables]),
        _starts(np.array([len(table) for table in tables if plan.lanes], np.int64)),
        kind,
        np.concatenate([table.duration_s for table in tables]),
        nbytes,
        _starts(np.concatenate([np.diff(table.wait_starts) for table in tables])),
        np.concatenate([table.waits for table in tables]),
        tuple(ways),
        np.fromiter(map(ways.__getitem__, ends), np.int64, len(ends)),
        tuple(spaces),
        np.fromiter(map(spaces.__getitem__, held), np.int64, len(held)),
    )


def _starts(lengths: Ints) -> Ints:
    """Return the start offset of each row in a flat array, and the end of the last."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _ends(table: InstructionTable) -> list[tuple[str, str]]:
    """Return the source and destination space of each copy: of its first use that only reads, and first that writes."""
    copies = np.flatnonzero(table.kind.numbered(_NUMBERS) == INSTRUCTION_KINDS.index("copy"))
    return list(zip(_first(table, copies, ~WRITES), _first(table, copies, WRITES), strict=True))


def _held(table: InstructionTable) -> list[str]:
    """Return the space of each allocation and free."""
    memory = np.flatnonzero(_CODES[table.kind.numbered(_NUMBERS)] < WORK)
    return _first(table, memory, np.ones(len(WRITES), np.bool_))


def _first(table: InstructionTable, rows: Ints, wanted: Flags) -> list[str]:
    """Return the space of the first use of some rows whose mode is wanted; an empty text if there is none."""
    space, starts = table.use_space, table.use_starts
    uses = np.flatnonzero(wanted[table.use_mode])
    place = np.searchsorted(uses, starts[rows])
    found = np.concatenate((uses, [starts[-1]]))[place]
    values = (*space.values, "")
    index = np.concatenate((space.index, [-1]))[found]
    return [values[n] for n in np.where(found < starts[rows + 1], index, -1).tolist()]


def lane_devices(lanes: Sequence[LaneLike]) -> dict[str, int]:
    """Return the devices of some lanes, each with its index."""
    return {name: n for n, name in enumerate(dict.fromkeys(lane.device for lane in lanes))}
