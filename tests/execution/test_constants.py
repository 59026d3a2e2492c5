# SPDX-License-Identifier: Apache-2.0
"""Constants on devices: uploaded and prepared once, shared, reference-counted, and freed after their last use."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.gpu_shape import OTHER_DEVICE
from support.opened import live_on
from support.running import ASSIGN, ASSIGN_KERNEL, DTYPE, MIX, plan_by, plan_on

import syclsched
from syclsched.devices.memory import constant_uploads as uploads
from syclsched.devices.memory import usm_memory
from syclsched.errors import ExecutionError, MemoryLimitError
from syclsched.execution import bind, execute
from syclsched.kernels.elementwise import AXPY
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation
from syclsched.model.recipe import Cut, Merge
from syclsched.rewrites.chunking import cut
from syclsched.rewrites.merging import merge

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("compiled_policies")]


def held_bytes() -> int:
    gc.collect()
    return sum(upload.nbytes for upload in uploads._found.values())


def chain(weights: Any, length: int = 3, operation: Any = MIX) -> TaskGraph:
    graph = TaskGraph("chain")
    y = graph.array("y", weights.shape, weights.dtype)
    for i in range(length):
        graph.kernel(operation, name=f"t{i}", x=weights, y=y, a=i + 2)
    return graph


def result_of(weights: Any, given: Any, length: int = 3) -> Any:
    y = given.copy()
    for i in range(length):
        y = (i + 2) * weights.data + 3 * y + np.arange(y.size)
    return y


@pytest.mark.parametrize("device", ["cpu", OTHER_DEVICE])
@pytest.mark.parametrize("implementation", ["opencl-c", "python"])
def test_runs_of_one_and_of_several_graphs_share_a_constant(device: str, implementation: str) -> None:
    platform, live = live_on(None)
    if device not in {d.name for d in platform.devices}:
        pytest.skip(f"no device {device!r} here")
    before = held_bytes()
    weights = syclsched.constant(np.arange(1000), DTYPE)
    given = np.arange(1000)[::-1].copy()
    graphs = [chain(weights), chain(weights, 2)]
    runners = [bind(plan_by(g, platform, lambda _: (device, 0, implementation)), g, live) for g in graphs]
    assert all(runner.replayed for runner in runners)
    for runner, length in zip(runners, (3, 2), strict=True):
        for _ in range(3):
            assert np.array_equal(runner({"y": given})["y"], result_of(weights, given, length))
    (space,) = runners[0].plan.constant_bytes
    assert runners[0].constant_bytes == runners[1].constant_bytes == {space: 8000} == runners[0].plan.constant_bytes
    assert held_bytes() - before == 8000
    with runners[0].run({"y": given}) as run:
        run.wait()
        assert run.constant_bytes == {space: 8000}
        assert run.trace().constant_bytes == {space: 8000}
    for runner in runners:
        runner.close()
    del runners, runner, graphs, run
    assert held_bytes() - before == 8000  # for the next run with the same weights
    del weights
    assert held_bytes() == before


def test_unused_constants_are_freed_when_memory_is_needed() -> None:
    platform, live = live_on(None)
    gc.collect()
    uploads.release_unused()
    before = held_bytes()  # of models that other tests hold
    weights = syclsched.constant(np.arange(1000), DTYPE)
    graph = chain(weights)
    with execute(plan_on(graph, platform, "cpu"), graph, live, {"y": np.arange(1000)}) as run:
        run.wait()
        assert uploads.release_unused() >= 0
    del run
    gc.collect()
    assert uploads.release_unused() >= 0
    assert held_bytes() == before


def packing(calls: list[Any], **changes: Any) -> Any:
    """Return `MIX` by a kernel that takes its constant in reverse order."""

    def prepare(signature: Any, queue: Any, constants: Any) -> Any:
        assert not constants["x"].flags.writeable
        calls.append((signature.shapes["x"], queue.sycl_device))
        return {"x": constants["x"][::-1]}

    first = replace(MIX.implementations[0], prepare=prepare, **changes)
    return replace(MIX, implementations=(first,))


def test_constants_are_prepared_once() -> None:
    platform, live = live_on(None)
    calls: list[Any] = []
    operation = packing(calls)
    weights, given = syclsched.constant(np.arange(100), DTYPE), np.arange(100)
    for _ in range(2):
        graph = chain(weights, 1, operation)
        with bind(plan_on(graph, platform, "cpu"), graph, live) as runner:
            backwards = syclsched.constant(weights.data[::-1])
            assert np.array_equal(runner({"y": given})["y"], result_of(backwards, given, 1))
    assert len(calls) == 1


def test_equal_forms_are_shared_by_different_signatures() -> None:
    platform, live = live_on(None)
    calls: list[Any] = []
    operation = packing(calls, form=lambda signature, queue: "backwards")
    weights = syclsched.constant(np.arange(100), DTYPE)
    graph = TaskGraph()
    y = graph.array("y", (100,), DTYPE)
    for i in range(2):
        graph.kernel(operation, x=weights, y=y, a=i, name=f"t{i}")
    with bind(plan_on(graph, platform, "cpu"), graph, live) as runner:
        runner({"y": np.arange(100)})
        assert runner.constant_bytes == {platform.device("cpu").space: 800}
    assert len(calls) == 1


def test_a_library_gets_prepared_constants() -> None:
    platform, live = live_on(None)

    def submit(queue: Any, arguments: Any, depends: list[Any]) -> Any:
        assert arguments["extra"].nbytes == 8
        return queue.memcpy_async(arguments["y"].usm_data, arguments["x"].usm_data, arguments["x"].nbytes, depends)

    def prepare(signature: Any, queue: Any, constants: Any) -> Any:
        return {"x": constants["x"] + 1, "extra": np.zeros(1)}

    library = Implementation("library", "library", lambda _: submit, prepare=prepare)
    operation = replace(ASSIGN, implementations=(library,))
    graph = TaskGraph()
    graph.kernel(operation, x=syclsched.constant(np.arange(10)), y=graph.array("y", (10,), DTYPE))
    with execute(plan_on(graph, platform, "cpu"), graph, live) as run:
        assert np.array_equal(run.result("y"), np.arange(1, 11))


def test_errors_of_prepare_are_reported() -> None:
    platform, live = live_on(None)

    def broken(signature: Any, queue: Any, constants: Any) -> Any:
        raise ZeroDivisionError("no way")

    for prepare, what in ((broken, "ZeroDivisionError: no way"), (lambda *_: {}, "returned nothing for x")):
        operation = replace(MIX, implementations=(replace(MIX.implementations[0], prepare=prepare),))
        graph = chain(syclsched.constant(np.arange(10), DTYPE), 1, operation)
        plan = plan_on(graph, platform, "cpu")
        with pytest.raises(ExecutionError, match=what):
            bind(plan, graph, live)
        with execute(plan, graph, live, {"y": np.arange(10)}) as run, pytest.raises(ExecutionError, match=what):
            run.wait()


def test_missing_memory_for_a_constant_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    platform, live = live_on(None)
    graph = chain(syclsched.constant(np.arange(10), DTYPE, name="kernel.weight"), 1)
    plan = plan_on(graph, platform, "cpu")

    def refuse(*_: Any) -> Any:
        raise MemoryLimitError("none left")

    monkeypatch.setattr(usm_memory, "allocate", refuse)
    with pytest.raises(MemoryLimitError, match=r"kernel\.weight.*80 bytes"):
        bind(plan, graph, live)


def test_a_limit_counts_constants() -> None:
    weights = syclsched.constant(np.arange(1000), DTYPE)
    graph = chain(weights)
    platform, _ = live_on(None)
    limited = syclsched.with_memory_limit(platform, {"cpu": 9_000})
    with pytest.raises(MemoryLimitError, match=r"8,?000"):
        plan_on(graph, limited, "cpu")
    plan = plan_on(graph, syclsched.with_memory_limit(platform, {"cpu": 16_000}), "cpu")
    assert plan.constant_bytes == {platform.device("cpu").space: 8000}
    syclsched.verify(plan, graph)
    with pytest.raises(MemoryLimitError, match="constants"):
        syclsched.verify(replace(plan, constant_bytes={}), graph)
    assert "constants" in str(plan)


@pytest.mark.parametrize("dynamic", ["eager", "hybrid"])
def test_a_dynamic_run_uses_constants(dynamic: str) -> None:
    weights, given = syclsched.constant(np.arange(1000), DTYPE), np.arange(1000)
    graph = chain(weights)
    with syclsched.run(graph, inputs={"y": given}, dynamic=dynamic, calibrate=False) as run:
        assert np.array_equal(run.result("y"), result_of(weights, given))


def test_merged_and_cut_tasks_use_constants() -> None:
    platform, live = live_on(None)
    weights, given = syclsched.constant(np.arange(64.0)), np.ones(64)
    expected = given + 2 * weights.data + 3 * weights.data
    graph = TaskGraph()
    y = graph.array("y", (64,), "float64")
    for alpha in (2.0, 3.0):
        graph.kernel(AXPY, x=weights, y=y, alpha=alpha, name=f"t{alpha:.0f}")
    ways = (("opencl-c", "opencl-c"), ("numpy", "numpy"))
    names = tuple(i.name for i in AXPY.implementations)
    ways = tuple(w for w in ways if set(w) <= set(names))
    merged = merge(graph, [Merge(("t2", "t3"), ways, "both")]).graph
    assert merged.find_task("both").constants and set(merged.find_task("both").constants.values()) == {weights}
    chunks = cut(graph, [Cut(("t2", "t3"), (16, 48))]).graph
    assert {c.nbytes for c in chunks.constants} == {16 * 8, 48 * 8}
    for changed in (merged, chunks):
        joined = {name: found[0].parts for name, found in changed.joined.items()}
        with execute(plan_on(changed, platform, "cpu"), changed, live, {"y": given}) as run:
            parts = joined.get("y", ("y",))
            assert np.array_equal(np.concatenate([run.result(part) for part in parts]), expected)


def test_calibration_passes_constants_to_tasks() -> None:
    calls: list[Any] = []
    graph = chain(syclsched.constant(np.arange(100), DTYPE), 1, packing(calls))
    with syclsched.run(graph, inputs={"y": np.arange(100)}) as run:
        run.wait()
    assert calls


def test_kernels_with_descriptors_get_reshaped_arrays() -> None:
    platform, live = live_on(None)
    graph = TaskGraph()
    x, y = graph.array("x", (4, 6), "float64"), graph.array("y", (24,), "float64")
    graph.kernel(AXPY, x=x.reshaped((2, 12)), y=y.reshaped((2, 12)), alpha=2.0, name="numba")
    graph.kernel(AXPY, x=x.reshaped(-1), y=y, alpha=1.0, name="flat")
    given = np.arange(24.0).reshape(4, 6)
    for implementation in [i.name for i in AXPY.implementations if i.kind != "host"]:
        plan = plan_by(graph, platform, lambda _, name=implementation: ("cpu", 0, name))
        with bind(plan, graph, live) as runner:
            assert np.array_equal(runner({"x": given, "y": np.ones(24)})["y"], 1 + 3 * np.arange(24.0))


def test_constants_of_all_shapes_and_none() -> None:
    platform, live = live_on(None)
    for value in (np.int64(7), np.zeros((0,), "int64"), np.arange(8)):
        graph = TaskGraph()
        weights = syclsched.constant(value)
        operation = ASSIGN if weights.shape == () else ASSIGN_KERNEL
        graph.kernel(operation, x=weights, y=graph.array("y", weights.shape, DTYPE))
        with execute(plan_on(graph, platform, "cpu"), graph, live) as run:
            assert np.array_equal(run.result("y"), weights.data)
