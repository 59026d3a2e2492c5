# SPDX-License-Identifier: Apache-2.0
"""Brief runs of a few microseconds on the calling thread without releasing the GIL, also with failures."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import syclsched
from syclsched.devices.submission.command_maker import CommandMaker
from syclsched.devices.submission.native_run import COMPLETED, NOT_COMPLETED, STILL_RUNNING, TRIALS, NativeRun
from syclsched.errors import ArgumentError

onnx = pytest.importorskip("onnx", reason="the models are ONNX models")

from onnx.reference import ReferenceEvaluator  # noqa: E402

pytestmark = pytest.mark.sycl

WIDTH = 24


def perceptron() -> Any:
    """Return a network of three dense layers."""
    rng = np.random.default_rng(0)
    names = ["x", "h", "i", "y"]
    nodes = [onnx.helper.make_node("Gemm", [a, f"w{a}"], [f"g{a}"]) for a in names[:3]]
    nodes += [onnx.helper.make_node("Tanh", [f"g{a}"], [b]) for a, b in pairwise(names)]
    weights = [rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 5 for _ in range(3)]
    held = [onnx.numpy_helper.from_array(each, f"w{a}") for a, each in zip(names, weights, strict=False)]
    x, y = (onnx.helper.make_tensor_value_info(name, 1, [2, WIDTH]) for name in "xy")
    ordered = [node for pair in zip(nodes[:3], nodes[3:], strict=True) for node in pair]
    return onnx.helper.make_model(onnx.helper.make_graph(ordered, "perceptron", [x], [y], held))


MODEL = perceptron()


def given(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((2, WIDTH)).astype(np.float32)


def right(found: Any, x: np.ndarray) -> bool:
    return np.allclose(found["y"], ReferenceEvaluator(MODEL).run(None, {"x": x})[0], atol=1e-5)


class Forced:
    """A flag that marks runs as brief once they have run on the calling thread, or at once."""

    def __init__(self, run: NativeRun, *, at_once: bool) -> None:
        self._run, self._at_once = run, at_once

    @property
    def value(self) -> int:
        self._run._job.is_brief = self._at_once or self._run.runs_on_caller > 0
        return int(self._run._job.is_brief)


def force_brief(monkeypatch: pytest.MonkeyPatch, *, at_once: bool) -> None:
    make = NativeRun.__init__

    def made(self: NativeRun, *arguments: Any) -> None:
        make(self, *arguments)
        self.is_brief = Forced(self, at_once=at_once)  # type: ignore[assignment]

    monkeypatch.setattr(NativeRun, "__init__", made)


@pytest.fixture
def ended(local_queues: None, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the results of brief runs; all runs are brief once they have run on the calling thread."""
    found: list[int] = []
    run_briefly = NativeRun.run_briefly

    def noted(self: NativeRun, *arguments: Any) -> int:
        found.append(run_briefly(self, *arguments))
        return found[-1]

    force_brief(monkeypatch, at_once=False)
    monkeypatch.setattr(NativeRun, "run_briefly", noted)
    return found


@pytest.fixture
def model(ended: list[int]) -> Any:
    with syclsched.compile(MODEL, devices="cpu", autotune=False, without=["onednn"]) as made:
        yield made


def warm(model: Any, ended: list[int]) -> None:
    """Call the model until its calls are brief."""
    for seed in range(200):
        assert right(model(given(seed)), given(seed))
        if ended:
            return
    raise AssertionError("no call was tried on the calling thread")


def test_brief_calls_are_right_and_their_results_are_new_arrays(model: Any, ended: list[int]) -> None:
    warm(model, ended)
    found = [model(given(seed)) for seed in range(10)]
    assert ended == [COMPLETED] * 11
    assert all(right(each, given(seed)) for seed, each in enumerate(found))


def test_other_inputs_are_converted_or_refused_as_in_usual_runs(model: Any, ended: list[int]) -> None:
    warm(model, ended)
    backwards = given(1)[::-1]
    assert right(model(backwards), backwards)
    assert right(model(given(1).tolist()), given(1))
    assert ended[1:] == [NOT_COMPLETED] * 2
    with pytest.raises(ArgumentError):
        model(given(1).astype("f8"))
    assert right(model(given(2)), given(2))
    assert ended[-1] == COMPLETED


def test_brief_calls_of_many_threads_are_right(model: Any, ended: list[int]) -> None:
    warm(model, ended)

    def call(number: int) -> bool:
        x = given(number)
        found = [model(x)["y"] for _ in range(100)]
        return all(np.array_equal(each, found[0]) for each in found) and right({"y": found[0]}, x)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(8)))
    assert COMPLETED in ended


def test_a_brief_call_with_a_refused_kernel_is_completed(ended: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    real = CommandMaker.copy_lanes
    monkeypatch.setattr(CommandMaker, "copy_lanes", lambda self, queues: real(self, dict.fromkeys(queues, 0)))
    force_brief(monkeypatch, at_once=True)
    with syclsched.compile(MODEL, devices="cpu", autotune=False, without=["onednn"]) as model:
        for seed in range(6):
            assert right(model(given(seed)), given(seed))
    assert ended[0] == STILL_RUNNING and NOT_COMPLETED in ended and COMPLETED not in ended


def test_ctrl_c_in_a_brief_call_does_not_affect_the_next(
    model: Any, ended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    warm(model, ended)
    run_briefly = NativeRun.run_briefly

    def interrupted(self: NativeRun, *arguments: Any) -> int:
        run_briefly(self, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(NativeRun, "run_briefly", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model(given(1))
    assert right(model(given(2)), given(2))


@pytest.fixture
def made(local_queues: None, monkeypatch: pytest.MonkeyPatch) -> list[NativeRun]:
    """Record all native runs."""
    found: list[NativeRun] = []
    make = NativeRun.__init__

    def noted(self: NativeRun, *arguments: Any) -> None:
        make(self, *arguments)
        found.append(self)

    monkeypatch.setattr(NativeRun, "__init__", noted)
    return found


def compiled() -> syclsched.CompiledModel:
    return syclsched.compile(MODEL, devices="cpu", autotune=False, without=["onednn"])


def test_among_other_callers_runs_stay_on_the_calling_thread(made: list[NativeRun]) -> None:
    with compiled() as model:
        for seed in range(3):
            assert right(model(given(seed)), given(seed))
        job = made[-1]._job
        ways = []
        for company, submitted_ns, on_caller_ns in ((0, 10, 15), (3, 10, 15), (3, 10, 25), (3, 10**7, 15)):
            job.trials[:], job.typical_ns[:] = [TRIALS] * 3, (submitted_ns, on_caller_ns, 1000)  # no run takes less
            job.company, job.is_brief = company, 0
            assert right(model(given(3)), given(3))
            ways.append(job.way)
            assert job.company == max(company - 1, 0)
        job.is_brief, job.company, job.since_trials = 0, 0, 2047
        assert right(model(given(4)), given(4))
        assert [*job.trials] == [1, 0, 0]
    assert ways == [0, 1, 0, 1]


def test_among_other_callers_a_new_run_proves_brief_first(made: list[NativeRun]) -> None:
    with compiled() as model:
        assert right(model(given(0)), given(0))
        job = made[-1]._job
        job.trials[:], job.typical_ns[:], job.company = (1, 0, 0), (0, 0, 0), 64
        ways, brief = [], []
        for seed in range(1, 4):
            job.timed[1], job.times_ns[1][:] = 4, [10] * TRIALS  # no run takes less
            assert right(model(given(seed)), given(seed))
            ways.append(job.way)
            brief.append(job.is_brief)
    assert (ways, brief) == ([1, 1, 1], [0, 0, 1])


def test_brief_runs_of_another_thread_are_company(made: list[NativeRun]) -> None:
    with compiled() as brief, compiled() as other, ThreadPoolExecutor(1) as thread:
        for model in (brief, other):
            assert right(model(given(1)), given(1))
        first, second = (run._job for run in made[-2:])
        found = []
        for call in (brief, thread.submit):
            first.is_brief, second.company = 1, 2
            ended = call(given(2)) if call is brief else call(brief, given(2)).result()
            assert first.way == 1 and right(ended, given(2))
            assert right(other(given(3)), given(3))
            found.append(second.company)
    assert found == [1, 64]
