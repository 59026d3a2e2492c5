# SPDX-License-Identifier: Apache-2.0
"""Lazily created plan objects: equal to those created at once; caches of a plan live as long as the plan."""

from __future__ import annotations

import copy as copying
import gc
import pickle
from dataclasses import replace

import pytest
from support.plans import launch, plan_on, platform_of

import syclsched
from syclsched import workloads
from syclsched.model.plan import Instruction, Lane, Plan
from syclsched.model.tables.instruction_table import InstructionTable, table_of
from syclsched.model.tables.lazy_objects import lane_table, lazy_lane, lazy_trace
from syclsched.model.text.json_serialisation import from_json, to_json
from syclsched.model.trace import Span, Trace
from syclsched.simulation import predict, simulate
from syclsched.simulation.machine_builder import flatten
from syclsched.simulation.plan_memo import PlanMemo

LANE = Lane("a:0", "a", "compute", (launch(0, 1.0), launch(1, 2.0)))
SPAN = Span(0, "launch", "t", None, "f", "a:0", "a", "compute", 0.0, 0.0, 1.0, 0.0, 1.0)
TRACE = Trace("graph", "heft", (SPAN,), 1.0, 1.0)


def later(calls: list[int] | None = None) -> Lane:
    def make() -> InstructionTable:
        if calls is not None:
            calls.append(1)
        return table_of(LANE.instructions)

    return lazy_lane(LANE, make)


def test_lane_is_created_on_first_access() -> None:
    calls: list[int] = []
    lane = later(calls)
    assert (lane.name, lane.device, lane.kind, calls) == ("a:0", "a", "compute", [])
    assert lane.instructions is lane.instructions
    assert calls == [1]


def test_a_lane_is_read_as_columns_without_its_objects() -> None:
    calls: list[int] = []
    lane = later(calls)
    assert lane_table(lane) is lane_table(lane)
    assert calls == [1]
    assert lane_table(lane).instructions() == lane_table(LANE).instructions() == LANE.instructions


def test_a_pending_lane_behaves_like_a_lane() -> None:
    assert later() == LANE
    plain, pending = replace(LANE), later()
    assert plain == pending
    assert later() == later()
    assert later() != replace(LANE, name="b:0")
    assert hash(later()) == hash(LANE)
    assert replace(later(), name="b:0") == replace(LANE, name="b:0")
    assert pickle.loads(pickle.dumps(later())) == LANE == copying.deepcopy(later())
    with pytest.raises(AttributeError):
        later().name = "b"  # type: ignore[misc]


def test_a_pending_trace_behaves_like_a_trace() -> None:
    def made() -> Trace:
        return lazy_trace(replace(TRACE, spans=()), lambda: (SPAN,))

    assert made() == TRACE
    plain, pending = replace(TRACE), made()
    assert plain == pending
    assert made() != replace(TRACE, name="other")
    assert to_json(made()) == to_json(TRACE)
    assert from_json(Trace, to_json(made()), where="here") == TRACE
    assert replace(made(), name="other").spans == (SPAN,)


def test_predicted_plans_are_written_and_read_like_others() -> None:
    plan = predict(plan_on(platform_of("a"), a__0=[launch(0, 1.0), launch(1, 2.0)]))
    assert [(i.start_s, i.finish_s) for i in plan.lanes[0].instructions] == [(0.0, 1.0), (1.0, 3.0)]
    assert Plan.from_json(plan.to_json()) == plan
    assert predict(plan) == plan
    assert {s.predicted_finish_s for s in simulate(plan).spans} == {1.0, 3.0}


def test_plan_needs_no_instruction_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = workloads.get("cholesky")
    graph = kind.build(kind.options(n=256, tile=64)).graph

    def refuse(_: InstructionTable) -> tuple[Instruction, ...]:
        raise AssertionError("they are made when they are looked at")

    with monkeypatch.context() as patched:
        patched.setattr(InstructionTable, "instructions", refuse)
        plan = syclsched.plan(graph, syclsched.describe(["cpu", "max1550"]), policy="heft")
        back = Plan.from_json(plan.to_json())
        syclsched.verify(back, graph)
        assert predict(back).makespan_s == plan.makespan_s
    assert back == plan
    assert sum(len(lane.instructions) for lane in plan.lanes) > len(graph)


def test_cached_values_of_a_plan_are_freed_with_it() -> None:
    plan = plan_on(platform_of("a"), a__0=[launch(0, 1.0)])
    asked: list[str] = []

    @PlanMemo
    def ask(of: Plan) -> str:
        asked.append(of.name)
        return of.name.upper()

    assert (ask(plan), ask(plan), asked) == ("BY HAND", "BY HAND", ["by hand"])
    assert ask(replace(plan)) == "BY HAND"
    assert len(asked) == 2
    gc.collect()
    assert list(ask._values) == [id(plan)]
    del plan
    gc.collect()
    assert not ask._values


def test_a_predicted_plan_needs_no_flattening_again() -> None:
    plan = plan_on(platform_of("a"), a__0=[launch(0, 1.0)])
    assert flatten(predict(plan)) is flatten(plan)
    assert flatten(replace(plan)) is not flatten(plan)
