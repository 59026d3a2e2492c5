# SPDX-License-Identifier: Apache-2.0
"""Choice of a loss or an optimiser by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from syclsched.errors import ArgumentError, did_you_mean

_Chosen = TypeVar("_Chosen")


def chosen(given: str | _Chosen, known: Mapping[str, _Chosen], what: str, method: str) -> _Chosen:
    """Return the given object, which must have a method, or the known one of a name."""
    if not isinstance(given, str):
        if isinstance(given, type) or not hasattr(given, method):
            hint = f"Give a name ({', '.join(known)}), or one made from a class of syclsched.training"
            raise ArgumentError(f"the {what} is {given!r}", where=what, hint=hint)
        return given
    if given not in known:
        raise ArgumentError(
            f"there is no {what} {given!r}",
            where=what,
            hint=f"{did_you_mean(given, known)}There are: {', '.join(known)}",
        )
    return known[given]
