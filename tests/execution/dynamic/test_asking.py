# SPDX-License-Identifier: Apache-2.0
"""Requests of dynamic runs: policies by name, plans to follow, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.running import DTYPE, MIX, plan_on, sequential

import syclsched as ss
from syclsched.compiled import precompile
from syclsched.errors import ArgumentError, IncompletePlanError, PolicyError
from syclsched.execution.dynamic import run_dynamically
from syclsched.execution.dynamic.compiled import compiled_loop
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.scheduling.dynamic import Eager

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("compiled_policies")]


def pairs(count: int = 6) -> TaskGraph:
    graph = TaskGraph("pairs")
    arrays = [graph.array(f"a{i}", data=np.arange(20, dtype=DTYPE) + i) for i in range(3)]
    for i in range(count):
        graph.kernel(MIX, name=f"t{i}", x=arrays[i % 3], y=arrays[(i + 1) % 3], a=i)
    return graph


@pytest.mark.parametrize("dynamic", ["dmdas", "hybrid"])
def test_a_graph_is_run_by_the_name_of_a_policy(live: tuple[Platform, Any], dynamic: str) -> None:
    graph = pairs()
    with ss.run(graph, live[0], dynamic=dynamic, calibrate=False) as run:
        assert np.array_equal(run.result("a0"), sequential(graph, graph.data)["a0"])
        run.wait()
        assert run.trace().policy == f"dynamic:{dynamic}"


def test_the_policy_is_compiled_before_the_run_begins(
    live: tuple[Platform, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the first run of an installation was reported with 21 s, and missed its deadline."""
    whole, calls = compiled_loop.loop_of(Eager.rule), list[str]()

    class Noting:
        def make_ready(self, arguments: tuple[Any, ...]) -> None:
            calls.append("ready")
            assert arguments[1].at[compiled_loop.BEGAN_NS] == 0
            precompile(whole, *arguments)

        def __call__(self, *arguments: Any) -> int:
            calls.append("called")
            assert arguments[1].at[compiled_loop.BEGAN_NS] > 0
            return whole(*arguments)

    monkeypatch.setattr(compiled_loop, "loop_of", lambda rule: Noting())
    with ss.run(pairs(), live[0], dynamic="eager", calibrate=False) as run:
        run.wait()
    assert calls[:2] == ["ready", "called"] and calls.count("ready") == 1


def test_contradictory_requests_are_refused_before_the_run(live: tuple[Platform, Any]) -> None:
    graph, (platform, devices) = pairs(), live
    with pytest.raises(PolicyError, match="eager, priority, dmdas, stealing, hybrid"):
        ss.run(graph, platform, dynamic="clever")
    with pytest.raises(ArgumentError, match="follows no plan"):
        ss.run(graph, platform, dynamic="eager", policy="heft")
    with pytest.raises(ArgumentError, match="step by step"):
        ss.run(graph, platform, dynamic="eager", debug=True)
    with pytest.raises(PolicyError, match="no plan to follow"):
        run_dynamically(graph, devices, "hybrid")
    with pytest.raises(IncompletePlanError):
        run_dynamically(graph, devices, "hybrid", plan=plan_on(pairs(5), platform, "cpu"))


def test_the_hybrid_runs_a_plan_of_a_rewritten_graph(live: tuple[Platform, Any]) -> None:
    graph = pairs(12)
    plan = ss.plan(graph, live[0], policy="heft", rewrite="coarsen")
    with run_dynamically(graph, live[1], "hybrid", plan=plan) as run:
        run.wait(60)
        expected = sequential(graph, graph.data)
        assert all(np.array_equal(run.result(name), expected[name]) for name in ("a0", "a1", "a2"))


def test_a_run_adds_task_durations_to_the_history(
    live: tuple[Platform, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from syclsched.execution.core.history_feed import FEED
    from syclsched.profiling import HistoryStore
    from syclsched.profiling.storage import history_store

    FEED.flush()  # runs of other tests, whose measurements may still wait to be written
    monkeypatch.setattr(history_store, "data_folder", lambda: tmp_path)
    with run_dynamically(pairs(12), live[1], "eager") as run:
        run.wait(60)
    FEED.flush()
    with HistoryStore() as store:
        found = store.samples()
    assert found and all(key.operation == "mix" and len(seconds) == 1 for key, seconds in found)
    assert all(key.implementation.endswith(", in a run") for key, _ in found)


def test_a_hybrid_run_has_the_host_lanes_of_its_plan() -> None:
    graph = TaskGraph("hosts")
    arrays = [graph.array(f"x{n}", data=np.zeros(4)) for n in range(4)]
    for array in arrays:
        graph.host(lambda x: np.add(x, 1.0, out=x), name=f"add {array.name}", x=array.update())
    platform = ss.discover("cpu")
    plan = ss.plan(graph, platform.with_host_lanes(2), policy="heft")
    assert {each.lane for each in plan.schedule.assignments} == {0, 1}
    with ss.run(graph, platform, plan=plan, dynamic="hybrid") as run:
        assert all((run.result(array.name) == 1.0).all() for array in arrays)
