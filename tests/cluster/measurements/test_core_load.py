# SPDX-License-Identifier: Apache-2.0
"""Tests of computing on all cores, beside which messages are measured."""

from __future__ import annotations

import hashlib
import os
import threading
import time

import pytest

from syclsched.cluster.measurements.core_load import CoreLoad, CoreUse

WORK = bytes(1 << 20)


def _on_one_core(busy: bool) -> CoreUse:
    """Measure, on a thread that may use one core, other work that takes half of it."""
    found: list[CoreUse] = []

    def measure() -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # of this thread, and of those that it starts
        with CoreLoad() as load:
            load.begin()
            end = time.perf_counter() + 0.5
            while time.perf_counter() < end:
                if busy:
                    hashlib.sha256(WORK).digest()
                else:
                    time.sleep(0.01)
            found.append(load.use(10))

    thread = threading.Thread(target=measure)
    thread.start()
    thread.join()
    return found[0]


def test_other_work_takes_its_share_of_the_core() -> None:
    def share(busy: bool) -> float:
        return min(_on_one_core(busy).lost_s * 10 / 0.5 for _ in range(3))  # at most: others use the core, too

    assert _on_one_core(True).cores == 1
    assert share(True) > 0.3
    assert share(False) < 0.3


def test_cores_that_are_wanted_are_those_that_take_as_long_in_a_plan() -> None:
    assert CoreUse(0.5, 1).wanted(1.0) == pytest.approx(1.0)  # half of a core, as a second thread
    assert CoreUse(0.5, 4).wanted(1.0) == pytest.approx(4 / 7)
    assert CoreUse().wanted(1e-3) == 0.0
    assert CoreUse(9.0, 2).wanted(1.0) == pytest.approx(18.0)  # never all
