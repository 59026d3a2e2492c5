# SPDX-License-Identifier: Apache-2.0
"""Attempts of a run: bound plans that were started for it, and the rest of a run with which one begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from syclsched.cluster.parts import DividedPlan, HeldRows
from syclsched.cluster.recovery.part_state import HeldValue, PartReport, PartState
from syclsched.model.access import RowRange
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan


@dataclass(frozen=True, slots=True)
class Holder:
    """A machine that has a value in memory, as an attempt has left it."""

    attempt: int
    machine: str
    held: HeldValue


@dataclass(frozen=True, slots=True)
class StartRows:
    """Rows of an array, or all, with the version that the rest begins with; the user has given it if none has it."""

    rows: RowRange | None
    version: int
    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class RemainingRun:
    """The remaining work of a run."""

    graph: TaskGraph
    starts: Mapping[str, tuple[StartRows, ...]]  # by array of the graph
    original: Mapping[str, str]  # array of the run by array of the graph, for those with another name
    redone: tuple[str, ...]
    #: Machines that have the final values that the rest does not make, by array and rows of the run.
    results: Mapping[tuple[str, RowRange | None], Holder]

    @property
    def held(self) -> dict[str, tuple[HeldRows, ...]]:
        """The machines that have the initial values."""
        return {
            name: tuple(HeldRows(each.rows, tuple(dict.fromkeys(h.machine for h in each.holders))) for each in found)
            for name, found in self.starts.items()
        }

    def version(self, array: str, rows: RowRange | None) -> int | None:
        """Return the version with which an array, or some of its rows, begins; None if it begins without a value."""
        return next((each.version for each in self.starts.get(array, ()) if each.rows == rows), None)


@dataclass(frozen=True, slots=True)
class Binding:
    """A plan whose parts are bound on their machines."""

    key: str
    plan: Plan
    graph: TaskGraph  # in the form the plan was made for
    divided: DividedPlan
    addresses: Mapping[str, str]  # of all machines that were there, by name


@dataclass(slots=True)
class RunAttempt:
    """A start of a graph, or of the rest of it, on bound machines."""

    binding: Binding
    run: str  # its identity on the machines
    rest: RemainingRun | None = None  # None: the whole graph
    states: dict[str, PartState] = field(default_factory=dict)  # of the machines that are left and have ended
    reports: dict[str, PartReport] = field(default_factory=dict)  # of the parts that have ended

    def original(self, array: str) -> str:
        """Return the array of the run that an array of the attempt's graph is."""
        return array if self.rest is None else self.rest.original.get(array, array)


class ResultPiece(NamedTuple):
    """Rows of a result, or all of it, and the attempt and machine that have them; none if no task wrote them."""

    attempt: RunAttempt | None
    machine: str
    rows: RowRange | None


def result_pieces(attempts: Sequence[RunAttempt], rest: RemainingRun | None, array: str) -> list[ResultPiece]:
    """Return the places of a result's pieces after some attempts; ``rest`` is the work that remained for the last."""
    found, last = [], attempts[-1]
    for piece in attempts[0].binding.divided.results[array]:
        if not piece.machine:
            found.append(ResultPiece(None, "", piece.rows))
            continue
        holder = None if rest is None else rest.results.get((array, piece.rows))
        if holder is not None:
            found.append(ResultPiece(attempts[holder.attempt], holder.machine, piece.rows))
            continue
        made = next(each for each in last.binding.divided.results[array] if _covers(each.rows, piece.rows))
        found.append(ResultPiece(last, made.machine, piece.rows))
    return found


def _covers(rows: RowRange | None, piece: RowRange | None) -> bool:
    return rows is None or (piece is not None and rows[0] <= piece[0] and piece[1] <= rows[1])
