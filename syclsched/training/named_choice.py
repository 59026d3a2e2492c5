# SPDX-License-Identifier: Apache-2.0
"""Choice of a loss or an optimiser by its name, and of parameters by names or patterns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TypeVar

from syclsched.errors import ArgumentError, did_you_mean

_Chosen = TypeVar("_Chosen")


def chosen(
    given: str | _Chosen, known: Mapping[str, _Chosen], what: str, method: str, where: str | None = None
) -> _Chosen:
    """Return the given object, which must have a method, or the known one of a name."""
    if not isinstance(given, str):
        if isinstance(given, type) or not hasattr(given, method):
            hint = f"Give a name ({', '.join(known)}), or one made from a class of syclsched.training"
            raise ArgumentError(f"the {what} is {given!r}", where=where or what, hint=hint)
        return given
    if given not in known:
        raise ArgumentError(
            f"there is no {what} {given!r}",
            where=where or what,
            hint=f"{did_you_mean(given, known)}There are: {', '.join(known)}",
        )
    return known[given]


def matching(patterns: Iterable[str], names: Collection[str], where: str, kind: str) -> set[str]:
    """Return the names that patterns fit; raise `ArgumentError` if a pattern fits none."""
    found: set[str] = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        fitting = [name for name in names if fits(pattern, name)]
        if not fitting:
            raise ArgumentError(
                f"there is no {kind} {pattern!r}",
                where=where,
                hint=f"{did_you_mean(pattern, names)}There are: {', '.join(sorted(names)[:20])}",
            )
        found.update(fitting)
    return found


def fits(pattern: str, name: str) -> bool:
    """Return whether a name is the given one, or fits the given pattern."""
    return name == pattern or fnmatchcase(name, pattern)
