# SPDX-License-Identifier: Apache-2.0
"""Choices of a parametrised test's cases: every value of every parameter at least once, or every other case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

import pytest


def each_choice(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return few cases of each test in which every value of every parameter stands, and all tests without parameters.

    The next case is the one with the most values that no chosen case has.
    """
    cases: defaultdict[str, list[tuple[pytest.Item, frozenset[Hashable]]]] = defaultdict(list)
    chosen = set()
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", None)
        if parameters is None:
            chosen.add(item)
        else:
            values = frozenset((name, _key(value)) for name, value in parameters.items())
            cases[item.nodeid.partition("[")[0]].append((item, values))
    for of_test in cases.values():
        missing = frozenset[Hashable]().union(*(values for _, values in of_test))
        while missing:
            item, values = max(of_test, key=lambda case: len(case[1] & missing))
            chosen.add(item)
            missing -= values
    return [item for item in items if item in chosen]


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
