# SPDX-License-Identifier: Apache-2.0
"""Modulo scheduling: operations that repeat every interval on resources, with dependencies across iterations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.compiled import compiled
from syclsched.scheduling.tables import Floats, Ints

#: Rounding tolerance, relative to the interval.
ROUNDING = 1e-11


class Operations(NamedTuple):
    """Repeated operations; ``N`` operations, ``E`` dependencies."""

    seconds: Floats  # duration of each operation
    early_s: Floats  # earliest start within its iteration
    resource: Ints  # the resources it occupies; -1 for none
    start: Ints  # rows of the three arrays below
    after: Ints  # the dependent operation
    lag_s: Floats  # its least delay after the start of this operation
    distance: Ints  # number of iterations by which the dependent operation is later
    order: Ints  # topological order within an iteration


@compiled
def earliest(o: Operations, interval_s: float) -> tuple[bool, Floats]:
    """Return whether an interval is long enough for every circuit, and the earliest starts without resources."""
    begin = o.early_s.copy()
    backward = 0
    for k in range(o.distance.size):
        backward += 1 if o.distance[k] > 0 else 0
    for sweep in range(backward + 2):
        changed = False
        for i in o.order:
            for k in range(o.start[i], o.start[i + 1]):
                at = begin[i] + o.lag_s[k] - o.distance[k] * interval_s
                if at > begin[o.after[k]] + ROUNDING * interval_s:
                    begin[o.after[k]] = at
                    changed = changed or o.distance[k] > 0
        if not changed:
            return True, begin
        if sweep == backward + 1:
            break
    return False, begin


@compiled
def fit(o: Operations, order: Ints, resources: int, interval_s: float, packed: bool) -> tuple[bool, Floats]:
    """Place operations in order, each as early as possible; return whether all fit, and their starts."""
    count, slack = o.seconds.size, ROUNDING * interval_s
    begin = o.early_s.copy()
    placed = np.zeros(count, np.bool_)
    reserved = np.full((resources, count), -1)
    used = np.zeros(resources, np.int64)
    for i in order:
        at = _slot(o, begin, reserved, used, i, interval_s, packed)
        if at < 0.0:
            return False, begin
        begin[i], placed[i] = at, True
        for r in o.resource[i]:
            if r >= 0 and o.seconds[i] > 0.0:
                reserved[r, used[r]] = i
                used[r] += 1
        for k in range(o.start[i], o.start[i + 1]):
            least = at + o.lag_s[k] - o.distance[k] * interval_s
            if placed[o.after[k]]:
                if least > begin[o.after[k]] + slack:
                    return False, begin
            else:
                begin[o.after[k]] = max(begin[o.after[k]], least)
    return True, begin


@compiled
def _slot(
    o: Operations, begin: Floats, reserved: Ints, used: Ints, i: int, interval_s: float, packed: bool
) -> float:  # fmt: skip
    """Return the first time at which the resources of an operation are free for it; -1 for none."""
    at, seconds, slack = begin[i], o.seconds[i], ROUNDING * interval_s
    if seconds == 0.0:
        return float(at)
    if seconds > interval_s + slack:
        return -1.0
    first = o.resource[i, 0]
    if packed and o.resource[i, 1] < 0 and first >= 0:
        if used[first] == 0:
            return float(at)
        last = reserved[first, used[first] - 1]
        end = begin[last] + o.seconds[last]
        iterations = np.ceil((at - end) / interval_s - ROUNDING)
        at = max(at, end + iterations * interval_s)
    limit = at + interval_s
    if limit <= at:  # the interval is below the precision of such late times
        return -1.0
    moved = True
    while moved:
        before_s, moved = at, False
        for r in o.resource[i]:
            if r < 0:
                continue
            for k in range(used[r]):
                other = reserved[r, k]
                # Time since the other operation began, in its latest iteration.
                since = (at - begin[other]) % interval_s
                if since > interval_s - slack:
                    since = 0.0
                if since < o.seconds[other] - slack:
                    at += o.seconds[other] - since
                    moved = True
                elif interval_s - since < seconds - slack:
                    at += interval_s - since + o.seconds[other]
                    moved = True
                if at > limit + slack:
                    return -1.0
        if moved and at <= before_s:  # a step below the precision
            return -1.0
    return float(at)
