# SPDX-License-Identifier: Apache-2.0
"""The planner: rule 1 (never slower than one device), refusals, determinism."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from support.examples import examples
from support.strategies import graphs, platforms, touching

from syclsched.errors import CapabilityError, MemoryLimitError, PolicyError
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Launch, Operation, Parameter, Requirements, Work
from syclsched.model.platform import HOST, Device, Interference, Link, MemorySpace, Platform
from syclsched.planner import plan_graph
from syclsched.planner.auto import repeats_copies_or_tasks
from syclsched.planning import verify


def two_devices(capacity: int = 0, factor: float = 0.0) -> Platform:
    def device(name: str) -> Device:
        return Device(
            name,
            name,
            "cpu",
            "opencl",
            name,
            name,
            (name,),
            dtypes=("float64",),
            aspects=("fp64",),
            max_work_group_size=64,
        )

    links = tuple(
        Link(a, b, 1e-6, 1e10) for x in ("d0", "d1") for a, b in ((HOST, x), (x, HOST))
    )  # fmt: skip
    spaces = (MemorySpace("d0", capacity), MemorySpace("d1", capacity), MemorySpace(HOST, 0, True))
    host = Device(HOST, HOST, HOST, HOST, HOST, HOST, (HOST,))
    pairs = (Interference("d0", "d1", factor),) if factor else ()
    return Platform("two", (device("d0"), device("d1"), host), spaces, links, pairs)


def without_host(operation: Operation) -> Operation:
    return replace(operation, implementations=tuple(i for i in operation.implementations if i.kind != "host"))


def independent(count: int = 8) -> TaskGraph:
    graph = TaskGraph("independent")
    for i in range(count):
        graph.kernel(without_host(touching((AccessMode.WRITE,))), p0=graph.array(f"a{i}", (8,)), name=f"t{i}")
    return graph


@given(graphs(), platforms())
@settings(max_examples=examples(10), deadline=None)
def test_auto_is_never_predicted_slower_than_any_candidate(graph: TaskGraph, platform: Platform) -> None:
    plan = plan_graph(graph, platform, steps=100)
    verify(plan, graph)
    singles = [c for c in plan.candidates if c.policy.startswith("single:")]
    assert {f"single:{d.name}" for d in platform.compute_devices} <= {c.policy for c in singles}
    assert all(plan.makespan_s <= c.makespan_s * (1 + 1e-8) for c in plan.candidates if c.makespan_s is not None)


@given(graphs(), platforms())
@settings(max_examples=examples(10), deadline=None)
def test_planning_is_deterministic(graph: TaskGraph, platform: Platform) -> None:
    assert plan_graph(graph, platform, steps=100) == plan_graph(graph, platform, steps=100)


def test_two_equal_devices_share_independent_work() -> None:
    plan = plan_graph(independent(), two_devices())
    used = {a.device for a in plan.schedule.assignments}
    assert used == {"d0", "d1"}
    single = next(c.makespan_s for c in plan.candidates if c.policy == "single:d0")
    assert single is not None
    assert plan.makespan_s < 0.6 * single


def test_devices_that_take_turns_are_not_used_together() -> None:
    plan = plan_graph(independent(), two_devices(factor=1.0))
    assert len({a.device for a in plan.schedule.assignments}) == 1
    assert plan.policy.startswith("auto: single:")


def test_a_named_policy_is_obeyed() -> None:
    plan = plan_graph(independent(), two_devices(), policy="single:d1")
    assert {a.device for a in plan.schedule.assignments} == {"d1"}


def test_an_unknown_policy_lists_the_known_policies() -> None:
    with pytest.raises(PolicyError, match="heft"):
        plan_graph(independent(), two_devices(), policy="hefty")


def test_a_kernel_no_device_can_run_names_the_missing_aspect() -> None:
    operation = Operation(
        "half",
        (Parameter("x", AccessMode.UPDATE),),
        (
            Implementation(
                "kernel",
                "opencl-c",
                load=lambda s: s,
                launch=lambda s, d: Launch((1,)),
                requires=Requirements(aspects=("fp16",)),
            ),
        ),
        work=lambda s: Work(1.0, 1.0),
    )  # fmt: skip
    graph = TaskGraph()
    graph.kernel(operation, x=graph.array("x", (4,)), name="halve")
    with pytest.raises(CapabilityError) as caught:
        plan_graph(graph, two_devices())
    text = str(caught.value)
    assert "halve" in text and "d0" in text and "d1" in text and "fp16" in text


def test_too_little_memory_everywhere_is_refused_with_sizes() -> None:
    with pytest.raises(MemoryLimitError, match="64 bytes"):
        plan_graph(independent(1), two_devices(capacity=63))


def test_candidates_that_do_not_fit_are_recorded() -> None:
    platform = two_devices()
    small = tuple(replace(s, capacity_bytes=63) if s.name == "d0" else s for s in platform.spaces)
    plan = plan_graph(independent(), replace(platform, spaces=small))
    refused = {c.policy: c for c in plan.candidates if c.refused is not None}
    assert "single:d0" in refused
    assert all(c.makespan_s is None and "63" in (c.refused or "") for c in refused.values())
    assert {a.device for a in plan.schedule.assignments} == {"d1"}


def chain(length: int = 4, kernels_only: bool = True) -> TaskGraph:
    graph = TaskGraph("chain")
    operation = touching((AccessMode.READ, AccessMode.WRITE))
    operation = without_host(operation) if kernels_only else operation
    arrays = [graph.array(f"a{i}", (8,)) for i in range(length + 1)]
    graph.kernel(without_host(touching((AccessMode.WRITE,))), p0=arrays[0], name="begin")
    for i in range(length):
        graph.kernel(operation, p0=arrays[i], p1=arrays[i + 1], name=f"t{i}")
    return graph


def test_no_policy_is_tried_if_only_one_lane_can_run_tasks() -> None:
    one = two_devices().select(["d0"])
    plan = plan_graph(chain(), one)
    assert [c.policy for c in plan.candidates] == ["single:d0"]
    assert plan == replace(plan_graph(chain(), one, policy="single:d0"), **{
        name: getattr(plan, name) for name in ("policy", "candidates")
    })  # fmt: skip
    assert len(plan_graph(chain(kernels_only=False), one).candidates) > 1  # the host could run some
    lanes = replace(one, devices=tuple(replace(d, lanes=1 if d.is_host else 2) for d in one.devices))
    assert len(plan_graph(chain(), lanes).candidates) > 1
    gpu = replace(one, devices=tuple(replace(d, kind=HOST if d.is_host else "gpu") for d in one.devices))
    assert len(plan_graph(chain(), gpu).candidates) > 1  # another order may hide copies


def test_all_policies_are_tried_if_one_lane_is_short_of_memory() -> None:
    read, write = AccessMode.READ, AccessMode.WRITE
    graph = TaskGraph("kept")
    names = "first", "middle", "more", "other", "wide", "last"
    first, middle, more, other, wide, last = (graph.array(name, (8,)) for name in names)
    for array in (first, more, other):
        graph.kernel(without_host(touching((write,))), p0=array, name=f"make {array.name}")
    graph.kernel(without_host(touching((read, write))), p0=first, p1=middle, name="middle")
    four = without_host(touching((read, read, read, write)))
    graph.kernel(four, p0=middle, p1=more, p2=other, p3=wide, name="wide")
    graph.kernel(without_host(touching((read, read, write))), p0=wide, p1=first, p2=last, name="last")
    plan = plan_graph(graph, two_devices(capacity=4 * 64).select(["d0"]))
    assert repeats_copies_or_tasks(plan) and len(plan.candidates) > 1
    assert not repeats_copies_or_tasks(plan_graph(graph, two_devices().select(["d0"])))


def test_simulated_and_ranked_candidates_are_distinguished() -> None:
    plan = plan_graph(independent(40), two_devices())
    simulated = [c for c in plan.candidates if c.makespan_s is not None]
    ranked = [c for c in plan.candidates if c.makespan_s is None]
    assert {"single:d0", "single:d1"} <= {c.policy for c in simulated}
    assert plan.makespan_s == min(c.makespan_s for c in simulated if c.makespan_s is not None)
    assert ranked and all(c.refused is None and c.modelled_s is not None for c in ranked)
    assert all(c.modelled_s is not None for c in simulated)
    assert len({c.policy for c in plan.candidates}) == len(plan.candidates)
    assert "not simulated" in str(plan)


def test_a_named_policy_is_the_only_candidate() -> None:
    plan = plan_graph(independent(), two_devices(), policy="heft")
    (only,) = plan.candidates
    assert (only.policy, only.makespan_s, only.refused) == ("heft", plan.makespan_s, None)


def uneven() -> TaskGraph:
    """Return independent chains of different lengths, for which list schedules are poor."""
    graph = TaskGraph("uneven")
    for i, length in enumerate((7, 7, 6, 6, 5, 5, 4, 4, 4)):
        array = graph.array(f"a{i}", (8,))
        for k in range(length):
            mode = AccessMode.UPDATE if k else AccessMode.WRITE
            graph.kernel(without_host(touching((mode,))), p0=array, name=f"t{i}.{k}")
    return graph


def test_search_is_a_candidate_and_never_worse() -> None:
    without, with_it = (plan_graph(uneven(), two_devices(), steps=steps) for steps in (0, 3000))
    assert not any(c.policy.startswith("refined") for c in without.candidates)
    assert with_it.makespan_s <= without.makespan_s * (1 + 1e-9)
    found = [c for c in with_it.candidates if c.policy.startswith("refined")]
    best_list_s = min(c.modelled_s for c in without.candidates if c.modelled_s is not None)
    assert all(c.modelled_s is not None and c.modelled_s <= best_list_s * (1 + 1e-9) for c in found)


def test_a_budget_of_seconds_needs_a_clock_and_ends_the_search() -> None:
    with pytest.raises(PolicyError, match="without a clock"):
        plan_graph(uneven(), two_devices(), budget_s=1.0)
    with pytest.raises(PolicyError, match=r"-1\.0 s is not zero or more"):
        plan_graph(uneven(), two_devices(), budget_s=-1.0, clock=lambda: 0.0)
    ticks = iter(range(1_000_000))
    plan = plan_graph(uneven(), two_devices(), budget_s=50.0, clock=lambda: float(next(ticks)))
    verify(plan)
    assert next(ticks) < 1_000  # the time limit ended it: steps are not limited


def test_large_graphs_leave_single_devices_out_that_cannot_win(monkeypatch: pytest.MonkeyPatch) -> None:
    from syclsched.planner import auto

    monkeypatch.setattr(auto, "LARGE", 4)
    plan = plan_graph(independent(16), two_devices())
    singles = [c for c in plan.candidates if c.policy.startswith("single:")]
    assert len(singles) == 2
    assert all(c.makespan_s is None and c.refused is None for c in singles)
    assert all(c.modelled_s is not None and c.modelled_s >= plan.makespan_s for c in singles)


def test_explain_names_device_and_alternatives() -> None:
    plan = plan_graph(independent(), two_devices())
    text = plan.explain("t3")
    assert "t3" in text and "d0" in text and "d1" in text


def test_zero_tasks() -> None:
    plan = plan_graph(TaskGraph(), two_devices())
    assert plan.makespan_s == 0.0
    verify(plan)


def test_a_described_platform_needs_no_filter_strings() -> None:
    platform = two_devices()
    assert all(d.filter_string is None for d in platform.devices)
    assert plan_graph(independent(2), replace(platform, submission_s=1e-5)).makespan_s > 0


def test_device_subset_that_cannot_run_a_task_is_skipped() -> None:
    platform = two_devices()
    only_d1 = Operation(
        "gpu_only",
        (Parameter("x", AccessMode.UPDATE),),
        (
            Implementation(
                "kernel",
                "opencl-c",
                load=lambda s: s,
                launch=lambda s, d: Launch((1,)),
                requires=Requirements(aspects=("fp16",)),
            ),
        ),
        work=lambda s: Work(1.0, 1.0),
    )
    able = tuple(replace(d, aspects=("fp16", "fp64")) if d.name == "d1" else d for d in platform.devices)
    graph = independent(2)
    graph.kernel(only_d1, x=graph.array("x", (4,)), name="special")
    plan = plan_graph(graph, replace(platform, devices=able))
    assert next(a.device for a in plan.schedule.assignments if a.task == "special") == "d1"
    assert any("fp16" in (c.refused or "") for c in plan.candidates)
