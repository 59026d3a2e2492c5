# SPDX-License-Identifier: Apache-2.0
"""Lanes and traces that create their instruction and span objects on first access.

Planning and the engine make arrays. Creating an object per instruction takes longer than simulating it, and often only
the makespan is needed. So objects are created on first access, from columns, which is faster than one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from syclsched.model.plan import Instruction, Lane
from syclsched.model.tables.instruction_table import InstructionTable, table_of
from syclsched.model.trace import Span, Trace

# Slot descriptors that the properties below override.
_INSTRUCTIONS: Any = Lane.__dict__["instructions"]
_SPANS: Any = Trace.__dict__["spans"]


class _LazyLane(Lane):
    """A lane that creates its instructions on first access; otherwise equal to a plain lane."""

    __slots__ = ()

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """The instructions, in order."""
        held = _INSTRUCTIONS.__get__(self)
        return held if isinstance(held, tuple) else held.instructions()

    @instructions.setter
    def instructions(self, given: Any) -> None:
        _INSTRUCTIONS.__set__(self, given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lane) and all(getattr(self, f.name) == getattr(other, f.name) for f in fields(Lane))

    def __hash__(self) -> int:
        return hash(Lane(self.name, self.device, self.kind, self.instructions))


class _LazyTrace(Trace):
    """A trace that creates its spans on first access; otherwise equal to a plain trace."""

    __slots__ = ()

    @property
    def spans(self) -> tuple[Span, ...]:
        """The spans, in order of start."""
        made: tuple[Span, ...] = _made(self)
        return made

    @spans.setter
    def spans(self, given: Any) -> None:
        _SPANS.__set__(self, given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and all(getattr(self, f.name) == getattr(other, f.name) for f in fields(Trace))

    __hash__ = None  # type: ignore[assignment]  # traces contain a dict


class _Pending:
    """Instructions that are created on first access, as columns and from these as objects."""

    def __init__(self, make: Callable[[], InstructionTable]) -> None:
        self._make: Callable[[], InstructionTable] | None = make
        self._table: InstructionTable | None = None
        self._made: tuple[Instruction, ...] | None = None

    def table(self) -> InstructionTable:
        table = self._table
        if table is None:
            make = self._make
            if make is None:  # another thread has made it meanwhile
                return self.table()
            table = self._table = make()
            self._make = None  # it holds all that the plan was made from, such as the graph's constants
        return table

    def instructions(self) -> tuple[Instruction, ...]:
        if self._made is None:
            self._made = self.table().instructions()
        return self._made


def lazy_lane(lane: Lane, make: Callable[[], InstructionTable]) -> Lane:
    """Return a lane whose instructions are created on first access."""
    return _LazyLane(lane.name, lane.device, lane.kind, _Pending(make))  # type: ignore[arg-type]


def lane_table(lane: Lane) -> InstructionTable:
    """Return the instructions of a lane as columns."""
    held = _INSTRUCTIONS.__get__(lane)
    return held.table() if isinstance(held, _Pending) else table_of(lane.instructions)


def lazy_trace(trace: Trace, make: Callable[[], tuple[Span, ...]]) -> Trace:
    """Return a trace whose spans are created on first access."""
    others = {f.name: getattr(trace, f.name) for f in fields(Trace) if f.name != "spans"}
    return _LazyTrace(spans=make, **others)  # type: ignore[arg-type]


def _made(trace: Trace) -> Any:
    held = _SPANS.__get__(trace)
    if isinstance(held, tuple):
        return held
    made = held()
    _SPANS.__set__(trace, made)
    return made
