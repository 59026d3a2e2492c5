# SPDX-License-Identifier: Apache-2.0
"""Common fixtures of the tests of tuning."""

from __future__ import annotations

import pytest

from syclsched.onnx.tuning import kernel_selection, plan_comparison


@pytest.fixture
def quiet(monkeypatch) -> None:
    monkeypatch.setattr(kernel_selection, "read_times", lambda: None)
    monkeypatch.setattr(plan_comparison, "read_times", lambda: None)
