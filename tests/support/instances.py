# SPDX-License-Identifier: Apache-2.0
"""Scheduling instances: two from the literature, and random ones."""

from __future__ import annotations

import math
import random

from hypothesis import strategies as st

from syclsched.scheduling.construction.matrices import problem_from_matrices
from syclsched.scheduling.problem import Problem

Table = list[list[float]]
Edges = dict[tuple[int, int], float]

#: Topcuoglu, Hariri, Wu 2002, the graph and the table of computation costs; HEFT's makespan there is 80.
TOPCUOGLU_COSTS: Table = [
    [14, 16, 9], [13, 19, 18], [11, 13, 19], [13, 8, 17], [12, 13, 10],
    [13, 16, 9], [7, 15, 11], [5, 11, 14], [18, 12, 20], [21, 7, 16],
]  # fmt: skip
TOPCUOGLU_EDGES: Edges = {
    (0, 1): 18, (0, 2): 12, (0, 3): 9, (0, 4): 11, (0, 5): 14, (1, 7): 19, (1, 8): 16, (2, 6): 23,
    (3, 7): 27, (3, 8): 23, (4, 8): 13, (5, 7): 15, (6, 9): 17, (7, 9): 11, (8, 9): 13,
}  # fmt: skip

#: Arabnejad and Barbosa 2014 (the paper of PEFT); HEFT's makespan there is 133.
PEFT_COSTS: Table = [
    [22, 21, 36], [22, 18, 18], [32, 27, 43], [7, 10, 4], [29, 27, 35],
    [26, 17, 24], [14, 25, 30], [29, 23, 36], [15, 21, 8], [13, 16, 33],
]  # fmt: skip
PEFT_EDGES: Edges = {
    (0, 1): 17, (0, 2): 31, (0, 3): 29, (0, 4): 13, (0, 5): 7, (1, 7): 3, (1, 8): 30, (2, 6): 16,
    (3, 7): 11, (3, 8): 7, (4, 8): 57, (5, 7): 5, (6, 9): 9, (7, 9): 42, (8, 9): 7,
}  # fmt: skip


def layered(tasks: int, processors: int, degree: int, seed: int) -> Problem:
    """Return a random layered graph with about as many layers as tasks in a layer."""
    generator = random.Random(seed)
    width = max(2, math.isqrt(tasks))
    edges: Edges = {}
    for task in range(width, tasks):
        layer = task // width
        for before in generator.sample(range((layer - 1) * width, layer * width), min(degree, width)):
            edges[before, task] = generator.uniform(0, 20)
    costs = [[generator.uniform(1, 20) for _ in range(processors)] for _ in range(tasks)]
    return problem_from_matrices(costs, edges)


@st.composite
def tables(draw: st.DrawFn, max_tasks: int = 12, max_processors: int = 4) -> tuple[Table, Edges, list[int]]:
    """Draw random costs (some zero, some infinite), edges (some free) and priorities."""
    count, width = draw(st.integers(1, max_tasks)), draw(st.integers(1, max_processors))
    cost = st.one_of(st.sampled_from([0.0, 1.0, math.inf]), st.floats(0.0, 100.0))
    costs = []
    for _ in range(count):
        row = draw(st.lists(cost, min_size=width, max_size=width))
        if all(math.isinf(c) for c in row):
            row[draw(st.integers(0, width - 1))] = draw(st.floats(0.0, 10.0))
        costs.append(row)
    # Edges may oppose the order of the table, as long as some order of the tasks satisfies them.
    order = draw(st.permutations(range(count)))
    edges: Edges = {}
    for _ in range(draw(st.integers(0, 2 * count))):
        a, b = sorted((draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))))
        if a != b:
            edges[order[a], order[b]] = draw(st.one_of(st.just(0.0), st.floats(0.0, 50.0)))
    return costs, edges, draw(st.lists(st.integers(-2, 2), min_size=count, max_size=count))


def critical_path(problem: Problem) -> float:
    """Return the longest chain, each task at its fastest, copies for free: a lower bound."""
    tables = problem.tables
    fastest = tables.task_seconds().min(axis=1).tolist()
    finish = [0.0] * len(problem)
    for task in range(len(problem)):
        before = tables.pred_task[tables.pred_start[task] : tables.pred_start[task + 1]].tolist()
        start = max([float(tables.release_s[task]), *[finish[b] for b in before]])
        finish[task] = start + fastest[task]
    return max(finish, default=0.0)


def work_bound(problem: Problem) -> float:
    """Return the work of all tasks at their fastest, shared evenly by all lanes: a lower bound."""
    return float(problem.tables.task_seconds().min(axis=1).sum()) / len(problem.processors) if len(problem) else 0.0
