# SPDX-License-Identifier: Apache-2.0
"""Ranks: how much of the graph hangs on a task, which says what is scheduled first."""

from __future__ import annotations

import numpy as np

from syclsched.scheduling.problem import Problem


def mean_seconds(problem: Problem) -> list[float]:
    """Return the mean seconds of each task over the devices that can run it.

    Parameters
    ----------
    problem : Problem
        The problem.

    Returns
    -------
    list of float
        By task.
    """
    able = np.isfinite(problem.seconds)
    total = np.where(able, problem.seconds, 0.0).sum(axis=1)
    means: list[float] = (total / np.maximum(able.sum(axis=1), 1)).tolist()
    return means


def upward_ranks(problem: Problem) -> list[float]:
    """Return the upward rank of each task: the length of the longest path from it to the end, in mean costs.

    Parameters
    ----------
    problem : Problem
        The problem.

    Returns
    -------
    list of float
        Seconds, by task. ``rank(i) = mean(i) + max over successors j of (copy(i, j) + rank(j))``, where ``copy`` is the
        mean time of its data between different spaces [1]_.

    References
    ----------
    .. [1] H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-effective and low-complexity task scheduling for
       heterogeneous computing", IEEE Transactions on Parallel and Distributed Systems 13(3), 2002.
    """
    ranks = mean_seconds(problem)
    latency_s, s_per_byte = problem.mean_copy_line()
    for task in range(len(ranks) - 1, -1, -1):
        longest = 0.0
        previous = -1
        copying = 0.0
        # Successors are sorted, so that the arrays that flow to one successor stand together: their copies add up.
        for after, _, _, nbytes in problem.successors[task]:
            if after != previous:
                previous, copying = after, 0.0
            if nbytes:
                copying += latency_s + nbytes * s_per_byte
            path = copying + ranks[after]
            if path > longest:
                longest = path
        ranks[task] += longest
    return ranks
