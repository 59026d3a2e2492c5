# SPDX-License-Identifier: Apache-2.0
"""The choice of USM memory kinds on described machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from syclsched.costs import CostModel
from syclsched.errors import IncompletePlanError
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Device, Platform
from syclsched.model.profile import Quantity
from syclsched.model.schedule import Assignment, Schedule
from syclsched.model.text.json_serialisation import to_json
from syclsched.model.usm import ArrayMemory, UsmKind
from syclsched.planner.memory_limit import with_memory_limit
from syclsched.planning import build_plan, verify
from syclsched.profiling.storage.described_platforms import load_platform
from syclsched.simulation import predict

SIDE = 1024
GPUS = ("a100", "a770", "max1100", "max1550", "mi250x")


def planned(graph: TaskGraph, platform: Platform) -> Plan:
    """Plan host functions on the host, and kernels on the first device."""
    model, device = CostModel(platform), platform.compute_devices[0]
    assignments, durations = [], {}
    for position, name in enumerate(graph.order()):
        task = graph.find_task(name)
        where = platform.host if task.kind == "host" else device
        best = model.best(task, where)
        assert best is not None
        durations[name] = best[1].seconds
        assignments.append(Assignment(name, where.name, 0, best[0].name, float(position), position + 1.0))
    plan = predict(build_plan(graph, platform, Schedule("by hand", tuple(assignments)), durations))
    verify(plan, graph)
    assert Plan.from_json(plan.to_json()) == plan
    return plan


def fill(x: Any) -> None:
    x[...] = 1.0


def look(x: Any) -> None:
    assert x.all()


def read_times(count: int, usm: UsmKind | None = None) -> TaskGraph:
    """Return a graph in which a host function writes ``x``, and kernels read it this often."""
    graph = TaskGraph("handed over")
    x = graph.array("x", (SIDE, SIDE), "float32", temporary=True, usm=usm)
    graph.host(fill, name="fill", x=x.write())
    for n in range(count):
        graph.kernel(get("copy"), name=f"read{n}", x=x, y=graph.array(f"y{n}", (SIDE, SIDE), "float32"))
    return graph


def kinds(plan: Plan) -> dict[tuple[str, str], str]:
    return {(each.array, each.space): each.kind for each in plan.memory}


@pytest.mark.parametrize("name", GPUS)
def test_an_array_read_once_by_a_gpu_stays_in_host_memory(name: str) -> None:
    platform = load_platform([name])
    plan = planned(read_times(1), platform)
    assert kinds(plan) == {("x", HOST): "host"}
    assert plan.memory[0].context == platform.compute_devices[0].space
    assert not plan.counters.copies
    bare = replace(platform, devices=tuple(replace(d, aspects=()) for d in platform.devices))
    copying = planned(read_times(1), bare)
    assert copying.counters.copies == 1
    assert plan.makespan_s < copying.makespan_s
    # The kernel's longer duration is predicted: all data comes over the link.
    link = platform.link(HOST, name)
    assert link is not None
    assert plan.makespan_s > 4 * SIDE * SIDE / link.bandwidth_bytes_per_s
    assert "x is host memory: read in place" in plan.explain("read0")
    assert "read x in host (host)" in plan.explain("read0")
    assert f"write y0 in {name} (device)" in plan.explain("read0")


@pytest.mark.parametrize("name", GPUS)
def test_an_array_read_often_by_a_gpu_is_copied(name: str) -> None:
    plan = planned(read_times(4), load_platform([name]))
    assert plan.counters.copies == 1
    assert not plan.memory


@pytest.mark.parametrize("name", GPUS)
def test_an_array_written_by_a_gpu_for_the_host_is_in_host_memory(name: str) -> None:
    graph = TaskGraph("back")
    x, y = (graph.array(n, (SIDE, SIDE), "float32", temporary=True) for n in "xy")
    graph.kernel(get("fill"), name="fill", x=x, value=1.0)
    graph.kernel(get("copy"), name="copy", x=x, y=y)
    graph.host(look, name="look", x=y.read())
    plan = planned(graph, load_platform([name]))
    assert kinds(plan) == {("y", HOST): "host"}  # x, which only kernels touch, is in the device's memory
    assert "  written in place" not in str(plan)
    assert "written in place by" in str(plan)


def test_operands_of_matrix_products_are_copied() -> None:
    graph = TaskGraph("product")
    a, b, c = (graph.array(n, (SIDE, SIDE), "float32", temporary=n != "c") for n in "abc")
    for array in (a, b):
        graph.host(fill, name=f"fill {array.name}", x=array.write())
    graph.kernel(get("gemm"), name="gemm", a=a, b=b, c=c, beta=1.0)
    plan = planned(graph, load_platform(["max1550"]))
    assert not plan.memory
    assert plan.counters.copies == 3


def test_a_measured_bandwidth_of_the_hosts_memory_decides() -> None:
    platform = load_platform(["max1550"])

    def measured(bytes_per_s: float) -> Platform:
        def with_usm(device: Device) -> Device:
            assert device.profile is not None
            costs = load_platform(["cpu"]).compute_devices[0].profile.usm["host"]  # type: ignore[union-attr]
            costs = replace(costs, read_bandwidth_bytes_per_s=Quantity(bytes_per_s))
            return replace(device, profile=replace(device.profile, usm={"host": costs}))

        return replace(platform, devices=tuple(d if d.is_host else with_usm(d) for d in platform.devices))

    assert kinds(planned(read_times(1), measured(60e9))) == {("x", HOST): "host"}
    assert not planned(read_times(1), measured(5e9)).memory


def test_arrays_used_by_host_functions_only_are_not_pinned() -> None:
    graph = TaskGraph("apart")
    x, y = (graph.array(n, (SIDE, SIDE), "float32", temporary=True) for n in "xy")
    graph.host(fill, name="fill", x=x.write())
    graph.host(lambda x, y: None, name="on", x=x.read(), y=y.write())
    for n in range(4):
        graph.kernel(get("copy"), name=f"read{n}", x=y, y=graph.array(f"z{n}", (SIDE, SIDE), "float32"))
    assert kinds(planned(graph, load_platform(["max1550"]))) == {("x", HOST): "plain"}


def inner(usm: UsmKind | None = None) -> TaskGraph:
    """Return a graph in which only kernels touch ``inner``, and the host also touches ``x``."""
    graph = TaskGraph("inner")
    x, y, z = (graph.array(n, (SIDE, SIDE), "float32", temporary=n == "inner", usm=usm) for n in ("x", "inner", "z"))
    graph.host(fill, name="fill", x=x.write())
    graph.kernel(get("copy"), name="first", x=x, y=y)
    graph.kernel(get("copy"), name="second", x=y, y=z)
    return graph


def with_rates(platform: Platform, **rates: float) -> Platform:
    """Return the platform with other bandwidths of the memory kinds, known to a hundredth."""

    def with_usm(device: Device) -> Device:
        assert device.profile is not None
        usm = {
            kind: replace(costs, bandwidth_bytes_per_s=Quantity(rates[kind], mad=rates[kind] / 100))
            for kind, costs in device.profile.usm.items()
        }
        return replace(device, profile=replace(device.profile, usm=usm))

    return replace(platform, devices=tuple(d if d.is_host else with_usm(d) for d in platform.devices))


@pytest.mark.parametrize("name", ["cpu", "emulator", "xeon-8480", "iris-xe"])
def test_memory_kind_is_shared_unless_another_is_faster(name: str) -> None:
    assert not planned(inner(), load_platform([name])).memory


def test_a_faster_memory_kind_is_chosen_if_all_users_reach_it() -> None:
    cpu = load_platform(["cpu"])
    faster = with_rates(cpu, device=40e9, shared=20e9, host=19e9)
    plan = planned(inner(), faster)
    assert kinds(plan) == {("inner", "cpu"): "device", ("z", "cpu"): "device"}
    assert "40 GB/s on cpu, shared 20 GB/s; only kernels touch it" in plan.explain("second")
    assert kinds(planned(inner(), with_rates(cpu, device=40e9, shared=20e9, host=30e9)))["x", "cpu"] == "host"
    assert not planned(inner(), with_rates(cpu, device=21e9, shared=20e9, host=19e9)).memory  # by less than a tenth
    # Memory of one kind is not reused for another: x is freed before z is allocated.
    size = 4 * SIDE * SIDE
    assert planned(inner(), with_memory_limit(faster, 2 * size)).memory == ()
    assert planned(inner(), with_memory_limit(faster, 3 * size)).memory == plan.memory


@pytest.mark.parametrize("kind", ["device", "shared", "host"])
def test_the_user_may_say_which_kind(kind: UsmKind) -> None:
    on_cpu = kinds(planned(inner(kind), load_platform(["cpu"])))
    usual = {"device": "shared", "shared": "shared", "host": "host"}[kind]  # of arrays that the host touches
    assert on_cpu.get(("x", "cpu"), "shared") == usual
    assert on_cpu.get(("inner", "cpu"), "shared") == kind
    on_gpu = planned(inner(kind), load_platform(["max1550"]))
    if kind == "host":
        assert kinds(on_gpu) == {(name, HOST): "host" for name in ("x", "inner", "z")}
        assert not on_gpu.counters.copies
    else:
        found = {name: on for (name, space), on in kinds(on_gpu).items() if space == "max1550"}
        assert found == ({} if kind == "device" else dict.fromkeys(found, "shared"))


def test_plans_without_memory_kinds_are_read() -> None:
    plan = planned(inner(), load_platform(["cpu"]))
    text = to_json(replace(plan, format="syclsched-plan/1"))
    assert '"memory": []' in text
    assert Plan.from_json(text.replace('"memory": [],', "").replace(',\n "memory": []', "")) == plan


WRONG = {
    "an array that there is not": lambda m: replace(m, array="nothing"),
    "a space that there is not": lambda m: replace(m, space="nowhere"),
    "the host's context": lambda m: replace(m, context=HOST),
    "the context of another device": lambda m: replace(m, context="max1550"),
    "device memory on the host": lambda m: replace(m, kind="device"),
    "no context to reach it": lambda m: replace(m, context=None),
    "an input that is none": lambda m: replace(m, resident=True),
}


@pytest.mark.parametrize("what", WRONG)
def test_memory_unreachable_by_its_users_is_refused(what: str) -> None:
    plan = planned(read_times(1), load_platform(["a100", "max1550"]))
    with pytest.raises(IncompletePlanError):
        verify(replace(plan, memory=tuple(WRONG[what](each) for each in plan.memory)))


def test_device_memory_that_the_host_touches_is_refused() -> None:
    plan = planned(inner(), load_platform(["cpu"]))
    verify(replace(plan, memory=(ArrayMemory("inner", "cpu", "device", ""),)))
    with pytest.raises(IncompletePlanError, match="neither the host"):
        verify(replace(plan, memory=(ArrayMemory("x", "cpu", "device", ""),)))
    with pytest.raises(IncompletePlanError, match="one memory"):
        verify(replace(plan, memory=(ArrayMemory("x", "cpu", "host", ""),) * 2))
