# SPDX-License-Identifier: Apache-2.0
"""Examples of the literature: makespans, and placements where the paper prints them."""

from __future__ import annotations

import pytest
from support.instances import PEFT_COSTS, PEFT_EDGES, TOPCUOGLU_COSTS, TOPCUOGLU_EDGES

from syclsched.scheduling import get, problem_from_matrices, validate
from syclsched.scheduling.core.paths import optimistic_costs

TOPCUOGLU = problem_from_matrices(TOPCUOGLU_COSTS, TOPCUOGLU_EDGES)
PEFT = problem_from_matrices(PEFT_COSTS, PEFT_EDGES)


@pytest.mark.parametrize(("name", "makespan"), [("heft", 80), ("cpop", 86), ("dls", 91)])
def test_topcuoglu_2002(name: str, makespan: int) -> None:
    timetable = get(name).schedule(TOPCUOGLU)
    validate(TOPCUOGLU, timetable)
    assert timetable.makespan_s == makespan


@pytest.mark.parametrize(("name", "makespan"), [("heft", 133), ("peft", 122)])
def test_arabnejad_2014(name: str, makespan: int) -> None:
    timetable = get(name).schedule(PEFT)
    validate(PEFT, timetable)
    assert timetable.makespan_s == makespan


def test_the_chart_of_heft_in_topcuoglu_2002() -> None:
    timetable = get("heft").schedule(TOPCUOGLU)
    placed = dict(enumerate(zip(timetable.processor.tolist(), timetable.start_s.tolist(), strict=True)))
    assert placed == {
        0: (2, 0), 2: (2, 9), 3: (1, 18), 4: (2, 28), 1: (0, 27), 5: (1, 26), 8: (1, 56), 6: (2, 38), 7: (0, 57),
        9: (1, 73),
    }  # fmt: skip


def test_optimistic_costs_are_the_least_that_can_follow() -> None:
    """The definition compares all pairs of devices."""
    tables = PEFT.tables
    found = optimistic_costs(tables, *PEFT.mean_copy_line())
    assert found[9].tolist() == [0.0, 0.0, 0.0]
    for task in range(len(PEFT)):
        for device in range(3):
            longest = 0.0
            for arc in range(tables.succ_start[task], tables.succ_start[task + 1]):
                after = tables.succ_task[arc]
                least = min(
                    found[after, other]
                    + tables.seconds[tables.kind[after], other]
                    + (other != device) * tables.succ_bytes[arc]
                    for other in range(3)
                )
                longest = max(longest, float(least))
            assert found[task, device] == longest
