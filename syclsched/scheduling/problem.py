# SPDX-License-Identifier: Apache-2.0
"""Scheduling problem as policies see it: numbers in flat arrays, and the names behind them.

Unrelated machines with data: a task takes a separate time on each device, or cannot run there. It reads and makes
*items*, which are the successive values of arrays. An item lies in the memory space it was made in; a copy to another
space takes a latency and a time per byte. ``docs/explanation/scheduling-model.md`` states the model precisely.

`build_problem` makes a problem from a task graph, `problem_from_matrices` from the tables of a textbook and
`problem_from_arrays` from large arrays. `Tables` holds all numbers; the rest of a `Problem` is names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from syclsched.errors import CapabilityError, DeviceNotFoundError
from syclsched.model.platform import HOST, Contention
from syclsched.model.platform_parts.machines import local_name
from syclsched.model.schedule import Assignment, Schedule
from syclsched.model.text.bulk_objects import make_objects
from syclsched.scheduling.data_locations import DataLocations
from syclsched.scheduling.tables import NOTHING, Floats, Ints, Tables, frozen
from syclsched.scheduling.timetable import Timetable

__all__ = ["NOTHING", "Contention", "Problem", "makespan_s", "to_schedule"]


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Input of a scheduling policy. Tasks, devices, processors, spaces and items are indices from 0.

    Parameters
    ----------
    names : tuple of str
        Task names, in a topological order; in order of submission where that leaves a choice.
    devices : tuple of str
        Device names, in the platform's order; after them, once more for each reserved lane, the device that has it.
    lanes : tuple of int
        For each processor, the index of its lane within its device.
    spaces : tuple of str
        Names of the memory spaces.
    implementation_names : tuple of str
        Names of implementations, of all operations together.
    implementation : ndarray of int16, shape (kinds, devices)
        Index of the implementation whose seconds are used, by kind of task; `NOTHING` where there is none, as for
        barriers.
    arrays : tuple of str
        Names of arrays.
    item_array : ndarray of int64, shape (items,)
        Index of the array whose value an item is; `NOTHING` if it has no name.
    contention : str
        ``none``, ``one-port`` or ``fair``. Copies wait for each other if and only if ``tables.channel`` says so. Copies
        that are planned one after another also run as planned on channels that share fairly.
    tables : Tables
        All numbers.
    lasting : tuple of int, optional
        Items whose values may be read after the run: they stay in the memory where they were made.
    reuse_arcs : ndarray of int64, optional
        Positions in ``tables.pred_task`` of arcs that exist only because the name of an array is reused (WAR or WAW).
        Timetables obey them. A plan need not if the two tasks use the array in different spaces, that is, in different
        memory; bounds for plans leave these arcs out.
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
        """Whether copies can delay each other, so that a timetable must list them."""
        return bool((self.tables.channel >= 0).any())

    @property
    def backing_space(self) -> int:
        """The host's space, into which results are copied as soon as they are made; `NOTHING` without one."""
        return self.spaces.index(HOST) if HOST in self.spaces else NOTHING

    def input_bytes(self) -> Floats:
        """Return the bytes of inputs in each space, without the user's own arrays in host memory."""
        given = np.flatnonzero(self.tables.item_producer == NOTHING)
        nbytes = np.bincount(self.tables.item_space[given], self.tables.item_bytes[given], len(self.spaces))
        standing: Floats = nbytes.astype(np.float64)
        if HOST in self.spaces:
            standing[self.spaces.index(HOST)] = 0.0
        return standing

    def copy_seconds(self, nbytes: float, source: int, destination: int) -> float:
        """Return the seconds to copy ``nbytes`` from one space to another; infinity without a route."""
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

    def with_task_seconds(self, seconds: Floats) -> Problem:
        """Return the problem with other times, given for each task and device."""
        each = np.arange(len(self))
        tables = frozen(self.tables._replace(seconds=np.array(seconds, np.float64), kind=each))
        return replace(self, tables=tables, implementation=self.implementation[self.tables.kind])

    def item_name(self, item: int) -> str:
        """Return the name of an item for messages."""
        array, producer = int(self.item_array[item]), int(self.tables.item_producer[item])
        if array != NOTHING:
            return f"array {self.arrays[array]!r}"
        return f"input {item}" if producer == NOTHING else f"output of task {self.names[producer]!r}"

    def implementation_of(self, task: int, device: int) -> str | None:
        """Return the implementation whose time a task has on a device; None if there is none."""
        index = int(self.implementation[self.tables.kind[task], device])
        return None if index == NOTHING else self.implementation_names[index]


def to_schedule(problem: Problem, timetable: Timetable, policy: str) -> Schedule:
    """Return a timetable with names, from which plans are built.

    Parameters
    ----------
    problem : Problem
        The scheduled problem.
    timetable : Timetable
        Processor and times of every task.
    policy : str
        The name of the policy that made it.

    Returns
    -------
    Schedule
        In order of start. This respects dependencies, as tasks that start together are in topological order.
    """
    order = np.argsort(timetable.start_s, kind="stable")
    processor = timetable.processor[order]
    device = problem.tables.processor_device[processor]
    known: tuple[str | None, ...] = (*problem.implementation_names, None)  # index -1 is None
    columns: dict[str, tuple[Sequence[object], Ints]] = {
        "task": (problem.names, order),
        "device": (problem.devices, device),
        "lane": (problem.lanes, processor),
        "implementation": (known, problem.implementation[problem.tables.kind[order], device]),
    }
    made = make_objects(
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
    """Return the time at which all tasks and the copies of wanted results are finished.

    Parameters
    ----------
    problem : Problem
        The scheduled problem.
    timetable : Timetable
        Processor and times of every task.

    Returns
    -------
    float
        Seconds; infinity if a wanted result cannot reach its space.
    """
    tables = problem.tables
    done_s = timetable.makespan_s
    if len(tables.want_item):
        ready_s = DataLocations(tables, timetable).ready_s(tables.want_item, tables.want_space)
        done_s = max(done_s, float(ready_s.max()))
    return done_s


def on_devices(problem: Problem, devices: Iterable[str]) -> Problem:
    """Return the problem with the named devices only; tasks, items and spaces keep their numbers."""
    names = set(devices)
    for name in names.difference(problem.devices):
        raise DeviceNotFoundError(f"no device {name!r}", where="problem", hint=f"It has {', '.join(problem.devices)}")
    kept = np.array([i for i, name in enumerate(problem.devices) if name in names], dtype=np.int64)
    tables = problem.tables
    seconds = tables.seconds[:, kept]
    nowhere = np.flatnonzero(np.isinf(seconds).all(axis=1)[tables.kind])
    if len(nowhere):
        able = "none of the devices kept can run it"
        raise CapabilityError(able, where=f"task {problem.names[nowhere[0]]!r}", hint="Keep a device that can")
    lanes, reaches = np.diff(tables.device_start)[kept], np.diff(tables.reach_start)[kept]
    processors = np.flatnonzero(np.isin(tables.processor_device, kept))
    reached = np.flatnonzero(np.isin(np.repeat(np.arange(len(problem.devices)), np.diff(tables.reach_start)), kept))
    left, sizes = np.unique(np.searchsorted(tables.machine_start, kept, side="right") - 1, return_counts=True)
    machine = np.full(len(tables.machine_start), NOTHING)  # the last is for spaces of no machine
    machine[left] = np.arange(len(left))
    part = tables._replace(
        seconds=seconds,
        device_start=np.cumsum([0, *lanes]),
        processor_device=np.repeat(np.arange(len(kept)), lanes),
        machine_start=np.cumsum([0, *sizes]),
        space_machine=machine[tables.space_machine],
        reach_start=np.cumsum([0, *reaches]),
        reach_space=tables.reach_space[reached],
        busy_w=tables.busy_w[kept],
        idle_w=tables.idle_w[kept],
    )
    return replace(
        problem,
        devices=tuple([problem.devices[i] for i in kept]),
        lanes=tuple([problem.lanes[p] for p in processors]),
        implementation=problem.implementation[:, kept],
        tables=frozen(part),
    )


def with_fixed_devices(problem: Problem, places: Mapping[str, str]) -> Problem:
    """Return the problem in which each of the given tasks runs on its device, or on a host if it is able to."""
    tables = problem.tables
    hosts = np.array([local_name(name) == HOST for name in problem.devices])
    number = {name: i for i, name in enumerate(problem.devices)}
    for name in set(places.values()).difference(number):
        raise DeviceNotFoundError(f"no device {name!r}", where="problem", hint=f"It has {', '.join(problem.devices)}")
    given = np.array([number[places[name]] if name in places else NOTHING for name in problem.names], dtype=np.int64)
    # Tasks of one kind that stay on one device remain of one kind.
    pairs, kind = np.unique(np.stack((tables.kind, given), axis=1), axis=0, return_inverse=True)
    allowed = (pairs[:, 1:] == NOTHING) | (pairs[:, 1:] == np.arange(len(hosts))) | hosts
    seconds = np.where(allowed, tables.seconds[pairs[:, 0]], np.inf)
    nowhere = np.flatnonzero(np.isinf(seconds).all(axis=1)[kind])
    if len(nowhere):
        task = problem.names[nowhere[0]]
        raise CapabilityError(
            f"it is to stay on {places[task]!r}, which cannot run it",
            where=f"task {task!r}",
            hint="Let it run elsewhere, or give its operation an implementation for that device",
        )
    implementation = np.where(allowed, problem.implementation[pairs[:, 0]], np.int16(NOTHING))
    changed = tables._replace(seconds=seconds, kind=kind.reshape(-1))
    return replace(problem, implementation=implementation, tables=frozen(changed))


def with_reserved_lanes(problem: Problem, device: str, reserved: Sequence[int], lane_of: Mapping[str, int]) -> Problem:
    """Return the problem in which lanes of a device are reserved: for the tasks given, which run nowhere else.

    Each reserved lane becomes a device of its own, with the same name. What can run on it is then a matter of the
    tasks' seconds, which all policies obey: no policy needs a rule for it. The given tasks take no time, since nobody
    can say how long they wait.
    """
    tables, count = problem.tables, len(problem.devices)
    if not reserved:
        return problem
    own = problem.devices.index(device)
    of_device = np.array([*range(count), *[own] * len(reserved)])
    given = [task for task, name in enumerate(problem.names) if name in lane_of]
    rows, kind = np.concatenate((np.arange(len(tables.seconds)), tables.kind[given])), tables.kind.copy()
    kind[given] = np.arange(len(tables.seconds), len(rows))  # each is of a kind of its own
    seconds = tables.seconds[np.ix_(rows, of_device)]
    seconds[:, count:] = math.inf
    seconds[kind[given]] = math.inf
    seconds[kind[given], [count + reserved.index(lane_of[problem.names[task]]) for task in given]] = 0.0
    kept = np.flatnonzero((tables.processor_device != own) | ~np.isin(problem.lanes, reserved))
    processor_device = np.concatenate((tables.processor_device[kept], np.arange(count, len(of_device))))
    reach = np.split(tables.reach_space, tables.reach_start[1:-1])
    changed = tables._replace(
        seconds=seconds,
        kind=kind,
        machine_start=np.array([0, len(of_device)]),
        device_start=np.cumsum([0, *np.bincount(processor_device)]),
        processor_device=processor_device,
        reach_start=np.cumsum([0, *[len(reach[d]) for d in of_device]]),
        reach_space=np.concatenate([reach[d] for d in of_device]),
        busy_w=tables.busy_w[of_device],
        idle_w=tables.idle_w[of_device],
    )
    return replace(
        problem,
        devices=tuple([problem.devices[d] for d in of_device]),
        lanes=(*[problem.lanes[p] for p in kept], *reserved),
        implementation=problem.implementation[np.ix_(rows, of_device)],
        tables=frozen(changed),
    )
