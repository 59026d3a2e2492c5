# SPDX-License-Identifier: Apache-2.0
"""What was decided to do to a graph before it was planned, as plain data: which tasks to cut, which to merge.

A plan carries its recipe, so that it runs with the graph it was made for, and answers to the names of that graph.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Annotated, ClassVar, Final

from annotated_types import MaxLen, MinLen

from syclsched.model.profile import Count, Name
from syclsched.model.units import plural

#: What is refused in a file: more chunks of one cut, and more steps or ways of one merged task, than anything makes.
MAX_CHUNKS: Final = 65_536
MAX_PARTS: Final = 4_096

#: What tells names apart, and how often at most: who needs more has names that end so on purpose, and is refused.
_MARK: Final = "'"
_MOST_MARKS: Final = 4

_STRICT: dict[str, object] = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True)
class Cut:
    """Tasks that are cut into the same chunks of rows.

    Parameters
    ----------
    tasks : tuple of str
        Names in the original graph.
    rows : tuple of int
        Rows of each chunk, in order; at least two chunks.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    tasks: Annotated[tuple[Name, ...], MinLen(1)]
    rows: Annotated[tuple[Count, ...], MinLen(2), MaxLen(MAX_CHUNKS)]


@dataclass(frozen=True, slots=True)
class Merge:
    """Tasks that become one.

    Parameters
    ----------
    tasks : tuple of str
        At least two, in the order in which they are done; names in the graph after all cuts.
    implementations : tuple of tuple of str
        The implementations of the merged task: for each the names of the tasks' own.
    name : str
        Of the merged task.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    tasks: Annotated[tuple[Name, ...], MinLen(2), MaxLen(MAX_PARTS)]
    implementations: Annotated[tuple[tuple[Name, ...], ...], MaxLen(MAX_PARTS)]
    name: Name


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that was decided: `syclsched.rewrites.replay` makes the same graph of it again.

    Parameters
    ----------
    cuts : tuple of Cut
        Done first.
    merges : tuple of Merge
        Done then.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    cuts: tuple[Cut, ...] = ()
    merges: tuple[Merge, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.cuts or self.merges)

    def __str__(self) -> str:
        """Say in a few words how much is cut and merged."""
        cut, chunks = sum(len(c.tasks) for c in self.cuts), sum(len(c.tasks) * len(c.rows) for c in self.cuts)
        merged = sum(len(m.tasks) for m in self.merges)
        said = [f"{plural(cut, 'task')} cut into {chunks:,} chunks"] if cut else []
        said += [f"{plural(merged, 'task')} merged into {len(self.merges):,}"] if merged else []
        return "; ".join(said)

    def holders(self, task: str, planned: Collection[str]) -> tuple[str, ...]:
        """Return the tasks that do an original task in the rewritten graph.

        Parameters
        ----------
        task : str
            Of the original graph, or a chunk of one.
        planned : collection of str
            The names of all tasks of the rewritten graph.

        Returns
        -------
        tuple of str
            In order, each once; the task itself if it was left alone, nothing if there is none of that name.
        """
        merged = {name: merge.name for merge in self.merges for name in merge.tasks}
        names = merged.keys() | planned if self.merges else planned
        cut = next((c for c in self.cuts if task in c.tasks), None)
        pieces = [task] if cut is None else [marked(chunk_name(task, *ends), names) for ends in ends_of(cut.rows)]
        return tuple(dict.fromkeys(done for piece in pieces if (done := merged.get(piece, piece)) in planned))

    def held(self, task: str) -> tuple[str, ...]:
        """Return the tasks of the graph after all cuts that a merged task does, in order; none if it is not merged."""
        return next((merge.tasks for merge in self.merges if merge.name == task), ())


def ends_of(rows: Collection[int]) -> tuple[tuple[int, int], ...]:
    """Return the first row of each chunk, and one past its last."""
    return tuple(pairwise(accumulate(rows, initial=0)))


def chunk_name(name: str, start: int, stop: int) -> str:
    """Return the name of some rows of an array, or of a task cut into chunks; see `free_name`."""
    return f"{name}[{start}:{stop}]"


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken: the one given, or with more apostrophes than any that is.

    So the one that was given out can be found again: it is the one with most (`marked`).

    Parameters
    ----------
    name : str
        What it should be called.
    taken : collection of str
        Names there are already.

    Returns
    -------
    str
        The name, marked if need be.
    """
    last = marked(name, taken)
    return last + _MARK if last in taken else name


def marked(name: str, names: Collection[str]) -> str:
    """Return the one with most marks of those names that are a name and marks; the name itself if there is none."""
    tried = (name + _MARK * count for count in range(_MOST_MARKS, 0, -1))
    return next((found for found in tried if found in names), name)
