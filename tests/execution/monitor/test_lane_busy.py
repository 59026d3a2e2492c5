# SPDX-License-Identifier: Apache-2.0
"""Busy shares of lanes: from recorded times of ended runs, and samples of running ones."""

from __future__ import annotations

import pytest

from syclsched.execution.monitor.lane_busy import WINDOW_S, LaneBusyMeter


def test_samples_of_a_run_in_flight() -> None:
    meter = LaneBusyMeter(100.0)
    for step in range(1, 9):
        meter.add_sample(100.0 + step, 1, 1.0, ["a", "b"] if step <= 2 else ["a"])
    assert meter.shares(108.0) == pytest.approx({"a": 1.0, "b": 0.25})


def test_recorded_times_replace_the_samples_of_the_same_runs_only() -> None:
    meter = LaneBusyMeter(100.0)
    meter.add_sample(101.0, 1, 1.0, ["a"])
    meter.add_sample(101.0, 2, 1.0, ["b"])
    meter.replace_samples([1], 100.0, 102.0, {"a": 0.5})
    assert meter.shares(102.0) == pytest.approx({"a": 0.25, "b": 0.5})


def test_samples_older_than_the_window_are_ignored() -> None:
    meter = LaneBusyMeter(0.0)
    meter.add_sample(1.0, 1, 1.0, ["a"])
    meter.replace_samples([], 10.0, 30.0, {"b": 20.0})
    # Half of the second run is in the window.
    assert meter.shares(20.0 + WINDOW_S) == pytest.approx({"b": 1.0})
    assert meter.shares(25.0 + WINDOW_S) == pytest.approx({"b": 0.5})
    assert meter.shares(31.0 + WINDOW_S) == {}


def test_a_share_is_never_more_than_the_whole() -> None:
    meter = LaneBusyMeter(0.0)
    meter.replace_samples([], 0.0, 1.0, {"a": 1.5})
    assert meter.shares(1.0) == {"a": 1.0}


def test_shares_are_unknown_for_as_long_as_an_unknown_run_counts() -> None:
    meter = LaneBusyMeter(0.0)
    assert meter.shares(0.0) is None  # no time has passed
    meter.note_unknown(1.0)
    assert meter.shares(1.0 + WINDOW_S / 2) is None
    assert meter.shares(1.0 + WINDOW_S) == {}
