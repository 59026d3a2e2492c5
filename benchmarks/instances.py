# SPDX-License-Identifier: Apache-2.0
"""Scheduling instances from a seed: the graph families of the list-scheduling literature on unrelated devices.

Each family makes a graph of about the given number of tasks, with relative weights of tasks and edges; `instance`
draws unrelated device times from them (Topcuoglu et al. 2002: uniform about the task's mean, by the heterogeneity) and
scales the edges to the communication-to-computation ratio (mean time of an edge between two devices over mean time of
a task).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from syclsched.scheduling.construction.matrices import problem_from_matrices
from syclsched.scheduling.problem import Problem

Edges = dict[tuple[int, int], float]


@dataclass(frozen=True, slots=True)
class Shape:
    """A graph without devices.

    Parameters
    ----------
    weights : tuple of float
        Relative mean time of each task; tasks are numbered in a topological order.
    edges : dict of (int, int) to float
        Relative size of the data of each edge.
    """

    weights: tuple[float, ...]
    edges: Edges


@dataclass(frozen=True, slots=True)
class Instance:
    """A graph with times on devices.

    Parameters
    ----------
    name : str
        Family, size, ratio and seed.
    family : str
        A family of `FAMILIES`.
    ccr : float
        The communication-to-computation ratio.
    costs : tuple of tuple of float
        Seconds of each task on each device.
    edges : dict of (int, int) to float
        Seconds of each edge between two different devices.
    """

    name: str
    family: str
    ccr: float
    costs: tuple[tuple[float, ...], ...]
    edges: Edges

    def problem(self) -> Problem:
        """Return it as a scheduling problem in the contention-free model."""
        return problem_from_matrices(self.costs, self.edges)


def layered(tasks: int, rng: random.Random) -> Shape:
    """Return random layers of random width; each task reads one to three tasks, mostly of the layer before."""
    layers: list[list[int]] = []
    made = 0
    mean_width = max(2.0, math.sqrt(tasks))
    while made < tasks:
        width = min(tasks - made, max(1, round(rng.uniform(0.5, 1.5) * mean_width)))
        layers.append(list(range(made, made + width)))
        made += width
    edges: Edges = {}
    for depth in range(1, len(layers)):
        for task in layers[depth]:
            for before in rng.sample(layers[depth - 1], min(len(layers[depth - 1]), rng.randint(1, 3))):
                edges[before, task] = rng.uniform(0.2, 1.8)
            if depth > 1 and rng.random() < 0.2:
                edges[rng.randrange(layers[depth - 1][0]), task] = rng.uniform(0.2, 1.8)
    return Shape(tuple(rng.uniform(0.2, 1.8) for _ in range(tasks)), edges)


def fork_join(tasks: int, rng: random.Random) -> Shape:
    """Return phases of parallel tasks between single tasks."""
    width = max(3, round(math.sqrt(tasks)))
    weights, edges = [rng.uniform(0.2, 1.8)], Edges()
    fork = 0
    while len(weights) < tasks:
        count = min(width, max(1, tasks - len(weights) - 1))
        branches = range(len(weights), len(weights) + count)
        weights += [rng.uniform(0.2, 1.8) for _ in range(count + 1)]
        join = len(weights) - 1
        for branch in branches:
            edges[fork, branch] = rng.uniform(0.2, 1.8)
            edges[branch, join] = rng.uniform(0.2, 1.8)
        fork = join
    return Shape(tuple(weights), edges)


def gaussian(tasks: int, rng: random.Random) -> Shape:
    """Return Gaussian elimination by columns: a pivot and the updates of the columns right of it, step after step."""
    size = max(2, round((math.sqrt(8 * tasks + 9) - 1) / 2))
    weights: list[float] = []
    edges: Edges = {}
    column: dict[int, int] = {}
    for step in range(size - 1):
        left = float(size - step)
        pivot = len(weights)
        weights.append(left * rng.uniform(0.9, 1.1))
        if step in column:
            edges[column[step], pivot] = left
        for other in range(step + 1, size):
            update = len(weights)
            weights.append(left * rng.uniform(0.9, 1.1))
            edges[pivot, update] = left
            if other in column:
                edges[column[other], update] = left
            column[other] = update
    return Shape(tuple(weights), edges)


def fft(tasks: int, rng: random.Random) -> Shape:
    """Return Topcuoglu's fast Fourier transform: a binary tree of recursive calls, then butterflies."""
    points = 2
    while 2 * (2 * points) - 1 + 2 * points * round(math.log2(2 * points)) <= 1.25 * tasks:
        points *= 2
    weights = [1.0]
    edges: Edges = {}
    row = [0]
    size = 1.0
    while len(row) < points:
        size /= 2
        below = list(range(len(weights), len(weights) + 2 * len(row)))
        weights += [max(size, 1 / points) * points / 2] * len(below)
        for i, task in enumerate(below):
            edges[row[i // 2], task] = size * points
        row = below
    stride = 1
    while stride < points:
        below = list(range(len(weights), len(weights) + points))
        weights += [1.0] * points
        for i, task in enumerate(below):
            edges[row[i], task] = 1.0
            edges[row[i ^ stride], task] = 1.0
        row = below
        stride *= 2
    return Shape(tuple(w * rng.uniform(0.8, 1.2) for w in weights), edges)


def cholesky(tasks: int, rng: random.Random) -> Shape:
    """Return a tiled Cholesky factorisation: POTRF, TRSM, SYRK, GEMM with tiles passed on."""
    tiles = 2
    while (tiles + 1) * (tiles + 2) * (tiles + 3) // 6 <= 1.2 * tasks:
        tiles += 1
    weights: list[float] = []
    edges: Edges = {}
    last: dict[tuple[int, int], int] = {}

    def add(weight: float, reads: list[tuple[int, int]], writes: tuple[int, int]) -> None:
        task = len(weights)
        weights.append(weight * rng.uniform(0.9, 1.1))
        for tile in [*reads, writes]:
            if tile in last:
                edges[last[tile], task] = 1.0
        last[writes] = task

    for k in range(tiles):
        add(1.0, [], (k, k))
        for i in range(k + 1, tiles):
            add(3.0, [(k, k)], (i, k))
        for i in range(k + 1, tiles):
            add(3.0, [(i, k)], (i, i))
            for j in range(k + 1, i):
                add(6.0, [(i, k), (j, k)], (i, j))
    return Shape(tuple(weights), edges)


def tree(tasks: int, rng: random.Random) -> Shape:
    """Return a random tree with two or three branches at a time; half of the time reversed, as a reduction."""
    edges: Edges = {}
    front = [0]
    made = 1
    while made < tasks:
        parent = front.pop(0) if len(front) > 1 else front[0]
        for _ in range(min(tasks - made, rng.randint(2, 3))):
            edges[parent, made] = rng.uniform(0.2, 1.8)
            front.append(made)
            made += 1
        if front[0] == parent:
            front.pop(0)
    if rng.random() < 0.5:
        edges = {(tasks - 1 - b, tasks - 1 - a): size for (a, b), size in edges.items()}
    return Shape(tuple(rng.uniform(0.2, 1.8) for _ in range(tasks)), edges)


def montage(tasks: int, rng: random.Random) -> Shape:
    """Return a mosaic as by Montage: projections, differences of neighbours, a fit, corrections, a sum."""
    images = max(3, (tasks - 5) // 4)
    weights: list[float] = [rng.uniform(2, 3) for _ in range(images)]
    edges: Edges = {}
    pairs = [(i, i + 1) for i in range(images - 1)] + [(i, i + 2) for i in range(images - 2)]
    pairs = pairs[: max(images - 1, min(len(pairs), tasks - 2 * images - 5))]
    differences = list(range(images, images + len(pairs)))
    for task, (a, b) in zip(differences, pairs, strict=True):
        weights.append(rng.uniform(0.3, 0.7))
        edges[a, task], edges[b, task] = 2.0, 2.0
    fit = len(weights)
    weights += [rng.uniform(1, 2), rng.uniform(3, 4)]
    edges.update({(task, fit): 0.2 for task in differences})
    edges[fit, fit + 1] = 0.2
    corrections = list(range(len(weights), len(weights) + images))
    for image, task in enumerate(corrections):
        weights.append(rng.uniform(0.5, 1))
        edges[image, task], edges[fit + 1, task] = 2.0, 0.1
    table = len(weights)
    weights += [rng.uniform(0.5, 1), rng.uniform(3, 5), rng.uniform(1, 2)]
    edges.update({(task, table): 0.1 for task in corrections})
    edges.update({(task, table + 1): 2.0 for task in corrections})
    edges[table, table + 1], edges[table + 1, table + 2] = 0.1, 4.0
    return Shape(tuple(weights), edges)


#: The families of the quality benchmark.
FAMILIES: dict[str, Callable[[int, random.Random], Shape]] = {
    "layered": layered,
    "fork-join": fork_join,
    "gaussian": gaussian,
    "fft": fft,
    "cholesky": cholesky,
    "tree": tree,
    "montage": montage,
}


def instance(family: str, tasks: int, devices: int, ccr: float, seed: int, *, heterogeneity: float = 1.0) -> Instance:
    """Return an instance.

    Parameters
    ----------
    family : str
        A family of `FAMILIES`.
    tasks : int
        Approximate number of tasks; structured families take the nearest size they have.
    devices : int
        Number of unrelated devices, one lane each.
    ccr : float
        Communication-to-computation ratio.
    seed : int
        Equal arguments give equal instances.
    heterogeneity : float, default 1
        A task of mean time w takes uniformly w (1 - h/2) to w (1 + h/2) on each device.

    Returns
    -------
    Instance
        The number of tasks may differ from the given one.
    """
    name = f"{family}-{tasks}-{ccr:g}-{seed}"
    rng = random.Random(name)
    shape = FAMILIES[family](tasks, rng)
    half = heterogeneity / 2
    costs = tuple(tuple(w * rng.uniform(1 - half, 1 + half) for _ in range(devices)) for w in shape.weights)
    mean_cost = sum(map(sum, costs)) / (len(costs) * devices)
    mean_edge = sum(shape.edges.values()) / max(1, len(shape.edges))
    scale = ccr * mean_cost / mean_edge if mean_edge else 0.0
    return Instance(name, family, ccr, costs, {edge: size * scale for edge, size in shape.edges.items()})
