# SPDX-License-Identifier: Apache-2.0
"""Modulo scheduling: operations with resources that repeat every interval, and dependencies across generations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.compiled import compiled
from syclsched.scheduling.tables import Floats, Ints

#: Rounding, as a part of the interval.
ROUNDING = 1e-11


class Operations(NamedTuple):
    """What repeats; ``N`` operations, ``E`` dependencies."""

    seconds: Floats  # how long each takes
    early_s: Floats  # no operation starts before this in its generation
    resource: Ints  # what it occupies; -1 for nothing
    start: Ints  # rows of the three below
    after: Ints  # the operation that must wait
    lag_s: Floats  # for so long after the start of this one,
    distance: Ints  # counted so many generations later
    order: Ints  # every operation after those it waits for in its generation


@compiled
def earliest(o: Operations, interval_s: float) -> tuple[bool, Floats]:
    """Return the earliest starts without resources, and whether there are any: no circuit takes too long."""
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
    """Place operations one after another, each as early as it may."""
    count, slack = o.seconds.size, ROUNDING * interval_s
    begin = o.early_s.copy()
    placed = np.zeros(count, np.bool_)
    taken = np.full((resources, count), -1)
    used = np.zeros(resources, np.int64)
    for i in order:
        at = _slot(o, begin, taken, used, i, interval_s, packed)
        if at < 0.0:
            return False, begin
        begin[i], placed[i] = at, True
        for r in o.resource[i]:
            if r >= 0 and o.seconds[i] > 0.0:
                taken[r, used[r]] = i
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
    o: Operations, begin: Floats, taken: Ints, used: Ints, i: int, interval_s: float, packed: bool
) -> float:  # fmt: skip
    """Return the first time from an operation's earliest at which its resources are free for it; -1 for none."""
    at, seconds, slack = begin[i], o.seconds[i], ROUNDING * interval_s
    if seconds == 0.0:
        return float(at)
    if seconds > interval_s + slack:
        return -1.0
    first = o.resource[i, 0]
    if packed and o.resource[i, 1] < 0 and first >= 0:
        if used[first] == 0:
            return float(at)
        last = taken[first, used[first] - 1]
        end = begin[last] + o.seconds[last]
        generations = np.ceil((at - end) / interval_s - ROUNDING)
        at = max(at, end + generations * interval_s)
    limit = at + interval_s
    moved = True
    while moved:
        moved = False
        for r in o.resource[i]:
            if r < 0:
                continue
            for k in range(used[r]):
                other = taken[r, k]
                # How long ago the other began, counted in its latest generation.
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
    return float(at)
