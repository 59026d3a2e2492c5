# SPDX-License-Identifier: Apache-2.0
"""Bulk construction of objects: equal to single construction, with garbage collection enabled afterwards."""

from __future__ import annotations

import gc
import weakref

import pytest

from syclsched.model.plan import Instruction, Lane
from syclsched.model.text import bulk_objects


class Cycle:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.me = self


@pytest.mark.parametrize(("objects", "rounds"), [(10, 300), (bulk_objects._MANY_OBJECTS + 1000, 8)])
def test_cycles_between_plans_are_collected_some_time(
    objects: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_objects, "_MOST_OLD_OBJECTS", 3 * objects)
    gc.collect()
    first = weakref.ref(Cycle())
    kept: list[object] = []
    for _ in range(rounds):
        with bulk_objects.paused_collection():
            kept.append([[] for _ in range(objects)])
        made = [Cycle() for _ in range(200)]
        if first() is None:
            break
    del made
    assert gc.isenabled()
    assert first() is None


def test_bulk_objects_equal_objects_made_by_init() -> None:
    one = Instruction(0, "launch", "t", "i")
    columns = {
        "name": ["a", "b"],
        "device": ["d", "d"],
        "kind": ["copy", "host"],
        "instructions": [(), (one,)],
    }
    made = bulk_objects.make_objects(Lane, 2, columns)
    assert made == [Lane("a", "d", "copy"), Lane("b", "d", "host", (one,))]
    with pytest.raises(TypeError, match="each field of Lane"):
        bulk_objects.make_objects(Lane, 2, {"name": ["a", "b"]})


def test_few_objects_do_not_freeze_the_garbage_collector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # In programs that collect seldom and have millions of frozen objects, these would count after every plan.
    monkeypatch.setattr(bulk_objects.gc, "get_freeze_count", lambda: pytest.fail("frozen objects were counted"))
    thresholds = gc.get_threshold()
    gc.set_threshold(1_000_000)
    try:
        young = [[] for _ in range(bulk_objects._MANY_OBJECTS + 1000)]
        with bulk_objects.paused_collection():
            young.append([])
    finally:
        gc.set_threshold(*thresholds)
