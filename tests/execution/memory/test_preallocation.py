# SPDX-License-Identifier: Apache-2.0
"""The choice of buffers that get a block of their own before a run."""

from __future__ import annotations

from hypothesis import given
from support.strategies import ScheduledGraph, cases

from syclsched.execution.memory.preallocation import buffers_to_preallocate
from syclsched.model.access import AccessMode
from syclsched.model.plan import BufferUse, Instruction
from syclsched.planning import build_plan


def step(number: int, kind: str, array: str, nbytes: int, space: str = "m") -> Instruction:
    use = BufferUse(array, space, AccessMode.WRITE)
    return Instruction(number, kind, uses=(use,), nbytes=nbytes)  # type: ignore[arg-type]


def test_a_buffer_that_fits_into_a_freed_block_needs_none() -> None:
    steps = [step(0, "alloc", "a", 8), step(1, "free", "a", 8), step(2, "alloc", "b", 8), step(3, "alloc", "c", 8)]
    assert buffers_to_preallocate(steps, {"m": 16}) == {0: ("a", "m"), 3: ("c", "m")}


def test_no_more_is_taken_than_the_plans_peak() -> None:
    steps = [step(0, "alloc", "a", 8), step(1, "free", "a", 8), step(2, "alloc", "b", 12)]
    assert buffers_to_preallocate(steps, {"m": 12}) == {0: ("a", "m")}


@given(cases())
def test_preallocated_buffers_never_exceed_the_peak(case: ScheduledGraph) -> None:
    plan = build_plan(case.graph, case.platform, case.schedule, case.durations_s)
    nbytes = {a.name: a.nbytes for a in plan.arrays}
    prepared = list(buffers_to_preallocate((i for _, i in plan.instructions()), plan.peak_bytes).values())
    assert len(set(prepared)) == len(prepared)
    for space, peak in plan.peak_bytes.items():
        waiting = {buffer for buffer in prepared if buffer[1] == space}
        in_use = 0
        for _, instruction in plan.instructions():
            if instruction.kind in ("alloc", "free") and instruction.uses[0].space == space:
                waiting.discard((instruction.uses[0].array, space))
                in_use += instruction.nbytes if instruction.kind == "alloc" else -instruction.nbytes
            assert in_use + sum(nbytes[array] for array, _ in waiting) <= peak
