# SPDX-License-Identifier: Apache-2.0
"""The device of profiling tests, and settings of their sessions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from syclsched.model.platform import Platform


@pytest.fixture
def small_triad(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure the bandwidth on a megabyte: its value is irrelevant, and four times the caches take seconds."""
    from syclsched.profiling.measure import bandwidth

    monkeypatch.setattr(bandwidth, "MAX_TRIAD_BYTES", 1 << 20)


@pytest.fixture(scope="module")
def machine() -> Iterator[tuple[Platform, Any]]:
    """Return the platform of the CPU device, and the opened device."""
    from syclsched.devices import discover, open_devices

    platform = discover(selector="cpu")
    # Host functions are timed once, not also with fewer threads, which makes a difference on several cores only.
    devices = tuple(replace(d, most_lanes=0, processor=None) if d.is_host else d for d in platform.devices)
    platform = replace(platform, devices=devices)
    with open_devices(platform) as live:
        yield platform, live
