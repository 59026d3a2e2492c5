# SPDX-License-Identifier: Apache-2.0
"""The compiled simulation engine, compared with the readable reference algorithm."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.plans import random_plans
from support.simulation_reference import reference_times
from support.strategies import ScheduledGraph, cases

from syclsched.errors import IncompletePlanError
from syclsched.model.plan import Plan
from syclsched.planning import build_plan
from syclsched.simulation import Timing, time_plan


def agree(plan: Plan) -> None:
    expected = reference_times(plan)
    found = time_plan(plan)
    assert found.keys() == expected.keys()
    for number, timing in expected.items():
        assert isinstance(found[number], Timing)
        assert found[number] == pytest.approx(timing, rel=1e-9, abs=1e-12), number


@settings(max_examples=examples(100))
@given(random_plans())
def test_on_random_plans(plan: Plan) -> None:
    try:
        reference_times(plan)
    except IncompletePlanError:
        with pytest.raises(IncompletePlanError, match="never starts") as refusal:
            time_plan(plan)
        number = int(refusal.value.what.split()[1])
        assert refusal.value.where in {
            f"lane {lane.name!r}" for lane in plan.lanes if any(i.id == number for i in lane.instructions)
        }
        return
    agree(plan)


@given(st.one_of(cases(), cases(ranges=True)))
def test_on_plans_of_random_graphs(case: ScheduledGraph) -> None:
    agree(build_plan(case.graph, case.platform, case.schedule, case.durations_s))
