# SPDX-License-Identifier: Apache-2.0
"""Result of a rewrite: the new graph, and the mapping of tasks and arrays to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from syclsched.model.graph import TaskGraph
from syclsched.model.recipe import Recipe


@dataclass(frozen=True, slots=True)
class RewriteCounters:
    """Numbers of tasks before, after and changed by a rewrite."""

    tasks_before: int  # in the original graph
    tasks_after: int  # in the new graph
    merged: int = 0  # original tasks that were merged
    merges: int = 0  # tasks that resulted from merging
    cut: int = 0  # original tasks that were cut
    chunks: int = 0  # tasks that resulted from cutting
    scatters: int = 0  # tasks added to copy a whole array's rows into a chunk
    gathers: int = 0  # tasks added to copy chunks into a whole array


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A graph derived from another that computes the same.

    Values are given and results requested by the original arrays' names: chunked arrays are joined (`TaskGraph.join`).
    """

    graph: TaskGraph  # the new graph; the original if nothing changed
    tasks: Mapping[str, tuple[str, ...]]  # new tasks of each original task; itself if unchanged
    #: New arrays that store each original array: itself, chunks, or both.
    arrays: Mapping[str, tuple[str, ...]]
    counters: RewriteCounters
    recipe: Recipe  # the decisions, which can be replayed

    @property
    def changed(self) -> bool:
        """Whether the graph was changed."""
        return bool(self.recipe.cuts or self.recipe.merges)

    def then(self, after: Rewrite) -> Rewrite:
        """Return this rewrite followed by one of its graph."""
        mine, theirs = self.counters, after.counters
        sums = {f.name: getattr(mine, f.name) + getattr(theirs, f.name) for f in fields(RewriteCounters)}
        sums |= {"tasks_before": mine.tasks_before, "tasks_after": theirs.tasks_after}
        return Rewrite(
            graph=after.graph,
            tasks=_composed(self.tasks, after.tasks),
            arrays=_composed(self.arrays, after.arrays),
            counters=RewriteCounters(**sums),
            recipe=Recipe(self.recipe.cuts + after.recipe.cuts, self.recipe.merges + after.recipe.merges),
        )


def unchanged(graph: TaskGraph) -> Rewrite:
    """Return the rewrite that changes nothing."""
    return Rewrite(
        graph,
        {t.name: (t.name,) for t in graph.tasks},
        {name: (name,) for name in graph.arrays},
        RewriteCounters(len(graph), len(graph)),
        Recipe(),
    )


def _composed(
    first: Mapping[str, tuple[str, ...]], second: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(dict.fromkeys(last for middle in found for last in second.get(middle, ())))
        for name, found in first.items()
    }
