# SPDX-License-Identifier: Apache-2.0
"""State of the search with copy lanes: order and placement of tasks, and the steps of the plan that follows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from syclsched.scheduling.search.incremental.prepare import prepare
from syclsched.scheduling.search.incremental.records import Records
from syclsched.scheduling.search.random_numbers import Words
from syclsched.scheduling.tables import Ints, Tables

Flags = npt.NDArray[np.bool_]

#: A step: its lane; its task (of a copy, the task that needs it); the number of unfinished steps it waits for; the next
#: step of an in-order lane; the next ready copy of a copy lane; the first link to a step that waits for it; the step
#: whose end let it start; an entry of the list of steps to start, which is not about this step; its times.
STEP = np.dtype(
    [
        *((name, np.int64) for name in ("lane", "task", "waiting", "next", "next_ready", "link", "cause", "to_start")),
        *((name, np.float64) for name in ("seconds", "start_s", "finish_s")),
    ]
)
#: A lane: whether it is a copy lane, which takes ready copies by the order of the tasks that need them, not in their
#: order of issue; its last in-order step; its first ready copy; its running step, -1 for none, and the end of that.
QUEUE = np.dtype(
    [*((name, np.int64) for name in ("reorders", "last", "first_ready", "running")), ("end_s", np.float64)]
)
#: A route: the space where copies go first (the destination, or one on the way; -1: no route), and the link to it.
ROUTE = np.dtype([("stop", np.int64), ("latency_s", np.float64), ("s_per_byte", np.float64)])
#: An item: its size; the space where it is from the start, -1 for made items; the space in which it is made.
ITEM = np.dtype([("nbytes", np.float64), ("given", np.int64), ("made_in", np.int64)])

#: Indices into `QueuedState.sizes`: number of steps, of links, of steps to start, and of tasks on the path.
STEPS, LINKS, READY, PATH = 0, 1, 2, 3

#: Values of `QueuedState.held` for an item that is not in a space, and for one that is there from the start.
ABSENT, GIVEN = -2, -1


class CopyLanes(NamedTuple):
    """Routes of copies between spaces, and the lane on which each device that needs data has them made."""

    routes: Records  # by source and destination space
    #: By device that needs the data, source and destination of a direct link: the lane; -1 for the lane of the task.
    lane: Ints
    reorders: Flags  # of each lane, the processors first: whether it is a copy lane


class QueuedState(NamedTuple):
    """Order and placement of the tasks, and the steps of a plan: tasks and copies on lanes."""

    #: As in `IncrementalState`.
    nodes: Records
    lanes: Records
    order: Ints
    arcs: Ints
    feeds: Records
    makes: Records
    costs: Records
    homes: Ints
    counts: Ints
    moved: Records
    words: Words
    path: Ints  # tasks on the critical path of the accepted state, and those that need its copies
    #: Of the problem.
    read_start: Ints
    read_item: Ints
    reach: Ints  # the spaces that each device reaches; its home for further ones
    routes: Records
    copy_lane: Ints  # see `CopyLanes.lane`
    #: The last evaluated state.
    items: Records
    queues: Records
    steps: Records
    links: Ints  # the step that waits, and the next link from the same step
    step_of: Ints  # of each task
    held: Ints  # by item and space: the step that makes or copies it there
    sizes: Ints  # see the indices above


_PLACEMENT = ("nodes", "lanes", "order", "arcs", "feeds", "makes", "costs", "homes", "counts", "moved", "words", "path")


def prepare_queued(tables: Tables, lanes: CopyLanes, seed: int) -> QueuedState:
    """Return the state of a problem without placed tasks."""
    placement = prepare(tables, seed)
    tasks, reads, spaces = len(tables.kind), len(tables.read_item), len(tables.latency_s)
    queues = np.zeros(len(lanes.reorders), QUEUE)
    queues["reorders"] = lanes.reorders
    items = np.zeros(len(tables.item_bytes), ITEM)
    items["nbytes"], items["given"], items["made_in"] = tables.item_bytes, tables.item_space, tables.item_space
    reached = np.diff(tables.reach_start)
    reach = np.repeat(placement.homes[:, None], reached.max(initial=1), axis=1)
    for device, count in enumerate(reached.tolist()):
        first = int(tables.reach_start[device])
        reach[device, :count] = tables.reach_space[first : first + count]
    return QueuedState(
        **{name: getattr(placement, name) for name in _PLACEMENT},
        read_start=tables.read_start,
        read_item=tables.read_item,
        reach=reach,
        routes=lanes.routes,
        copy_lane=lanes.lane,
        items=items,
        queues=queues,
        steps=np.zeros(tasks + 2 * reads, STEP),
        links=np.zeros((len(placement.arcs) + 3 * reads + 1, 2), np.int64),
        step_of=np.zeros(tasks, np.int64),
        held=np.zeros((len(items), spaces), np.int64),
        sizes=np.zeros(4, np.int64),
    )
