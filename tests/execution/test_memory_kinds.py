# SPDX-License-Identifier: Apache-2.0
"""Arrays in every kind of USM memory: equal bits for every engine, and inputs used in place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.gpu_shape import OTHER_DEVICE
from support.opened import live_on, with_own_memory
from support.running import ASSIGN_KERNEL, DTYPE, MIX, plan_by, sequential

from syclsched.devices import open_devices
from syclsched.errors import ArgumentError, MemoryLimitError, PlanError
from syclsched.execution import bind, execute
from syclsched.execution.dynamic.dynamic_start import run_dynamically
from syclsched.execution.memory.inputs import to_numpy
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Platform
from syclsched.model.usm import UsmKind, default_kind
from syclsched.oneapi.dpctl_interface import usm_arrays
from syclsched.planner.memory_limit import with_memory_limit
from syclsched.planning import verify
from syclsched.testing import faults

pytestmark = [pytest.mark.sycl, pytest.mark.gpu_shape]
SIZE = 3000
DEVICES = ("cpu", OTHER_DEVICE)


def mixing(kind: UsmKind | None = None) -> TaskGraph:
    """Return kernels on two devices and a host function, with a temporary that only kernels of one device touch."""
    graph = TaskGraph("mixing")
    x = graph.array("x", (SIZE,), DTYPE, usm=kind)
    names = {"y": False, "inner": True, "z": False, "w": False}
    y, inner, z, w = (graph.array(n, (SIZE,), DTYPE, temporary=t, usm=kind) for n, t in names.items())
    graph.kernel(ASSIGN_KERNEL, name="y0", x=x, y=y)
    graph.kernel(ASSIGN_KERNEL, name="inner0", x=x, y=inner)
    graph.kernel(MIX, name="inner1", x=y, y=inner, a=3)
    graph.kernel(MIX, name="y1", x=inner, y=y, a=-2)
    graph.kernel(ASSIGN_KERNEL, name="z0", x=y, y=z)
    graph.kernel(MIX, name="host1", x=x, y=z, a=5)
    graph.kernel(ASSIGN_KERNEL, name="w0", x=z, y=w)
    graph.kernel(MIX, name="w1", x=z, y=w, a=7)
    return graph


def placed(graph: TaskGraph, platform: Platform, devices: tuple[str, str] = DEVICES) -> Plan:
    """Place all on the first device except tasks whose names say otherwise."""

    def place(name: str) -> tuple[str, int, str]:
        device = HOST if name.startswith("host") else devices[name.startswith("w")]
        return device, 0, "host" if device == HOST else "opencl-c"

    return plan_by(graph, platform, place)


def value(seed: int = 1) -> Any:
    return np.random.default_rng(seed).integers(-1000, 1000, SIZE).astype(DTYPE)


@pytest.mark.parametrize("kind", ["device", "shared", "host"])
@pytest.mark.parametrize("devices", [("cpu", OTHER_DEVICE), (OTHER_DEVICE, "cpu"), ("cpu", "cpu")])
def test_all_memory_kinds_have_equal_results_in_all_engines(devices: tuple[str, str], kind: UsmKind) -> None:
    platform, live = live_on(None)
    graph = mixing(kind)
    plan = placed(graph, platform, devices)
    space = platform.space(platform.device(devices[0]).space)
    kinds = {(c.array, c.space): c.kind for c in plan.memory}
    if space.host_accessible:
        of_inner: UsmKind = kind
        of_z: UsmKind = "shared" if kind == "device" else kind  # the host touches it
    else:  # arrays in host memory are copied
        of_inner = of_z = "device" if kind == "host" else kind
    usual = {default_kind(space, platform)}
    assert {k for (name, where), k in kinds.items() if name == "inner" and where == space.name} == {of_inner} - usual
    assert {k for (name, where), k in kinds.items() if name == "z" and where == space.name} == {of_z} - usual
    again = Plan.from_json(plan.to_json())
    assert again == plan
    inputs = {"x": value()}
    expected = sequential(graph, inputs)
    wanted = ("y", "z", "w")

    def check(results: Any) -> None:
        for name in wanted:
            np.testing.assert_array_equal(results[name], expected[name])

    with execute(again, graph, live, inputs) as run:
        run.wait()
        check({name: run.result(name) for name in wanted})
        assert run.counts.peak_bytes == plan.peak_bytes
    with bind(plan, graph, live, trace=False) as runner:
        assert runner.replayed
        for _ in range(3):
            check(runner(inputs, wanted))
        with runner.run(inputs) as run:
            run.wait()
            assert run.counts.peak_bytes == plan.peak_bytes
    with bind(plan, graph, live) as runner, runner.stream([inputs] * 5, in_flight=3) as stream:
        for results in stream:
            check(results)


@pytest.mark.parametrize("kind", ["shared", "host"])
def test_dynamic_runs_use_the_requested_memory_kind(kind: UsmKind) -> None:
    platform, live = live_on(None)
    graph, inputs = mixing(kind), {"x": value()}
    expected = sequential(graph, inputs)
    with run_dynamically(graph, live, "dmdas", inputs, learn=False) as run:
        for name in ("y", "z", "w"):
            np.testing.assert_array_equal(run.result(name), expected[name])
        run.wait()
        happened = run.plan
        verify(happened, graph)
    assert {c.kind for c in happened.memory} == {kind}
    assert happened.residents == {"x": platform.device("cpu").space}


def handed_over(kind: UsmKind | None) -> TaskGraph:
    """Return a graph in which the host passes ``x`` to a device, and the device passes ``z`` to the host."""
    graph = TaskGraph("handed over")
    given = graph.array("given", (SIZE,), DTYPE)
    x, z = (graph.array(name, (SIZE,), DTYPE, temporary=True, usm=kind) for name in "xz")
    y, w = (graph.array(name, (SIZE,), DTYPE) for name in "yw")
    graph.kernel(ASSIGN_KERNEL, name="host0", x=given, y=x)
    graph.kernel(ASSIGN_KERNEL, name="y0", x=x, y=y)
    graph.kernel(MIX, name="y1", x=x, y=y, a=3)
    graph.kernel(ASSIGN_KERNEL, name="z0", x=y, y=z)
    graph.kernel(ASSIGN_KERNEL, name="host1", x=z, y=w)
    return graph


@pytest.mark.other_device
def test_kernels_read_values_of_host_functions_in_host_memory() -> None:
    whole, device = live_on(None)[0], OTHER_DEVICE
    platform = with_own_memory(whole.select([device]), whole.device(device).space)
    inputs = {"given": value()}
    with open_devices(platform) as live:
        copying = placed(handed_over(None), platform, (device, device))
        assert [(c.array, c.kind) for c in copying.memory] == [("w", "plain")]  # only host functions touch it
        graph = handed_over("host")
        plan = placed(graph, platform, (device, device))
        assert {(c.array, c.space, c.kind, c.context) for c in plan.memory if c.array != "w"} == {
            ("x", HOST, "host", platform.device(device).space),
            ("z", HOST, "host", platform.device(device).space),
        }
        assert plan.counters.copies == copying.counters.copies - 2 == 0
        expected = sequential(graph, inputs)
        with execute(plan, graph, live, inputs) as run:
            run.wait()
            assert run.counts.peak_bytes == plan.peak_bytes
            for name in "yw":
                np.testing.assert_array_equal(run.result(name), expected[name])
        with bind(plan, graph, live, trace=False) as runner:
            assert runner.replayed
            for seed in range(3):
                results = runner({"given": value(seed)}, ("y", "w"))
                for name in "yw":
                    wanted = sequential(graph, {"given": value(seed)})[name]
                    np.testing.assert_array_equal(results[name], wanted)


@pytest.mark.parametrize(("device", "apart"), [("cpu", False), (OTHER_DEVICE, False), (OTHER_DEVICE, True)])
def test_inputs_in_usm_memory_are_read_in_place(device: str, apart: bool) -> None:
    whole, opened = live_on(None)
    space = whole.device(device).space
    if not apart and not whole.space(space).host_accessible:
        pytest.skip("the device has memory of its own")
    platform = with_own_memory(whole.select([device]), space) if apart else whole
    graph = TaskGraph("in place")
    x = graph.array("x", (SIZE,), DTYPE, usm="host")
    y = graph.array("y", (SIZE,), DTYPE)
    graph.kernel(ASSIGN_KERNEL, name="y0", x=x, y=y)
    plan = placed(graph, platform, (device, device))
    assert not plan.counters.copies
    assert plan.residents == {"x": HOST if apart else space}
    live = open_devices(platform) if apart else opened
    given = [value(seed) for seed in range(3)]
    with bind(plan, graph, live, trace=False, owns_devices=apart) as runner:
        assert runner.replayed
        buffer = runner.buffer("x")
        assert buffer is runner.buffer("x")
        with pytest.raises(ArgumentError, match="not read in place"):
            runner.buffer("y")
        for data in given:  # written in place, passed as a host array, and both in turns
            buffer[...] = data
            np.testing.assert_array_equal(runner()["y"], data)
            np.testing.assert_array_equal(runner({"x": data + 1})["y"], data + 1)
            with runner.run() as run:
                np.testing.assert_array_equal(run.result("y"), data)
        changing = value(9)
        for _ in range(2):  # data in place may have been overwritten
            changing += 1
            np.testing.assert_array_equal(runner({"x": changing})["y"], changing)
        runner()
        generation_buffer = runner._bound.instances.generations[0]._buffers["x", plan.residents["x"]]  # type: ignore[union-attr]
        assert generation_buffer.address == buffer.ctypes.data
        with runner.stream([{"x": given[0]}, None, {"x": given[1]}], in_flight=2) as stream:
            for data, results in zip((given[0], given[-1], given[1]), stream, strict=True):
                np.testing.assert_array_equal(results["y"], data)
        with execute(plan, graph, live, {"x": buffer}) as run:
            np.testing.assert_array_equal(run.result("y"), given[-1])
            run.wait()
            run.result("x", like="usm_ndarray")[...] = 0  # the caller's input is not the returned array
        np.testing.assert_array_equal(buffer, given[-1])


def test_usm_values_are_read_in_place() -> None:
    platform, live = live_on(None)
    tensor = usm_arrays()

    first, other = (tensor.asarray(value(n), usm_type="shared", sycl_queue=live.queue("cpu")) for n in range(2))
    graph = TaskGraph("given")
    x, y = graph.array("x", data=first), graph.array("y", (SIZE,), DTYPE)
    half = SIZE // 2
    graph.kernel(ASSIGN_KERNEL, name="y0", x=x[:half], y=y[:half])
    graph.kernel(ASSIGN_KERNEL, name="y1", x=x[half:], y=y[half:])
    plan = placed(graph, platform)
    assert plan.residents["x"] == platform.device("cpu").space
    assert not plan.counters.copies
    with bind(plan, graph, live, trace=False) as runner:
        for given in (first, other, tensor.asnumpy(first)[::-1].copy(), other):
            np.testing.assert_array_equal(runner({"x": given})["y"], np.asarray(to_numpy(given)))
        buffers = runner._bound.instances.generations[0]._buffers  # type: ignore[union-attr]
        assert buffers["x", plan.residents["x"]].address == other._pointer
    with run_dynamically(graph, live, "eager", learn=False) as run:
        np.testing.assert_array_equal(run.result("y"), value(0))


def test_inputs_in_usm_are_read_in_place_after_a_failed_start() -> None:
    platform, live = live_on(None)
    tensor = usm_arrays()

    graph = TaskGraph("two")
    x, y = (graph.array(name, (SIZE,), DTYPE, usm="shared") for name in "xy")
    a, b = (graph.array(name, (SIZE,), DTYPE) for name in "ab")
    graph.kernel(ASSIGN_KERNEL, name="a0", x=x, y=a)
    graph.kernel(ASSIGN_KERNEL, name="b0", x=y, y=b)
    plan = placed(graph, platform)
    in_usm = [tensor.asarray(value(n), usm_type="shared", sycl_queue=live.queue("cpu")) for n in range(3)]
    with bind(plan, graph, live, trace=False) as runner:
        runner({"x": in_usm[0], "y": in_usm[1]})
        with faults.inject(faults.fail_allocation(1)) as seen, pytest.raises(MemoryLimitError):
            runner({"x": in_usm[2], "y": value(7)})  # x is in its place, y has none
        assert seen.injected
        found = runner({"x": in_usm[2], "y": in_usm[1]})
    np.testing.assert_array_equal(found["a"], value(2))
    np.testing.assert_array_equal(found["b"], value(1))


def test_memory_of_inputs_read_in_place_counts() -> None:
    platform, live = live_on(None)
    nbytes = 8 * SIZE
    graph = TaskGraph("limited")
    x, y = graph.array("x", (SIZE,), DTYPE, usm="shared"), graph.array("y", (SIZE,), DTYPE)
    graph.kernel(ASSIGN_KERNEL, name="y0", x=x, y=y)
    plan = placed(graph, with_memory_limit(platform, {"cpu": 5 * nbytes}))
    assert plan.needed_bytes == {"cpu": 2 * nbytes}
    assert plan.peak_bytes == {"cpu": nbytes}
    with bind(plan, graph, live) as runner:
        with pytest.raises(MemoryLimitError, match="3 generations"):
            runner.stream([{"x": value()}], in_flight=3)
        with runner.stream([{"x": value(n)} for n in range(4)], in_flight=2) as stream:
            for n, results in enumerate(stream):
                np.testing.assert_array_equal(results["y"], value(n))
    # Where memory suffices for one of them at a time only, reading in place is impossible.
    with pytest.raises(MemoryLimitError):
        placed(graph, with_memory_limit(platform, {"cpu": nbytes}))


def test_an_input_that_tasks_write_is_copied() -> None:
    platform, live = live_on(None)
    graph = TaskGraph("written")
    y = graph.array("y", (SIZE,), DTYPE, usm="shared")
    graph.kernel(MIX, name="y0", x=graph.array("x", data=value()), y=y, a=2)
    plan = placed(graph, platform)
    assert not plan.residents
    with bind(plan, graph, live, trace=False) as runner, pytest.raises(ArgumentError, match="not read in place"):
        runner.buffer("y")


def test_a_kind_that_a_device_does_not_have_is_refused() -> None:
    platform, _ = live_on(None)
    lacking = replace(
        platform,
        devices=tuple(replace(d, aspects=tuple(a for a in d.aspects if "shared" not in a)) for d in platform.devices),
    )
    with pytest.raises(PlanError, match="'cpu' has no USM memory of kind 'shared'"):
        placed(mixing("shared"), lacking)


@pytest.mark.other_device
@pytest.mark.parametrize("lost", DEVICES)
@pytest.mark.parametrize("kind", ["device", "host"])
def test_recovery_works_with_every_memory_kind(lost: str, kind: UsmKind) -> None:
    platform, live = live_on(None)
    graph, inputs = mixing(kind), {"x": value()}
    plan = placed(graph, platform, (lost, *(name for name in DEVICES if name != lost)))  # type: ignore[arg-type]
    expected = sequential(graph, inputs)
    with faults.inject(faults.lose(lost, after=3)), execute(plan, graph, live, inputs, recover=True) as run:
        for name in ("y", "z", "w"):
            np.testing.assert_array_equal(run.result(name), expected[name])
        assert run.recoveries
