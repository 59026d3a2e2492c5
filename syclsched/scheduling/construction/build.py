# SPDX-License-Identifier: Apache-2.0
"""Construction of a scheduling problem from a task graph, a platform and a cost model."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from syclsched.costs.model import CostModel
from syclsched.errors import ArgumentError, EmptyPlatformError, GraphError, PlatformError, UnknownArrayError
from syclsched.model.graph import TaskGraph
from syclsched.model.graph_parts.dependencies import KINDS
from syclsched.model.platform import HOST, Device, Platform
from syclsched.model.platform_parts.machines import machine_numbers, machine_of
from syclsched.model.platform_parts.routes import find_routes
from syclsched.model.task import Task
from syclsched.scheduling.construction.items import Items, follow_items
from syclsched.scheduling.problem import NOTHING, Problem
from syclsched.scheduling.rows import Columns, arcs
from syclsched.scheduling.tables import Floats, Ints, Tables, frozen

_NONE: Mapping[str, str] = {}
_NO_RELEASES: Mapping[str, float] = {}


def build_problem(
    graph: TaskGraph,
    platform: Platform,
    costs: CostModel,
    *,
    placed: Mapping[str, str] = _NONE,
    wanted: Mapping[str, str] = _NONE,
    release_s: Mapping[str, float] = _NO_RELEASES,
    resident: Collection[str] = (),
) -> Problem:
    """Return the scheduling problem of running a graph on a platform.

    The first values of ``resident`` inputs take no time to copy: a run finds them where the one before left them.
    """
    if not platform.devices:
        raise EmptyPlatformError("there are no devices", where=f"platform {platform.name!r}")
    order = graph.order()
    position = {task.name: i for i, task in enumerate(graph.tasks)}
    submission = np.array([position[name] for name in order], dtype=np.int64)
    submitted = graph.tasks
    tasks = [submitted[i] for i in submission.tolist()]
    pieces, nbytes = _pieces(graph)
    devices = platform.devices
    spaces = _spaces(platform)
    initial_space, wanted_space = _located(placed, "placed", pieces, spaces), _located(wanted, "wanted", pieces, spaces)
    routes = find_routes(platform.links, tuple(spaces))
    kind, seconds, implementation, implementation_names = _seconds(tasks, devices, costs)
    reach = [list(dict.fromkeys(spaces[s] for s in (d.space, *d.reaches))) for d in devices]
    lanes = np.array([d.lanes for d in devices])
    links, reuse_arcs = _arcs(graph, submission, nbytes)
    items = follow_items(graph.accesses().ordered(submission), nbytes, initial_space, wanted_space, spaces[HOST])
    if resident:
        _make_weightless(items, {piece for name in resident for piece in pieces[name]})
    tables = Tables(
        seconds=seconds,
        kind=kind,
        release_s=_release_s(release_s, order),
        priority=np.array([task.priority for task in tasks]),
        submission=submission,
        device_start=np.concatenate(([0], np.cumsum(lanes))),
        processor_device=np.repeat(np.arange(len(devices)), lanes),
        **_machines(devices, tuple(spaces)),
        **links,
        **items.columns,
        reach_start=np.cumsum([0, *[len(r) for r in reach]]),
        reach_space=np.array(list(chain.from_iterable(reach))),
        # Copies, since tables are made read-only.
        latency_s=routes.latency_s.copy(),
        s_per_byte=routes.s_per_byte.copy(),
        channel=np.full(routes.channel.shape, NOTHING) if platform.contention == "none" else routes.channel.copy(),
        capacity_bytes=_capacities(platform, spaces),
        busy_w=_watts(devices, "busy_w"),
        idle_w=_watts(devices, "idle_w"),
    )
    return Problem(
        names=order,
        devices=tuple(d.name for d in devices),
        lanes=tuple(lane for d in devices for lane in range(d.lanes)),
        spaces=tuple(spaces),
        implementation_names=implementation_names,
        implementation=implementation,
        arrays=items.arrays,
        item_array=items.item_array,
        contention=platform.contention,
        tables=frozen(tables),
        lasting=_lasting(pieces, graph, items),
        reuse_arcs=reuse_arcs,
    )


# --- inside ---------------------------------------------------------------------------------------


def _make_weightless(items: Items, names: Collection[str]) -> None:
    """Give inputs no bytes, so that they are everywhere."""
    of_array = np.array([name in names for name in items.arrays], np.bool_)[items.item_array]
    items.columns["item_bytes"][of_array & (items.columns["item_producer"] == NOTHING)] = 0.0


def _pieces(graph: TaskGraph) -> tuple[dict[str, Sequence[str]], dict[str, float]]:
    """Return the pieces of each array that scheduling tracks, the array itself or its segments, and their bytes."""
    segments, arrays = graph.segments(), graph.arrays
    if not segments:
        return {name: (name,) for name in arrays}, {name: float(array.nbytes) for name, array in arrays.items()}
    pieces: dict[str, Sequence[str]] = {}
    nbytes: dict[str, float] = {}
    for name, array in arrays.items():
        if name in segments:
            row_bytes = array.nbytes // array.shape[0]
            pieces[name] = [s.name for s in segments[name]]
            nbytes |= {s.name: float(row_bytes * (s.rows[1] - s.rows[0])) for s in segments[name]}
        else:
            pieces[name], nbytes[name] = (name,), float(array.nbytes)
    return pieces, nbytes


def _arcs(graph: TaskGraph, submission: Ints, nbytes: Mapping[str, float]) -> tuple[Columns, Ints]:
    """Return the arcs, and those of them that exist only because an array's name is reused (see `Problem`)."""
    edges = graph.implied()
    # Data flows along RAW edges only, and these always name an array.
    sizes = np.array([nbytes[name] for name in edges.arrays], dtype=np.float64)
    flow = np.zeros(len(edges.kind))
    raw = edges.kind == KINDS.index("RAW")
    flow[raw] = sizes[edges.array[raw]]
    before, after = edges.before, edges.after
    reuse = (edges.kind == KINDS.index("WAR")) | (edges.kind == KINDS.index("WAW"))
    if graph.edges:
        position = {task.name: i for i, task in enumerate(graph.tasks)}
        before = np.concatenate((before, [position[name] for name, _ in graph.edges]))
        after = np.concatenate((after, [position[name] for _, name in graph.edges]))
        flow = np.concatenate((flow, np.zeros(len(graph.edges))))
        reuse = np.concatenate((reuse, np.zeros(len(graph.edges), dtype=bool)))
    count = len(submission)
    number = np.empty(count, dtype=np.int64)
    number[submission] = np.arange(count)
    first, second = number[before], number[after]
    made = arcs(count, first, second, flow)
    if not reuse.any():
        return made, np.empty(0, dtype=np.int64)
    required_pairs = np.unique(first[~reuse] * count + second[~reuse])
    pairs = made["pred_task"] * count + np.repeat(np.arange(count), np.diff(made["pred_start"]))
    return made, np.flatnonzero(~np.isin(pairs, required_pairs))


def _machines(devices: Sequence[Device], spaces: Sequence[str]) -> Columns:
    """Return the columns of `Tables` for machines; devices that do not follow each other are those of one machine."""
    numbers = machine_numbers(device.name for device in devices)
    if sorted(numbers) != numbers:
        numbers = [0] * len(numbers)
    machine = {machine_of(device.name): number for device, number in zip(devices, numbers, strict=True)}
    return {
        "machine_start": np.searchsorted(numbers, np.arange(max(numbers) + 2)),
        "space_machine": np.array([machine.get(machine_of(name), NOTHING) for name in spaces]),
    }


def _lasting(pieces: Mapping[str, Sequence[str]], graph: TaskGraph, items: Items) -> tuple[int, ...]:
    """Return the last values of the arrays that are not temporary."""
    last = {array: item for item, array in enumerate(items.item_array.tolist())}
    kept = {piece for name, array in graph.arrays.items() if not array.temporary for piece in pieces[name]}
    return tuple([last[i] for i, name in enumerate(items.arrays) if i in last and name in kept])


def _spaces(platform: Platform) -> dict[str, int]:
    names = [s.name for s in platform.spaces]
    names += [name for d in platform.devices for name in (d.space, *d.reaches)] + [HOST]
    return {name: i for i, name in enumerate(dict.fromkeys(names))}


def _capacities(platform: Platform, spaces: Iterable[str]) -> Floats:
    # Platforms state 0 bytes where the capacity is not known.
    known = {s.name: float(s.capacity_bytes) for s in platform.spaces if s.capacity_bytes}
    return np.array([known.get(name, math.inf) for name in spaces])


def _watts(devices: Sequence[Device], which: str) -> Floats:
    found = [getattr(d.profile.power, which) if d.profile is not None else None for d in devices]
    return np.array([math.nan if quantity is None else quantity.value for quantity in found])


def _seconds(
    tasks: Sequence[Task], devices: Sequence[Device], costs: CostModel
) -> tuple[Ints, Floats, npt.NDArray[np.int16], tuple[str, ...]]:
    """Return the kind of each task, seconds and implementations of each kind, and the implementations' names."""
    # Row 0 is for barriers, which take no time. The cost model returns the same tuple for tasks of equal cost, so that
    # each row is made once.
    seconds: list[tuple[float, ...]] = [(0.0,) * len(devices)]
    implementation: list[tuple[int, ...]] = [(NOTHING,) * len(devices)]
    names: dict[str, int] = {}
    rows: dict[int, int] = {}  # by identity of the choices, which the cost model keeps
    known: dict[tuple[int, int], int] = {}  # by operation and signature, which tasks share
    row_of: list[int] = []
    for task in tasks:
        if task.operation is None:
            row_of.append(0)
            continue
        kind = id(task.operation), id(task.signature)
        if kind in known:
            row_of.append(known[kind])
            continue
        choices = costs.choices(task, devices)
        row = rows.get(id(choices))
        if row is None:
            costs.require(task, devices)
            row = rows[id(choices)] = len(seconds)
            seconds.append(tuple(math.inf if c is None else c[1].seconds for c in choices))
            implementation.append(
                tuple(NOTHING if c is None else names.setdefault(c[0].name, len(names)) for c in choices)
            )
        known[kind] = row
        row_of.append(row)
    used, kinds = np.unique(np.array(row_of, dtype=np.int64), return_inverse=True)
    return kinds, np.array(seconds)[used], np.array(implementation, dtype=np.int16)[used], tuple(names)


def _located(
    places: Mapping[str, str], argument: str, arrays: Mapping[str, Sequence[str]], spaces: Mapping[str, int]
) -> dict[str, int]:
    for array, space in places.items():
        if array not in arrays:
            raise UnknownArrayError(f"no array {array!r}", where=argument)
        if space not in spaces:
            known = ", ".join(spaces)
            raise PlatformError(
                f"no memory space {space!r}", where=f"{argument}: array {array!r}", hint=f"It has {known}"
            )
    return {piece: spaces[space] for array, space in places.items() for piece in arrays[array]}


def _release_s(release_s: Mapping[str, float], order: Sequence[str]) -> Floats:
    column = np.zeros(len(order))
    if release_s:
        index = {name: i for i, name in enumerate(order)}
        for task, time_s in release_s.items():
            if task not in index:
                raise GraphError(f"no task {task!r}", where="release_s")
            if not 0.0 <= time_s < math.inf:
                raise ArgumentError(f"{time_s!r} is not a finite time of zero or more", where=f"release of {task!r}")
            column[index[task]] = time_s
    return column
