# SPDX-License-Identifier: Apache-2.0
"""What a rewrite did: the new graph, and what became of tasks and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from syclsched.model.graph import TaskGraph
from syclsched.model.recipe import Recipe


@dataclass(frozen=True, slots=True)
class RewriteCounters:
    """How much was done."""

    #: Tasks of the two graphs.
    tasks_before: int
    tasks_after: int
    merged: int = 0  # tasks that went into others
    merges: int = 0  # tasks they became
    cut: int = 0  # tasks that were cut
    chunks: int = 0  # tasks they became
    #: Tasks added to cut an array that a task makes whole, and to make a whole of chunks.
    scatters: int = 0
    gathers: int = 0


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A graph made from another that computes the same.

    Values are given and results asked for by the names of the original arrays: what is held in chunks is joined
    (`TaskGraph.join`).
    """

    graph: TaskGraph  # the new graph; the original itself if nothing was worth doing
    tasks: Mapping[str, tuple[str, ...]]  # for each original task those that do it now, itself if it was left alone
    #: For each original array those that hold it now, by their names: itself, chunks, or both.
    arrays: Mapping[str, tuple[str, ...]]
    counters: RewriteCounters  # how much was done
    recipe: Recipe  # what was decided

    @property
    def changed(self) -> bool:
        """Whether anything was done."""
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
    """Return the rewrite that leaves a graph as it is."""
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
