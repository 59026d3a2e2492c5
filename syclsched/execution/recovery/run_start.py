# SPDX-License-Identifier: Apache-2.0
"""Start of a run by its first engine, with recovery if that is requested."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from syclsched.devices.memory.resident_array import InputValue, host_value
from syclsched.execution.core.safeguards import DEFAULT_SAFEGUARDS, Safeguards
from syclsched.execution.dispatch.prepared import PreparedPlan
from syclsched.execution.handle.engine import EndedEngine, Engine
from syclsched.execution.handle.run import Run
from syclsched.execution.memory.buffers import NumpyArray
from syclsched.model.recovery import Recovery

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices
    from syclsched.execution.recovery.health import DeviceHealth


def start_run(
    engine: Engine,
    prepared: PreparedPlan,
    devices: OpenDevices,
    values: dict[str, InputValue],
    *,
    owns_devices: bool = False,
    keep: Any = None,
    safeguards: Safeguards = DEFAULT_SAFEGUARDS,
    deadlines_s: Mapping[int, float] | None = None,
    recover: bool = False,
    health: DeviceHealth | None = None,
    recoveries: tuple[Recovery, ...] = (),
    conclude: Callable[[], tuple[EndedEngine, PreparedPlan]] | None = None,
) -> Run:
    """Start an engine of a prepared plan, and return its run; the deadlines are by default those of the plan."""
    recovery = None
    if recover and not safeguards.stepped:
        from syclsched.execution.recovery.recovery_planner import RecoveryPlanner

        for name, value in values.items():
            values[name] = host_value(value)
        # The same mapping, so that the run has the values that the recovery rescues.
        given = cast("dict[str, NumpyArray]", values)
        recovery = RecoveryPlanner(prepared, devices, given, health, recoveries, conclude, safeguards)
    return Run(
        engine,
        devices,
        values,
        owns_devices=owns_devices,
        joined=prepared.joined,
        keep=keep,
        safeguards=safeguards,
        deadlines_s=prepared.deadlines_s if deadlines_s is None else deadlines_s,
        recovery=recovery,
    )
