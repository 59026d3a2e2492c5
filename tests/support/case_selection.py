# SPDX-License-Identifier: Apache-2.0
"""Each-choice coverage: a choice of a parametrised test's cases that has every value of every parameter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

import pytest


def each_choice(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the cases that have a value which no case of the same test before them has, and all other tests."""
    seen: defaultdict[str, set[Hashable]] = defaultdict(set)
    chosen = []
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", None)
        if parameters is not None:
            before = seen[item.nodeid.partition("[")[0]]
            values = {(name, _key(value)) for name, value in parameters.items()}
            if values <= before:
                continue
            before |= values
        chosen.append(item)
    return chosen


def _key(value: Any) -> Hashable:
    plain = isinstance(value, (str, int, float, tuple, type(None)))
    return (type(value), repr(value)) if plain else id(value)
