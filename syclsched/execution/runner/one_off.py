# SPDX-License-Identifier: Apache-2.0
"""One-off runs: verify a plan, start it, return at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from syclsched.devices.memory.resident_array import InputValue
from syclsched.devices.programs.executables import Executable
from syclsched.execution.core.safeguards import DEFAULT_SAFEGUARDS, Safeguards
from syclsched.execution.dispatch.prepared import PreparedPlan, prepare
from syclsched.execution.dispatch.start import make_engine
from syclsched.execution.handle.run import Run
from syclsched.execution.recovery.run_start import start_run
from syclsched.execution.runner.plan_makespans import MakespanKey, PlanMakespans
from syclsched.execution.runner.task_durations import DurationRecorder
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.recovery import Recovery
from syclsched.progress import Progress

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices
    from syclsched.execution.recovery.health import DeviceHealth


def execute(
    plan: Plan,
    graph: TaskGraph,
    devices: OpenDevices,
    inputs: Mapping[str, Any] | None = None,
    *,
    trace: bool = True,
    owns_devices: bool = False,
    safeguards: Safeguards = DEFAULT_SAFEGUARDS,
    recover: bool = False,
    measure: bool = False,
    makespan_key: MakespanKey | None = None,
    progress: Progress | bool | None = False,
) -> Run:
    """Verify and start a plan; return at once.

    With ``measure``, its tasks' times go into the history, and with a key its makespan. ``progress`` reports the
    kernels that the run compiles first.
    """
    prepared = prepare(plan, graph)
    values = prepared.values(inputs)
    durations = None
    if measure and trace and safeguards.measurable:
        makespans = None if makespan_key is None else PlanMakespans(makespan_key)
        durations = DurationRecorder(prepared, makespans=makespans)
    run = start(
        prepared,
        devices,
        values,
        trace=trace,
        owns_devices=owns_devices,
        safeguards=safeguards,
        recover=recover,
        progress=progress,
    )
    if durations is not None:
        run.record_in(durations)
    return run


def start(
    prepared: PreparedPlan,
    devices: OpenDevices,
    values: dict[str, InputValue],
    *,
    trace: bool = True,
    owns_devices: bool = False,
    safeguards: Safeguards = DEFAULT_SAFEGUARDS,
    recover: bool = False,
    health: DeviceHealth | None = None,
    executables: Mapping[int, Executable] | None = None,
    recoveries: tuple[Recovery, ...] = (),
    progress: Progress | bool | None = False,
) -> Run:
    """Start a prepared plan and return at once."""
    engine = make_engine(prepared, devices, values, record=trace, safeguards=safeguards, executables=executables)
    engine.progress = progress
    return start_run(
        engine,
        prepared,
        devices,
        values,
        owns_devices=owns_devices,
        safeguards=safeguards,
        recover=recover,
        health=health,
        recoveries=recoveries,
    )
