# SPDX-License-Identifier: Apache-2.0
"""Which buffers get a block of their own before a run, and what becomes of blocks that are given back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import Case, cases

from syclsched.execution.reserve import Reserve, buffers_to_prepare, touch
from syclsched.model.access import AccessMode
from syclsched.model.plan import BufferUse, Instruction
from syclsched.planning import build_plan


def step(number: int, kind: str, array: str, nbytes: int, space: str = "m") -> Instruction:
    use = BufferUse(array, space, AccessMode.WRITE)
    return Instruction(number, kind, uses=(use,), nbytes=nbytes)  # type: ignore[arg-type]


def test_a_buffer_that_fits_into_a_freed_block_needs_none() -> None:
    steps = [step(0, "alloc", "a", 8), step(1, "free", "a", 8), step(2, "alloc", "b", 8), step(3, "alloc", "c", 8)]
    assert buffers_to_prepare(steps, {"m": 16}) == [("a", "m"), ("c", "m")]


def test_no_more_is_taken_than_the_plans_peak() -> None:
    steps = [step(0, "alloc", "a", 8), step(1, "free", "a", 8), step(2, "alloc", "b", 12)]
    assert buffers_to_prepare(steps, {"m": 12}) == [("a", "m")]


@given(cases())
def test_what_is_prepared_never_exceeds_the_peak(case: Case) -> None:
    plan = build_plan(case.graph, case.platform, case.schedule, case.durations_s)
    nbytes = {a.name: a.nbytes for a in plan.arrays}
    prepared = buffers_to_prepare((i for _, i in plan.instructions()), plan.peak_bytes)
    assert len(set(prepared)) == len(prepared)
    for space, peak in plan.peak_bytes.items():
        assert sum(nbytes[array] for array, where in prepared if where == space) <= peak


def test_a_block_is_given_out_again_only_for_its_own_size_and_space() -> None:
    reserve = Reserve({"m": 100})
    reserve.give("m", 8, "block")
    assert reserve.take("m", 12, 0) is None
    assert reserve.take("n", 8, 0) is None
    assert reserve.take("m", 8, 0) == "block"
    assert reserve.take("m", 8, 0) is None


def test_waiting_blocks_make_way_when_a_new_one_would_be_too_much() -> None:
    reserve = Reserve({"m": 20})
    reserve.give("m", 8, "block")
    assert reserve.take("m", 13, 0) is None  # 8 waiting and 13 new are more than 20
    assert reserve.take("m", 8, 0) is None


@given(st.integers(0, 3 * 4096))
def test_touch_reaches_every_page(size: int) -> None:
    memory = np.full(size, 7, np.uint8)
    touch(memory)
    assert (memory[::4096] == 0).all()
