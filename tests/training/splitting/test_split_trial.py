# SPDX-License-Identifier: Apache-2.0
"""Measured comparison of divided steps with one device."""

from __future__ import annotations

from typing import Any

import pytest

import syclsched
from syclsched.costs.history import HistoryKey
from syclsched.errors import MemoryLimitError
from syclsched.model.profile import Quantity
from syclsched.profiling.statistics import summarise
from syclsched.training.splitting import split_trial
from syclsched.training.splitting.split_trial import tried
from syclsched.training.splitting.splits import SplitChoice, StepSplit

PLATFORM = syclsched.describe("max1550,a770")
SINGLE, DATA = StepSplit("single", "max1550", step_s=2.0), StepSplit("data", "8 on each", step_s=1.5)
CHOICE = SplitChoice(DATA, (SINGLE, DATA), 16, trial="k")


class InMemoryHistory(dict[HistoryKey, Quantity]):
    """A history in memory."""

    def lookup(self, key: HistoryKey) -> Quantity | None:
        return self.get(key)

    def record(self, key: HistoryKey, seconds: Any, *, source: str) -> None:
        self[key] = summarise(seconds)


def choose_by_times(
    monkeypatch: pytest.MonkeyPatch, history: InMemoryHistory, single_s: float, divided_s: float
) -> SplitChoice:
    def times(runs: Any) -> list[list[float]]:
        assert [run() for run in runs] == ["single", "divided"]
        return [[single_s] * 8, [divided_s] * 8]

    monkeypatch.setattr(split_trial, "time_alternating", times)
    return tried(CHOICE, PLATFORM, history, lambda: (lambda: "single", lambda: "divided"))  # type: ignore[arg-type]


def test_the_faster_split_is_stored_and_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syclsched.onnx.tuning.plan_comparison.is_disturbed", lambda _: False)
    fast, slow = InMemoryHistory(), InMemoryHistory()
    assert choose_by_times(monkeypatch, fast, 2.0, 1.5).best is DATA
    found = choose_by_times(monkeypatch, slow, 2.0, 2.1)
    assert found.best is SINGLE and found.why == "as data was measured: 1.05 times the time on max1550"
    for history, best in ((fast, DATA), (slow, SINGLE)):
        again = tried(CHOICE, PLATFORM, history, lambda: pytest.fail("it is known"))  # type: ignore[arg-type]
        assert again.best is best


def test_without_a_measurement_the_prediction_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syclsched.onnx.tuning.plan_comparison.is_disturbed", lambda _: True)
    assert choose_by_times(monkeypatch, InMemoryHistory(), 2.0, 3.0) is CHOICE

    def runs() -> Any:
        raise MemoryLimitError("too large")

    assert tried(CHOICE, PLATFORM, InMemoryHistory(), runs) is CHOICE  # type: ignore[arg-type]
