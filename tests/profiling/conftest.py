# SPDX-License-Identifier: Apache-2.0
"""Settings of profiling sessions in tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def small_triad(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measures the bandwidth on a megabyte: its value does not matter, and four times the caches take seconds."""
    from syclsched.profiling.measure import bandwidth

    monkeypatch.setattr(bandwidth, "MAX_TRIAD_BYTES", 1 << 20)
