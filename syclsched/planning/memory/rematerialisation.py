# SPDX-License-Identifier: Apache-2.0
"""Rematerialisation: where memory is short, temporaries are dropped and recomputed before their next reader.

An array that must leave a space is either saved to the host's memory and copied back, or dropped; then the task that
wrote it runs again right before the next reader, as for activations in training (Griewank and Walther 2000; Chen et al.
2016, https://arxiv.org/abs/1604.06174). It pays where the task takes less time than the two copies. The task's inputs
must still have the same values then, so they count as read until then, which keeps them from being freed or evicted
first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from syclsched.model.plan import PlannedTask
from syclsched.model.platform import HOST, Device, Platform
from syclsched.model.schedule import Assignment
from syclsched.planning.draft import READING, WRITING
from syclsched.planning.future_accesses import FutureAccess, FutureAccesses
from syclsched.planning.graph_record import GraphRecord
from syclsched.planning.memory.residency import Residency

#: Most tasks that are run again to recompute one value.
MAX_RECOMPUTED_TASKS: Final = 32


class Producer(NamedTuple):
    """The task that wrote an array, its assignment, and its position in the global order."""

    task: PlannedTask
    assignment: Assignment
    position: int


@dataclass(slots=True)
class _Estimate:
    """Cost of recomputing a value: seconds, the arrays that are written, and the reads this adds."""

    seconds: float
    made: set[str]
    reads: list[tuple[str, FutureAccess]]


class Rematerialiser:
    """Values that have been dropped, and the tasks that recompute them."""

    def __init__(
        self,
        graph: GraphRecord,
        devices: Mapping[str, Device],
        durations_s: Mapping[str, float],
        upcoming: FutureAccesses,
        memory: Residency,
        valid: Mapping[str, Sequence[str]],
        seconds: Callable[[str, str, str], float],
    ) -> None:
        self._devices = devices
        self._durations_s = durations_s
        self._upcoming = upcoming
        self._memory = memory
        self._valid = valid
        self._seconds = seconds
        self._statuses = graph.statuses
        self._temporary = {a.name for a in graph.arrays if a.temporary and a.rows is None} - graph.statuses
        self._temporary -= graph.pieces.keys()
        self._maker: dict[str, Producer] = {}
        #: For each dropped array: the future reads added to keep its inputs.
        self._given_up: dict[str, list[tuple[str, FutureAccess]]] = {}

    def made(self, maker: Producer) -> None:
        """Record that a task has been placed."""
        for access in maker.task.accesses:
            if WRITING[id(access.mode)]:
                self._maker[access.array] = maker
                if access.array in self._given_up:
                    self.note_recomputed(access.array)  # the old value has no readers left

    def can_recompute(self, array: str, space: str) -> bool:
        """Return whether an array's only copy could be dropped and recomputed when it is needed."""
        return self._estimate(array, space) is not None

    def drop_if_cheaper(self, array: str, space: str) -> bool:
        """Drop an array's value if recomputing is cheaper than saving it, or if it cannot be saved."""
        found = self._estimate(array, space)
        if found is None:
            return False
        # The load of the link is not known yet; the caller compares plans with and without recomputation.
        if self._memory.can_save(array, space) and found.seconds >= (
            self._seconds(space, HOST, array) + self._seconds(HOST, space, array)
        ):
            return False
        self._given_up[array] = found.reads
        for needed, touch in found.reads:
            self._upcoming.expect(needed, touch)
            self._memory.renew(needed)
        return True

    def missing(self, task: PlannedTask) -> list[tuple[str, Producer]]:
        """Return the arrays to recompute before a task can run, each with its task, in order."""
        todo = [(a.array, False) for a in task.accesses if READING[id(a.mode)] and a.array in self._given_up]
        found: dict[str, Producer] = {}
        while todo:
            array, ready = todo.pop()
            if array in found:
                continue
            maker = self._maker[array]
            if ready:
                found[array] = maker
                continue
            todo.append((array, True))
            todo += [(a, False) for a in _reads(maker.task) if a in self._given_up]
        return list(found.items())

    def note_recomputed(self, array: str) -> None:
        """Record that an array has been recomputed."""
        reads = self._given_up.pop(array)
        for needed, touch in reads:
            self._upcoming.forget(needed, touch)
        self._memory.settle(dict.fromkeys(needed for needed, _ in reads))

    # --- inside -----------------------------------------------------------------------------------

    def _estimate(self, array: str, space: str) -> _Estimate | None:
        """Return the cost of recomputing a value for its next reader; None if that is impossible."""
        if array not in self._temporary:
            return None
        reader = self._upcoming.first_reader(array)
        if reader is None or reader.home != space:
            return None
        until = reader.position - reader.position % 2  # just before the reader
        if until <= self._upcoming.now:
            return None
        estimate = _Estimate(0.0, set(), [])
        return estimate if self._add_to_estimate(estimate, array, space, until) else None

    def _add_to_estimate(self, estimate: _Estimate, array: str, space: str, until: int) -> bool:
        """Add an array, and all it depends on, to an estimate; return False if it cannot be recomputed."""
        todo = [array]
        while todo:
            array = todo.pop()
            if array in estimate.made:
                continue
            maker = self._maker.get(array)
            if (
                maker is None
                or len(estimate.made) == MAX_RECOMPUTED_TASKS
                or not self._can_repeat(maker, array, space, until)
            ):
                return False
            estimate.made.add(array)
            estimate.seconds += self._durations_s[maker.task.name]
            for needed in _reads(maker.task):
                estimate.reads.append((needed, FutureAccess(until, space, True, False)))
                if needed in self._given_up:
                    todo.append(needed)
                    continue
                seconds = self._fetch_s(needed, space, until)
                if seconds is None:
                    return False
                estimate.seconds += seconds
        return True

    def _can_repeat(self, maker: Producer, array: str, space: str, until: int) -> bool:
        """Return whether running a task again at a position writes the same value there, and nothing else."""
        task, device = maker.task, self._devices[maker.assignment.device]
        if not task.repeatable or device.space != space or len(device.reaches) > 1:
            return False
        for access in task.accesses:
            name = access.array
            written = WRITING[id(access.mode)] and name != array
            if written and (name not in self._statuses or self._maker[name] is not maker):
                return False
            if self._upcoming.written_within(name, maker.position + 1, until):
                return False
        return True

    def _fetch_s(self, array: str, space: str, until: int) -> float | None:
        """Return the seconds of copies needed for an array to be in a space at a position.

        None if its value exists nowhere.
        """
        spaces = [s for s in self._valid[array] if self._memory.holds(array, s)]
        if not spaces:
            return None
        others = [self._seconds(s, space, array) for s in spaces if s != space]
        if len(others) == len(spaces):
            return min(others)
        if self._upcoming.next_read_in(array, space) <= until:
            return 0.0  # it stays there for another reader
        if others:
            return min(others)
        back_s = self._seconds(HOST, space, array)
        return back_s if self._memory.wanted(array) else back_s + self._seconds(space, HOST, array)


def _reads(task: PlannedTask) -> list[str]:
    return [access.array for access in task.accesses if READING[id(access.mode)]]


def recomputing_may_pay(
    graph: GraphRecord, platform: Platform, assignments: Sequence[Assignment], durations_s: Mapping[str, float]
) -> bool:
    """Return whether some temporary takes less time to recompute than to copy out and back."""
    temporary = {a.name: a.nbytes for a in graph.arrays if a.temporary and a.rows is None}
    tasks = {t.name: t for t in graph.tasks if t.repeatable}
    links = {
        device.name: (*platform.route(device.space, HOST), *platform.route(HOST, device.space))
        for device in platform.devices
        if device.space != HOST and any(a.device == device.name for a in assignments)
    }
    for assignment in assignments:
        task = tasks.get(assignment.task)
        if task is not None and assignment.device in links:
            nbytes = max((temporary.get(a.array, 0) for a in task.accesses if WRITING[id(a.mode)]), default=0)
            if nbytes and durations_s[task.name] < sum(link.seconds(nbytes) for link in links[assignment.device]):
                return True
    return False
