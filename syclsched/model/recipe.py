# SPDX-License-Identifier: Apache-2.0
"""What was decided to do to a graph before it was planned, as plain data: which tasks to cut, which to merge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from syclsched.model.profile import Count, Name

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

    tasks: tuple[Name, ...]
    rows: tuple[Count, ...]


@dataclass(frozen=True, slots=True)
class Merge:
    """Tasks that become one.

    Parameters
    ----------
    tasks : tuple of str
        At least two, in the order in which they are done; names in the graph after all cuts.
    implementations : tuple of tuple of str
        The implementations of the merged task: for each the names of the tasks' own.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    tasks: tuple[Name, ...]
    implementations: tuple[tuple[Name, ...], ...]


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
