# SPDX-License-Identifier: Apache-2.0
"""Lanes and traces that create their instruction and span objects on first access.

The engine's results are arrays. Creating an object per instruction takes longer than simulating it, and often only the
makespan is needed. So objects are created on first access, from columns, which is faster than one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from operator import attrgetter
from typing import Any

from syclsched.model.plan import Instruction, Lane
from syclsched.model.text.bulk_objects import make_objects
from syclsched.model.trace import Span, Trace
from syclsched.simulation.machine import Floats

#: Predicted starts and finishes of a lane's instructions.
Times = tuple[list[float], list[float]]

#: Creates instructions, with other times if given.
InstructionFactory = Callable[..., "tuple[Instruction, ...]"]

# Slot descriptors that the properties below override.
_INSTRUCTIONS: Any = Lane.__dict__["instructions"]
_SPANS: Any = Trace.__dict__["spans"]


class _LazyLane(Lane):
    """A lane that creates its instructions on first access; otherwise equal to a plain lane."""

    __slots__ = ()

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """The instructions, in order."""
        made: tuple[Instruction, ...] = _made(self, _INSTRUCTIONS)
        return made

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
        made: tuple[Span, ...] = _made(self, _SPANS)
        return made

    @spans.setter
    def spans(self, given: Any) -> None:
        _SPANS.__set__(self, given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and all(getattr(self, f.name) == getattr(other, f.name) for f in fields(Trace))

    __hash__ = None  # type: ignore[assignment]  # traces contain a dict


def lazy_lane(lane: Lane, make: InstructionFactory) -> Lane:
    """Return a lane whose instructions are created on first access."""
    return _LazyLane(lane.name, lane.device, lane.kind, make)  # type: ignore[arg-type]


def timed(lane: Lane, start_s: Floats, finish_s: Floats, times: Times | None = None) -> tuple[Instruction, ...]:
    """Return the instructions of a lane with other times; instructions that do not exist yet are created with them."""
    times = times or (start_s.tolist(), finish_s.tolist())
    held = _INSTRUCTIONS.__get__(lane)
    if not isinstance(held, tuple):
        made: tuple[Instruction, ...] = held(times)
        return made
    same: dict[str, Iterable[object]] = {f.name: map(attrgetter(f.name), held) for f in fields(Instruction)}
    return tuple(make_objects(Instruction, len(held), same | {"start_s": times[0], "finish_s": times[1]}))


def lazy_trace(trace: Trace, make: Callable[[], tuple[Span, ...]]) -> Trace:
    """Return a trace whose spans are created on first access."""
    others = {f.name: getattr(trace, f.name) for f in fields(Trace) if f.name != "spans"}
    return _LazyTrace(spans=make, **others)  # type: ignore[arg-type]


def _made(holder: Lane | Trace, place: Any) -> Any:
    held = place.__get__(holder)
    if isinstance(held, tuple):
        return held
    made = held()
    place.__set__(holder, made)
    return made
