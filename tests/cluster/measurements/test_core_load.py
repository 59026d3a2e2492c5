# SPDX-License-Identifier: Apache-2.0
"""Computing on all cores as a background load of message measurements."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from types import SimpleNamespace

import pytest

from syclsched.cluster.measurements import core_load
from syclsched.cluster.measurements.core_load import CoreLoad, CoreUse

WORK = bytes(1 << 20)


def _on_one_core(busy: bool) -> CoreUse:
    """Measure, on a thread limited to one core, another load that takes half of it."""
    found: list[CoreUse] = []

    def measure() -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # of this thread and its children
        with CoreLoad() as load:
            load.start_measurement()
            end = time.perf_counter() + 0.5
            while time.perf_counter() < end:
                if busy:
                    hashlib.sha256(WORK).digest()
                else:
                    time.sleep(0.01)
            found.append(load.measured_use(10))

    thread = threading.Thread(target=measure)
    thread.start()
    thread.join()
    return found[0]


def test_other_work_takes_its_share_of_the_core() -> None:
    """Other processes sometimes use the core, too: they raise or lower the measured loss."""

    def share(busy: bool) -> float:
        return _on_one_core(busy).lost_s * 10 / 0.5

    assert _on_one_core(True).cores == 1
    assert any(share(True) > 0.3 for _ in range(10))
    assert any(share(False) < 0.3 for _ in range(10))


def test_lost_time_is_the_missing_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    now_s, made = 0.0, CoreLoad()

    def compute(seconds: float, steps_per_s: int = 1000) -> None:
        nonlocal now_s
        now_s += seconds
        made._steps[0] += round(steps_per_s * seconds)

    monkeypatch.setattr(CoreLoad, "_compute", lambda self, number: None)
    monkeypatch.setattr(core_load, "time", SimpleNamespace(perf_counter=lambda: now_s, sleep=compute))
    with made as load:
        compute(3.0, 0)  # before the measured pieces: not counted
        load.start_measurement()
        compute(2.0, 400)
        use = load.measured_use(5)
    assert use == CoreUse(pytest.approx(1.2 * 2 / 5), 2)


def test_core_demand_follows_from_the_lost_time() -> None:
    assert CoreUse(0.5, 1).core_demand(1.0) == pytest.approx(1.0)  # half of a core, as a second thread
    assert CoreUse(0.5, 4).core_demand(1.0) == pytest.approx(4 / 7)
    assert CoreUse().core_demand(1e-3) == 0.0
    assert CoreUse(9.0, 2).core_demand(1.0) == pytest.approx(18.0)  # never all of it
