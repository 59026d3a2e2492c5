# SPDX-License-Identifier: Apache-2.0
"""Pipeline stages: a topological order of tasks cut into one contiguous piece per processor."""

from __future__ import annotations

from itertools import chain, permutations

import numpy as np

from syclsched.scheduling.core.orders import depth_first
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.search.constrained.evaluator import ConstrainedEvaluator
from syclsched.scheduling.tables import Floats, Ints
from syclsched.scheduling.timetable import Timetable

#: Up to this number of devices all their orders are tried; of more devices only their own order.
_MOST_ORDERED = 4
#: The longest stage is found to a relative precision of 2 to the power of minus this.
_HALVINGS = 40


def stages(problem: Problem) -> Timetable | None:
    """Return a topological order cut into one piece per processor with a short longest piece; None if impossible.

    All data flows forward from stage to stage, so in-order lanes never wait for a later stage: with one more iteration
    in flight than there are stages, the interval is the length of the longest stage.
    """
    tables = problem.tables
    devices = range(len(problem.devices))
    if len(tables.processor_device) < 2 or len(problem) == 0:
        return None
    order = depth_first(tables.pred_start, tables.succ_start, tables.succ_task)
    lanes = [np.flatnonzero(tables.processor_device == device).tolist() for device in devices]
    orders = permutations(devices) if len(devices) <= _MOST_ORDERED else [tuple(devices)]
    cut = [
        _cut(tables.seconds[tables.kind[order]], tables.processor_device, [*chain(*(lanes[d] for d in device_order))])
        for device_order in orders
    ]
    found = min((each for each in cut if each is not None), key=lambda each: each[0], default=None)
    if found is None:
        return None
    processor = np.empty(len(problem), np.int64)
    processor[order] = found[1]
    evaluator = ConstrainedEvaluator(problem)
    evaluator.load(order, processor)
    made = evaluator.timetable()
    return made if np.isfinite(made.finish_s).all() else None


# --- inside ---------------------------------------------------------------------------------------


def _cut(seconds: Floats, device_of: Ints, processors: list[int]) -> tuple[float, Ints] | None:
    """Return the length of the longest piece and the processor of each task, in order; None if a task fits nowhere."""
    columns = [seconds[:, device_of[p]] for p in processors]
    low, high = 0.0, float(max(column[np.isfinite(column)].sum() for column in columns)) * (1.0 + 1e-9)
    best = _fill(columns, high)
    if best is None:
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        found = _fill(columns, middle)
        if found is None:
            low = middle
        else:
            best, high = found, middle
    return high, np.repeat(np.array(processors, np.int64), best)


def _fill(columns: list[Floats], most_s: float) -> list[int] | None:
    """Return the number of tasks per processor if each takes all it can within ``most_s``; None if tasks are left."""
    at, counts = 0, list[int]()
    for column in columns:
        beyond = np.cumsum(column[at:]) > most_s  # infinite times mark tasks that it cannot run
        counts.append(int(np.argmax(beyond)) if beyond.any() else len(beyond))
        at += counts[-1]
    return counts if at == len(columns[0]) else None
