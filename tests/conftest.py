# SPDX-License-Identifier: Apache-2.0
"""Settings shared by all tests."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

# Shared helpers (tests/strategies.py) are imported as plain modules under importlib mode.
for _folder in ("", "cli"):
    sys.path.insert(0, str(Path(__file__).parent / _folder))

settings.register_profile(
    "ci", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("ci")
