# SPDX-License-Identifier: Apache-2.0
"""Comparison of two plans by alternating runs: significance, stored results, and confidence."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from support.onednn_calls import needs_onednn
from support.product_graph import product_graph

import syclsched
from syclsched.costs.history import MemoryHistory
from syclsched.model.profile import Quantity
from syclsched.onnx.tuning import plan_comparison
from syclsched.onnx.tuning.implementations import on_devices, without_implementations
from syclsched.onnx.tuning.plan_comparison import (
    FEW_RUNS,
    LEAST_RUNS,
    MOST_RUNS,
    NO_SLOWER,
    comparison_key,
    is_disturbed,
    is_known_faster,
    measure_is_faster,
    plan_ratio,
    stored_ratio,
    time_alternating,
)
from syclsched.profiling import HistoryStore
from syclsched.profiling.busy import CpuTimes


@pytest.fixture
def quiet(monkeypatch) -> None:
    monkeypatch.setattr(plan_comparison, "read_times", lambda: None)


@pytest.fixture
def device():
    (found,) = syclsched.describe(["cpu"]).compute_devices
    return found


class Runs:
    """Two plans on a clock that only their runs advance."""

    def __init__(self, *seconds) -> None:
        self.now, self.order = 0.0, []
        self.runs = [lambda index=index, of=of: self._run(index, of) for index, of in enumerate(seconds)]

    def _run(self, index, of) -> None:
        self.now += of(sum(each == index for each in self.order))
        self.order.append(index)

    def race(self):
        return time_alternating(self.runs, clock=lambda: self.now)


def noisy(seconds: float, share: float, seed: int):
    random = np.random.default_rng(seed)
    return lambda turn: seconds * (1.0 + share * float(random.random()))


def test_comparison_ends_when_it_is_clear() -> None:
    clear = Runs(noisy(1e-3, 0.05, 1), noisy(0.7e-3, 0.05, 2))
    assert [len(each) for each in clear.race()] == [LEAST_RUNS] * 2
    lost = Runs(noisy(1e-3, 0.05, 1), noisy(1.5e-3, 0.05, 2))
    assert [len(each) for each in lost.race()] == [LEAST_RUNS] * 2
    close = Runs(noisy(1e-3, 0.1, 1), noisy(0.98e-3, 0.1, 2))
    assert [len(each) for each in close.race()] == [MOST_RUNS] * 2


def test_runs_after_pauses_count_as_much_as_others(monkeypatch) -> None:
    """One plan takes long when its threads are asleep, and is else the faster one."""
    slept = []
    monkeypatch.setattr(plan_comparison.time, "sleep", slept.append)
    awake = Runs(lambda _: 2e-3 if slept and slept.pop() else 0.5e-3, lambda _: slept.clear() or 1e-3)
    found = time_alternating(awake.runs, plan_comparison.SHORT_PAUSES_S, clock=lambda: awake.now)
    assert np.allclose(found[0], 2.5e-3) and np.allclose(found[1], 2e-3)
    assert np.allclose(awake.race()[0], 0.5e-3)


def test_close_comparison_of_large_models_ends() -> None:
    found = Runs(noisy(1.0, 0.1, 1), noisy(0.98, 0.1, 2)).race()
    assert [len(each) for each in found] == [FEW_RUNS] * 2


def test_plans_alternate_in_order_and_times_are_kept_by_plan() -> None:
    race = Runs(lambda turn: 1.0, lambda turn: 2.0)
    found = race.race()
    assert race.order[:6] == [0, 1, 0, 1, 1, 0]
    assert set(found[0]) == {1.0} and set(found[1]) == {2.0}


def test_a_plan_ratio_has_a_value_and_a_certainty() -> None:
    clear = plan_ratio(Quantity(1.0, 0.01, 13), Quantity(0.8, 0.01, 13))
    assert clear is not None and clear.is_kept and clear.is_certain and clear.ratio == pytest.approx(0.8)
    narrow = plan_ratio(Quantity(1.0, 0.001, 13), Quantity(0.975, 0.001, 13))
    assert narrow is not None and narrow.is_kept and not narrow.is_certain
    noisy_one = plan_ratio(Quantity(1.0, 0.2, 13), Quantity(0.8, 0.2, 13))
    assert noisy_one is not None and noisy_one.is_kept and not noisy_one.is_certain
    assert narrow.margin < clear.margin and noisy_one.margin < clear.margin
    often = plan_ratio(Quantity(1.0, 0.001, 39), Quantity(0.975, 0.001, 39))
    assert often is not None and often.is_certain  # practically equal: a fourth race would add nothing
    assert plan_ratio(Quantity(0.0), Quantity(1.0)) is None


@pytest.mark.parametrize(
    ("ratio", "kept", "kept_busy"),
    [(0.7, True, True), (1.01, True, True), (1.1, False, True), (1.5, False, False)],
)
def test_a_plan_may_be_kept_unless_it_is_slower(ratio: float, kept: bool, kept_busy: bool) -> None:
    found = plan_ratio(Quantity(1.0, 0.001, 13), Quantity(ratio, 0.001, 13), NO_SLOWER)
    assert found is not None and (found.is_kept, found.is_kept_busy) == (kept, kept_busy)


def test_clear_comparisons_are_stored(quiet, device) -> None:
    with HistoryStore(":memory:") as history:
        assert is_known_faster(device, history, "graph") is None
        assert measure_is_faster(device, history, "graph", lambda: [[1.0, 1.1, 1.0], [0.9, 0.9, 0.95]])
        assert is_known_faster(device, history, "graph") is True
        assert not measure_is_faster(device, history, "other", lambda: [[1.0] * 3, [1.1] * 3])
        assert is_known_faster(device, history, "other") is False


def test_close_comparison_is_repeated(quiet, device) -> None:
    with HistoryStore(":memory:") as history:
        races = 0
        while is_known_faster(device, history, "graph") is None:
            assert not measure_is_faster(device, history, "graph", lambda: [[1.0] * MOST_RUNS, [0.985] * MOST_RUNS])
            races += 1
        assert races == 3
        assert is_known_faster(device, history, "graph") is False


def test_noisy_comparison_is_corrected_by_the_next(quiet, device) -> None:
    random = np.random.default_rng(0)
    with HistoryStore(":memory:") as history:
        wild = [list(1.0 + random.random(9)), list(1.5 + random.random(9))]
        measure_is_faster(device, history, "graph", lambda: wild)
        assert is_known_faster(device, history, "graph") is None
        calm = [[1.0] * MOST_RUNS, [0.9] * MOST_RUNS]
        assert measure_is_faster(device, history, "graph", lambda: calm)
        assert is_known_faster(device, history, "graph") is True


@pytest.mark.parametrize(
    ("with_kernels", "faster"),
    [([0.5] * 5, True), ([0.85] * 5, False), ([0.3, 0.6, 0.9, 1.2, 1.5], False)],
    ids=["clear", "close", "noisy"],
)
def test_busy_machine_stores_no_gains(monkeypatch, device, with_kernels: list[float], faster: bool) -> None:
    readings = iter([CpuTimes(busy_s=0, total_s=0, own_s=0), CpuTimes(busy_s=1.5, total_s=2, own_s=0.5)])
    monkeypatch.setattr(plan_comparison, "read_times", lambda: next(readings))
    history = MemoryHistory()
    assert measure_is_faster(device, history, "graph", lambda: [[1.0] * 5, with_kernels]) == faster
    assert stored_ratio(device, history, "graph") is None and not history


def test_ctrl_c_is_deferred_until_both_times_are_stored(quiet, device) -> None:
    class Interrupted(HistoryStore):
        def record(self, key, seconds, **circumstances) -> None:
            signal.raise_signal(signal.SIGINT)
            super().record(key, seconds)

    # Tests may have been started in the background, where the signal is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Interrupted(":memory:") as history:
            with pytest.raises(KeyboardInterrupt):
                measure_is_faster(device, history, "graph", lambda: [[1.0] * 5, [0.5] * 5])
            assert is_known_faster(device, history, "graph") is True
    finally:
        signal.signal(signal.SIGINT, before)


@needs_onednn
def test_contests_of_other_kernels_are_others() -> None:
    platform = syclsched.describe(["cpu"])
    graph = product_graph()
    found = [
        comparison_key(on_devices(graph, platform, {"first"})),
        comparison_key(on_devices(graph, platform, {"second"})),
        comparison_key(on_devices(without_implementations(graph, {"opencl-c"}, platform), platform, {"first"})),
        comparison_key(graph.with_implementations(lambda task, each: each.name == "opencl-c" or task.name == "second")),
    ]
    assert len(set(found)) == 4
    assert found[0] == comparison_key(on_devices(product_graph(), platform, {"first"}))


@pytest.mark.parametrize(
    ("seconds", "others", "disturbed"),
    [(0.02, 0.01, False), (0.02, 0.018, False), (0.1, 0.05, True), (2.0, 0.1, False)],
)
def test_a_tick_of_others_in_a_short_time_is_no_disturbance(
    monkeypatch: pytest.MonkeyPatch, seconds: float, others: float, disturbed: bool
) -> None:
    before = CpuTimes(total_s=100.0, busy_s=50.0, own_s=10.0)
    after = CpuTimes(total_s=100.0 + 2 * seconds, busy_s=50.0 + seconds + others, own_s=10.0 + seconds)
    monkeypatch.setattr("syclsched.onnx.tuning.plan_comparison.read_times", lambda: after)
    assert is_disturbed(before) is disturbed
