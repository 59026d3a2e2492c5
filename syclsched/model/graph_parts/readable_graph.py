# SPDX-License-Identifier: Apache-2.0
"""Read access to a task graph: arrays, tasks, edges, values, and its derived dependencies and topological order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syclsched.errors import GraphError, did_you_mean
from syclsched.model.access import Access
from syclsched.model.constant import Constant
from syclsched.model.graph_parts.access_columns import AccessColumns
from syclsched.model.graph_parts.dependencies import KINDS, Dependency, ImplicitEdges
from syclsched.model.graph_parts.fingerprint import fingerprint
from syclsched.model.graph_parts.graph_structure import GraphStructure
from syclsched.model.graph_parts.segments import Segments
from syclsched.model.task import JoinedArray, LogicalArray, Task
from syclsched.model.text.sections import sections_html, sections_text
from syclsched.model.text.units import plural
from syclsched.model.views.drawing import graph_drawing
from syclsched.model.views.overviews import graph_sections

if TYPE_CHECKING:  # plans refer to graphs
    from syclsched.model.plan import Plan

#: Most names of tasks that a wrong one is compared with.
_MOST_COMPARED = 2000


class ReadableGraph:
    """The read-only part of `syclsched.TaskGraph`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._arrays: dict[str, LogicalArray] = {}
        self._freed: dict[str, int] = {}
        self._tasks: dict[str, Task] = {}
        self._edges: list[tuple[str, str]] = []
        self._data: dict[str, Any] = {}
        self._joined: dict[str, list[JoinedArray]] = {}
        self._ranged: set[str] = set()
        # Cached structure; None after a change.
        self._derived: GraphStructure | None = None
        #: The structure and the arrays of the last fingerprint, which every run of the graph needs.
        self._fingerprint: tuple[GraphStructure, Mapping[str, LogicalArray], str] | None = None

    @property
    def constants(self) -> tuple[Constant, ...]:
        """The constants passed to tasks, each once, in order of first use."""
        return tuple(dict.fromkeys(constant for task in self._tasks.values() for constant in task.constants.values()))

    @property
    def arrays(self) -> Mapping[str, LogicalArray]:
        """The arrays by name; freed arrays are marked temporary."""
        if not self._freed:
            return dict(self._arrays)
        return {name: replace(a, temporary=True) if name in self._freed else a for name, a in self._arrays.items()}

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks in order of submission."""
        return tuple(self._tasks.values())

    def find_task(self, name: str) -> Task:
        """Return a task by name.

        Raises
        ------
        GraphError
            If the graph has no such task.
        """
        try:
            return self._tasks[name]
        except KeyError:
            hint = did_you_mean(name, self._tasks).rstrip() if len(self._tasks) <= _MOST_COMPARED else ""
            raise GraphError(f"no task {name!r}", where=f"graph {self.name!r}", hint=hint or None) from None

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """The explicit edges."""
        return tuple(self._edges)

    @property
    def data(self) -> Mapping[str, Any]:
        """Initial values given with `TaskGraph.array`, by array."""
        return dict(self._data)

    @property
    def joined(self) -> Mapping[str, tuple[JoinedArray, ...]]:
        """The joined arrays declared with `TaskGraph.join`, by the name of the whole."""
        return {name: tuple(found) for name, found in self._joined.items()}

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return every dependency: those implied by accesses and barriers, then the explicit ones."""
        return self._structure.dependencies

    def implied(self) -> ImplicitEdges:
        """Return the dependencies implied by accesses and barriers as columns, tasks by position of submission."""
        return self._structure.implied

    def passed_bytes(self) -> dict[tuple[str, str], int]:
        """Return, for every pair of dependent tasks, the bytes that the first writes and the second reads."""
        sizes = {array.name: array.nbytes for array in self._arrays.values()}
        for whole, segments in self.segments().items():
            array = self._arrays[whole]
            for segment in segments:
                rows = segment.rows[1] - segment.rows[0]
                sizes[segment.name] = rows * (array.nbytes // array.shape[0] if array.shape[0] else 0)
        names, implied = list(self._tasks), self.implied()
        found: dict[tuple[str, str], int] = {}
        columns = (implied.before, implied.after, implied.kind, implied.array)
        for before, after, kind, array in zip(*(each.tolist() for each in columns), strict=True):
            pair = names[before], names[after]
            nbytes = sizes[implied.arrays[array]] if KINDS[kind] == "RAW" else 0
            found[pair] = found.get(pair, 0) + nbytes
        for pair in self._edges:
            found.setdefault(pair, 0)
        return found

    def order(self) -> tuple[str, ...]:
        """Return the task names in a topological order; ties keep the order of submission.

        Raises
        ------
        CycleError
            If explicit edges form a cycle.
        """
        return self._structure.order

    def segments(self) -> Segments:
        """Return the segments of each partly accessed array; see `syclsched.model.graph_parts.segments`."""
        return self._structure.segments

    def touched(self) -> Sequence[tuple[Access, ...]]:
        """Return the accesses of each task, in order of submission, with segments in place of segmented arrays."""
        return self._structure.touched

    def accesses(self) -> AccessColumns:
        """Return the accesses of `touched` as columns."""
        return self._structure.accesses

    def inputs(self) -> tuple[str, ...]:
        """Return the arrays that some task reads before any task has written them."""
        return self._structure.inputs

    def validate(self) -> None:
        """Validate the graph as a whole.

        Raises
        ------
        CycleError
            If explicit edges form a cycle.
        """
        self.order()

    def fingerprint(self) -> str:
        """Return a hash of everything that a plan depends on: arrays, tasks, accesses and edges, but not the data."""
        known, arrays = self._fingerprint, self.arrays
        if known is None or known[0] is not self._structure or known[1] != arrays:
            found = fingerprint(arrays.values(), self.tasks, self._edges)
            known = self._fingerprint = (self._structure, arrays, found)
        return known[2]

    def draw(self, path: str | Path | None = None, *, plan: Plan | None = None) -> Any:
        """Draw the graph: a row for each level of dependencies, solid edges for data, a colour for each family.

        Of more than 200 tasks, those of one family on neighbouring levels are one box.

        Parameters
        ----------
        path : str or Path, optional
            File to write, as PNG, SVG or PDF by its ending.
        plan : Plan, optional
            A plan of the graph: colours are those of its Gantt chart, and boxes of single tasks name their device.

        Returns
        -------
        matplotlib.figure.Figure
            The drawing; notebooks show it.

        Examples
        --------
        >>> import syclsched
        >>> graph = syclsched.TaskGraph("two")
        >>> x = graph.array("x", (1000,), "float64")
        >>> task = graph.host(lambda x: x.fill(1.0), x=x.write(), name="fill")
        >>> task = graph.host(lambda x: x.sum(), x=x.read(), name="sum")
        >>> figure = graph.draw("graph.png")
        >>> figure.get_suptitle()
        'two: 2 tasks, 1 array, 2 levels'
        """
        return graph_drawing(self, path, plan)

    def __len__(self) -> int:
        return len(self._tasks)

    def __repr__(self) -> str:
        size = f"{plural(len(self._tasks), 'task')}, {plural(len(self._arrays), 'array')}"
        return f"<TaskGraph {self.name!r}: {size}>"

    def __str__(self) -> str:
        return sections_text(graph_sections(self))

    def _repr_html_(self) -> str:
        return sections_html(graph_sections(self))

    @property
    def _structure(self) -> GraphStructure:
        if self._derived is None:
            self._derived = GraphStructure(
                self.name, dict(self._tasks), dict(self._arrays), tuple(self._edges), ranged=bool(self._ranged)
            )
        return self._derived
