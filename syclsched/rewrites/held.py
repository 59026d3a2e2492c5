# SPDX-License-Identifier: Apache-2.0
"""In what form an array's value is held while a graph is cut: whole, in chunks, or both."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from syclsched.model.graph import TaskGraph
from syclsched.model.recipe import chunk_name, free_name
from syclsched.model.task import LogicalArray


class Names:
    """Names that are taken."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def fresh(self, name: str) -> str:
        """Return a name that was not taken, and take it: the one given, if possible (`free_name`)."""
        name = free_name(name, self._taken)
        self._taken.add(name)
        return name


class Held:
    """One array of the original graph, and the arrays of the new one that stand for it."""

    def __init__(self, array: LogicalArray, data: Any, names: Names) -> None:
        self.array = array
        self._data = data
        self._names = names
        #: Of the new graph: the whole, and the chunks of each cut, by its number.
        self.declared: LogicalArray | None = None
        self.chunks: dict[int, tuple[LogicalArray, ...]] = {}
        #: Which of them have the present value. A value from outside comes in any form.
        self.whole_valid = True
        self.chunks_valid: set[int] = set()
        self.is_written = False
        self._joined: set[int] = set()

    @property
    def holders(self) -> tuple[str, ...]:
        """The names of all that stand for it."""
        whole = () if self.declared is None else (self.array.name,)
        return whole + tuple(chunk.name for chunks in self.chunks.values() for chunk in chunks)

    def declare(self, graph: TaskGraph) -> LogicalArray:
        """Return the whole, declared now if it was not."""
        if self.declared is None:
            a = self.array
            self.declared = graph.array(a.name, a.shape, a.dtype, data=self._data, temporary=a.temporary, usm=a.usm)
        return self.declared

    def declare_chunks(self, graph: TaskGraph, cut: int, bounds: tuple[int, ...]) -> None:
        """Declare the chunks of a cut, as views of the initial value as long as that is the present one."""
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
        """Note that a task has written the whole."""
        self.is_written = self.whole_valid = True
        self.chunks_valid.clear()

    def written_in_chunks(self, cut: int) -> None:
        """Note that the tasks of a cut have written their chunks."""
        self.is_written, self.whole_valid = True, False
        self.chunks_valid = {cut}

    def join(self, graph: TaskGraph) -> None:
        """Let the only chunks there are stand for the whole."""
        (cut,) = self.chunks
        self._join(graph, cut)

    def _join(self, graph: TaskGraph, cut: int) -> None:
        if cut not in self._joined:
            self._joined.add(cut)
            graph.join(self.array.name, self.chunks[cut])
