# SPDX-License-Identifier: Apache-2.0
"""Settings of the command line's tests."""

from __future__ import annotations

import pytest

from syclsched.cli import wait_notice


@pytest.fixture(autouse=True)
def _no_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print no notice of slow planning: with cold caches it would precede the output that tests compare."""
    monkeypatch.setattr(wait_notice, "AFTER_S", 3600.0)
