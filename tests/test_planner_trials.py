# SPDX-License-Identifier: Apache-2.0
"""Dynamic policies in trials, from a graph to makespans comparable with those of plans."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from support.examples import examples
from support.strategies import graphs, platforms

from syclsched.api import describe, simulate
from syclsched.errors import PolicyError
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.planner import plan_graph
from syclsched.planner.dynamic_trials import (
    DYNAMIC_POLICY_NAMES,
    dynamic_policy_of,
    is_dynamic_policy,
    simulate_dynamic_policy,
)
from syclsched.planning import verify
from syclsched.scheduling.construction import matrices
from syclsched.simulation import Disturbance, Failure, Noise, SlowDown, repeat
from syclsched.workloads import get


def cholesky() -> TaskGraph:
    recipe = get("cholesky")
    return recipe.build(recipe.options(n=256, tile=64)).graph


@pytest.fixture(scope="module")
def platform() -> Platform:
    return describe(["xeon-8480", "max1550"])


def test_names() -> None:
    assert DYNAMIC_POLICY_NAMES == ("eager", "priority", "dmdas", "stealing", "hybrid")
    assert [is_dynamic_policy(n) for n in ("eager", "hybrid:peft", "heft", "dynamic:eager")] == [
        True,
        True,
        False,
        False,
    ]
    problem = matrices.problem_from_matrices([[1.0]], {})
    assert dynamic_policy_of("hybrid:cpop", problem).name == "hybrid"
    for name in ("eagre", "hybrid:eagre"):
        with pytest.raises(PolicyError, match="eagre"):
            dynamic_policy_of(name, problem)


@settings(max_examples=examples(8))
@given(graphs(), platforms())
def test_an_undisturbed_dynamic_run_is_a_valid_plan(graph: TaskGraph, platform: Platform) -> None:
    for policy in DYNAMIC_POLICY_NAMES:
        plan, trials = simulate_dynamic_policy(graph, platform, policy)
        verify(plan, graph)
        assert trials is None
        again, calm = simulate_dynamic_policy(graph, platform, policy, disturbance=Disturbance(), seeds=(3, 4))
        assert again == plan
        assert calm is not None
        assert [run.makespan_s for run in calm.runs] == pytest.approx([plan.makespan_s] * 2)


def test_a_task_takes_the_same_in_the_loop_as_in_a_plan(platform: Platform) -> None:
    # While it does not deviate, the hybrid executes its plan, for any task durations.
    disturbance = Disturbance(Noise(sigma=0.02, families={"gemm": 1.02}), ())
    plan = plan_graph(cholesky(), platform, policy="heft")
    static = repeat(plan, disturbance, range(3))
    _, hybrid = simulate_dynamic_policy(cholesky(), platform, "hybrid", disturbance=disturbance, seeds=range(3))
    assert hybrid is not None
    assert hybrid.makespans_s == pytest.approx(static.makespans_s, rel=0.05)


def test_slow_device_gets_no_tasks(platform: Platform) -> None:
    # A device a thousand times slower than estimated ruins a static plan; a policy that observes durations avoids it.
    disturbance = Disturbance(events=(SlowDown("xeon-8480", 0.0, 1000.0),))
    static = repeat(plan_graph(cholesky(), platform, policy="round-robin"), disturbance, [0])
    _, dynamic = simulate_dynamic_policy(cholesky(), platform, "hybrid:round-robin", disturbance=disturbance)
    assert static.median_s is not None and dynamic is not None and dynamic.median_s is not None
    assert dynamic.median_s < static.median_s


def test_after_a_failure_the_loop_continues_or_reports_lost_work(platform: Platform) -> None:
    plan, whole = simulate_dynamic_policy(
        cholesky(), platform, "dmdas", disturbance=Disturbance(events=(Failure("max1550", 0.0),)), seeds=(0,)
    )
    assert whole is not None and whole.incomplete == 0
    lost = [
        simulate_dynamic_policy(
            cholesky(), platform, policy, disturbance=Disturbance(events=(Failure("max1550", plan.makespan_s / 2),))
        )[1]
        for policy in DYNAMIC_POLICY_NAMES
    ]
    names = {task.name for task in cholesky().tasks}
    assert any(trials is not None and trials.incomplete for trials in lost)
    for trials in lost:
        assert trials is not None
        assert set(trials.runs[0].undone) <= names
        assert all(name.startswith("A[") for name in trials.runs[0].lost)


def test_simulate_takes_disturbances(platform: Platform) -> None:
    plan = plan_graph(cholesky(), platform, policy="heft")
    assert simulate(plan, noise=Noise(sigma=0.3), seed=1) == simulate(plan, noise=Noise(sigma=0.3), seed=1)
    assert simulate(plan, events=(SlowDown("max1550", 0.0, 9.0),)).makespan_s > simulate(plan).makespan_s
