# SPDX-License-Identifier: Apache-2.0
"""Plans for objectives other than the makespan, under constraints; lower bounds and gaps of all plans."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from support.examples import examples
from support.strategies import graphs, platforms

from syclsched.api import describe
from syclsched.errors import InfeasibleError, MemoryLimitError, PlatformError, PolicyError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.model.profile import Power, Quantity
from syclsched.planner import plan_front, plan_graph
from syclsched.planning import verify
from syclsched.planning.measures import measure
from syclsched.workloads import get as workload

MIB = 2**20


@pytest.fixture(scope="module")
def cholesky() -> TaskGraph:
    recipe = workload("cholesky")
    return recipe.build(recipe.options(n=1024, tile=256)).graph


@pytest.fixture(scope="module")
def here() -> Platform:
    return describe(["xeon-8480", "max1550"], "both")


def powered(platform: Platform, **watts: tuple[float, float]) -> Platform:
    """Return the platform with (busy, idle) watts for some devices."""
    devices = []
    for device in platform.devices:
        profile = device.profile
        if profile is not None:
            busy, idle = watts.get(device.name, (None, None))
            power = Power() if busy is None else Power(idle_w=Quantity(idle), busy_w=Quantity(busy))
            device = replace(device, profile=replace(profile, power=power))
        devices.append(device)
    return replace(platform, devices=tuple(devices))


@settings(max_examples=examples(20), deadline=None)
@given(graphs(), platforms())
def test_every_plan_has_a_valid_lower_bound_and_gap(graph: TaskGraph, platform: Platform) -> None:
    plan = plan_graph(graph, platform, steps=50)
    assert 0.0 <= plan.lower_bound_s <= plan.makespan_s * (1 + 1e-9)
    assert (
        plan.gap is None
        if plan.lower_bound_s == 0.0
        else plan.gap == pytest.approx(max(0.0, plan.makespan_s / plan.lower_bound_s - 1.0))
    )


def test_the_gap_is_printed_saved_and_absent_in_older_plans(cholesky: TaskGraph, here: Platform) -> None:
    plan = plan_graph(cholesky, here, policy="heft")
    assert plan.gap is not None
    assert f"at most {100 * plan.gap:.1f} % above the optimum" in str(plan)
    again = Plan.from_json(plan.to_json())
    assert (again.lower_bound_s, again.gap, again.aim) == (plan.lower_bound_s, plan.gap, "minimize makespan")
    older = replace(plan, lower_bound_s=0.0)
    assert older.gap is None
    assert "above the optimum" not in str(older)
    data = json.loads(plan.to_json())
    for added in ("lower_bound_s", "aim", "energy_j", "interval_s"):
        data.pop(added, None)
    assert Plan.from_json(json.dumps(data)).gap is None


def test_memory_constraints_hold_and_make_plans_no_faster(cholesky: TaskGraph, here: Platform) -> None:
    free = plan_graph(cholesky, here, steps=300)
    for nbytes in (1.6 * MIB, 3 * MIB):
        plan = plan_graph(cholesky, here, steps=300, subject_to=[f"memory[max1550] <= {nbytes:.0f}B"])
        verify(plan, cholesky)
        assert plan.peak_bytes.get("max1550", 0) <= nbytes
        assert plan.makespan_s >= free.lower_bound_s
        assert plan.platform == here.without_profiles()


def test_memory_is_minimised(cholesky: TaskGraph, here: Platform) -> None:
    plan = plan_graph(cholesky, here, steps=300, minimize="memory[max1550]")
    assert plan.peak_bytes.get("max1550", 0) == 0
    assert plan.aim == "minimize memory[max1550]"


def test_throughput_is_the_busiest_lane(cholesky: TaskGraph, here: Platform) -> None:
    fast = plan_graph(cholesky, here, steps=300)
    plan = plan_graph(cholesky, here, steps=300, minimize="throughput")
    loads = [sum(i.duration_s for i in lane.instructions) for lane in plan.lanes]
    assert plan.interval_s == pytest.approx(max(loads))
    assert plan.interval_s <= fast.interval_s * (1 + 1e-9)
    assert "runs/s in steady state" in str(plan)


def test_energy_is_minimised_under_a_makespan(cholesky: TaskGraph, here: Platform) -> None:
    platform = powered(here, **{"xeon-8480": (300.0, 100.0), "max1550": (600.0, 150.0)})
    free = plan_graph(cholesky, platform, steps=500, minimize="energy")
    fast = plan_graph(cholesky, platform, steps=500, subject_to=["energy <= 1kWh"])
    assert free.energy_j is not None
    assert fast.energy_j is not None
    # The search uses the model, the result the simulation: these differ slightly.
    assert free.energy_j <= fast.energy_j * 1.01
    assert measure(free, platform).energy_j == pytest.approx(free.energy_j)
    limit = 1.02 * fast.makespan_s
    both = plan_graph(cholesky, platform, steps=500, minimize="energy", subject_to=[f"makespan <= {limit * 1e6:.3f}us"])
    assert both.makespan_s <= limit * (1 + 1e-6)
    assert f"{free.energy_j:.4g} J" in str(free)


def test_energy_without_power_is_refused(cholesky: TaskGraph, here: Platform) -> None:
    with pytest.raises(PolicyError, match="no power is known"):
        plan_graph(cholesky, powered(here), minimize="energy", steps=10)
    assert plan_graph(cholesky, powered(here), policy="heft").energy_j is None


def test_infeasible_constraints_are_refused_by_name(cholesky: TaskGraph, here: Platform) -> None:
    with pytest.raises(InfeasibleError, match="the least makespan found with the others kept to is") as raised:
        plan_graph(cholesky, here, steps=100, subject_to=["makespan <= 1us", "memory[max1550] <= 64GiB"])
    assert "memory[max1550] found" not in str(raised.value)
    only_gpu = replace(here, devices=tuple(d for d in here.devices if d.name == "max1550"))
    with pytest.raises(MemoryLimitError, match=r"needs \d+ bytes .* at once.*the limit is 1000 bytes"):
        plan_graph(cholesky, only_gpu, steps=100, subject_to=["memory[max1550] <= 1000B"])
    with pytest.raises(PlatformError, match="no memory space 'gpu'"):
        plan_graph(cholesky, here, subject_to=["memory[gpu] <= 1GiB"])
    with pytest.raises(InfeasibleError, match="makespan"):
        plan_graph(cholesky, here, policy="heft", subject_to=["makespan <= 1us"])


def test_equal_arguments_give_equal_plans(cholesky: TaskGraph, here: Platform) -> None:
    one, other = (
        plan_graph(cholesky, here, steps=200, minimize="throughput", subject_to=["memory <= 3MiB"]) for _ in range(2)
    )
    same = one == other  # compared outside the assertion, whose message would print long plans
    assert same


def test_a_front_of_plans_is_not_dominated(cholesky: TaskGraph, here: Platform) -> None:
    found = plan_front(cholesky, here, metrics=("makespan", "memory[max1550]"), steps=3000, points=4)
    on_it = [point for point in found if not point.dominated]
    assert len(on_it) > 1
    for point in found:
        assert point.values == (point.plan.makespan_s, point.plan.peak_bytes.get("max1550", 0))
        beaten = [p for p in found if p.values[0] <= point.values[0] and p.values[1] <= point.values[1]]
        assert point.dominated == (len(beaten) > 1)
