# SPDX-License-Identifier: Apache-2.0
"""Runs whose kernels the calling thread and helpers execute in parts, also from many threads and with refusals."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_int64
from typing import Any

import numpy as np
import pytest

import syclsched
from syclsched.devices.programs.executables import is_divisible
from syclsched.devices.submission import native_run
from syclsched.devices.submission.command_maker import CommandMaker
from syclsched.devices.submission.native_run import TRIALS, NativeRun
from syclsched.kernels.elementwise import FILL, SCALE
from syclsched.model.operation import OpenCLSource

onnx = pytest.importorskip("onnx", reason="the models are ONNX models")

pytestmark = pytest.mark.sycl

HELPED, WIDTH, BATCH = 2, 200, 24


def network() -> Any:
    """Return a network of two dense layers, and a mean."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 8 for _ in range(2)]
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w0"], ["h"]),
        onnx.helper.make_node("Tanh", ["h"], ["i"]),
        onnx.helper.make_node("MatMul", ["i", "w1"], ["y"]),
        onnx.helper.make_node("ReduceMean", ["y"], ["mean"], axes=[1], keepdims=1),
    ]
    x, y = (onnx.helper.make_tensor_value_info(name, 1, [BATCH, WIDTH]) for name in "xy")
    mean = onnx.helper.make_tensor_value_info("mean", 1, [BATCH, 1])
    held = [onnx.numpy_helper.from_array(each, f"w{n}") for n, each in enumerate(weights)]
    graph = onnx.helper.make_graph(nodes, "network", [x], [y, mean], held)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]), weights


MODEL, WEIGHTS = network()


def given(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((BATCH, WIDTH)).astype(np.float32)


def right(found: Mapping[str, Any], x: Any) -> bool:
    y = np.tanh(x @ WEIGHTS[0]) @ WEIGHTS[1]
    return np.allclose(found["y"], y, atol=1e-4) and np.allclose(found["mean"], y.mean(1, keepdims=True), atol=1e-4)


@pytest.fixture
def runs(local_queues: None, monkeypatch: pytest.MonkeyPatch) -> list[NativeRun]:
    """Record the native runs; all have two helpers and divide each divisible kernel into seven parts."""
    made: list[NativeRun] = []
    make = NativeRun.__init__

    def forced(self: NativeRun, *arguments: Any) -> None:
        make(self, *arguments)
        job, commands = self._job, arguments[2].parts
        parts = (c_int64 * len(commands)).from_address(job.parts)
        parts[:] = [7 if each.is_divisible else 1 for each in commands]
        job.trials[:], job.typical_ns[:], job.is_divided = [TRIALS] * 3, [1_000_000, 1 << 60, 1], 1
        made.append(self)

    monkeypatch.setattr(native_run, "helpers_wanted", lambda: 2)
    monkeypatch.setattr(NativeRun, "__init__", forced)
    return made


def compiled() -> Any:
    return syclsched.compile(MODEL, devices="cpu", autotune=False, without=["onednn"])


@pytest.mark.parametrize(
    ("submitted", "on_caller", "helped", "way"),
    [(100, 500, 109, 2), (100, 500, 111, 0), (100, 109, 90, 2), (100, 109, 100, 1), (90, 100, 200, 0)],
)
def test_more_threads_are_woken_only_for_a_gain(
    runs: list[NativeRun], submitted: int, on_caller: int, helped: int, way: int
) -> None:
    with compiled() as model:
        model(x=given(0))
        job = runs[-1]._job
        job.typical_ns[:] = [submitted, on_caller, helped]  # less than any run takes
        assert right(model(x=given(1)), given(1))
        assert job.way == way


@pytest.mark.parametrize(
    ("trials", "percent", "is_left_out"),
    [
        (2, 900, False),
        (3, 190, False),
        (3, 210, True),
        (6, 140, False),
        (6, 160, True),
        (9, 120, False),
        (9, 130, True),
    ],
)
def test_slower_ways_are_left_out_the_sooner_the_slower(
    runs: list[NativeRun], trials: int, percent: int, is_left_out: bool
) -> None:
    with compiled() as model:
        model(given(0))
        job = runs[-1]._job
        job.trials[:], job.typical_ns[:] = [0, trials, TRIALS], [100, percent, 0]
        assert right(model(given(1)), given(1))  # the first run of a block, which is not timed
        assert (job.way, job.trials[0]) == (0, 1)
        assert job.trials[1] == (TRIALS if is_left_out else trials)


def test_the_lower_quartile_of_a_way_counts(runs: list[NativeRun]) -> None:
    with compiled() as model:
        model(given(0))
        job = runs[-1]._job
        job.trials[:], job.typical_ns[:] = [TRIALS, 0, TRIALS], [0, 0, 0]
        for seed in range(TRIALS):
            assert right(model(given(seed)), given(seed))
        times = [*job.times_ns[1]][: job.timed[1]]
        assert len(times) == TRIALS * 2 // 3 and times == sorted(times) and times[0] > 0
        assert job.typical_ns[1] == times[2]


def test_helped_calls_are_right(runs: list[NativeRun]) -> None:
    with compiled() as model:
        for seed in range(60):
            assert right(model(given(seed)), given(seed))
        assert [run._job.way for run in runs] == [HELPED]
        assert any(part > 1 for part in (c_int64 * runs[0]._job.count).from_address(runs[0]._job.parts))


def test_helpers_keep_off_the_core_of_the_caller(runs: list[NativeRun]) -> None:
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("one core only: helpers and the caller share it")
    with compiled() as model:
        before = {int(each) for each in os.listdir("/proc/self/task")}
        model(given(0))
        for core in sorted(allowed)[:2]:
            try:
                os.sched_setaffinity(0, {core})
                assert right(model(given(core)), given(core))
            finally:
                os.sched_setaffinity(0, allowed)
            made = {int(each) for each in os.listdir("/proc/self/task")} - before
            assert sum(os.sched_getaffinity(each) == allowed - {core} for each in made) >= 2


@pytest.mark.parametrize(("least_us", "parts"), [(7, 1), (9, 2), (30, 2), (40, 3)])
def test_kernels_are_divided_by_their_time(runs: list[NativeRun], least_us: int, parts: int) -> None:
    shape = [256, 512]
    x, y = (onnx.helper.make_tensor_value_info(name, 1, shape) for name in "xy")
    weights = onnx.numpy_helper.from_array(np.ones((512, 512), np.float32), "w")
    graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "product", [x], [y], [weights])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    with syclsched.compile(model, devices="cpu", autotune=False, without=["onednn"]) as product:
        product(x=np.ones(shape, np.float32))
        job = runs[-1]._job
        least_of, divided = ((c_int64 * job.count).from_address(each) for each in (job.least_of, job.parts))
        least_of[:] = [1000 * least_us] * job.count  # less than the product takes
        job.trials[:], job.typical_ns[:] = [TRIALS, 2, TRIALS], [1_000_000, 0, 0]
        product(x=np.ones(shape, np.float32))
        assert job.trials[1] >= 3
        assert max(divided) == parts


def test_all_ways_are_tried_again_after_more_and_more_runs(runs: list[NativeRun]) -> None:
    with compiled() as model:
        model(given(0))
        job, tried = runs[-1]._job, []
        for number in range(1, 800):
            model(given(number))
            if not job.since_trials:
                tried.append(number)
        assert tried == [127, 639]


def test_disturbed_trials_end_with_a_short_run(runs: list[NativeRun]) -> None:
    with compiled() as model:
        model(given(0))
        job = runs[-1]._job
        job.trials[:], job.typical_ns[:] = (
            [TRIALS, 0, 0],
            [60_000_000_000, 0, 0],
        )  # as if others had used the processors
        for seed in range(100):  # one run below 2 ms, of more that are submitted, makes all ways be tried again
            assert right(model(given(seed)), given(seed))
            if job.trials[0] < TRIALS:
                break
        assert job.trials[0] < TRIALS and job.typical_ns[0] < 60_000_000_000


def test_after_delayed_runs_more_and_more_are_made_without_helpers(runs: list[NativeRun]) -> None:
    with compiled() as model:
        model(given(0))
        job, ways = runs[0]._job, []
        job.typical_ns[:] = [2, 2, 1]  # with helpers each run takes longer than twice the second
        for seed in range(12):
            assert right(model(given(seed)), given(seed))
            ways.append(job.way)
        assert ways == [HELPED, 1, 1, HELPED, 1, 1, 1, 1, HELPED, 1, 1, 1]
        job.typical_ns[1], job.alone = 1 << 60, 0
        for _ in range(3):
            model(given(0))
            assert job.way == HELPED


def test_helped_calls_of_many_threads_are_right(runs: list[NativeRun]) -> None:
    with compiled() as model:
        model(given(0))

        def call(number: int) -> bool:
            return all(right(model(given(number)), given(number)) for _ in range(40))

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(call, range(4)))


def test_calls_without_helpers_do_not_count_as_helped_trials(runs: list[NativeRun]) -> None:
    with compiled() as model:
        model(given(0))
        job = runs[0]._job
        job.helpers_count = 0  # as if there were as many other callers with kernels as helpers
        helped = job.trials[HELPED]
        assert right(model(given(1)), given(1))
        assert job.way == 1 and job.trials[HELPED] == helped


def test_a_call_with_refused_helpers_is_completed(runs: list[NativeRun], monkeypatch: pytest.MonkeyPatch) -> None:
    real, copied = CommandMaker.copy_lanes, []

    def without_queues(self: CommandMaker, queues: Any) -> Any:
        copied.append(queues)
        return real(self, queues if len(copied) == 1 else dict.fromkeys(queues, 0))

    monkeypatch.setattr(CommandMaker, "copy_lanes", without_queues)
    with compiled() as model:
        model(given(0))
        end_s = time.monotonic() + 60.0  # on a busy machine a helper seldom wakes up in time to take a part
        while runs[0]._job.local and time.monotonic() < end_s:
            assert right(model(given(3)), given(3))
            runs[0]._job.alone = 0
        assert not runs[0]._job.local
        assert right(model(given(1)), given(1))


def test_kernels_with_launch_queries_or_updates_are_not_split() -> None:
    def source(query: str) -> OpenCLSource:
        return OpenCLSource(f"kernel void f(global float *x) {{ x[{query}] = 1; }}", "f")

    assert is_divisible(source("get_global_id(0)"), FILL)
    assert not is_divisible(source("get_global_id(0)"), SCALE)  # the kernel updates x: to repeat a part is wrong
    for query in ("get_group_id(0)", "get_num_groups(0)", "get_global_size(0)", "atomic_inc(n)"):
        assert not is_divisible(source(query), FILL)
