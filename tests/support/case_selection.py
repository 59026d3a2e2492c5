# SPDX-License-Identifier: Apache-2.0
"""Choices of a parametrised test's cases: every value of every parameter at least once, or every other case."""

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


def every_other(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return every other case of tests with the mark `every_other`, and all other tests."""
    counts: defaultdict[str, int] = defaultdict(int)
    chosen = []
    for item in items:
        if item.get_closest_marker("every_other") is not None:
            test = item.nodeid.partition("[")[0]
            counts[test] += 1
            if counts[test] % 2 == 0:
                continue
        chosen.append(item)
    return chosen


def _key(value: Any) -> Hashable:
    plain = isinstance(value, (str, int, float, tuple, type(None)))
    return (type(value), repr(value)) if plain else id(value)
