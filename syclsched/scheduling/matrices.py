# SPDX-License-Identifier: Apache-2.0
"""Scheduling problems from tables of costs, as the literature prints its examples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from syclsched.errors import CapabilityError, CycleError, EmptyPlatformError, GraphError
from syclsched.model.dependencies import Dependency
from syclsched.model.ordering import find_cycle, topological_order
from syclsched.scheduling.build import arcs
from syclsched.scheduling.problem import Item, Problem, Product

Edges = Mapping[tuple[int, int], float]


def problem_from_matrices(
    costs: Sequence[Sequence[float]],
    edges: Edges,
    *,
    names: Sequence[str] | None = None,
    priorities: Sequence[int] | None = None,
) -> Problem:
    """Return the problem of the list-scheduling literature: a cost table and communication times.

    Parameters
    ----------
    costs : sequence of sequence of float, shape (tasks, processors)
        Seconds of each task on each processor; infinity where it cannot run. Processors are called ``p0``, ``p1``, ...
    edges : Mapping[(int, int), float]
        For each (before, after) the seconds its data takes between two different processors, whichever.
    names : sequence of str, optional
        Task names; ``t0``, ``t1``, ... if not given.
    priorities : sequence of int, optional
        Larger runs earlier among equals.

    Returns
    -------
    Problem
        Each processor is a device of one lane with a memory space of its own.

    Raises
    ------
    GraphError
        If a cost or time is not zero or more, rows are uneven, or an edge names no task.
    CycleError
        If the edges close a cycle.
    CapabilityError
        If a task can run nowhere.
    EmptyPlatformError
        If there are no processors.
    """
    labels = [f"t{i}" for i in range(len(costs))] if names is None else list(names)
    width = len(costs[0]) if costs else 1
    _check_costs(costs, labels, width)
    _check_edges(edges, labels)
    pairs = [(labels[a], labels[b]) for a, b in edges]
    order = topological_order(labels, pairs)
    if len(order) < len(labels):
        cycle = find_cycle(labels, pairs)
        raise CycleError("the edges close a cycle: " + " -> ".join(cycle), where="edges")
    submission = {name: i for i, name in enumerate(labels)}
    sources = [submission[name] for name in order]
    index = {source: i for i, source in enumerate(sources)}
    flows = [(index[a], index[b], f"{labels[a]}->{labels[b]}", float(s)) for (a, b), s in edges.items()]
    reads: list[list[int]] = [[] for _ in order]
    makes: list[list[Product]] = [[] for _ in order]
    for item, (before, after, _, _) in enumerate(flows):
        makes[before].append(Product(item, -1))
        reads[after].append(item)
    predecessors, successors = arcs(
        order,
        [Dependency(order[a], order[b], "RAW", array) for a, b, array, _ in flows],
        {array: s for _, _, array, s in flows},
    )
    seconds = np.array([costs[i] for i in sources], dtype=np.float64).reshape(len(order), width)
    seconds.flags.writeable = False
    processors = tuple(f"p{p}" for p in range(width))
    return Problem(
        names=order,
        submission=tuple(sources),
        priorities=tuple([0 if priorities is None else int(priorities[i]) for i in sources]),
        devices=processors,
        processors=tuple((p, 0) for p in range(width)),
        spaces=processors,
        reaches=tuple((p,) for p in range(width)),
        seconds=seconds,
        implementations=((None,) * width,) * len(order),
        predecessors=predecessors,
        successors=successors,
        items=tuple([Item(array, s, before) for before, _, array, s in flows]),
        reads=tuple(map(tuple, reads)),
        makes=tuple(map(tuple, makes)),
        # An item's bytes are its transfer time, so a second per byte and no latency give that back.
        copy_latency_s=((0.0,) * width,) * width,
        copy_s_per_byte=tuple(tuple(float(a != b) for b in range(width)) for a in range(width)),
    )


def _check_costs(costs: Sequence[Sequence[float]], labels: Sequence[str], width: int) -> None:
    if len(set(labels)) != len(costs):
        raise GraphError(f"{len(set(labels))} different names are given for {len(costs)} tasks", where="names")
    if width == 0:
        raise EmptyPlatformError("there are no processors", where="costs")
    for label, row in zip(labels, costs, strict=True):
        where = f"costs of task {label!r}"
        if len(row) != width:
            raise GraphError(f"{len(row)} processors, where the first task has {width}", where=where)
        for seconds in row:
            if not seconds >= 0.0:
                raise GraphError(f"{seconds!r} is not a time of zero or more", where=where)
        if all(math.isinf(seconds) for seconds in row):
            raise CapabilityError("no processor can run it", where=where, hint="Give it a finite time somewhere")


def _check_edges(edges: Edges, labels: Sequence[str]) -> None:
    for (before, after), seconds in edges.items():
        where = f"edge ({before}, {after})"
        if not (0 <= before < len(labels) and 0 <= after < len(labels)):
            raise GraphError(f"there are tasks 0 to {len(labels) - 1} only", where=where)
        if not 0.0 <= seconds < math.inf:
            raise GraphError(f"{seconds!r} is not a finite time of zero or more", where=where)
