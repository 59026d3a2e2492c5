# SPDX-License-Identifier: Apache-2.0
"""The function `bind`, which makes a plan ready for repeated runs."""

from __future__ import annotations

from typing import Any, Literal

from syclsched.execution.bound import Runner
from syclsched.execution.safeguards import USUAL, Safeguards
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan


def bind(
    plan: Plan,
    graph: TaskGraph,
    live: Any,
    *,
    trace: bool | int | Literal["exact"] = True,
    owns_devices: bool = False,
    safeguards: Safeguards = USUAL,
    recover: bool = False,
) -> Runner:
    """Verify a plan and prepare it for repeated runs with new data."""
    return Runner(plan, graph, live, trace=trace, owns_devices=owns_devices, safeguards=safeguards, recover=recover)
