# SPDX-License-Identifier: Apache-2.0
"""Validation of array and task names: unique, short enough for plan files, and not mistakable for ranges of rows."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

from syclsched.errors import ArgumentError, GraphError

#: Maximum length of a name, in characters. Plan files hold longer ones, since chunks have longer names than the whole.
MAX_NAME_LENGTH: Final = 400
#: Pattern of the names of row ranges, such as ``a[0:100]``.
_ROW_RANGE_NAME = re.compile(r"(.+)\[\d+:\d+\]", re.DOTALL)


def check_name(name: object, taken: Container[str], what: str, longest: int) -> str:
    """Validate a name and return it; ``what`` is the kind of the named object in errors.

    Raise `GraphError` if it is not a string, is empty, or is already used, and `ArgumentError` if it is too long.
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


def array_of_row_range(name: str) -> str | None:
    """Return the array part of a name that looks like a range of rows (``x`` for ``x[0:2]``), else None."""
    found = _ROW_RANGE_NAME.fullmatch(name)
    return None if found is None else found[1]
