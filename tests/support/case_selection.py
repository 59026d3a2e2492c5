# SPDX-License-Identifier: Apache-2.0
"""Selection of a parametrised test's cases: every value of every parameter at least once, or one case in ``n``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import pytest

CaseT = TypeVar("CaseT")


def covering(cases: Iterable[CaseT], values: Callable[[CaseT], frozenset[Hashable]]) -> list[CaseT]:
    """Return few cases with all values of all cases; the next is the one with the most values not yet covered."""
    values_of = [(case, values(case)) for case in cases]
    missing = set[Hashable]().union(*(of_case for _, of_case in values_of))
    chosen = []
    while missing:
        # Cases without uncovered values are dropped.
        values_of = [each for each in values_of if not missing.isdisjoint(each[1])]
        case, of_case = max(values_of, key=lambda each: len(each[1] & missing))
        chosen.append(case)
        missing -= of_case
    return chosen


def each_choice(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return few cases of each test with every value of every parameter, and all tests without parameters."""
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    chosen = set()
    for item in items:
        if hasattr(item, "callspec"):
            cases[item.nodeid.partition("[")[0]].append(item)
        else:
            chosen.add(item)
    for of_test in cases.values():
        chosen.update(covering(of_test, _parameters))
    return [item for item in items if item in chosen]


def one_in(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return one case in `n`, beginning with the first, of tests with the mark ``one_case_in(n)``, and other tests."""
    counts: defaultdict[str, int] = defaultdict(int)
    chosen = []
    for item in items:
        mark = item.get_closest_marker("one_case_in")
        if mark is not None:
            test = item.nodeid.partition("[")[0]
            counts[test] += 1
            if (counts[test] - 1) % mark.args[0]:
                continue
        chosen.append(item)
    return chosen


def _parameters(item: pytest.Item) -> frozenset[Hashable]:
    return frozenset((name, _key(value)) for name, value in item.callspec.params.items())  # type: ignore[attr-defined]


def _key(value: Any) -> Hashable:
    plain = isinstance(value, (str, int, float, tuple, type(None)))
    return (type(value), repr(value)) if plain else id(value)
