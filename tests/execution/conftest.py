# SPDX-License-Identifier: Apache-2.0
"""The devices of this machine."""

from __future__ import annotations

from typing import Any

import pytest

from syclsched.model.platform import Platform


@pytest.fixture
def live() -> tuple[Platform, Any]:
    """The platform with two lanes on every device, and the open devices."""
    from opened import live_on

    return live_on(None)
