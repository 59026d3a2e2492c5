# SPDX-License-Identifier: Apache-2.0
"""Rewriting during planning: never worse, complete, and with the original names."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.samples import assert_same_results, device, graphs, platform

from syclsched.costs import CostModel
from syclsched.errors import FormatError, GraphError, IncompletePlanError, InfeasibleError, PolicyError, SyclschedError
from syclsched.kernels import get
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Launch, Operation, Parameter, Split, Work
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.model.recipe import Cut, Merge, Recipe
from syclsched.planner import graph_to_time, plan_front, plan_graph
from syclsched.planner.attempt import PlanTarget, attempt
from syclsched.planner.search_budget import SearchBudget
from syclsched.planning import verify
from syclsched.rewrites import planned_graph
from syclsched.scheduling.objectives import Aim
from syclsched.simulation import simulate

ONE = platform(device("gpu"))
TWO = platform(device("fast", flops=3e11, lanes=2), device("slow"), bandwidth=1e11)
REWRITES = ("coarsen", "split", "both")


def chain(length: int = 30, size: int = 100) -> TaskGraph:
    graph = TaskGraph("chain")
    y, x = graph.array("y", data=np.arange(size)), graph.array("x", data=np.arange(size) + 1)
    for i in range(length):
        graph.kernel(get("axpy"), name=f"t{i}", y=y, x=x, alpha=i)
    return graph


def layers(rows: int = 8192, count: int = 2) -> TaskGraph:
    graph = TaskGraph("layers")
    here = graph.array("x", data=np.ones((rows, 512), "float32"))
    for i in range(count):
        w, b = graph.array(f"w{i}", (512, 512), "float32"), graph.array(f"b{i}", (512,), "float32")
        out = graph.array(f"h{i}", (rows, 512), "float32", temporary=i < count - 1)
        graph.kernel(get("dense"), name=f"d{i}", y=out, x=here, w=w, b=b, activation=1)
        here = out
    return graph


def mixed() -> TaskGraph:
    """Return a graph with tasks to merge and tasks to divide."""
    graph = layers()
    v = graph.array("v", data=np.zeros(8))
    for i in range(30):
        graph.kernel(get("scale"), name=f"s{i}", x=v, alpha=1.5)
    return graph


@given(graph=graphs(), where=st.sampled_from([ONE, TWO]), how=st.sampled_from(("auto", *REWRITES)))
@settings(max_examples=examples(15), deadline=None)
def test_a_rewritten_plan_is_verified_and_restored_from_json(graph: TaskGraph, where: Platform, how: str) -> None:
    plan = plan_graph(graph, where, steps=50, rewrite=how)
    verify(plan)
    verify(plan, graph)
    back = Plan.from_json(plan.to_json())
    assert back == plan
    assert simulate(back).makespan_s == pytest.approx(plan.makespan_s)
    new = planned_graph(back, graph)
    assert new.fingerprint() == plan.fingerprint
    assert_same_results(graph, new)
    # Every task of the original can be explained, and its parts are in the plan.
    for task in graph.tasks:
        assert task.name in plan.explain(task.name)
        holders = plan.recipe.holders(task.name, {t.name for t in plan.tasks})
        assert holders and set(holders) <= {t.name for t in plan.tasks}
    if not plan.recipe:
        assert new is graph and plan.original_fingerprint is None and plan.fingerprint == graph.fingerprint()
    else:
        assert plan.original_fingerprint == graph.fingerprint() != plan.fingerprint
        assert plan.recipe.merges or plan.recipe.cuts


@given(graph=graphs(), where=st.sampled_from([ONE, TWO]))
@settings(max_examples=examples(8), deadline=None)
def test_auto_is_never_worse_than_without(graph: TaskGraph, where: Platform) -> None:
    without = plan_graph(graph, where, steps=50, rewrite="none")
    auto = plan_graph(graph, where, steps=50)
    assert not without.recipe
    assert auto.makespan_s <= without.makespan_s * (1 + 1e-9)
    assert auto == plan_graph(graph, where, steps=50)
    if not auto.recipe:
        assert replace(auto, candidates=()) == replace(without, candidates=())
    else:
        assert auto.makespan_s < without.makespan_s * (1 - 1e-9) or len(auto.tasks) < len(without.tasks)
        (other,) = [c for c in auto.candidates if c.policy.startswith("not rewritten")]
        assert other.makespan_s == without.makespan_s


@pytest.mark.parametrize("minimize", ["makespan", "throughput", "memory"])
@pytest.mark.parametrize("build", [chain, layers, mixed])
def test_auto_is_never_worse_by_any_aim(build: Callable[[], TaskGraph], minimize: str) -> None:
    def value(plan: Plan) -> float:
        worst = float(max(plan.peak_bytes.values(), default=0))
        return {"makespan": plan.makespan_s, "throughput": plan.interval_s, "memory": worst}[minimize]

    plans = {how: plan_graph(build(), TWO, steps=50, minimize=minimize, rewrite=how) for how in ("none", "auto")}
    assert value(plans["auto"]) <= value(plans["none"]) * (1 + 1e-9)


def test_tiny_tasks_are_merged_and_large_tasks_cut() -> None:
    merged = plan_graph(chain(), ONE)
    assert [(m.tasks[0], m.tasks[-1], m.name) for m in merged.recipe.merges] == [("t0", "t29", "t0+...+t29 (30)")]
    assert len(merged.tasks) == 1
    assert merged.makespan_s < plan_graph(chain(), ONE, rewrite="none").makespan_s
    cut = plan_graph(layers(), TWO)
    assert [c.tasks for c in cut.recipe.cuts] == [("d0", "d1")]
    assert cut.makespan_s < 0.8 * plan_graph(layers(), TWO, rewrite="none").makespan_s
    assert {a.device for a in cut.schedule.assignments} == {"fast", "slow"}
    both = plan_graph(mixed(), TWO)
    assert both.recipe.cuts and both.recipe.merges


def test_equal_predictions_prefer_fewer_tasks() -> None:
    request = PlanTarget(ONE, CostModel(ONE), "heft", Aim())
    first = attempt(chain(), request, SearchBudget(0, None, None, 0))
    fewer = replace(first, plan=replace(first.plan, tasks=first.plan.tasks[:1]))
    slower = replace(fewer, metrics=replace(fewer.metrics, makespan_s=first.metrics.makespan_s * 1.001))
    assert fewer.better_than(first)
    assert not first.better_than(fewer)
    assert not first.better_than(first)
    assert not slower.better_than(first)


def test_the_requested_rewrite_is_applied() -> None:
    graph = mixed()
    found = {how: plan_graph(graph, TWO, steps=0, rewrite=how).recipe for how in ("none", *REWRITES)}
    assert not found["none"]
    assert found["coarsen"].merges and not found["coarsen"].cuts
    assert found["split"].cuts and not found["split"].merges
    assert found["both"].cuts == found["split"].cuts and found["both"].merges
    with pytest.raises(PolicyError, match=r"no rewrite 'melt'.*auto, none, coarsen, split, both"):
        plan_graph(graph, TWO, rewrite="melt")


def test_a_named_policy_gets_the_original_graph_by_default() -> None:
    assert not plan_graph(chain(), ONE, policy="heft").recipe
    plan = plan_graph(chain(), ONE, policy="heft", rewrite="coarsen")
    assert (plan.policy, len(plan.tasks)) == ("heft", 1)
    (only,) = plan.candidates
    assert (only.policy, only.makespan_s) == ("heft", plan.makespan_s)


def test_graphs_without_possible_rewrites_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []

    def counted(graph: TaskGraph, *rest: Any) -> Any:
        planned.append(graph)
        return attempt(graph, *rest)

    monkeypatch.setattr("syclsched.planner.attempt.attempt", counted)
    graph = chain(4)
    plan_graph(graph, replace(ONE, submission_s=0.0), steps=0)
    assert planned == [graph]
    plan_graph(graph, ONE, steps=0)
    assert len(planned) == 3
    plan_graph(graph, ONE, steps=0, rewrite="none")
    assert len(planned) == 4


def test_a_budget_of_seconds_is_for_both_plans() -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 1e-3
        return now[0]

    plan = plan_graph(chain(), ONE, budget_s=2.0, clock=clock)
    assert plan.recipe
    assert now[0] < 3.0


def test_constraints_hold_for_the_chosen_rewrite() -> None:
    free = plan_graph(mixed(), TWO, steps=0, rewrite="none")
    limit = int(max(free.peak_bytes.values()) * 0.6)
    plan = plan_graph(mixed(), TWO, steps=200, subject_to=(f"memory <= {limit}B",))
    assert all(peak <= limit for peak in plan.peak_bytes.values())
    verify(plan, mixed())
    with pytest.raises(InfeasibleError, match="makespan"):
        plan_graph(mixed(), TWO, steps=0, subject_to=("makespan <= 1ns",))


def test_only_chunks_fit_where_whole_tasks_do_not() -> None:
    """Without rewriting there is no plan; divided, each chunk fits."""
    graph = layers(count=1)
    whole = 2 * 8192 * 512 * 4
    with pytest.raises(SyclschedError, match="memory"):
        plan_graph(without_host(graph), TWO, steps=0, rewrite="none", subject_to=(f"memory <= {whole // 2}B",))
    plan = plan_graph(without_host(graph), TWO, steps=0, subject_to=(f"memory <= {whole // 2}B",))
    assert plan.recipe.cuts
    assert max(plan.peak_bytes.values()) <= whole // 2
    assert any(c.policy == "not rewritten" and "memory" in (c.refused or "") for c in plan.candidates)


def without_host(graph: TaskGraph) -> TaskGraph:
    new = TaskGraph(graph.name)
    for array in graph.arrays.values():
        new.array(array.name, array.shape, array.dtype, temporary=array.temporary)
    for task in graph.tasks:
        assert task.operation is not None
        kept = tuple(i for i in task.operation.implementations if i.kind != "host")
        new.insert(replace(task, operation=replace(task.operation, implementations=kept)))
    return new


def test_operation_with_wrong_chunks_is_planned_whole() -> None:
    wrong = Operation(
        "wrong", (Parameter("x", AccessMode.UPDATE),),
        (Implementation("kernel", "opencl-c", load=lambda s: s, launch=lambda s, d: Launch((1,))),),
        lambda s: Work(s.shapes["x"][0] * 1e6, 0.0),
        check=lambda s: None if s.shapes["x"][0] >= 4096 else "too few rows", split=Split(("x",)),
    )  # fmt: skip
    graph = TaskGraph()
    graph.kernel(wrong, name="t", x=graph.array("x", (8192,)))
    plan = plan_graph(graph, TWO, steps=0)
    assert not plan.recipe
    assert any(c.policy == "rewritten" and "too few rows" in (c.refused or "") for c in plan.candidates)
    assert graph_to_time(graph, TWO) is None
    with pytest.raises(GraphError, match="too few rows"):
        plan_graph(graph, TWO, rewrite="split")


def test_chunks_are_timed_if_the_graph_may_be_cut() -> None:
    chunks = graph_to_time(layers(), TWO)
    assert chunks is not None
    assert {t.family for t in chunks.tasks} == {"dense"} and len(chunks) > 2
    assert graph_to_time(layers(), TWO, policy="heft") is None
    assert graph_to_time(layers(), TWO, policy="heft", rewrite="both") is not None
    assert graph_to_time(layers(), TWO, rewrite="coarsen") is None
    assert graph_to_time(chain(), ONE) is None


# --- explanations ---------------------------------------------------------------------------------


def test_the_plan_describes_its_rewrite_in_one_line() -> None:
    plan = plan_graph(mixed(), TWO, steps=0, rewrite="both")
    chunks = len(plan.recipe.cuts[0].rows)
    (line,) = [line for line in str(plan).splitlines() if "rewritten" in line]
    assert line == f"  rewritten    2 tasks cut into {2 * chunks} chunks; 30 tasks merged into 1"
    assert "rewritten" not in str(plan_graph(mixed(), TWO, steps=0, rewrite="none"))


def test_explain_finds_merged_and_cut_tasks() -> None:
    plan = plan_graph(mixed(), TWO, steps=0, rewrite="both")
    text = plan.explain("s7")
    assert text.startswith("s7: done as a part of\ns0+...+s29 (30): scale*30, kernel task")
    assert "does         30 tasks one after another: s0, s1, s2" in text
    text = plan.explain("d1")
    rows = plan.recipe.cuts[0].rows
    assert text.startswith(f"d1: cut into chunks, in {len(rows)} tasks (")
    assert f"d1[0:{rows[0]}]" in text and "on lane" in text
    assert plan.explain(f"d1[0:{rows[0]}]").startswith(f"d1[0:{rows[0]}]: dense, kernel task")
    with pytest.raises(GraphError, match="no task 's99'"):
        plan.explain("s99")


# --- invalid recipes ------------------------------------------------------------------------------


def tampered(plan: Plan, change: Callable[[dict[str, Any]], object]) -> Plan:
    document = json.loads(plan.to_json())
    change(document)
    return Plan.from_json(json.dumps(document))


MERGED = Recipe(merges=(Merge(("t0", "t1"), (("opencl-c",) * 2,), "t0+t1"),))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(recipe={}),
        lambda d: d["recipe"].update(merges=[]),
        lambda d: d["recipe"]["merges"][0].update(name="something else"),
        lambda d: d["recipe"]["merges"][0]["tasks"].reverse(),
        lambda d: d["recipe"]["merges"][0]["tasks"].pop(),
        lambda d: d["recipe"]["merges"][0]["tasks"].append("nobody"),
        lambda d: d["recipe"]["merges"][0]["implementations"][0].__setitem__(3, "magic"),
        lambda d: d["recipe"]["merges"][0]["implementations"][0].pop(),
        lambda d: d["recipe"]["merges"].append(d["recipe"]["merges"][0]),
        lambda d: d["recipe"].update(cuts=[{"tasks": ["t0"], "rows": [50, 50]}]),
        lambda d: d["recipe"].update(cuts=[{"tasks": ["t0"], "rows": [1] * 100}]),
        lambda d: d["recipe"].update(cuts=[{"tasks": ["t0"], "rows": [10**9, 10**9]}]),
        lambda d: d.update(original_fingerprint=d["fingerprint"]),
        lambda d: d.update(original_fingerprint=None),
        lambda d: d.update(fingerprint=d["original_fingerprint"]),
    ],
)
def test_a_recipe_that_was_tampered_with_is_refused(change: Callable[[dict[str, Any]], object]) -> None:
    graph = chain()
    plan = tampered(plan_graph(graph, ONE, steps=0, rewrite="coarsen"), change)
    with pytest.raises(IncompletePlanError, match=r"its recipe does not fit graph 'chain'|made for another graph"):
        verify(plan, graph)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda d: d["recipe"].update(program="rm"), "recipe.program"),
        (lambda d: d["recipe"]["merges"][0].update(tasks=["t0"]), "recipe.merges.0.tasks"),
        (lambda d: d["recipe"]["merges"][0].update(tasks=["t0"] * 5000), "recipe.merges.0.tasks"),
        (lambda d: d["recipe"]["merges"][0].update(name=""), "recipe.merges.0.name"),
        (lambda d: d["recipe"].update(cuts=[{"tasks": ["t0"], "rows": [4]}]), "recipe.cuts.0.rows"),
        (lambda d: d["recipe"].update(cuts=[{"tasks": [], "rows": [4, 4]}]), "recipe.cuts.0.tasks"),
        (lambda d: d["recipe"].update(cuts=[{"tasks": ["t0"], "rows": [-4, 4]}]), "recipe.cuts.0.rows.0"),
        (lambda d: d["recipe"].update(cuts=[{"tasks": ["t0"], "rows": [1] * 100_000}]), "recipe.cuts.0.rows"),
    ],
)
def test_a_recipe_that_is_none_is_refused_with_the_place(
    change: Callable[[dict[str, Any]], object], complaint: str
) -> None:
    with pytest.raises(FormatError, match=complaint.replace(".", r"\.")):
        tampered(plan_graph(chain(), ONE, steps=0, rewrite="coarsen"), change)


def test_chunks_without_end_are_refused_before_they_are_made() -> None:
    plan = plan_graph(layers(), TWO, steps=0, rewrite="split")
    many = Recipe(cuts=(Cut(("d0", "d1"), (1,) * 8192),))
    with pytest.raises(IncompletePlanError, match="makes 16,384 chunks, more than are planned"):
        verify(replace(plan, recipe=many), layers())


def test_a_plan_of_another_graph_is_refused() -> None:
    plan = plan_graph(chain(), ONE, steps=0)
    assert plan.recipe
    with pytest.raises(IncompletePlanError, match="made for another graph than 'chain'"):
        verify(plan, chain(29))


def test_the_plan_accepts_the_original_and_the_rewritten_graph() -> None:
    graph = chain()
    plan = plan_graph(graph, ONE, steps=0)
    new = planned_graph(plan, graph)
    assert new is not graph and planned_graph(plan, new) is new
    assert planned_graph(plan, graph) is new  # cached: plans are run repeatedly
    verify(plan, new)
    graph.kernel(get("scale"), name="more", x=graph.arrays["y"], alpha=2)
    with pytest.raises(IncompletePlanError, match="another graph"):
        planned_graph(plan, graph)


def test_a_front_has_plans_of_both_graphs() -> None:
    graph = chain(12)
    for how, both in (("auto", {True, False}), ("none", {False}), ("coarsen", {True})):
        found = plan_front(graph, ONE, metrics=("makespan", "memory"), points=2, steps=100, rewrite=how)
        for point in found:
            verify(point.plan, graph)
        assert {bool(point.plan.recipe) for point in found} == both
    assert plan_front(graph, ONE, points=2, steps=100)[0].plan.recipe  # one task is submitted sooner than twelve
    with pytest.raises(PolicyError, match="no rewrite 'twice'"):
        plan_front(graph, ONE, rewrite="twice")
