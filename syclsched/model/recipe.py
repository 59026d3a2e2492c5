# SPDX-License-Identifier: Apache-2.0
"""Recipe of the rewrites applied to a graph before planning (split and merged tasks), as plain data.

A plan carries its recipe, so that it runs with the original graph and understands that graph's names.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Annotated, Final

from annotated_types import MaxLen, MinLen

from syclsched.model.profile import Count, Name
from syclsched.model.text.json_serialisation import Serialisable
from syclsched.model.text.units import plural

#: Limits for files: chunks of one split, and steps or implementations of one merged task. No rewrite reaches them.
MAX_CHUNKS: Final = 65_536
MAX_PARTS: Final = 4_096

#: Suffix that makes names unique, and its maximum number of repetitions.
_MARK: Final = "'"
_MOST_MARKS: Final = 4


@dataclass(frozen=True, slots=True)
class Cut(Serialisable):
    """Tasks that are split into the same chunks of rows.

    Parameters
    ----------
    tasks : tuple of str
        Names in the original graph.
    rows : tuple of int
        Number of rows of each chunk, in order; at least two chunks.
    """

    tasks: Annotated[tuple[Name, ...], MinLen(1)]
    rows: Annotated[tuple[Count, ...], MinLen(2), MaxLen(MAX_CHUNKS)]


@dataclass(frozen=True, slots=True)
class Merge(Serialisable):
    """Tasks that are merged into one.

    Parameters
    ----------
    tasks : tuple of str
        At least two, in order of execution; names in the graph after all splits.
    implementations : tuple of tuple of str
        The implementations of the merged task, each as the names of its tasks' implementations.
    name : str
        Name of the merged task.
    """

    tasks: Annotated[tuple[Name, ...], MinLen(2), MaxLen(MAX_PARTS)]
    implementations: Annotated[tuple[tuple[Name, ...], ...], MaxLen(MAX_PARTS)]
    name: Name


@dataclass(frozen=True, slots=True)
class Recipe(Serialisable):
    """All rewrites of a graph; `syclsched.rewrites.replay` applies them again to the original graph.

    Parameters
    ----------
    cuts : tuple of Cut
        Splits, applied first.
    merges : tuple of Merge
        Merges, applied after all splits.
    """

    cuts: tuple[Cut, ...] = ()
    merges: tuple[Merge, ...] = ()

    def __bool__(self) -> bool:
        """Whether there are any rewrites."""
        return bool(self.cuts or self.merges)

    def __str__(self) -> str:
        """Summarise the numbers of split and merged tasks."""
        cut, chunks = sum(len(c.tasks) for c in self.cuts), sum(len(c.tasks) * len(c.rows) for c in self.cuts)
        merged = sum(len(m.tasks) for m in self.merges)
        said = [f"{plural(cut, 'task')} cut into {chunks:,} chunks"] if cut else []
        said += [f"{plural(merged, 'task')} merged into {len(self.merges):,}"] if merged else []
        return "; ".join(said)

    def holders(self, task: str, planned: Collection[str]) -> tuple[str, ...]:
        """Return the tasks of the rewritten graph that contain a task of the original graph, or a chunk of one.

        They are in order, each once: the task itself if it was not rewritten; none if it does not exist. ``planned``
        holds the names of all tasks of the rewritten graph.
        """
        merged = {name: merge.name for merge in self.merges for name in merge.tasks}
        names = merged.keys() | planned if self.merges else planned
        cut = next((c for c in self.cuts if task in c.tasks), None)
        pieces = [task]
        if cut is not None:
            pieces = [_last_variant(chunk_name(task, *ends), names) for ends in _chunk_bounds(cut.rows)]
        return tuple(dict.fromkeys(done for piece in pieces if (done := merged.get(piece, piece)) in planned))

    def held(self, task: str) -> tuple[str, ...]:
        """Return the tasks merged into a task, in order of execution; empty if it is not a merged task."""
        return next((merge.tasks for merge in self.merges if merge.name == task), ())


def _chunk_bounds(rows: Collection[int]) -> tuple[tuple[int, int], ...]:
    """Return the first row and one past the last row of each chunk."""
    return tuple(pairwise(accumulate(rows, initial=0)))


def chunk_name(name: str, start: int, stop: int) -> str:
    """Return the name of a chunk of an array or task, before `unique_name` makes it unique."""
    return f"{name}[{start}:{stop}]"


def unique_name(name: str, taken: Collection[str]) -> str:
    """Return an unused name: the given one, or with one apostrophe more than any used variant.

    The name returned last is thus the variant with the most apostrophes, which `_last_variant` finds.
    """
    last = _last_variant(name, taken)
    return last + _MARK if last in taken else name


def _last_variant(name: str, names: Collection[str]) -> str:
    """Return the variant of a name with the most apostrophes among ``names``; the name itself if there is none."""
    tried = (name + _MARK * count for count in range(_MOST_MARKS, 0, -1))
    return next((found for found in tried if found in names), name)
