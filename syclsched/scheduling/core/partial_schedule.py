# SPDX-License-Identifier: Apache-2.0
"""Partial schedule under construction: placed tasks, item locations, and copies.

Each part also holds the arrays of the problem that it needs: few arguments make calls, and their compilation, cheap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.compiled import compiled
from syclsched.scheduling.core.timelines import Timelines, make_timelines
from syclsched.scheduling.tables import NOTHING, Floats, Ints, Tables

#: Most machines tried for a task because it would finish there first without copies, and because they have its data.
FREE_FIRST, HOLDERS = 4, 8


class TaskSlots(NamedTuple):
    """Tasks on processors. The first eight columns are the problem's; see `Tables`."""

    #: From the problem's tables.
    seconds: Floats
    kind: Ints
    device_start: Ints
    processor_device: Ints
    machine_start: Ints
    release_s: Floats
    pred_start: Ints
    pred_task: Ints
    lines: Timelines  # busy time of the processors; tasks are nodes
    processor: Ints  # `NOTHING` for tasks that have not been placed
    #: 0 for tasks that have not been placed.
    start_s: Floats
    finish_s: Floats
    ready_s: Floats  # scratch: ready time of the current task on each device
    free_s: Floats  # when a processor of each device is free, at the end of what is placed
    #: Scratch of `choose_machines`: the machines, and finishes there.
    chosen: Ints
    chosen_s: Floats


class ItemState(NamedTuple):
    """Items in spaces. The first columns are the problem's; see `Tables`."""

    #: From the problem's tables.
    read_start: Ints
    read_item: Ints
    make_start: Ints
    make_item: Ints
    make_replaces: Ints
    item_bytes: Floats
    reach_start: Ints
    reach_space: Ints
    space_machine: Ints
    latency_s: Floats
    s_per_byte: Floats
    #: Latency and seconds per byte of a copy from a space to a device: 0 if the device reaches the space. The latency
    #: is minus infinity where the device can choose between several spaces.
    fetch_latency_s: Floats
    fetch_s_per_byte: Floats
    choosing: Ints  # the devices that reach several spaces
    origin: Ints  # the space an item was made in; `NOTHING` if it has not been made
    made_s: Floats  # when it was made


class CopyState(NamedTuple):
    """Copies on channels. Without channels all columns but the first have length 0.

    The copies of an item are a list, which is short: a table by item and space would be mostly empty.
    """

    channel: Ints  # from the problem's tables
    #: Busy time of the channels. Copy ``k`` is node ``2 * k`` on its first and ``2 * k + 1`` on its second channel.
    lines: Timelines
    newest: Ints  # the last copy of each item; `NOTHING` if it has none
    earlier: Ints  # the copy before each copy that is of the same item
    what: Ints  # item, source and destination of each copy
    when_s: Floats  # start and finish of each copy
    counts: Ints  # number of committed copies, and of the tentative copies after them


class PartialSchedule(NamedTuple):
    """Partial schedule: tasks, items and copies."""

    slots: TaskSlots  # tasks on processors
    data: ItemState  # items in spaces
    network: CopyState  # copies on channels


def make_partial_schedule(tables: Tables) -> PartialSchedule:
    """Return an empty schedule."""
    tasks, devices = len(tables.kind), tables.seconds.shape[1]
    slots = TaskSlots(
        tables.seconds,
        tables.kind,
        tables.device_start,
        tables.processor_device,
        tables.machine_start,
        tables.release_s,
        tables.pred_start,
        tables.pred_task,
        make_timelines(len(tables.processor_device), tasks),
        np.full(tasks, NOTHING, np.int64),
        np.zeros(tasks),
        np.zeros(tasks),
        np.zeros(devices),
        np.zeros(devices),
        np.zeros(FREE_FIRST + HOLDERS, np.int64),
        np.zeros(FREE_FIRST),
    )
    data = ItemState(
        tables.read_start,
        tables.read_item,
        tables.make_start,
        tables.make_item,
        tables.make_replaces,
        tables.item_bytes,
        tables.reach_start,
        tables.reach_space,
        tables.space_machine,
        tables.latency_s,
        tables.s_per_byte,
        *_fetching(tables.reach_start, tables.reach_space, tables.latency_s, tables.s_per_byte),
        np.where(tables.item_producer == NOTHING, tables.item_space, NOTHING),
        np.zeros(len(tables.item_bytes)),
    )
    return PartialSchedule(slots, data, _make_network(tables))


@compiled
def _fetching(
    reach_start: Ints, reach_space: Ints, latency_s: Floats, s_per_byte: Floats
) -> tuple[Floats, Floats, Ints]:
    """Return the columns of `ItemState` for the costs of copies to devices."""
    spaces, devices = latency_s.shape[0], reach_start.shape[0] - 1
    fetch_latency_s, fetch_s_per_byte = np.zeros((spaces, devices)), np.zeros((spaces, devices))
    for device in range(devices):
        home, several = reach_space[reach_start[device]], reach_start[device + 1] - reach_start[device] > 1
        for space in range(spaces):
            fetch_latency_s[space, device] = -np.inf if several else latency_s[space, home]
            if not several and latency_s[space, home] < np.inf:
                fetch_s_per_byte[space, device] = s_per_byte[space, home]
        for reached in range(reach_start[device], reach_start[device + 1]):
            space = reach_space[reached]
            fetch_latency_s[space, device] = fetch_s_per_byte[space, device] = 0.0
    return fetch_latency_s, fetch_s_per_byte, np.flatnonzero(np.diff(reach_start) > 1)


def _make_network(tables: Tables) -> CopyState:
    channels = int(tables.channel.max(initial=NOTHING)) + 1
    # Each reader needs at most one copy of each item it reads.
    copies = len(tables.read_item) + len(tables.want_item) if channels else 0
    return CopyState(
        tables.channel,
        make_timelines(channels, 2 * copies),
        np.full(len(tables.item_bytes) if channels else 0, NOTHING, np.int64),
        np.empty(copies, np.int64),
        np.empty((copies, 3), np.int64),
        np.empty((copies, 2)),
        np.zeros(2, np.int64),
    )
