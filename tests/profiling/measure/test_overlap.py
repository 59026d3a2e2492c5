# SPDX-License-Identifier: Apache-2.0
"""Slow-down of overlapping loads: its factor, and measurements on a virtual clock."""

from __future__ import annotations

import pytest

from syclsched.profiling.measure import overlap
from syclsched.profiling.statistics import Sampler


def test_overlap_factor() -> None:
    assert overlap.overlap_factor([1.0, 1.0], 1.0) == 0.0
    assert overlap.overlap_factor([1.0, 1.0], 2.0) == 1.0
    assert overlap.overlap_factor([1.0, 3.0], 3.5) == 0.5
    assert overlap.overlap_factor([1.0, 1.0], 0.9) == 0.0


class VirtualDevice:
    """Loads on a virtual clock: each runs alone on a core, or all take turns; every third wait is disturbed."""

    def __init__(self, shared: bool) -> None:
        self.now, self.shared, self.queued, self.waits = 0.0, shared, 0, 0

    def submit(self) -> None:
        self.queued += 1

    def wait(self) -> None:
        self.now += self.queued if self.shared else min(self.queued, 1)
        self.queued = 0
        self.waits += 1
        self.now += 5.0 if self.waits % 3 == 0 else 0.0


@pytest.mark.parametrize(("shared", "factor"), [(True, 1.0), (False, 0.0)])
def test_overlap_is_independent_of_disturbances(shared: bool, factor: float) -> None:
    device = VirtualDevice(shared)
    load = overlap.Load(device.submit, device.wait)
    sampler = Sampler(clock=lambda: device.now)
    quantity = overlap.measure_overlap(sampler, [load, load], budget_s=300.0)
    assert quantity.value == factor
    assert quantity.samples > 1
