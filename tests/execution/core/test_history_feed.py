# SPDX-License-Identifier: Apache-2.0
"""Runs as measurements: stored durations, invalidated calibrations, and no effect of errors on the run."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from syclsched.costs.history import HistoryKey, Sample, in_run_key, is_provisional, measured_seconds
from syclsched.errors import StorageError
from syclsched.execution.core.history_feed import HistoryFeed
from syclsched.model.profile import Quantity
from syclsched.profiling import HistoryStore

KEY = HistoryKey("device", "gemm", "numpy", "1", "a:float64[64,64]")


@pytest.fixture
def store() -> Iterator[HistoryStore]:
    with HistoryStore(":memory:") as history:
        yield history


def feed_of(store: HistoryStore) -> HistoryFeed:
    @contextmanager
    def opened() -> Iterator[HistoryStore]:
        yield store

    return HistoryFeed(opened, clock=lambda: 7.0)  # type: ignore[arg-type]


def ran(feed: HistoryFeed, *seconds: float) -> None:
    for each in seconds:
        feed.add(lambda each=each: [(KEY, each)])  # type: ignore[misc]
        feed.flush()


def best(store: HistoryStore) -> Quantity:
    found = measured_seconds(store, KEY)
    assert found is not None
    return found


def test_a_run_leaves_one_sample_of_each_kind_of_task(store: HistoryStore) -> None:
    ran(feed_of(store), 2.0)
    assert store.stored(in_run_key(KEY)) == (Sample(2.0, 7.0, None, "run"),)
    assert store.lookup(KEY) is None
    assert best(store).value == 2.0


def test_agreeing_runs_invalidate_the_calibration(store: HistoryStore, caplog: pytest.LogCaptureFixture) -> None:
    store.record(KEY, [63.8] * 9)
    feed = feed_of(store)
    with caplog.at_level(logging.WARNING, "syclsched"):
        ran(feed, 4.9)
        assert (best(store).value, caplog.messages) == (63.8, [])
        ran(feed, 4.9)
        assert best(store).value == 4.9
        alone = store.lookup(KEY)
        assert alone is not None and is_provisional(alone)
        (said,) = caplog.messages
        assert "gemm by numpy: 4.900 s instead of 63.80 s" in said and "timed again" in said
        store.record(KEY, [20.0] * 9)  # timed again; the task alone really takes longer
        ran(feed, 4.9, 4.9)
    assert len(caplog.messages) == 1
    assert best(store).value == 4.9


@pytest.mark.parametrize(
    ("alone_s", "runs_s"), [(5.0, (5.5, 5.4, 5.5)), (1e-6, (3e-6,) * 3)], ids=["by a tenth", "by microseconds"]
)
def test_runs_that_agree_with_the_calibration_keep_it(
    store: HistoryStore, caplog: pytest.LogCaptureFixture, alone_s: float, runs_s: tuple[float, ...]
) -> None:
    store.record(KEY, [alone_s] * 9)
    ran(feed_of(store), *runs_s)
    alone = store.lookup(KEY)
    assert alone is not None and not is_provisional(alone)
    assert not caplog.messages


def test_disagreeing_runs_do_not_override_the_calibration(store: HistoryStore) -> None:
    store.record(KEY, [5.0] * 9)
    ran(feed_of(store), 50.0, 9.0)
    assert best(store).value == 5.0


def test_makespans_are_kept_of_successful_runs_only(store: HistoryStore) -> None:
    feed, plan, failed = feed_of(store), replace(KEY, operation="plan"), replace(KEY, operation="failed plan")
    feed.add(lambda: [(KEY, 2.0)], (plan, 9.0))
    feed.add(None, (failed, math.inf))
    feed.flush()
    assert store.stored(plan) == (Sample(9.0, 7.0, None, "selection"),)
    assert store.stored(failed) == (Sample(0.0, 7.0, None, "selection", quiet=False),)
    assert store.stored(in_run_key(KEY)) == (Sample(2.0, 7.0, None, "run"),)


def test_a_failed_write_does_not_affect_the_run() -> None:
    def refuse() -> HistoryStore:
        raise StorageError("full", where="disk")

    feed = HistoryFeed(refuse)
    ran(feed, 1.0)
    feed.add(lambda: [][0])  # a driver's events may be unreadable, too
    feed.flush()
