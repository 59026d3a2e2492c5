# SPDX-License-Identifier: Apache-2.0
"""Holding cyclic garbage collection back while plans are made must not put it off for good."""

from __future__ import annotations

import gc
import weakref

import pytest

from syclsched.planning import draft


class Cycle:
    """Refers to itself."""

    def __init__(self) -> None:
        self.me = self


@pytest.mark.parametrize(("objects", "rounds"), [(10, 300), (draft._MANY_OBJECTS + 1000, 8)])
def test_cycles_between_plans_are_collected_some_time(
    objects: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft, "_MOST_OLD_OBJECTS", 3 * objects)
    gc.collect()
    first = weakref.ref(Cycle())
    kept: list[object] = []
    for _ in range(rounds):
        with draft.paused_collection():
            kept.append([[] for _ in range(objects)])
        made = [Cycle() for _ in range(200)]
        if first() is None:
            break
    del made
    assert gc.isenabled()
    assert first() is None
