# SPDX-License-Identifier: Apache-2.0
"""Static information for dynamic policies, made from a problem's tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from syclsched.scheduling.core.list_schedulers import mean_upward_ranks
from syclsched.scheduling.dynamic.policy_state import StaticInfo
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import Floats, Ints


def static_info_of(
    problem: Problem, urgency: Sequence[npt.NDArray[np.generic]], *, planned: Ints | None = None
) -> StaticInfo:
    """Return the static information of a problem for a dynamic policy."""
    tables = problem.tables
    return StaticInfo(
        seconds=tuple(map(tuple, tables.task_seconds().tolist())),
        reads=rows(tables.read_start, tables.read_item),
        nbytes=tuple(tables.item_bytes.tolist()),
        reaches=rows(tables.reach_start, tables.reach_space),
        latency_s=tuple(map(tuple, tables.latency_s.tolist())),
        s_per_byte=tuple(map(tuple, tables.s_per_byte.tolist())),
        device_of=tuple(tables.processor_device.tolist()),
        level=_levels(urgency, len(problem)),
        planned=None if planned is None else tuple(planned.tolist()),
        kind=tuple(kinds(problem).tolist()),
    )


def kinds(problem: Problem) -> Ints:
    """Return the kind of each task, numbered from 0: tasks of one kind have equal estimates and implementations."""
    tables = problem.tables
    if not len(problem):
        return np.zeros(0, np.int64)
    columns = np.concatenate((tables.seconds, problem.implementation.astype(np.float64)), axis=1)
    return np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)[tables.kind].astype(np.int64)


def rows(start: Ints, entries: Ints) -> tuple[tuple[int, ...], ...]:
    """Return compressed sparse rows as tuples."""
    flat = entries.tolist()
    return tuple([tuple(flat[a:b]) for a, b in pairwise(start.tolist())])


def urgency_by_rank(problem: Problem) -> tuple[Ints, Floats]:
    """Return priorities, and upward ranks as tie-breaker, rounded so that equal ranks compare equal."""
    ranks = mean_upward_ranks(problem)
    unit = float(ranks.max(initial=0.0)) * 1e-9
    return problem.tables.priority, ranks if unit == 0.0 else np.round(ranks / unit)


def _levels(urgency: Sequence[npt.NDArray[np.generic]], count: int) -> tuple[int, ...]:
    """Return the level of each task by falling urgency; equally urgent tasks share a level."""
    if not count:
        return ()
    order = np.lexsort([-column.astype(np.float64) for column in reversed(urgency)])
    differs = np.zeros(count, dtype=np.int64)
    for column in urgency:
        differs[1:] |= column[order][1:] != column[order][:-1]
    level = np.empty(count, dtype=np.int64)
    level[order] = np.cumsum(differs)
    return tuple(level.tolist())
