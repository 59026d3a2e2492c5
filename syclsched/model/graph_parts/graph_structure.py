# SPDX-License-Identifier: Apache-2.0
"""Derived structure of a task graph, computed once: dependencies, topological order, segments and inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from syclsched.model.access import Access
from syclsched.model.graph_parts.access_columns import READS, AccessColumns, access_columns
from syclsched.model.graph_parts.dependencies import Dependency, ImplicitEdges, implicit_edges, named_dependencies
from syclsched.model.graph_parts.segments import Segments, find_segments, segment_accesses
from syclsched.model.graph_parts.topological_sort import acyclic_order
from syclsched.model.task import LogicalArray, Task


class GraphStructure:
    """Structure derived from the tasks of a graph, which must not change any more."""

    def __init__(
        self,
        name: str,
        tasks: Mapping[str, Task],
        arrays: Mapping[str, LogicalArray],
        edges: tuple[tuple[str, str], ...],
        *,
        ranged: bool,
    ) -> None:
        self._name = name
        self._tasks = tasks
        self._arrays = arrays
        self._edges = edges
        self._ranged = ranged

    @cached_property
    def dependencies(self) -> tuple[Dependency, ...]:
        """The dependencies implied by accesses and barriers, then the explicit ones."""
        explicit = tuple(Dependency(before, after, "explicit") for before, after in self._edges)
        return named_dependencies(list(self._tasks), self.implied, self.segments) + explicit

    @cached_property
    def implied(self) -> ImplicitEdges:
        """The dependencies implied by accesses and barriers, with adjacent segments apart."""
        barrier = np.array([task.kind == "barrier" for task in self._tasks.values()], np.bool_)
        return implicit_edges(self.accesses, barrier)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The task names in a topological order; ties keep the order of submission. Raise `CycleError` for a cycle."""
        position = {name: i for i, name in enumerate(self._tasks)}
        if all(position[before] < position[after] for before, after in self._edges):
            return tuple(self._tasks)  # implied dependencies follow the order of submission
        pairs = [(d.before, d.after) for d in self.dependencies]
        hint = "Remove an explicit edge; order of submission already gives the data dependencies"
        return acyclic_order(self._tasks, pairs, f"graph {self._name!r}", hint)

    @cached_property
    def segments(self) -> Segments:
        """The segments of each partly accessed array; see `syclsched.model.graph_parts.segments`."""
        return find_segments(self._tasks.values(), self._arrays) if self._ranged else {}

    @cached_property
    def touched(self) -> Sequence[tuple[Access, ...]]:
        """The accesses of each task, in order of submission, with segments in place of segmented arrays."""
        return segment_accesses(self._tasks.values(), self.segments)

    @cached_property
    def accesses(self) -> AccessColumns:
        """The accesses of `touched` as columns."""
        return access_columns(self.touched)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The arrays that some task reads before any task has written them."""
        accesses = self.accesses
        if self.order != tuple(self._tasks):
            place = {name: n for n, name in enumerate(self._tasks)}
            accesses = accesses.ordered(np.array([place[name] for name in self.order], np.int64))
        _, first = np.unique(accesses.array, return_index=True)
        first = np.sort(first[READS[accesses.mode[first]]])
        needed = [accesses.names[n] for n in accesses.array[first].tolist()]
        whole = {segment.name: segment.whole for cut in self.segments.values() for segment in cut}
        return tuple(dict.fromkeys([whole.get(name, name) for name in needed]))
