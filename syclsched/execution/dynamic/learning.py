# SPDX-License-Identifier: Apache-2.0
"""Task durations of a run for the history: per task kind and device the median, one sample per run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from syclsched.costs.history import HistoryKey, history_key
from syclsched.execution.core.history_feed import FEED
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph
from syclsched.execution.dynamic.submission.tasks import TaskWork
from syclsched.scheduling.dynamic.drift import ENOUGH, KEPT, Drift
from syclsched.scheduling.dynamic.policy_state import StaticInfo

#: Stores measured durations, in seconds.
Learn = Callable[[Sequence[tuple[HistoryKey, float]]], None]


def measured_durations(
    layout: IndexedGraph, work: TaskWork, known: StaticInfo, drift: Drift
) -> list[tuple[HistoryKey, float]]:
    """Return the duration of each task kind on each device, in seconds, where it ran often enough."""
    kinds = np.array(known.kind, np.int64)
    found = []
    for kind, device in np.argwhere(drift.of_kind > 0.0).tolist():
        task = int(np.argmax(kinds == kind))
        made, implementation = work.tasks[task], work.implementation(task, device)
        if made.operation is None or made.signature is None or implementation is None:
            continue
        ratio = _without_first(drift, kind, device) if layout.devices[device].is_host else drift.of_kind[kind, device]
        if ratio is not None:
            key = history_key(layout.devices[device].timing_key, made.operation, implementation, made.signature)
            found.append((key, float(known.seconds[task][device] * ratio)))
    return found


def _without_first(drift: Drift, kind: int, device: int) -> float | None:
    """Return the median ratio without the first sample, in which a host function may import modules."""
    count = int(drift.counts[kind, device])
    if count > KEPT:
        return float(drift.of_kind[kind, device])  # the first sample has been dropped
    others = drift.ratios[kind, device, 1:count]
    return float(np.median(others)) if len(others) >= ENOUGH else None


def record_in_history(measured: Sequence[tuple[HistoryKey, float]]) -> None:
    """Add durations to the user's history."""
    FEED.add(lambda: measured)
