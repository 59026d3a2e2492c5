# SPDX-License-Identifier: Apache-2.0
"""The scheduling problem as policies see it: numbers in flat arrays, and the names behind them for people.

Unrelated machines with data: a task takes a time of its own on each device, or cannot run there; it reads and makes
*items*, which are the successive values of arrays; an item lies in the memory space it was made in, and moving it to
another takes a latency and a time per byte. ``docs/scheduling-model.md`` states the model precisely.

`build_problem` makes one from a task graph, `problem_from_matrices` from the tables of a textbook and
`problem_from_arrays` from large arrays. `Tables` holds all that counts; the rest of a `Problem` is names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from syclsched.model.platform import Contention
from syclsched.model.schedule import Assignment, Schedule
from syclsched.scheduling.tables import NOTHING, Ints, Tables
from syclsched.scheduling.timetable import Timetable
from syclsched.scheduling.whereabouts import Whereabouts
from syclsched.simulation.pending import objects

__all__ = ["NOTHING", "Contention", "Problem", "makespan_s", "to_schedule"]


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What a policy schedules. Tasks, devices, processors, spaces and items are indices from 0.

    Parameters
    ----------
    names : tuple of str
        Task names, in a topological order, by order of submission where free.
    devices : tuple of str
        Device names, in the platform's order.
    lanes : tuple of int
        For each processor, which of its device's lanes it is.
    spaces : tuple of str
        Names of the memory spaces.
    implementation_names : tuple of str
        Names of implementations, those of different operations mixed.
    implementation : ndarray of int16, shape (tasks, devices)
        Index of the implementation that the seconds are for; `NOTHING` where there is none, as for barriers.
    arrays : tuple of str
        Names of arrays.
    item_array : ndarray of int64, shape (items,)
        Index of the array whose value an item is; `NOTHING` if it has no name.
    contention : str
        ``none``, ``one-port`` or ``fair``. Copies wait for each other if and only if ``tables.channel`` says so; what
        is planned one after another is carried out as planned on channels that share fairly.
    tables : Tables
        All numbers.
    lasting : tuple of int, optional
        Items whose values may be asked for after the run: they stay in memory where they were made.
    reuse_arcs : ndarray of int64, optional
        Positions in ``tables.pred_task`` of arcs that are there only because the name of an array is used again (it is
        written after it was read or written). Timetables keep to them. A plan need not where the two tasks touch the
        array in different spaces, that is, in different memory: what must hold for plans leaves them out.
    """

    names: tuple[str, ...]
    devices: tuple[str, ...]
    lanes: tuple[int, ...]
    spaces: tuple[str, ...]
    implementation_names: tuple[str, ...]
    implementation: npt.NDArray[np.int16]
    arrays: tuple[str, ...]
    item_array: Ints
    contention: Contention
    tables: Tables
    lasting: tuple[int, ...] = ()
    reuse_arcs: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def processors(self) -> tuple[tuple[int, int], ...]:
        """(device, lane) of each processor, by device."""
        return tuple(zip(self.tables.processor_device.tolist(), self.lanes, strict=True))

    @property
    def has_channels(self) -> bool:
        """Whether copies can get in each other's way, so that a timetable must list them."""
        return bool((self.tables.channel >= 0).any())

    def copy_seconds(self, nbytes: float, source: int, destination: int) -> float:
        """Return the seconds to copy ``nbytes`` from one space to another; infinity if there is no way."""
        if source == destination or not nbytes:
            return 0.0
        tables = self.tables
        return float(tables.latency_s[source, destination] + nbytes * tables.s_per_byte[source, destination])

    def mean_copy_line(self) -> tuple[float, float]:
        """Return latency and seconds per byte of a copy, as means over pairs of different home spaces.

        Returns
        -------
        (float, float)
            Zeros if all devices have one home, or no home can be reached from another.
        """
        tables = self.tables
        homes = np.unique(tables.reach_space[tables.reach_start[:-1]])
        latency_s, s_per_byte = tables.latency_s[np.ix_(homes, homes)], tables.s_per_byte[np.ix_(homes, homes)]
        pairs = np.isfinite(latency_s) & ~np.eye(len(homes), dtype=bool)
        if not pairs.any():
            return 0.0, 0.0
        return float(latency_s[pairs].mean()), float(s_per_byte[pairs].mean())

    def item_name(self, item: int) -> str:
        """Return what to call an item in a message."""
        array, producer = int(self.item_array[item]), int(self.tables.item_producer[item])
        if array != NOTHING:
            return f"array {self.arrays[array]!r}"
        return f"input {item}" if producer == NOTHING else f"output of task {self.names[producer]!r}"

    def implementation_of(self, task: int, device: int) -> str | None:
        """Return the implementation that a task's time on a device is for; None if there is none."""
        index = int(self.implementation[task, device])
        return None if index == NOTHING else self.implementation_names[index]


def to_schedule(problem: Problem, timetable: Timetable, policy: str) -> Schedule:
    """Return a timetable with names, as plans are built from.

    Parameters
    ----------
    problem : Problem
        What was scheduled.
    timetable : Timetable
        Where and when every task runs.
    policy : str
        The name of what made it.

    Returns
    -------
    Schedule
        In order of start; its order respects dependencies, as tasks that start together stand in topological order.
    """
    order = np.argsort(timetable.start_s, kind="stable")
    processor = timetable.processor[order]
    device = problem.tables.processor_device[processor]
    known: tuple[str | None, ...] = (*problem.implementation_names, None)  # -1 is the last
    columns: dict[str, tuple[Sequence[object], Ints]] = {
        "task": (problem.names, order),
        "device": (problem.devices, device),
        "lane": (problem.lanes, processor),
        "implementation": (known, problem.implementation[order, device]),
    }
    made = objects(
        Assignment,
        len(order),
        {
            **{name: map(table.__getitem__, places.tolist()) for name, (table, places) in columns.items()},
            "start_s": timetable.start_s[order].tolist(),
            "finish_s": timetable.finish_s[order].tolist(),
        },
    )
    return Schedule(policy, tuple(made))


def makespan_s(problem: Problem, timetable: Timetable) -> float:
    """Return when everything is done: all tasks, and the copies of results to where they are wanted.

    Parameters
    ----------
    problem : Problem
        What was scheduled.
    timetable : Timetable
        Where and when every task runs.

    Returns
    -------
    float
        Seconds; infinity if a wanted result never gets to its place.
    """
    tables = problem.tables
    done_s = timetable.makespan_s
    if len(tables.want_item):
        ready_s = Whereabouts(tables, timetable).ready_s(tables.want_item, tables.want_space)
        done_s = max(done_s, float(ready_s.max()))
    return done_s
