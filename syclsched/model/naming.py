# SPDX-License-Identifier: Apache-2.0
"""Names of arrays and tasks: unique within a graph, short enough for plan files, and none like rows of an array."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

from syclsched.errors import ArgumentError, GraphError

#: Characters of a name: fewer than files hold, since parts of arrays and tasks have longer names than the whole.
LONGEST_NAME: Final = 400
#: How ranges of rows are called: an array of such a name could be taken for one.
_LIKE_A_RANGE = re.compile(r"(.+)\[\d+:\d+\]", re.DOTALL)


def check_name(name: object, taken: Container[str], what: str, longest: int) -> str:
    """Return a name that may be given.

    Parameters
    ----------
    name : object
        What was asked for.
    taken : container of str
        Names there are.
    what : str
        Of what, for errors: ``array``.
    longest : int
        Characters it may have.

    Raises
    ------
    GraphError
        If it is no string, empty, or taken.
    ArgumentError
        If it is too long.
    """
    if not isinstance(name, str) or not name:
        raise GraphError(f"a name must be a non-empty string, not {name!r}", where=what)
    if len(name) > longest:
        raise ArgumentError(
            f"the name has {len(name):,} characters, at most {longest} fit into plans",
            where=f"{what} {name[:40]!r}...",
            hint="Give a shorter name",
        )
    if name in taken:
        raise GraphError(f"the name {name!r} is taken", where=what, hint="Names are unique within a graph")
    return name


def like_rows_of(name: str) -> str | None:
    """Return the array for rows of which a name could be taken: ``x`` for ``x[0:2]``; None if there is none such."""
    found = _LIKE_A_RANGE.fullmatch(name)
    return None if found is None else found[1]
