# SPDX-License-Identifier: Apache-2.0
"""What the constrained search works on: an order and placement of tasks, and all that follows from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from syclsched.scheduling.objectives.residence import backing_space, standing_bytes
from syclsched.scheduling.objectives.room import LIMIT, STANDING
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING, Floats, Ints

Flags = npt.NDArray[np.bool_]

#: Metrics by number, in `State.value` and `Goal.limit`; memory is kept to by the decoder.
MAKESPAN, INTERVAL, ENERGY = 0, 1, 2

#: So many tasks are moved at once at most.
MOST_MOVED = 32


class State(NamedTuple):
    """``T`` tasks, ``P`` processors, ``I`` items, ``S`` spaces, ``R`` reads, ``W`` wishes, ``C`` channels."""

    #: Tasks in a topological order, and where each stands in it. The tasks of a processor run in it, and so do copies
    #: on a channel.
    order: Ints
    position: Ints
    #: Where each task runs.
    processor: Ints
    device: Ints
    #: When.
    start_s: Floats
    finish_s: Floats
    free_s: Floats  # when each processor has done its tasks
    load_s: Floats  # what each processor computes and each channel copies
    port_s: Floats  # when each channel has done its copies
    #: Where each item is made, and when.
    origin: Ints
    made_s: Floats
    own: Flags  # whether it lies where something lay from the start, so that it takes no room of its own
    read_space: Ints  # where each item is read
    first: Flags  # whether the copy was made for this read
    #: When an item has been copied to a space, and its last use there so far.
    arrival_s: Floats
    last_s: Floats
    left: Ints  # uses in a space that are still to come
    wanted: Flags  # where items are wanted at the end
    lasting: Flags  # whether an item stays where it was made
    #: By space: its limit, the bytes held, the time before which nothing more may be put there, the most bytes above
    #: the limit, the bytes that stand there from the start.
    room: Floats
    heap: Floats  # by time, what has been used for the last time but not been counted as free: time and bytes
    size: Ints  # the heaps' lengths
    #: Item, source, destination; start, finish.
    copy_what: Ints
    copy_when_s: Floats
    counts: Ints  # copies listed; whether they are to be; the host's space
    value: Floats  # makespan, interval, energy
    watts: Floats  # busy and idle power; zeros if energy does not matter


#: Entries of `State.counts`.
COPIES, LISTED, BACKING = 0, 1, 2


def make_state(problem: Problem, *, power: bool) -> State:
    """Return a state without limits in which nothing is placed."""
    t = problem.tables
    tasks, items, spaces = len(problem), len(t.item_bytes), len(problem.spaces)
    processors, channels = len(t.processor_device), int(t.channel.max(initial=NOTHING)) + 1
    room = np.zeros((spaces, 5))
    room[:, LIMIT] = np.inf
    room[:, STANDING] = standing_bytes(problem)
    wanted = np.zeros((items, spaces), np.bool_)
    wanted[t.want_item, t.want_space] = True
    lasting = np.zeros(items, np.bool_)
    lasting[list(problem.lasting)] = True
    watts = np.zeros((len(problem.devices), 2))
    if power:
        watts[:] = np.nan_to_num(np.stack([t.busy_w, t.idle_w], axis=1))
    copies = len(t.read_item) + len(t.want_item) if channels else 0
    return State(
        order=np.arange(tasks),
        position=np.arange(tasks),
        processor=np.zeros(tasks, np.int64),
        device=np.zeros(tasks, np.int64),
        start_s=np.zeros(tasks),
        finish_s=np.zeros(tasks),
        free_s=np.zeros(processors),
        load_s=np.zeros(processors + channels),
        port_s=np.zeros(channels),
        origin=np.zeros(items, np.int64),
        made_s=np.zeros(items),
        own=np.zeros(items, np.bool_),
        read_space=np.zeros(len(t.read_item), np.int64),
        first=np.zeros(len(t.read_item), np.bool_),
        arrival_s=np.zeros((items, spaces)),
        last_s=np.zeros((items, spaces)),
        left=np.zeros((items, spaces), np.int64),
        wanted=wanted,
        lasting=lasting,
        room=room,
        heap=np.zeros((spaces, items + 1, 2)),
        size=np.zeros(spaces, np.int64),
        copy_what=np.zeros((copies, 3), np.int64),
        copy_when_s=np.zeros((copies, 2)),
        counts=np.array([0, channels > 0, backing_space(problem)], np.int64),
        value=np.zeros(3),
        watts=watts,
    )


def load(state: State, order: Ints, processor: Ints) -> None:
    """Go to an order and placement."""
    state.order[:] = order
    state.position[order] = np.arange(len(order))
    state.processor[:] = processor
