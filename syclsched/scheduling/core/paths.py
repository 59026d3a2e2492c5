# SPDX-License-Identifier: Apache-2.0
"""Longest paths through the graph: chains that cover all tasks, and optimistic costs to the end."""

from __future__ import annotations

import numpy as np

from syclsched.compiled import compiled
from syclsched.scheduling.tables import NOTHING, Floats, Ints, Tables


@compiled
def heavy_chains(tables: Tables, order: Ints, ranks: Floats, latency_s: float, s_per_byte: float) -> Ints:
    """Cover the graph with chains, each following the heaviest successors that are in no chain yet."""
    chain = np.full(order.shape[0], NOTHING, np.int64)
    for first in order:
        task = first if chain[first] < 0 else NOTHING
        while task >= 0:
            chain[task] = first
            heaviest, heaviest_s = NOTHING, -1.0
            for arc in range(tables.succ_start[task], tables.succ_start[task + 1]):
                after = tables.succ_task[arc]
                weight_s = tables.succ_copies[arc] * latency_s + tables.succ_bytes[arc] * s_per_byte + ranks[after]
                if chain[after] < 0 and weight_s > heaviest_s:
                    heaviest, heaviest_s = after, weight_s
            task = heaviest
    return chain


@compiled
def optimistic_costs(tables: Tables, latency_s: float, s_per_byte: float) -> Floats:
    """Return the optimistic cost table: the least time that follows a task on each device [1]_.

    References
    ----------
    .. [1] H. Arabnejad, J. G. Barbosa, "List scheduling algorithm for heterogeneous systems by an optimistic cost
       table", IEEE Transactions on Parallel and Distributed Systems 25(3), 2014.
    """
    tasks, devices = tables.kind.size, tables.seconds.shape[1]
    costs_s = np.zeros((tasks, devices))
    nearest_s = np.empty(tables.latency_s.shape[0])
    for task in range(tasks - 1, -1, -1):
        for arc in range(tables.succ_start[task], tables.succ_start[task + 1]):
            after = tables.succ_task[arc]
            after_s = tables.seconds[tables.kind[after]]
            nearest_s[:] = np.inf
            for device in range(devices):
                home = tables.reach_space[tables.reach_start[device]]
                nearest_s[home] = min(nearest_s[home], costs_s[after, device] + after_s[device])
            away_s = nearest_s.min() + tables.succ_copies[arc] * latency_s + tables.succ_bytes[arc] * s_per_byte
            for device in range(devices):
                home = tables.reach_space[tables.reach_start[device]]
                costs_s[task, device] = max(costs_s[task, device], min(nearest_s[home], away_s))
    return costs_s
