# SPDX-License-Identifier: Apache-2.0
"""State of the constrained evaluator: order and placement of tasks, everything derived from them, and the objective."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from syclsched.scheduling.problem import Problem
from syclsched.scheduling.search.constrained.memory_accounting import INPUT_BYTES, LIMIT
from syclsched.scheduling.search.incremental.prepare import prepare
from syclsched.scheduling.search.incremental.records import Records
from syclsched.scheduling.search.random_numbers import Words
from syclsched.scheduling.tables import NOTHING, Floats, Ints, Tables

Flags = npt.NDArray[np.bool_]

#: Indices of metrics in `ConstrainedState.value` and in the columns of `Goal`.
MAKESPAN, INTERVAL, ENERGY = 0, 1, 2


class Goal(NamedTuple):
    """Objective weights and limits; the decoder enforces the limits of spaces (`ConstrainedState.memory`)."""

    weight: Floats  # cost of one unit of makespan, interval and energy
    limit: Floats  # upper limit of each; infinity for none
    scale: Floats  # reference values for limits of 0


class ConstrainedState(NamedTuple):
    """``T`` tasks, ``P`` processors, ``I`` items, ``S`` spaces, ``R`` reads, ``W`` wanted results, ``C`` channels."""

    tables: Tables  # of the problem
    goal: Goal
    #: As in `IncrementalState`; only the fields of ``nodes`` for order and placement are used.
    nodes: Records
    lanes: Records
    order: Ints
    arcs: Ints
    costs: Records
    lines: Records
    homes: Ints
    counts: Ints
    moved: Records
    words: Words
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
    memory: Floats
    heap: Floats  # releases not yet applied, by time: time and bytes
    size: Ints  # lengths of the heaps
    #: Item, source, destination of each copy; its start and finish.
    copy_what: Ints
    copy_when_s: Floats
    copying: Ints  # number of listed copies; whether copies are listed; the host's space
    value: Floats  # makespan, interval, energy
    watts: Floats  # busy and idle power by device; empty if energy is irrelevant
    busy: Floats  # seconds in which at least one lane of each device computes, and the end of its last task
    by_start: Ints  # the tasks, nearly sorted by start


#: Indices into `ConstrainedState.copying`.
COPIES, LISTED, HOST_SPACE = 0, 1, 2


_PLACEMENT = ("nodes", "lanes", "order", "arcs", "costs", "lines", "homes", "counts", "moved", "words")


def make_constrained_state(
    problem: Problem, *, power: bool, tables: Tables | None = None, seed: int = 0
) -> ConstrainedState:
    """Return a state without limits and placed tasks, with the makespan as the objective.

    Other tables than the problem's may be given.
    """
    t = problem.tables if tables is None else tables
    tasks, items, spaces = len(problem), len(t.item_bytes), len(problem.spaces)
    processors, channels = len(t.processor_device), int(t.channel.max(initial=NOTHING)) + 1
    memory = np.zeros((spaces, 5))
    memory[:, LIMIT] = np.inf
    memory[:, INPUT_BYTES] = problem.input_bytes()
    wanted = np.zeros((items, spaces), np.bool_)
    wanted[t.want_item, t.want_space] = True
    lasting = np.zeros(items, np.bool_)
    lasting[list(problem.lasting)] = True
    watts = np.nan_to_num(np.stack([t.busy_w, t.idle_w], axis=1)) if power else np.zeros((0, 2))
    copies = len(t.read_item) + len(t.want_item) if channels else 0
    placement = prepare(t, seed)
    return ConstrainedState(
        tables=t,
        goal=Goal(np.array([1.0, 0.0, 0.0]), np.full(3, np.inf), np.ones(3)),
        **{name: getattr(placement, name) for name in _PLACEMENT},
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
        memory=memory,
        heap=np.zeros((spaces, items + 1, 2)),
        size=np.zeros(spaces, np.int64),
        copy_what=np.zeros((copies, 3), np.int64),
        copy_when_s=np.zeros((copies, 2)),
        copying=np.array([0, channels > 0, problem.backing_space], np.int64),
        value=np.zeros(3),
        watts=watts,
        busy=np.zeros((len(watts), 2)),
        by_start=np.arange(tasks),
    )
