# SPDX-License-Identifier: Apache-2.0
"""The devices on which implementations are tested."""

from __future__ import annotations

from typing import Any

import pytest
from support.trying_tensors import Try, run_on


@pytest.fixture
def on_device(queue: Any) -> Try:
    """Return ``on_device(operation, implementation name, **arrays) -> arrays after it``."""
    return lambda operation, name, **arrays: run_on(queue, operation, name, arrays)
