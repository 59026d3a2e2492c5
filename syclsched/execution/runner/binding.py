# SPDX-License-Identifier: Apache-2.0
"""The function `bind`, which makes a plan ready for repeated runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from syclsched.execution.core.safeguards import DEFAULT_SAFEGUARDS, Safeguards
from syclsched.execution.runner.bound_plan import Runner
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices
    from syclsched.execution.runner.plan_makespans import MakespanKey


def bind(
    plan: Plan,
    graph: TaskGraph,
    devices: OpenDevices,
    *,
    trace: bool | int | Literal["exact"] = True,
    owns_devices: bool = False,
    safeguards: Safeguards = DEFAULT_SAFEGUARDS,
    recover: bool = False,
    measure: bool = False,
    makespan_key: MakespanKey | None = None,
) -> Runner:
    """Verify a plan and prepare it for repeated runs with new data."""
    return Runner(
        plan,
        graph,
        devices,
        trace=trace,
        owns_devices=owns_devices,
        safeguards=safeguards,
        recover=recover,
        measure=measure,
        makespan_key=makespan_key,
    )
