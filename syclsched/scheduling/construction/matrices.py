# SPDX-License-Identifier: Apache-2.0
"""Scheduling problems from cost tables as in the literature's examples, and from large arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from syclsched.errors import ArgumentError, CapabilityError, CycleError, EmptyPlatformError, GraphError
from syclsched.model.graph_parts.topological_sort import find_cycle
from syclsched.scheduling.problem import NOTHING, Problem
from syclsched.scheduling.rows import arcs, row_starts, rows_of, sorted_by_ends, topological_numbering
from syclsched.scheduling.tables import Floats, Ints, Tables, frozen

Edges = Mapping[tuple[int, int], float]


def problem_from_matrices(
    costs: Sequence[Sequence[float]],
    edges: Edges,
    *,
    names: Sequence[str] | None = None,
    priorities: Sequence[int] | None = None,
    contention: Literal["none", "one-port"] = "none",
) -> Problem:
    """Return the problem of the list-scheduling literature: a cost table and communication times."""
    labels = [f"t{i}" for i in range(len(costs))] if names is None else list(names)
    width = len(costs[0]) if len(costs) else 1
    for label, row in zip(labels, costs, strict=False):
        if len(row) != width:
            where = f"costs of task {label!r}"
            raise GraphError(f"{len(row)} processors, where the first task has {width}", where=where)
    ends = np.array(list(edges), dtype=np.int64).reshape(len(edges), 2)
    return problem_from_arrays(
        np.array(costs, dtype=np.float64).reshape(len(costs), width),
        ends[:, 0],
        ends[:, 1],
        np.array(list(edges.values()), dtype=np.float64),
        names=labels,
        priorities=priorities,
        contention=contention,
        name_edges=True,
    )


def problem_from_arrays(
    costs: npt.ArrayLike,
    edge_before: npt.ArrayLike,
    edge_after: npt.ArrayLike,
    edge_seconds: npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    priorities: npt.ArrayLike | None = None,
    release_s: npt.ArrayLike | None = None,
    lanes: Sequence[int] | None = None,
    latency_s: npt.ArrayLike | None = None,
    s_per_byte: npt.ArrayLike | None = None,
    contention: Literal["none", "one-port"] = "none",
    name_edges: bool = False,
) -> Problem:
    """Return the same as `problem_from_matrices`, from arrays; fast enough for a million tasks."""
    # Copies, because arrays that become part of the tables are made read-only.
    seconds = np.array(costs, dtype=np.float64)
    if seconds.ndim != 2:
        raise GraphError(f"{seconds.ndim} dimensions, where tasks times processors are needed", where="costs")
    count, width = seconds.shape
    labels = list(map("t%d".__mod__, range(count)) if names is None else names)
    _check_costs(seconds, labels, len(labels) if names is None else len(set(labels)))
    before, after = np.array(edge_before, dtype=np.int64), np.array(edge_after, dtype=np.int64)
    nbytes = np.array(edge_seconds, dtype=np.float64)
    _check_edges(before, after, nbytes, count)
    submission = topological_numbering(count, before, after)
    if len(submission) < count:
        cycle = find_cycle(labels, [(labels[a], labels[b]) for a, b in zip(before, after, strict=True)])
        raise CycleError("the edges close a cycle: " + " -> ".join(cycle), where="edges")
    if bool((submission[1:] < submission[:-1]).any()):
        number = np.empty(count, dtype=np.int64)
        number[submission] = np.arange(count)
        before, after = number[before], number[after]
        seconds, labels = seconds[submission], [labels[i] for i in submission.tolist()]
    # Items are numbered by producer, so that the items made by one task are contiguous.
    order = sorted_by_ends(count, before, after)
    before, after, nbytes = before[order], after[order], nbytes[order]
    read_start, read_item = rows_of(after, count)
    links = _links(width, latency_s, s_per_byte, contention)
    processors = _lanes(lanes, width)
    device_start = np.concatenate(([0], np.cumsum(processors)))
    tables = Tables(
        seconds=seconds,
        kind=np.arange(count),
        release_s=_releases(release_s, count)[submission],
        priority=_priorities(priorities, count)[submission],
        submission=submission,
        device_start=device_start,
        processor_device=np.repeat(np.arange(width), processors),
        machine_start=np.array([0, width]),
        space_machine=np.zeros(width, np.int64),
        **arcs(count, before, after, nbytes),
        item_bytes=nbytes,
        item_producer=before,
        item_space=np.full(len(before), NOTHING),
        read_start=read_start,
        read_item=read_item,
        make_start=row_starts(before, count),
        make_item=np.arange(len(before)),
        make_replaces=np.full(len(before), NOTHING),
        reach_start=np.arange(width + 1),
        reach_space=np.arange(width),
        latency_s=links[0],
        s_per_byte=links[1],
        channel=links[2],
        want_item=np.empty(0, dtype=np.int64),
        want_space=np.empty(0, dtype=np.int64),
        capacity_bytes=np.full(width, math.inf),
        busy_w=np.full(width, math.nan),
        idle_w=np.full(width, math.nan),
    )
    processor_names = tuple([f"p{p}" for p in range(width)])
    flows = zip(before.tolist(), after.tolist(), strict=True) if name_edges else ()
    return Problem(
        names=tuple(labels),
        devices=processor_names,
        lanes=tuple(lane for lane_count in processors.tolist() for lane in range(lane_count)),
        spaces=processor_names,
        implementation_names=(),
        implementation=np.broadcast_to(np.int16(NOTHING), (count, width)),
        arrays=tuple([f"{labels[a]}->{labels[b]}" for a, b in flows]),
        item_array=np.arange(len(before)) if name_edges else np.full(len(before), NOTHING),
        contention=contention,
        tables=frozen(tables),
    )


# --- inside ---------------------------------------------------------------------------------------


def _links(
    width: int, latency_s: npt.ArrayLike | None, s_per_byte: npt.ArrayLike | None, contention: str
) -> tuple[Floats, Floats, Ints]:
    apart = ~np.eye(width, dtype=bool)
    # By default an item's bytes are its transfer time in seconds: a second per byte and no latency.
    lines = []
    for given, default, where in ((latency_s, 0.0, "latency_s"), (s_per_byte, 1.0, "s_per_byte")):
        line = np.full((width, width), default) if given is None else np.asarray(given, dtype=np.float64)
        if line.shape != (width, width):
            raise GraphError(f"shape {line.shape}, where {(width, width)} is needed", where=where)
        if not (line[apart] >= 0.0).all() or (where == "s_per_byte" and np.isinf(line[apart]).any()):
            raise GraphError("a time that is not zero or more", where=where)
        lines.append(np.where(apart, line, 0.0))
    channel = np.full((width, width, 2), NOTHING)
    if contention == "one-port":
        channel[..., 0] = np.where(apart, np.arange(width)[:, None], NOTHING)
        channel[..., 1] = np.where(apart, width + np.arange(width)[None, :], NOTHING)
    return lines[0], lines[1], channel


def _lanes(lanes: Sequence[int] | None, width: int) -> Ints:
    counts = np.ones(width, dtype=np.int64) if lanes is None else np.asarray(lanes, dtype=np.int64)
    if counts.shape != (width,) or bool((counts < 1).any()):
        raise ArgumentError(f"{lanes!r} is not a number of lanes for each of {width} processors", where="lanes")
    return counts


def _releases(release_s: npt.ArrayLike | None, count: int) -> Floats:
    column = np.zeros(count) if release_s is None else np.asarray(release_s, dtype=np.float64)
    _check_length(column.shape, count, "release_s")
    if not ((column >= 0.0) & (column < math.inf)).all():
        raise GraphError("a time that is not finite, or less than zero", where="release_s")
    return column


def _priorities(priorities: npt.ArrayLike | None, count: int) -> Ints:
    column = np.zeros(count, dtype=np.int64) if priorities is None else np.asarray(priorities, dtype=np.int64)
    _check_length(column.shape, count, "priorities")
    return column


def _check_length(shape: tuple[int, ...], count: int, where: str) -> None:
    if shape != (count,):
        raise GraphError(f"shape {shape}, where there are {count} tasks", where=where)


def _check_costs(seconds: Floats, labels: Sequence[str], n_distinct: int) -> None:
    count, width = seconds.shape
    if n_distinct != count or len(labels) != count:
        raise GraphError(f"{n_distinct} different names are given for {count} tasks", where="names")
    if width == 0:
        raise EmptyPlatformError("there are no processors", where="costs")
    wrong = ~(seconds >= 0.0)
    if wrong.any():
        task, processor = np.argwhere(wrong)[0].tolist()
        raise GraphError(
            f"{float(seconds[task, processor])!r} is not a time of zero or more",
            where=f"costs of task {labels[task]!r}",
        )
    nowhere = np.flatnonzero(np.isinf(seconds).all(axis=1))
    if len(nowhere):
        where = f"costs of task {labels[nowhere[0]]!r}"
        raise CapabilityError("no processor can run it", where=where, hint="Give it a finite time somewhere")


def _check_edges(before: Ints, after: Ints, nbytes: Floats, count: int) -> None:
    if not before.shape == after.shape == nbytes.shape or before.ndim != 1:
        shapes = f"{before.shape}, {after.shape} and {nbytes.shape}"
        raise GraphError(f"ends and times of shapes {shapes}, where one length is needed", where="edges")
    wrong = (before < 0) | (before >= count) | (after < 0) | (after >= count)
    if wrong.any():
        edge = int(np.flatnonzero(wrong)[0])
        raise GraphError(f"there are tasks 0 to {count - 1} only", where=f"edge ({before[edge]}, {after[edge]})")
    wrong = ~((nbytes >= 0.0) & (nbytes < math.inf))
    if wrong.any():
        edge = int(np.flatnonzero(wrong)[0])
        raise GraphError(
            f"{float(nbytes[edge])!r} is not a finite time of zero or more",
            where=f"edge ({before[edge]}, {after[edge]})",
        )
