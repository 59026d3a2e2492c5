# SPDX-License-Identifier: Apache-2.0
"""Lineage across machines: the tasks to do after a loss, and the surviving values with which they begin. Pure.

Versions of arrays are those of one machine's recovery (`syclsched.execution.recovery.lineage`). Here each machine has
memory of its own: one may still read an older version of an array while another has written a later one. The older
ones then are arrays of their own in the graph of the rest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from syclsched.cluster.parts import Message
from syclsched.cluster.platforms import machine_names
from syclsched.cluster.recovery.attempt import Holder, RemainingRun, RunAttempt, StartRows
from syclsched.cluster.recovery.part_state import HeldValue
from syclsched.costs import MemoryHistory
from syclsched.errors import ExecutionError
from syclsched.execution.recovery.lineage import RemainingWork, find_remaining_work
from syclsched.execution.recovery.subgraphs import ArrayNames, SubgraphBuilder
from syclsched.execution.recovery.versions import GIVEN, find_versions
from syclsched.model.access import RowRange
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform


class RemainingEstimate(NamedTuple):
    """An estimate of the remaining tasks of a run in progress."""

    graph: TaskGraph
    placed: Mapping[str, str]  # machine of each array


class RunLineage:
    """The lineage of all values of one run, of the plan with which it began."""

    def __init__(self, plan: Plan, graph: TaskGraph) -> None:
        self._tasks = {task.name: task for task in plan.tasks}
        self._versions = find_versions(plan.tasks)
        self._graph = graph
        self._subgraphs = SubgraphBuilder(graph, plan)
        self._inputs = frozenset(graph.inputs())
        self._finished: set[str] = set()
        segments = graph.segments()
        #: The arrays or segments whose versions are counted, with their rows, by array.
        self._pieces: dict[str, list[tuple[str, RowRange | None]]] = {
            name: [(s.name, s.rows) for s in segments[name]] if name in segments else [(name, None)]
            for name in graph.arrays
        }

    @property
    def tasks(self) -> Collection[str]:
        """The names of all tasks."""
        return self._tasks.keys()

    @property
    def times(self) -> MemoryHistory:
        """Predicted times of the tasks."""
        return self._subgraphs.times

    def rest(self, attempts: Sequence[RunAttempt], platform: Platform) -> RemainingRun:
        """Return the work that is left after some attempts, for a platform of machines."""
        holders = self._holders(attempts, frozenset(machine_names(platform)))
        whole: dict[str, set[int]] = {piece: set(found) for piece, found in holders.items()}
        for array in self._inputs:
            for piece, _ in self._pieces[array]:
                whole.setdefault(piece, set()).add(GIVEN)
        wanted = [
            piece
            for name, array in self._graph.arrays.items()
            for piece, _ in self._pieces[name]
            if not array.temporary and self._versions.last(piece) > GIVEN
        ]
        self._note_finished(attempts)
        # Tasks that have no effect but their values are done where these are needed.
        done = self._finished | {name for name, task in self._tasks.items() if task.repeatable}
        apart = {piece for pieces in self._pieces.values() for piece, _ in pieces}
        while True:
            left = find_remaining_work(
                self._tasks, self._versions, whole, done, (), wanted, frozenset(self._tasks), apart
            )
            if left.lost or left.dead:
                raise ExecutionError(
                    "values that the rest of the run needs cannot be computed", where=f"graph {self._graph.name!r}"
                )
            copies, mixed = self._copies(left)
            if not mixed:
                break
            apart -= {piece for array in mixed for piece, _ in self._pieces[array]}
        return self._made(left, copies, holders, wanted, platform)

    def estimate_remaining(
        self, done: Collection[str], machines: Mapping[str, str], platform: Platform
    ) -> RemainingEstimate:
        """Return an estimate of the remaining tasks when some are done: values are where their writers have run.

        ``machines`` names the machine of each task. Inputs are where they are read first.
        """
        graph = self._subgraphs.of(frozenset(self._tasks) - frozenset(done), platform)
        placed: dict[str, str] = {}
        for task in self._graph.tasks:
            for access in task.accesses:
                if access.array not in placed or (task.name in done and access.mode.writes):
                    placed[access.array] = machines[task.name]
        there = frozenset(machine_names(platform))  # a lost machine's values are made again on any machine
        return RemainingEstimate(graph, {name: placed[name] for name in graph.arrays if placed[name] in there})

    # --- inside -----------------------------------------------------------------------------------

    def _holders(self, attempts: Sequence[RunAttempt], machines: frozenset[str]) -> dict[str, dict[int, list[Holder]]]:
        """Return the machines that have each version of each array or segment; latest attempts come first."""
        found: dict[str, dict[int, list[Holder]]] = {}
        for number, attempt in reversed(list(enumerate(attempts))):
            for machine, state in attempt.states.items():
                if machine not in machines:
                    continue
                received = {
                    m.receiver: m for m in attempt.binding.divided.messages if m.destination == machine and m.array
                }
                for held in state.held:
                    for piece, rows, version in self._versions_of(attempt, machine, held, received):
                        holder = Holder(number, machine, replace(held, rows=rows))
                        found.setdefault(piece, {}).setdefault(version, []).append(holder)
        return found

    def _versions_of(
        self, attempt: RunAttempt, machine: str, held: HeldValue, received: Mapping[str, Message]
    ) -> Iterator[tuple[str, RowRange | None, int]]:
        """Yield the arrays or segments of the run, with their versions, that a value of a part is."""
        rest, part = attempt.rest, attempt.binding.divided.parts[machine]
        array = attempt.original(held.array)
        message = received.get(held.writer or "")
        maker = held.writer if message is None else message.maker
        for piece, rows in self._within(array, held.rows):
            if maker is not None:
                version = self._versions.written[maker].get(piece)
            else:
                version = GIVEN if rest is None else rest.version(held.array, rows)
                is_given = version == GIVEN and held.array in part.inputs
                if held.writer is None and not is_given and (held.array, rows) not in part.kept:
                    continue  # the part begins without this value
            if version is not None:
                yield piece, rows, version

    def _within(self, array: str, rows: RowRange | None) -> Sequence[tuple[str, RowRange | None]]:
        """Return the segments of an array within some rows; or the array itself."""
        pieces = self._pieces[array]
        if rows is None or pieces[0][1] is None:
            return pieces
        starts = [each[0] for _, each in pieces if each is not None]
        return pieces[bisect_left(starts, rows[0]) : bisect_left(starts, rows[1])]

    def _note_finished(self, attempts: Sequence[RunAttempt]) -> None:
        """Note the tasks that are known to have finished: those of a lost machine on which a finished one depends."""
        for attempt in attempts:
            for state in attempt.states.values():
                self._finished.update(n for n in state.done if n in self._tasks and self._tasks[n].kind != "barrier")
        for name in reversed(list(self._tasks)):
            if name in self._finished:
                read = self._versions.read[name].items()
                makers = (self._versions.writer(array, version) for array, version in read)
                self._finished.update(b for b in (*self._tasks[name].after, *makers) if b is not None)

    def _copies(self, left: RemainingWork) -> tuple[dict[str, ArrayNames], set[str]]:
        """Return the arrays that take the place of older versions, by task, and those whose versions mix in a task."""
        copies: dict[str, dict[tuple[str, RowRange | None], str]] = {}
        mixed: set[str] = set()
        for task in map(self._graph.find_task, left.tasks):
            for access in task.accesses:
                versions = (self._versions.written if access.mode.writes else self._versions.read)[task.name]
                ages = {self._age(left, p, versions[p]) for p, _ in self._within(access.array, access.rows)}
                if len(ages) > 1:
                    mixed.add(access.array)
                elif age := ages.pop():
                    copies.setdefault(task.name, {})[access.array, access.rows] = self._named(access.array, age)
        return dict(copies), mixed

    def _age(self, left: RemainingWork, piece: str, version: int) -> int:
        """Return the number of versions after this one with which the rest begins."""
        return sum(each > version for each in _starts(left, piece))

    def _named(self, array: str, age: int) -> str:
        """Return the name of the array that has a version of another."""
        name = f"{array}@{age}" if age else array
        while age and name in self._graph.arrays:
            name += "@"
        return name

    def _made(
        self,
        left: RemainingWork,
        copies: Mapping[str, ArrayNames],
        holders: Mapping[str, Mapping[int, Sequence[Holder]]],
        wanted: Sequence[str],
        platform: Platform,
    ) -> RemainingRun:
        graph = self._subgraphs.of(frozenset(left.tasks), platform, copies=copies)
        starts: dict[str, list[StartRows]] = {}
        original = {name: array for names in copies.values() for (array, _), name in names.items()}
        results: dict[tuple[str, RowRange | None], Holder] = {}
        kept = frozenset(wanted)
        for array, pieces in self._pieces.items():
            for piece, rows in pieces:
                for version in _starts(left, piece):
                    name = self._named(array, self._age(left, piece, version))
                    found = tuple(holders.get(piece, {}).get(version, ()))
                    starts.setdefault(name, []).append(StartRows(rows, version, found))
                last = self._versions.last(piece)
                if piece in kept and left.start.get(piece) == last:
                    results[array, rows] = holders[piece][last][0]
        return RemainingRun(
            graph,
            {name: tuple(found) for name, found in starts.items() if name in graph.arrays},
            original,
            tuple(name for name in left.tasks if name in self._finished),
            results,
        )


def _starts(left: RemainingWork, piece: str) -> tuple[int, ...]:
    """Return the versions of an array or segment with which the rest begins."""
    return (*left.older.get(piece, ()), left.start[piece]) if piece in left.start else ()
