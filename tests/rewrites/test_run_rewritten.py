# SPDX-License-Identifier: Apache-2.0
"""Plans that rewrite their graph, on live devices: names of the user's graph, and equal bits."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.gpu_shape import OTHER_DEVICE
from support.running import DTYPE, MIX, graphs, inputs_of, mixed_chain, plan_by, sequential
from support.samples import COLUMNS
from support.samples import graphs as graphs_by_rows

import syclsched
from syclsched.api import with_lanes
from syclsched.costs import CostModel
from syclsched.devices import discover, open_devices
from syclsched.errors import ArgumentError, IncompletePlanError, TaskFailedError, UnknownArrayError
from syclsched.execution import execute
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.model.recipe import Cut, Recipe
from syclsched.planner import plan_graph
from syclsched.planning.verification import proof
from syclsched.profiling import HistoryStore
from syclsched.rewrites import replay

pytestmark = pytest.mark.sycl

REWRITES = st.sampled_from(("auto", "coarsen", "split", "both"))
DEVICES = st.sampled_from(("cpu", OTHER_DEVICE, None))


@lru_cache(maxsize=1)
def live_here() -> tuple[Platform, Any]:
    # A millisecond for each submission: everything that can be merged is merged.
    platform = replace(with_lanes(discover(), 2), submission_s=1e-3)
    return platform, open_devices(platform)


def planned(graph: TaskGraph, platform: Platform, rewrite: str, device: str | None) -> Plan:
    policy = "auto" if device is None else f"single:{device}"
    plan = plan_graph(graph, platform, policy=policy, steps=20, rewrite=rewrite)
    return Plan.from_json(plan.to_json())


def assert_results(graph: TaskGraph, plan: Plan, live: Any, inputs: dict[str, Any]) -> None:
    expected = sequential(graph, inputs)
    touched = {access.array for task in graph.tasks for access in task.accesses}
    with execute(plan, graph, live, inputs) as run:
        for name, array in graph.arrays.items():
            if name in touched and not array.temporary:
                np.testing.assert_array_equal(run.result(array), expected[name], err_msg=name)
        assert {s.task for s in run.trace().spans if s.task} <= {t.name for t in plan.tasks}


@given(graph=graphs(), rewrite=REWRITES, device=DEVICES)
@settings(max_examples=examples(25), deadline=None)
def test_a_rewritten_plan_gives_the_bits_of_the_original(graph: TaskGraph, rewrite: str, device: str | None) -> None:
    platform, live = live_here()
    inputs = inputs_of(graph, len(graph))
    single = device if device in {each.name for each in platform.devices} else None
    assert_results(graph, planned(graph, platform, rewrite, single), live, inputs)


@given(data=st.data(), graph=graphs_by_rows())
@settings(max_examples=examples(12), deadline=None)
def test_rewritten_plans_have_the_bits_of_the_original(data: st.DataObject, graph: TaskGraph) -> None:
    """Divisions of any shape: the planner itself would not divide such small arrays."""
    platform, live = live_here()
    able = [t.name for t in graph.tasks if t.operation is not None and t.operation.split is not None]
    cut = tuple(name for name in able if data.draw(st.booleans()))
    recipe = Recipe(cuts=(Cut(cut, (3, 4)),)) if cut else Recipe()
    new = replay(graph, recipe).graph
    plan = plan_graph(new, platform, steps=20, rewrite=data.draw(st.sampled_from(("none", "coarsen"))))
    plan = replace(
        plan, recipe=Recipe(recipe.cuts, plan.recipe.merges),
        original_fingerprint=graph.fingerprint() if cut or plan.recipe else None,
    )  # fmt: skip
    inputs = {name: np.full(graph.arrays[name].shape, 3) for name in graph.inputs() if name not in graph.data}
    expected = sequential(graph, {**graph.data, **inputs})
    touched = {access.array for task in graph.tasks for access in task.accesses}
    with execute(Plan.from_json(plan.to_json()), graph, live, inputs) as run:
        for name, array in graph.arrays.items():
            if name in touched and not array.temporary:
                np.testing.assert_array_equal(run.result(name), expected[name], err_msg=name)


def one_task(operation: str, dtype: str, rows: int = 1000) -> tuple[TaskGraph, str]:
    """Return a task on numbers whose sums round differently in every order."""
    rng = np.random.default_rng(0)
    graph = TaskGraph(operation)
    shapes = {"gemm": {"c": (rows, 257), "a": (rows, 333), "b": (257, 333)}, "softmax": {"x": (rows, 257)}}.get(
        operation, {"x": (rows, 333), "w": (333, 257), "b": (257,)}
    )
    arrays = {name: graph.array(name, data=rng.standard_normal(shape).astype(dtype)) for name, shape in shapes.items()}
    if operation == "gemm":
        graph.kernel(get("gemm"), name="t", **arrays, alpha=-1.0, beta=1.0, trans_b=True)
        return graph, "c"
    scalars = {"activation": 1} if operation == "dense" else {}
    graph.kernel(get(operation), name="t", y=graph.array("y", (rows, 257), dtype), **arrays, **scalars)
    return graph, "y"


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("operation", ["gemm", "dense", "softmax"])
def test_how_rows_are_dealt_out_changes_no_bit_of_a_sum(operation: str, dtype: str) -> None:
    platform, live = live_here()
    graph, result = one_task(operation, dtype)
    new = replay(graph, Recipe(cuts=(Cut(("t",), (8, 392, 600)),))).graph
    costs = CostModel(platform)
    chunk = new.tasks[0]
    assert chunk.operation is not None
    tried = 0
    for device in platform.devices:
        for implementation in chunk.operation.implementations:
            if costs.supports(chunk, implementation, device) is not None:
                continue
            found = []
            for each in (graph, new):
                plan = plan_by(each, platform, lambda name, how=(device.name, 0, implementation.name): how)
                with execute(plan, each, live) as run:
                    found.append(run.result(result))
            np.testing.assert_array_equal(*found, err_msg=f"{implementation.name} on {device.name}")
            tried += 1
    assert tried >= 2


def test_run_rewrites_by_itself_and_again_with_a_stored_plan() -> None:
    platform, live = live_here()
    graph, data = mixed_chain(8)
    expected = sequential(graph, data)["y"]
    with syclsched.run(graph, platform, calibrate=False) as run:
        np.testing.assert_array_equal(run.result("y"), expected)
        plan = run.plan
    assert [m.name for m in plan.recipe.merges] == ["mix0+...+mix7 (8)"]
    with syclsched.run(graph, plan=Plan.from_json(plan.to_json())) as run:
        np.testing.assert_array_equal(run.result("y"), expected)
    other = {"x": data["x"] + 1}
    for _ in range(2):
        with execute(plan, graph, live, other) as run:
            np.testing.assert_array_equal(run.result("y"), sequential(graph, data | other)["y"])
    with syclsched.run(graph, platform, calibrate=False, rewrite="none") as run:
        np.testing.assert_array_equal(run.result("y"), expected)
        assert not run.plan.recipe


def test_chunks_are_timed_before_they_are_compared_with_the_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    platform, live = live_here()
    graph, _ = one_task("softmax", "float32", rows=64)
    chunks = replay(graph, Recipe(cuts=(Cut(("t",), (16, 48)),))).graph
    asked = []
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr("syclsched.planner.rewrite_choice.graph_to_time", lambda *_, **how: asked.append(how) or chunks)
    syclsched.calibrate(graph, platform, live=live, policy="heft", rewrite="split")
    assert (asked[0]["policy"], asked[0]["rewrite"]) == ("heft", "split")
    with HistoryStore() as history:
        costs = CostModel(platform, history)
        for task in (*graph.tasks, *chunks.tasks):
            best = costs.best(task, platform.device("cpu"))
            assert best is not None and best[1].origin == "measured"


def test_another_graph_is_refused_before_anything_runs() -> None:
    platform, live = live_here()
    graph, _ = mixed_chain(8)
    plan = plan_graph(graph, platform, steps=0)
    assert plan.recipe
    with pytest.raises(IncompletePlanError, match="another graph"):
        execute(plan, mixed_chain(7)[0], live)


def test_a_task_that_fails_is_named_as_the_user_named_it() -> None:
    platform, _ = live_here()
    graph, data = mixed_chain(4)
    expected = sequential(graph, data)["y"]
    z, w = graph.array("z", data=np.zeros(4)), graph.array("w", (4,))

    def fail(z: Any) -> None:
        raise ValueError("on purpose")

    graph.host(lambda z: z.fill(1.0), name="before", z=z.update())
    graph.host(lambda z, w: np.copyto(w, z), name="look", z=z.read(), w=w.write())
    graph.host(fail, name="fail", z=z.update())
    with syclsched.run(graph, platform, calibrate=False) as run:
        assert run.plan.recipe
        with pytest.raises(TaskFailedError) as failure:
            run.wait()
        assert failure.value.task == "fail"
        np.testing.assert_array_equal(run.result("y"), expected)
        np.testing.assert_array_equal(run.result("w"), np.ones(4))


def cut_in_two() -> tuple[TaskGraph, Plan]:
    platform, _ = live_here()
    graph = TaskGraph("rows")
    x, y = graph.array("x", (7, COLUMNS), "int64"), graph.array("y", (7, COLUMNS), "int64")
    z = graph.array("z", (7, COLUMNS), "int64", temporary=True)
    graph.kernel(get("add"), name="a", z=z, x=x, y=x)
    graph.kernel(get("copy"), name="c", y=y, x=z)
    recipe = Recipe(cuts=(Cut(("a", "c"), (3, 4)),))
    plan = plan_graph(replay(graph, recipe).graph, platform, steps=0, rewrite="none")
    return graph, replace(plan, recipe=recipe, original_fingerprint=graph.fingerprint())


def test_arrays_keep_the_names_of_the_original_graph() -> None:
    _, live = live_here()
    graph, plan = cut_in_two()
    value = np.arange(7 * COLUMNS).reshape(7, COLUMNS)
    with pytest.raises(ArgumentError, match=r"no value is given for x\. "):
        execute(plan, graph, live)
    with pytest.raises(ArgumentError, match=r"array 'x'"):
        execute(plan, graph, live, {"x": value[:3]})
    with pytest.raises(UnknownArrayError, match=r"Its inputs are x$"):
        execute(plan, graph, live, {"nonsense": value})
    with execute(plan, graph, live, {"x": value}) as run:
        np.testing.assert_array_equal(run.result("y"), 2 * value)
        np.testing.assert_array_equal(run.result("x"), value)
        with pytest.raises(UnknownArrayError, match=r"array 'z'.*temporary"):
            run.result("z")


def test_the_planner_and_the_run_share_the_rewritten_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    platform, live = live_here()
    graph = TaskGraph("chain")
    x, y = (graph.array(name, (8,), DTYPE) for name in "xy")
    for _ in range(4):
        graph.kernel(MIX, x=x, y=y, a=2)
    plan = plan_graph(graph, platform, policy="single:cpu", rewrite="coarsen")
    assert plan.recipe
    monkeypatch.setattr(import_module("syclsched.rewrites.rewrite"), "replay", None)  # the recipe is not applied again
    monkeypatch.setattr(proof, "walk", None)  # and the plan is not verified again
    assert_results(graph, plan, live, {"x": np.arange(8, dtype=DTYPE), "y": np.ones(8, DTYPE)})
