# SPDX-License-Identifier: Apache-2.0
"""The fast path of repeated calls: its use, equal results, and the full path for unusual calls."""

from __future__ import annotations

import gc
import os
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
from support.onednn_calls import needs_onednn

import syclsched
from syclsched.errors import ArgumentError, ExecutionError, ForkedError, MemoryLimitError
from syclsched.oneapi import fork_check
from syclsched.onnx import cached_call
from syclsched.onnx.cached_call import CachedCall
from syclsched.onnx.model_build import ModelBuilder
from syclsched.testing import faults

onnx = pytest.importorskip("onnx", reason="the models are ONNX models")

from onnx.reference import ReferenceEvaluator  # noqa: E402
from support.small_models import model_of  # noqa: E402

pytestmark = pytest.mark.sycl

MODEL = Path(__file__).parents[2] / "examples" / "data" / "digits.onnx"


def images(seed: int, batch: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).random((batch, 1, 8, 8), dtype=np.float32)


def right(found: Any, image: Any) -> bool:
    wanted = ReferenceEvaluator(str(MODEL)).run(None, {"image": np.ascontiguousarray(image)})[0]
    return np.allclose(found["probabilities"], wanted, atol=1e-5)


@pytest.fixture(scope="module")
def compiled():
    with syclsched.compile(MODEL, devices="cpu", autotune=False, keep=2) as made:
        yield made


@pytest.fixture
def taken(onednn_on_cpu, compiled, monkeypatch) -> list[bool]:
    """Record whether calls took the fast path; plans with library calls have it after a call with two images."""
    compiled(images(0))
    compiled(images(0))
    found: list[bool] = []
    call = CachedCall.run

    def noted(self: CachedCall, given: tuple[Any, ...]) -> Any:
        made = call(self, given)
        found.append(made is not None)
        return made

    monkeypatch.setattr(CachedCall, "run", noted)
    return found


def test_calls_with_the_same_shapes_use_the_fast_path(compiled, taken) -> None:
    given = [images(1), images(2), images(2)]
    found = [compiled(given[0]), compiled({"image": given[1]}), compiled(image=given[2])]
    assert taken == [True] * 3
    assert all(map(right, found, given))
    assert found[1]["probabilities"] is not found[2]["probabilities"]
    begun_ns = compiled.handed_over_ns
    compiled(images(3))
    ended_ns = compiled.handed_over_ns
    if begun_ns is not None and ended_ns is not None:
        assert ended_ns[0] > begun_ns[0] and ended_ns[0] <= ended_ns[1]


@pytest.mark.parametrize(
    "image",
    [images(4)[::-1], images(4).tolist(), images(4, 3), np.asfortranarray(images(4)), images(4).view(np.recarray)],
    ids=["backwards", "list", "more", "columns first", "subclass"],
)
def test_other_arrays_use_the_full_path(compiled, taken, image) -> None:
    found = compiled(image)
    assert taken == [False]
    assert right(found, np.asarray(image, np.float32))


def test_wrong_inputs_are_refused_as_by_the_full_path(compiled, taken) -> None:
    more = images(1), images(2)
    for inputs in ((images(1).astype("f8"),), (images(1).astype(">f4"),), ({"picture": images(1)},), ({},), (), more):
        with pytest.raises(ArgumentError):
            compiled(*inputs)
    with pytest.raises(ArgumentError):
        compiled(picture=images(1))
    with pytest.raises(ArgumentError):
        compiled(images(1), image=images(1))
    assert taken == [False] * 7  # the last call has inputs of both kinds


@pytest.mark.parametrize("wrong", [[np.nan, 0.0], ["a", "b"], np.array([0, 1], np.int32)])
def test_indices_of_another_dtype_are_refused_as_by_the_full_path(wrong: Any) -> None:
    picks = [onnx.helper.make_node("Gather", ["rows", "i"], ["y"])]
    model = model_of(picks, {"i": (2,)}, ["y"], {"rows": np.ones((5, 2), np.float32)}, dtypes={"i": 7})
    with syclsched.compile(model, devices="cpu", autotune=False) as made:
        for _ in range(3):
            made(np.array([0, 4]))
        with pytest.raises(ArgumentError, match="takes int64"):
            made(np.asarray(wrong))


@pytest.mark.parametrize(("dtype", "kind"), [("int16", 5), ("int32", 6), ("int64", 7)])
def test_indices_are_checked_in_each_call_and_may_be_negative(
    monkeypatch: pytest.MonkeyPatch, dtype: str, kind: int
) -> None:
    found: list[bool] = []
    call = CachedCall.run

    def noted(self: CachedCall, given: tuple[Any, ...]) -> Any:
        found.append(False)
        found[-1] = (made := call(self, given)) is not None
        return made

    nodes = [
        onnx.helper.make_node("Cast", ["i"], ["wide"], to=7),
        onnx.helper.make_node("Gather", ["r", "wide"], ["y"]),
    ]
    model = model_of(nodes, {"i": (2,)}, ["y"], {"r": np.arange(5, dtype=np.float32)}, dtypes={"i": kind})
    with syclsched.compile(model, devices="cpu", autotune=False) as made:
        made(np.zeros(2, dtype))
        made(np.zeros(2, dtype))
        monkeypatch.setattr(CachedCall, "run", noted)
        for good, bad in (((0, 4), (0, 5)), ((-5, -1), (-6, 0)), ((3, -2), (2, 30_000))):
            assert made(np.array(good, dtype))["y"].tolist() == [each % 5 for each in good]
            with pytest.raises(ArgumentError, match="out of range: Gather"):
                made(np.array(bad, dtype))
    assert found == [True, False] * 3


def rated_model() -> Any:
    """Return a model whose branches of If, and the shapes of its results, depend on an input: 2x, or x twice."""

    def branch(name: str, nodes: list[Any], extent: int) -> Any:
        return onnx.helper.make_graph(nodes, name, [], [onnx.helper.make_tensor_value_info(name, 1, [extent])])

    double = branch("double", [onnx.helper.make_node("Add", ["x", "x"], ["double"])], 4)
    twice = branch("twice", [onnx.helper.make_node("Concat", ["x", "x"], ["twice"], axis=0)], 8)
    nodes = [
        onnx.helper.make_node("Equal", ["rate", "sixteen"], ["is_sixteen"]),
        onnx.helper.make_node("If", ["is_sixteen"], ["y"], then_branch=double, else_branch=twice),
    ]
    return model_of(nodes, {"x": (4,), "rate": ()}, ["y"], {"sixteen": np.array(16, np.int64)}, dtypes={"rate": 7})


def test_calls_with_the_same_deciding_values_use_the_fast_path(monkeypatch) -> None:
    fast: list[bool] = []
    call = CachedCall.run

    def noted(self: CachedCall, given: tuple[Any, ...]) -> Any:
        made = call(self, given)
        fast.append(made is not None)
        return made

    def is_right(number: int, rate: int) -> bool:
        given = np.arange(4, dtype=np.float32) + number
        wanted = given * 2 if rate == 16 else np.tile(given, 2)
        return np.array_equal(compiled(given, np.array(rate))["y"], wanted)

    with syclsched.compile(rated_model(), devices="cpu", autotune=False) as compiled:
        assert is_right(0, 16) and is_right(0, 8)  # both plans are made
        monkeypatch.setattr(CachedCall, "run", noted)
        assert all(is_right(number, 8) for number in range(4)) and fast == [True] * 4
        fast.clear()
        assert all(is_right(number, rate) for number, rate in enumerate([16, 16, 8, 8]))
        assert fast == [False, True, False, True]
        with pytest.raises(ArgumentError, match="rate"):
            compiled(np.zeros(4, np.float32), np.array(16, np.int32))
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(is_right, range(400), [16, 8, 8] * 134))
    with syclsched.compile(rated_model(), devices="cpu", autotune=False) as compiled:
        call_with = compiled._plans.call_with

        def followed(do: Any, values: Any) -> Any:
            made = call_with(do, values)
            call_with(do, values.replaced({**values, "rate": np.array(16)}))  # as if by another thread
            return made

        monkeypatch.setattr(compiled._plans, "call_with", followed)
        assert all(is_right(number, rate) for number, rate in enumerate([8, 8, 16, 8]))


def test_empty_inputs_are_taken() -> None:
    model = model_of([onnx.helper.make_node("Relu", ["x"], ["y"])], {"x": ("n", 3)}, ["y"])
    with syclsched.compile(model, devices="cpu", autotune=False) as made:
        for n in (2, 0, 0, 2, 0, 2):
            assert made(-np.ones((n, 3), np.float32))["y"].shape == (n, 3)


def test_calls_wait_for_runs_and_run_beside_streams(compiled, taken) -> None:
    run = compiled.start(images(5))
    assert right(compiled(images(6)), images(6)) and taken == [False]
    assert run.done()
    assert right(compiled(images(7)), images(7)) and taken == [False, True]
    stream = compiled.stream([images(8)] * 3)
    next(stream)
    taken.clear()
    assert right(compiled(images(9)), images(9)) and taken == [False]
    stream.close()
    taken.clear()
    assert all(right(compiled(images(seed)), images(seed)) for seed in (9, 10)) and taken == [False, True]


def test_injected_faults_are_not_passed_by(compiled, taken) -> None:
    with faults.inject(faults.fail_submission(1)) as seen:
        assert right(compiled(images(1)), images(1))  # recovered
    assert seen.injected


def test_a_closed_model_refuses_calls() -> None:
    with syclsched.compile(MODEL, devices="cpu", autotune=False) as made:
        made(images(0))
    with pytest.raises(ExecutionError, match="closed"):
        made(images(0))


@needs_onednn
def test_thousands_of_calls_leave_nothing_with_the_runtime() -> None:
    # SYCL's queue keeps memory of each library call until a wait: 6 MB for these.
    rng = np.random.default_rng(0)
    chain = [onnx.helper.make_node("Conv", [a, "w"], [b], pads=[1, 1, 1, 1]) for a, b in pairwise("xabcdy")]
    values = [onnx.helper.make_tensor_value_info(name, 1, [1, 16, 96, 96]) for name in "xy"]
    weights = onnx.numpy_helper.from_array(rng.random((16, 16, 3, 3), dtype=np.float32) / 144, "w")
    model = onnx.helper.make_model(onnx.helper.make_graph(chain, "chain", values[:1], values[1:], [weights]))
    x = rng.random((1, 16, 96, 96), dtype=np.float32)
    with syclsched.compile(model, devices="cpu", autotune=False) as made:
        for _ in range(1_000):
            made(x)
        before = own_bytes()
        for _ in range(3_000):
            made(x)
        grown = own_bytes() - before
    assert grown < 3e6


def own_bytes() -> int:
    """Return the bytes of private memory of this process."""
    gc.collect()
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_Dirty:"))


@pytest.mark.parametrize("limit", [None, "1 GiB"])
def test_calls_of_many_threads_get_runners_and_are_right(onednn_on_cpu, monkeypatch, limit) -> None:
    monkeypatch.setattr(cached_call, "SHORT_S", 60.0)
    given = [images(seed) for seed in range(8)]
    wanted = [ReferenceEvaluator(str(MODEL)).run(None, {"image": image})[0] for image in given]
    with syclsched.compile(MODEL, devices="cpu", autotune=False, memory_limit=limit) as model:
        model(given[0])
        model(given[0])

        def call(number: int) -> bool:
            found = [model(given[number])["probabilities"] for _ in range(40)]
            return all(np.allclose(each, wanted[number], atol=1e-5) for each in found)

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(call, range(8)))
        others = model._current().others
        assert bool(others) == (limit is None)
        assert len(others) < cached_call.RUNNERS_PER_CORE * len(os.sched_getaffinity(0))
    with pytest.raises(ExecutionError, match="closed"):
        model(given[0])
    for runner in others:
        with pytest.raises(ExecutionError, match="closed"):
            runner({})


def call_at_once(model: Any, given: Any, callers: int = 4) -> None:
    with ThreadPoolExecutor(callers) as pool:
        assert all(pool.map(lambda _: all(right(model(given), given) for _ in range(20)), range(callers)))


def test_a_caller_gets_a_runner_while_all_others_are_in_use(onednn_on_cpu) -> None:
    with syclsched.compile(MODEL, devices="cpu", autotune=False) as model, ThreadPoolExecutor(1) as pool:
        model(images(0))
        model(images(0))
        bound = model._current()
        path = bound.cached_call
        path._is_short = True  # as after concurrent calls
        used = path._idle.pop()
        call = pool.submit(model, images(1))
        try:
            assert right(call.result(timeout=60), images(1))
        finally:
            path._return(used)
        assert len(bound.others) == 1 and len(path._idle) == 2


@pytest.fixture
def one_runner(onednn_on_cpu, monkeypatch) -> Any:
    """A model with one runner, and its fast path."""
    monkeypatch.setattr(cached_call, "MOST_BYTES", 1)
    with syclsched.compile(MODEL, devices="cpu", autotune=False) as model:
        model(images(0))
        model(images(0))
        yield model, model._current().cached_call


def test_callers_get_a_runner_in_their_order(one_runner) -> None:
    model, path = one_runner
    order: list[int] = []
    given = [images(number) for number in range(4)]
    runner = path._idle.pop()

    def noting(arrays: tuple[Any, ...]) -> Any:
        order.append([each is arrays[0] for each in given].index(True))
        return runner(arrays)

    with ThreadPoolExecutor(4) as pool:
        calls = []
        for number, image in enumerate(given):
            calls.append(pool.submit(model, image))
            while len(path._waiting) < number + 1 and not calls[-1].done():
                time.sleep(1e-3)
        path._return(noting)
        assert all(right(each.result(timeout=60), image) for each, image in zip(calls, given, strict=True))
    assert order == [0, 1, 2, 3]
    assert path._idle == [noting] and not path._waiting


def test_a_runner_lost_by_an_interrupted_call_is_recovered(one_runner, monkeypatch) -> None:
    model, path = one_runner
    runner = path._idle.pop()
    monkeypatch.setattr(cached_call, "LONGEST_S", 0.01)
    assert right(model(images(1)), images(1))
    assert path._idle == [runner] and not path._waiting
    path._return(runner)  # the runner was not lost
    assert path._idle == [runner]


def test_a_forked_process_does_not_wait_for_runners(one_runner, monkeypatch) -> None:
    model, path = one_runner
    runner = path._idle.pop()  # in use at the fork
    with monkeypatch.context() as changed, pytest.raises(ForkedError, match="forked"):
        changed.setattr(fork_check, "_forked", True)
        model(images(1))
    path._return(runner)
    assert right(model(images(1)), images(1))


@pytest.mark.parametrize("given", [False, True])
def test_interrupted_caller_releases_its_turn(one_runner, monkeypatch, given: bool) -> None:
    model, path = one_runner
    runner = path._idle.pop()

    class Interrupted(SimpleQueue):
        def get(self, *_: Any, **__: Any) -> Any:
            if given:  # just before
                path._return(runner)
            raise KeyboardInterrupt

    with monkeypatch.context() as changed:
        changed.setattr(cached_call, "SimpleQueue", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            model(images(1))
    assert not path._waiting and path._idle == [runner] * given
    if not given:
        path._return(runner)
    assert right(model(images(2)), images(2))


def test_runners_are_few_where_they_need_much_memory(onednn_on_cpu, monkeypatch) -> None:
    monkeypatch.setattr(cached_call, "SHORT_S", 60.0)
    monkeypatch.setattr(cached_call, "MOST_BYTES", 1)
    with syclsched.compile(MODEL, devices="cpu", autotune=False) as model:
        model(images(0))
        call_at_once(model, images(0))
        call_at_once(model, images(0))
        assert not model._current().others


def test_a_runner_that_cannot_be_made_costs_no_call(onednn_on_cpu, monkeypatch) -> None:
    monkeypatch.setattr(cached_call, "SHORT_S", 60.0)

    def refuse(self: ModelBuilder, bound: Any) -> None:
        raise MemoryLimitError("too little for two", where="here")

    monkeypatch.setattr(ModelBuilder, "another_runner", refuse)
    with syclsched.compile(MODEL, devices="cpu", autotune=False) as model:
        call_at_once(model, images(0))


def test_runners_of_other_shapes_stay_in_use(onednn_on_cpu, monkeypatch) -> None:
    monkeypatch.setattr(cached_call, "SHORT_S", 60.0)
    with syclsched.compile(MODEL, devices="cpu", autotune=False) as model:
        for _ in range(2):
            model(images(0))
            model(images(0))
            call_at_once(model, images(0))
            model(images(1, 3))
        (two, _) = (each.bound for each in model._plans.kept._slots.values())
        assert two is not None and two.cached_call is not None
        assert len(two.cached_call._idle) == len(two.others) + 1


def test_a_closed_model_makes_no_runners(onednn_on_cpu) -> None:
    with syclsched.compile(MODEL, devices="cpu", autotune=False) as model:
        model(images(0))
        bound = model._current()
    assert model._builder.another_runner(bound) is None
    assert model._builder._live is None
