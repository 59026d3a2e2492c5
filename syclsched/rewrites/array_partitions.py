# SPDX-License-Identifier: Apache-2.0
"""Storage of an array's value while a graph is cut: whole, in chunks, or both."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from syclsched.model.graph import TaskGraph
from syclsched.model.recipe import chunk_name, unique_name
from syclsched.model.task import LogicalArray


class UniqueNames:
    """A set of used names."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def fresh(self, name: str) -> str:
        """Return an unused name, the one given if possible (see `unique_name`), and mark it as used."""
        name = unique_name(name, self._taken)
        self._taken.add(name)
        return name


class PartitionedArray:
    """One array of the original graph, and the arrays of the new graph that store its value."""

    def __init__(self, array: LogicalArray, data: Any, names: UniqueNames) -> None:
        self.array = array
        self._data = data
        self._names = names
        #: Arrays of the new graph: the whole, and the chunks of each cut, by the cut's number.
        self.declared: LogicalArray | None = None
        self.chunks: dict[int, tuple[LogicalArray, ...]] = {}
        #: Which of them have the current value. An initial value is available in any form.
        self.whole_valid = True
        self.chunks_valid: set[int] = set()
        self.is_written = False
        self._joined: set[int] = set()

    @property
    def holders(self) -> tuple[str, ...]:
        """The names of the arrays that store its value."""
        whole = () if self.declared is None else (self.array.name,)
        return whole + tuple(chunk.name for chunks in self.chunks.values() for chunk in chunks)

    def declare(self, graph: TaskGraph) -> LogicalArray:
        """Return the whole array; declare it if needed."""
        if self.declared is None:
            a = self.array
            self.declared = graph.array(
                a.name, a.shape, a.dtype, data=self._data, temporary=a.temporary, usm=a.usm, donated=a.donated
            )
        return self.declared

    def declare_chunks(self, graph: TaskGraph, cut: int, bounds: tuple[int, ...]) -> None:
        """Declare the chunks of a cut, as views of the initial value while that is the current one."""
        a = self.array
        data = None if self.is_written else self._data
        made = []
        for start, stop in pairwise(bounds):
            name = self._names.fresh(chunk_name(a.name, start, stop))
            rows = None if data is None else data[start:stop]
            made.append(
                graph.array(name, (stop - start, *a.shape[1:]), a.dtype, data=rows, temporary=a.temporary, usm=a.usm)
            )
        self.chunks[cut] = tuple(made)
        if not self.is_written:
            self.chunks_valid.add(cut)
            self._join(graph, cut)

    def written_whole(self) -> None:
        """Record that a task has written the whole array."""
        self.is_written = self.whole_valid = True
        self.chunks_valid.clear()

    def written_in_chunks(self, cut: int) -> None:
        """Record that the tasks of a cut have written their chunks."""
        self.is_written, self.whole_valid = True, False
        self.chunks_valid = {cut}

    def join(self, graph: TaskGraph) -> None:
        """Use the only set of chunks as the whole array."""
        (cut,) = self.chunks
        self._join(graph, cut)

    def _join(self, graph: TaskGraph, cut: int) -> None:
        if cut not in self._joined:
            self._joined.add(cut)
            graph.join(self.array.name, self.chunks[cut])
