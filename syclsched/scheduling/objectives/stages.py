# SPDX-License-Identifier: Apache-2.0
"""A graph cut into stages, each on a processor of its own, so that generations can follow each other at once."""

from __future__ import annotations

from itertools import chain, permutations

import numpy as np

from syclsched.scheduling.objectives.decode import decode
from syclsched.scheduling.objectives.orders import depth_first
from syclsched.scheduling.objectives.search import timetable_of
from syclsched.scheduling.objectives.state import load, make_state
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import Floats, Ints
from syclsched.scheduling.timetable import Timetable

#: Of more devices only their own order is tried.
_MOST_ORDERED = 4
#: The longest stage is found to one part in 2 to the power of this.
_HALVINGS = 40


def stages(problem: Problem) -> Timetable | None:
    """Return tasks in a topological order, cut into as many pieces as there are processors, the longest piece short.

    All data goes forward from stage to stage. So lanes in order are never held up by a later stage: with as many
    generations on their way as there are stages, and one more, the interval is that of the longest, whatever else an
    assignment with the same loads would need.
    """
    tables = problem.tables
    devices = range(len(problem.devices))
    if len(tables.processor_device) < 2 or len(problem) == 0:
        return None
    order = depth_first(tables)
    lanes = [np.flatnonzero(tables.processor_device == device).tolist() for device in devices]
    orders = permutations(devices) if len(devices) <= _MOST_ORDERED else [tuple(devices)]
    cut = [_cut(tables.seconds[order], tables.processor_device, [*chain(*(lanes[d] for d in way))]) for way in orders]
    found = min((each for each in cut if each is not None), key=lambda each: each[0], default=None)
    if found is None:
        return None
    processor = np.empty(len(problem), np.int64)
    processor[order] = found[1]
    state = make_state(problem, power=False)
    load(state, order, processor)
    decode(tables, state)
    made = timetable_of(state)
    return made if np.isfinite(made.finish_s).all() else None


# --- inside ---------------------------------------------------------------------------------------


def _cut(seconds: Floats, device_of: Ints, processors: list[int]) -> tuple[float, Ints] | None:
    """Return the length of the longest piece and the processor of each task, in order; None if some fits nowhere."""
    columns = [seconds[:, device_of[p]] for p in processors]
    low, high = 0.0, float(max(column[np.isfinite(column)].sum() for column in columns)) * (1.0 + 1e-9)
    best = _filled(columns, high)
    if best is None:
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        found = _filled(columns, middle)
        if found is None:
            low = middle
        else:
            best, high = found, middle
    return high, np.repeat(np.array(processors, np.int64), best)


def _filled(columns: list[Floats], most_s: float) -> list[int] | None:
    """Return how many tasks each processor gets if each takes all it can within some time; None if tasks are left."""
    at, counts = 0, list[int]()
    for column in columns:
        beyond = np.cumsum(column[at:]) > most_s  # where it cannot run a task takes forever
        counts.append(int(np.argmax(beyond)) if beyond.any() else len(beyond))
        at += counts[-1]
    return counts if at == len(columns[0]) else None
