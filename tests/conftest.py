# SPDX-License-Identifier: Apache-2.0
"""Settings shared by all tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Shared helpers (tests/strategies.py) are imported as plain modules under importlib mode.
for _folder in ("", "cli", "frontends/onnx", "kernels/tensor"):
    sys.path.insert(0, str(Path(__file__).parent / _folder))

settings.register_profile(
    "ci", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("ci")


@pytest.fixture(params=["compiled", "python"])
def submission(request: pytest.FixtureRequest) -> Iterator[None]:
    """Submission by the compiled loop, and without it."""
    from syclsched.execution import dispatcher

    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(dispatcher, "load_library", lambda: None)
        yield
