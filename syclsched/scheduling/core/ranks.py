# SPDX-License-Identifier: Apache-2.0
"""Task ranks for list scheduling: upward rank, downward rank and mean execution time."""

from __future__ import annotations

import numpy as np

from syclsched.compiled import compiled
from syclsched.scheduling.tables import Floats, Tables


@compiled
def mean_seconds(tables: Tables) -> Floats:
    """Return the mean seconds of each task over the devices that can run it."""
    kinds, devices = tables.seconds.shape
    means = np.zeros(kinds)
    for kind in range(kinds):
        total, able = 0.0, 0
        for device in range(devices):
            if tables.seconds[kind, device] < np.inf:
                total += tables.seconds[kind, device]
                able += 1
        means[kind] = total / max(able, 1)
    return means[tables.kind]


@compiled
def upward_ranks(tables: Tables, weights_s: Floats, latency_s: float, s_per_byte: float) -> Floats:
    """Return the upward rank of each task: the length of the longest path from its start to the end.

    References
    ----------
    .. [1] H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-effective and low-complexity task scheduling for
       heterogeneous computing", IEEE Transactions on Parallel and Distributed Systems 13(3), 2002.
    """
    ranks = np.zeros(weights_s.shape[0])
    for task in range(ranks.shape[0] - 1, -1, -1):
        longest_s = 0.0
        for arc in range(tables.succ_start[task], tables.succ_start[task + 1]):
            copy_s = tables.succ_copies[arc] * latency_s + tables.succ_bytes[arc] * s_per_byte
            longest_s = max(longest_s, copy_s + ranks[tables.succ_task[arc]])
        ranks[task] = weights_s[task] + longest_s
    return ranks


@compiled
def next_ranks(tables: Tables, ranks: Floats) -> Floats:
    """Return the highest rank among the successors of each task."""
    highest = np.zeros(ranks.shape[0])
    for task in range(ranks.shape[0]):
        for arc in range(tables.succ_start[task], tables.succ_start[task + 1]):
            highest[task] = max(highest[task], ranks[tables.succ_task[arc]])
    return highest


@compiled
def downward_ranks(tables: Tables, weights_s: Floats, latency_s: float, s_per_byte: float) -> Floats:
    """Return the downward rank of each task: the length of the longest path from the beginning to its start."""
    ranks = np.zeros(weights_s.shape[0])
    for task in range(ranks.shape[0]):
        longest_s = tables.release_s[task]
        for arc in range(tables.pred_start[task], tables.pred_start[task + 1]):
            before = tables.pred_task[arc]
            copy_s = tables.pred_copies[arc] * latency_s + tables.pred_bytes[arc] * s_per_byte
            longest_s = max(longest_s, ranks[before] + weights_s[before] + copy_s)
        ranks[task] = longest_s
    return ranks
