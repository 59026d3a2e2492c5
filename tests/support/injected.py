# SPDX-License-Identifier: Apache-2.0
"""Injected faults by name, each at the point with a given number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from syclsched.testing import faults

FAULTS: Mapping[str, Callable[[int], Any]] = {
    "submission": faults.fail_submission,
    "copy": faults.fail_copy,
    "allocation": faults.fail_allocation,
    "on device": faults.fail_on_device,
    "on device, done": lambda number: faults.fail_on_device(number, done=True),
}
