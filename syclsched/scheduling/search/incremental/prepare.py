# SPDX-License-Identifier: Apache-2.0
"""Construction of the search records from a problem's tables."""

from __future__ import annotations

import numpy as np

from syclsched.compiled import compiled
from syclsched.scheduling.search.incremental.records import (
    COST,
    FLOW,
    LANE,
    LINE,
    MAKE,
    MOST_MOVED,
    MOVED,
    NODE,
    TIMED,
    WANT,
    IncrementalState,
    Records,
)
from syclsched.scheduling.search.random_numbers import seeded
from syclsched.scheduling.tables import Floats, Ints, Tables


def prepare(tables: Tables, seed: int) -> IncrementalState:
    """Return the records of a problem without placed tasks."""
    count, items = tables.kind.size, tables.item_bytes.size
    flow_start, flow_read, wait_start, wait_task = _reads(
        tables.read_start, tables.read_item, tables.item_producer, tables.pred_start, tables.pred_task
    )
    reader = np.repeat(np.arange(count), np.diff(flow_start))
    maker = tables.item_producer[flow_read]
    by_maker = np.argsort(maker, kind="stable")
    fed = flow_read[by_maker]
    lines = _lines(tables)
    want_s = _want_s(tables)
    touched = count if (tables.make_replaces >= 0).any() else -1
    return IncrementalState(
        nodes=_nodes(tables, flow_start, np.searchsorted(maker[by_maker], np.arange(count + 1)), wait_start),
        lanes=_lanes(tables),
        order=np.arange(count),
        arcs=np.concatenate([tables.pred_task, tables.succ_task, wait_task]),
        flows=_records(FLOW, maker, flow_read, tables.item_bytes[flow_read]),
        feeds=_records(FLOW, reader[by_maker], fed, tables.item_bytes[fed]),
        makes=_makes(tables),
        costs=_costs(tables, lines),
        lines=lines,
        homes=tables.reach_space[tables.reach_start[:-1]],
        wants=_records(WANT, tables.item_producer[tables.want_item], tables.want_item),
        want_s=want_s,
        origin=tables.item_space.copy(),
        counts=np.array([0, 0, 0, 0, count, touched, touched, 0]),
        moved=np.zeros(MOST_MOVED, MOVED),
        timed=np.zeros(count, TIMED),
        placed=np.zeros((items, 2), np.int64),
        words=seeded(seed),
        path=np.zeros(count, np.int64),
    )


def _records(dtype: np.dtype[np.void], *columns: Ints | Floats) -> Records:
    made = np.zeros(len(columns[0]), dtype)
    for name, column in zip(dtype.names or (), columns, strict=True):
        made[name] = column
    return made


@compiled
def _reads(
    read_start: Ints, read_item: Ints, producer: Ints, pred_start: Ints, pred_task: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the rows of made items that each task reads, and of its predecessors from which it reads nothing."""
    count = read_start.size - 1
    flow_start, wait_start = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    flow_read, wait_task = np.empty(read_item.size, np.int64), np.empty(pred_task.size, np.int64)
    read_by = np.full(count, -1, np.int64)  # for each task, the last task found to read one of its items
    flows = waits = 0
    for task in range(count):
        for k in range(read_start[task], read_start[task + 1]):
            if producer[read_item[k]] >= 0:
                flow_read[flows] = read_item[k]
                flows += 1
                read_by[producer[read_item[k]]] = task
        for k in range(pred_start[task], pred_start[task + 1]):
            if read_by[pred_task[k]] != task:
                wait_task[waits] = pred_task[k]
                waits += 1
        flow_start[task + 1], wait_start[task + 1] = flows, waits
    return flow_start, flow_read[:flows].copy(), wait_start, wait_task[:waits].copy()


@compiled
def tails(seconds: Floats, succ_start: Ints, succ_task: Ints) -> Floats:
    """Return the longest chain of tasks from the start of each, on the fastest devices and with free copies."""
    tail = np.zeros(seconds.shape[0])
    for task in range(tail.size - 1, -1, -1):
        after = 0.0
        for k in range(succ_start[task], succ_start[task + 1]):
            after = max(after, tail[succ_task[k]])
        tail[task] = seconds[task].min() + after
    return tail


def _nodes(tables: Tables, flow_start: Ints, feed_start: Ints, wait_start: Ints) -> Records:
    count = tables.kind.size
    nodes = np.zeros(count + 1, NODE)
    arcs = tables.pred_task.size
    nodes["pred"] = tables.pred_start
    nodes["succ"] = tables.succ_start + arcs
    nodes["wait"] = wait_start + 2 * arcs
    nodes["flow"] = flow_start
    nodes["feed"] = feed_start
    nodes["make"] = tables.make_start
    replacing = np.concatenate([[0], np.cumsum(tables.make_replaces >= 0)])
    nodes["updates"][:count] = replacing[tables.make_start[1:]] > replacing[tables.make_start[:-1]]
    nodes["tail_s"][:count] = tails(tables.task_seconds(), tables.succ_start, tables.succ_task)
    return nodes


def _lanes(tables: Tables) -> Records:
    no_task = np.full(tables.processor_device.size, -1)
    return _records(LANE, tables.processor_device, no_task, no_task)


def _makes(tables: Tables) -> Records:
    replaced = tables.make_replaces >= 0
    nbytes = np.zeros(replaced.size)
    nbytes[replaced] = tables.item_bytes[tables.make_replaces[replaced]]
    return _records(MAKE, tables.make_item, tables.make_replaces, nbytes)


def _lines(tables: Tables) -> Records:
    """Return the routes from each space to each device: only the space itself if reached, else all useful ones."""
    spaces, devices = tables.latency_s.shape[0], tables.reach_start.size - 1
    ways: dict[tuple[int, int], list[tuple[float, float, int]]] = {}
    for device in range(devices):
        reached = [int(s) for s in tables.reach_space[tables.reach_start[device] : tables.reach_start[device + 1]]]
        for origin in range(spaces):
            found: list[tuple[float, float, int]] = []
            for space in [origin] if origin in reached else reached:
                same = space == origin
                latency = 0.0 if same else float(tables.latency_s[origin, space])
                slope = 0.0 if same else float(tables.s_per_byte[origin, space])
                # A route is useless if an earlier one is nowhere slower.
                if not any(fixed <= latency and rise <= slope for fixed, rise, _ in found):
                    found.append((latency, slope, space))
            ways[origin, device] = found
    lines = np.zeros((spaces, devices, max(map(len, ways.values()), default=1)), LINE)
    lines["latency_s"] = np.inf
    for (origin, device), found in ways.items():
        for k, (latency, slope, space) in enumerate(found):
            lines[origin, device, k] = latency, slope, space
    return lines


def _costs(tables: Tables, lines: Records) -> Records:
    count, devices = tables.kind.size, tables.seconds.shape[1]
    costs = np.zeros((count, devices), COST)
    costs["seconds"] = tables.task_seconds()
    fixed = np.repeat(tables.release_s[:, None], devices, axis=1)
    reader = np.repeat(np.arange(count), np.diff(tables.read_start))
    given = tables.item_producer[tables.read_item] < 0
    item, reader = tables.read_item[given], reader[given]
    nbytes = tables.item_bytes[item]
    if item.size:
        ways = lines[tables.item_space[item]]
        arrives = (ways["latency_s"] + nbytes[:, None, None] * ways["s_per_byte"]).min(axis=2)
        np.maximum.at(fixed, reader, np.where(nbytes[:, None] > 0, arrives, 0.0))
    costs["fixed_s"] = fixed
    return costs


def _want_s(tables: Tables) -> Floats:
    """Return the seconds of a copy of each wanted result from each space to where it is wanted."""
    nbytes = tables.item_bytes[tables.want_item][:, None]
    latency, slope = tables.latency_s[:, tables.want_space].T, tables.s_per_byte[:, tables.want_space].T
    no_copy = (tables.want_space[:, None] == np.arange(tables.latency_s.shape[0])) | (nbytes == 0)
    return np.ascontiguousarray(np.where(no_copy, 0.0, latency + nbytes * slope))
