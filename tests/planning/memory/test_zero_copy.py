# SPDX-License-Identifier: Apache-2.0
"""The memory in which plans keep donated inputs between runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.opened import with_own_memory
from support.running import ASSIGN_KERNEL, DTYPE, MIX, plan_by
from support.strategies import touching

import syclsched
from syclsched.costs import CostModel
from syclsched.errors import IncompletePlanError
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planner import plan_graph
from syclsched.planner.memory_limit import with_memory_limit
from syclsched.planner.plan_builder import PlanBuilder
from syclsched.planning import build_plan, verify
from syclsched.scheduling.tables import NOTHING
from syclsched.simulation import predict

SIZE = 1 << 20
PLATFORM = syclsched.describe("cpu,max1550")
GPU = next(device.name for device in PLATFORM.compute_devices if device.kind == "gpu")
SPACE = PLATFORM.device(GPU).space


def updating(*, donated: bool = True) -> TaskGraph:
    """Return a graph that reads w, and then updates it."""
    graph = TaskGraph("updating")
    w, x = graph.array("w", (SIZE,), DTYPE, donated=donated), graph.array("x", (4,), DTYPE)
    y = graph.array("y", (SIZE,), DTYPE)
    graph.kernel(ASSIGN_KERNEL, name="read", x=w, y=y)
    graph.kernel(MIX, name="update", x=y, y=w, a=3)
    graph.kernel(ASSIGN_KERNEL, name="other", x=x, y=graph.array("z", (4,), DTYPE))
    return graph


def placed(graph: TaskGraph, **places: str) -> Plan:
    return plan_by(graph, PLATFORM, lambda name: (places.get(name, GPU), 0, "opencl-c"))


def copied(plan: Plan) -> list[tuple[str, str, str]]:
    pairs = [i.uses[:2] for _, i in plan.instructions() if i.kind == "copy"]
    return [(source.array, source.space, target.space) for source, target in pairs]


def test_donated_input_stays_in_memory_of_its_updater() -> None:
    graph, plain = updating(), placed(updating(donated=False))
    plan = placed(graph)
    verify(plan, graph)
    assert [(c.array, c.space, c.kind, c.resident) for c in plan.memory] == [("w", SPACE, "device", True)]
    assert copied(plan) == [("x", HOST, SPACE)]
    assert plan.resident_bytes == {SPACE: graph.arrays["w"].nbytes}
    # It takes the same memory, and the copy takes no time any more.
    assert plan.needed_bytes[SPACE] == plain.needed_bytes[SPACE]
    assert predict(plan).makespan_s < predict(plain).makespan_s
    assert Plan.from_json(plan.to_json()) == plan


def test_tasks_of_other_devices_read_a_copy() -> None:
    graph = updating()
    plan = placed(graph, read="cpu")
    verify(plan, graph)
    assert plan.residents == {"w": SPACE}
    assert ("w", SPACE, PLATFORM.device("cpu").space) in copied(plan) or ("w", SPACE, HOST) in copied(plan)


def test_a_donated_input_that_two_memories_update_is_copied() -> None:
    graph = updating()
    graph.kernel(MIX, name="again", x=graph.arrays["y"], y=graph.arrays["w"], a=3)
    plan = placed(graph, again="cpu")
    verify(plan, graph)
    assert not plan.residents


def test_donated_input_written_by_host_is_copied() -> None:
    """The host's functions reach the device's memory, and write a result where the next reader wants it."""
    host = Device(HOST, HOST, HOST, HOST, "host", HOST, (HOST, "m0"))
    device = Device("d0", "k", "cpu", "opencl", "d", "m0", ("m0",), dtypes=("float64",), max_work_group_size=64)
    spaces = MemorySpace(HOST, 0, True), MemorySpace("m0", 16, True)
    links = Link(HOST, "m0", 1e-5, 1e8), Link("m0", HOST, 1e-5, 1e8)
    platform = Platform("reachable", (device, host), spaces, links)
    graph = TaskGraph("overwritten")
    w = graph.array("w", (2,), donated=True)
    for number, mode in enumerate((AccessMode.READ, AccessMode.WRITE, AccessMode.READ)):
        graph.kernel(touching((mode,)), name=f"task{number}", p0=w)
    places = (("d0", "kernel"), (HOST, "host"), ("d0", "kernel"))
    assigned = tuple(Assignment(f"task{i}", on, 0, by, float(i), i + 1.0) for i, (on, by) in enumerate(places))
    plan = build_plan(graph, platform, Schedule("by hand", assigned), dict.fromkeys(("task0", "task1", "task2"), 0.0))
    verify(plan, graph)
    assert not plan.residents


def test_policies_assume_resident_donated_inputs() -> None:
    for donated in (True, False):
        graph = updating(donated=donated)
        problem = PlanBuilder(graph, PLATFORM, CostModel(PLATFORM)).problem()
        nbytes = [
            (problem.tables.item_producer[item] == NOTHING, float(problem.tables.item_bytes[item]))
            for item, array in enumerate(problem.item_array.tolist())
            if problem.arrays[array] == "w"
        ]
        whole = float(graph.arrays["w"].nbytes)
        assert nbytes == [(True, 0.0 if donated else whole), (False, whole)]
        plan = plan_graph(graph, PLATFORM)
        assert plan.lower_bound_s <= plan.makespan_s


@pytest.mark.parametrize("shares", [True, False])
def test_donated_inputs_without_device_memory(*, shares: bool) -> None:
    graph = updating()
    for name in ("v", "u"):
        other = graph.array(name, (SIZE,), DTYPE, donated=True)
        graph.kernel(MIX, name=f"update {name}", x=graph.arrays["y"], y=other, a=3)
    nbytes, platform = graph.arrays["w"].nbytes, PLATFORM
    if not shares:  # the device cannot use the host's memory
        able = [d for d in PLATFORM.device(GPU).aspects if d != "usm_host_allocations"]
        devices = [replace(d, aspects=tuple(able)) if d.name == GPU else d for d in PLATFORM.devices]
        platform = replace(PLATFORM, devices=tuple(devices))
    for arrays, kept, most in ((5, {"w", "v", "u"}, 3), (3, {"w"}, 2), (2, set(), 1)):
        limit = arrays * nbytes + 1024
        plan = plan_by(graph, with_memory_limit(platform, {SPACE: limit}), lambda _: (GPU, 0, "opencl-c"))
        verify(plan, graph)
        assert plan.needed_bytes[SPACE] <= limit
        near = {name for name, space in plan.residents.items() if space == SPACE}
        assert len(near) == (most if shares else len(kept)) and near >= kept
        assert plan.residents.keys() == ({"w", "v", "u"} if shares else kept)
        assert {name for name, *_ in copied(plan)} & {"w", "v", "u"} == (set() if shares else {"w", "v", "u"} - kept)


def test_only_donated_inputs_in_memory_unreachable_for_host() -> None:
    graph = updating(donated=False)
    wrong = replace(placed(graph), memory=placed(updating()).memory)
    with pytest.raises(IncompletePlanError, match="an input can only be given where the host can write"):
        verify(wrong, graph)


@pytest.mark.sycl
def test_residents_are_in_the_memory_kind_of_the_device() -> None:
    platform = syclsched.discover("cpu")
    space = platform.device("cpu").space
    for each, kind in ((platform, "shared"), (with_own_memory(platform, space), "device")):
        plan = plan_by(updating(), each, lambda _: ("cpu", 0, "opencl-c"))
        assert [(c.array, c.kind) for c in plan.memory if c.resident] == [("w", kind)]
