# SPDX-License-Identifier: Apache-2.0
"""Observers of runs: none, one, or several at once, each of which is notified of all runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from syclsched.execution.handle import run_observer


class Noting:
    """An observer that records its notifications."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def began(self, resources: Any) -> None:
        self.told.append(resources)

    def call_began(self, plan: Any) -> Noting:
        self.told.append(plan)
        return self

    def end(self, *, completed: bool) -> None:
        self.told.append(completed)


@pytest.fixture(autouse=True)
def none_before_and_after() -> Iterator[None]:
    assert run_observer.active is None
    yield
    run_observer.remove_all()


def test_all_observers_are_notified_of_runs_and_calls() -> None:
    first, second = Noting(), Noting()
    run_observer.add(first)
    assert run_observer.active is first  # runs make one call only
    run_observer.add(second)
    assert run_observer.active is not None
    run: Any = object()
    plan: Any = object()
    run_observer.active.began(run)
    run_observer.active.call_began(plan).end(completed=True)
    assert first.told == second.told == [run, plan, True]


def test_the_others_stay_when_one_leaves() -> None:
    first, second = Noting(), Noting()
    run_observer.add(first)
    run_observer.add(second)
    run_observer.remove(first)
    run_observer.remove(first)
    assert run_observer.active is second
    run_observer.remove(second)
    assert run_observer.active is None
