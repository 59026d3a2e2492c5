# SPDX-License-Identifier: Apache-2.0
"""Prepared plans: made once for equal plans of one graph, and again after a change of either."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import pytest
from support.running import MIX, given_chain, plan_on

import syclsched
from syclsched.errors import IncompletePlanError, RaceError
from syclsched.execution.dispatch.prepared import prepare
from syclsched.model.plan import Plan
from syclsched.planning.verification import proof

PLATFORM = syclsched.describe(["cpu"])
DEVICE = PLATFORM.compute_devices[0].name


def test_an_equal_plan_of_the_same_graph_is_prepared_once() -> None:
    graph = given_chain()
    plan = plan_on(graph, PLATFORM, DEVICE)
    first = prepare(plan, graph)
    assert prepare(plan, graph).program is first.program
    again = plan_on(graph, PLATFORM, DEVICE)
    assert again is not plan
    assert prepare(again, graph).work is first.work
    assert prepare(plan, given_chain()).program is not first.program, "another graph has other tasks"


def test_a_plan_with_another_description_is_not_prepared_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = given_chain()
    plan = plan_on(graph, PLATFORM, DEVICE)
    first = prepare(plan, graph)
    monkeypatch.setattr(proof, "walk", None)  # a repeated verification fails
    other = replace(plan, policy="of another name", lower_bound_s=1e-9)
    found = prepare(other, graph)
    assert found.plan is found.program.plan is other
    assert found.work is first.work and found.program.nodes is first.program.nodes
    assert prepare(plan, graph).plan is plan
    syclsched.verify(other, graph)
    with pytest.raises(TypeError):
        syclsched.verify(other, given_chain())
    with pytest.raises(TypeError):
        syclsched.verify(replace(other, peak_bytes=dict(other.peak_bytes)), graph)


def test_the_memory_of_a_program_is_laid_out_once() -> None:
    graph = given_chain()
    plan = plan_on(graph, PLATFORM, DEVICE)
    first = prepare(plan, graph).with_layout()
    assert first.layout is not None
    again = prepare(plan, graph)
    assert again.with_layout().layout is first.layout
    other = prepare(plan, given_chain()).with_layout()
    assert other.layout is not first.layout and other.layout == first.layout


def without_waits(plan: Plan) -> Plan:
    lanes = tuple(replace(m, instructions=tuple(replace(i, waits=()) for i in m.instructions)) for m in plan.lanes)
    return replace(plan, lanes=lanes)


def test_a_changed_plan_or_graph_is_verified_anew() -> None:
    graph = given_chain()
    plan = plan_on(graph, PLATFORM, DEVICE)
    first = prepare(plan, graph)
    with pytest.raises((RaceError, IncompletePlanError)):
        prepare(without_waits(plan), graph)
    with pytest.raises(IncompletePlanError):
        prepare(replace(plan, lanes=plan.lanes[:1]), graph)
    assert prepare(plan, graph).plan == first.plan
    graph.kernel(MIX, x=graph.arrays["x"], y=graph.arrays["y"], a=9)
    with pytest.raises(IncompletePlanError, match="another graph"):
        prepare(plan, graph)


def test_a_prepared_plan_does_not_keep_its_graph() -> None:
    graph = given_chain()
    plan = plan_on(graph, PLATFORM, DEVICE)
    prepare(plan, graph)
    alive = weakref.ref(graph)
    del graph
    gc.collect()
    assert alive() is None
