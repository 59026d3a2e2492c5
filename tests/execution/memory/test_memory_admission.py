# SPDX-License-Identifier: Apache-2.0
"""Admission of allocations: frees take effect when their predecessors have completed, lane by lane."""

from __future__ import annotations

from syclsched.execution.memory.memory_admission import DeferredFree, DeferredFrees


def test_only_completed_frees_are_taken_and_only_once() -> None:
    frees = DeferredFrees(2)
    first, behind, other = (
        DeferredFree(("a", "m"), (1,)),
        DeferredFree(("b", "m"), (2,)),
        DeferredFree(("c", "m"), (3, 4)),
    )
    frees.add(0, first)
    frees.add(0, behind)
    frees.add(1, other)
    assert frees.take({2, 3}.__contains__) == [], "a lane completes in order, its first free holds the next up"
    assert frees.take({1, 2, 3}.__contains__) == [first, behind]
    assert frees.take({1, 2, 3, 4}.__contains__) == [other]
    assert len(frees) == 0 and frees.take(lambda _: True) == []


def test_waitable_frees_have_submitted_instructions() -> None:
    frees = DeferredFrees(2)
    frees.add(0, DeferredFree(("a", "m"), (1, 7)))
    frees.add(1, DeferredFree(("b", "m"), (2,)))
    assert frees.waitable({1}.__contains__) is None
    found = frees.waitable({1, 2}.__contains__)
    assert found is not None and found.buffer == ("b", "m")
