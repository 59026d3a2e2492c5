# SPDX-License-Identifier: Apache-2.0
"""State of the constrained search: order and placement of tasks, and everything derived from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from syclsched.scheduling.objectives.memory_accounting import LIMIT, STANDING
from syclsched.scheduling.objectives.memory_use import backing_space, input_bytes
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING, Floats, Ints

Flags = npt.NDArray[np.bool_]

#: Indices of metrics in `SearchState.value` and `Goal.limit`; the decoder enforces memory limits.
MAKESPAN, INTERVAL, ENERGY = 0, 1, 2

#: Maximum number of tasks moved at once.
MOST_MOVED = 32


class SearchState(NamedTuple):
    """``T`` tasks, ``P`` processors, ``I`` items, ``S`` spaces, ``R`` reads, ``W`` wanted results, ``C`` channels."""

    #: Tasks in a topological order, and the position of each. Tasks of a processor, and copies on a channel, run in it.
    order: Ints
    position: Ints
    #: Processor and device of each task.
    processor: Ints
    device: Ints
    #: Times of each task.
    start_s: Floats
    finish_s: Floats
    free_s: Floats  # end of the last task of each processor
    load_s: Floats  # seconds that each processor computes and each channel copies
    port_s: Floats  # end of the last copy of each channel
    #: Space and time in which each item is made.
    origin: Ints
    made_s: Floats
    own: Flags  # whether an item lies in the memory of an input, so that it needs no memory of its own
    read_space: Ints  # space of each read
    first: Flags  # whether the copy was made for this read
    #: Arrival of each item in each space, and its last use there so far.
    arrival_s: Floats
    last_s: Floats
    left: Ints  # remaining uses of each item in each space
    wanted: Flags  # whether an item is wanted in a space at the end
    lasting: Flags  # whether an item stays where it was made
    #: By space: its limit, the allocated bytes, the time before which nothing more may be allocated, the largest excess
    #: over the limit, the bytes of inputs.
    room: Floats
    heap: Floats  # releases not yet applied, by time: time and bytes
    size: Ints  # lengths of the heaps
    #: Item, source, destination of each copy; its start and finish.
    copy_what: Ints
    copy_when_s: Floats
    counts: Ints  # number of listed copies; whether copies are listed; the host's space
    value: Floats  # makespan, interval, energy
    watts: Floats  # busy and idle power; zeros if energy is irrelevant


#: Indices into `SearchState.counts`.
COPIES, LISTED, BACKING = 0, 1, 2


def make_search_state(problem: Problem, *, power: bool) -> SearchState:
    """Return a state without limits and without placed tasks."""
    t = problem.tables
    tasks, items, spaces = len(problem), len(t.item_bytes), len(problem.spaces)
    processors, channels = len(t.processor_device), int(t.channel.max(initial=NOTHING)) + 1
    room = np.zeros((spaces, 5))
    room[:, LIMIT] = np.inf
    room[:, STANDING] = input_bytes(problem)
    wanted = np.zeros((items, spaces), np.bool_)
    wanted[t.want_item, t.want_space] = True
    lasting = np.zeros(items, np.bool_)
    lasting[list(problem.lasting)] = True
    watts = np.zeros((len(problem.devices), 2))
    if power:
        watts[:] = np.nan_to_num(np.stack([t.busy_w, t.idle_w], axis=1))
    copies = len(t.read_item) + len(t.want_item) if channels else 0
    return SearchState(
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


def load(state: SearchState, order: Ints, processor: Ints) -> None:
    """Set order and placement."""
    state.order[:] = order
    state.position[order] = np.arange(len(order))
    state.processor[:] = processor
