# SPDX-License-Identifier: Apache-2.0
"""The choice of a one-off run's engine: the dispatcher, or the step-by-step engine of a debugged run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from syclsched.devices.memory.resident_array import InputValue
from syclsched.devices.programs.executables import Executable
from syclsched.execution.core.safeguards import DEFAULT_SAFEGUARDS, Safeguards
from syclsched.execution.dispatch.debug_checks import debug_checks_for
from syclsched.execution.dispatch.debug_engine import DebugEngine
from syclsched.execution.dispatch.dispatcher import Dispatcher
from syclsched.execution.dispatch.prepared import PreparedPlan
from syclsched.execution.lanes.lanes import queues_of

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices


def make_engine(
    prepared: PreparedPlan,
    devices: OpenDevices,
    values: Mapping[str, InputValue],
    *,
    record: bool,
    safeguards: Safeguards = DEFAULT_SAFEGUARDS,
    executables: Mapping[int, Executable] | None = None,
) -> DebugEngine | Dispatcher:
    """Return an engine for a prepared plan, not yet started."""
    plan, program = prepared.plan, prepared.program
    queues = queues_of(plan, devices)
    buffers = prepared.new_buffers(devices, guarded=safeguards.debug)
    for name in prepared.inputs:
        buffers.add_input(name, values[name], private=name in program.written_inputs)
    if safeguards.stepped:
        inspections = debug_checks_for(safeguards, buffers)
        return DebugEngine(program, prepared.work, buffers, queues, inspections, record=record)
    sharing = safeguards if safeguards.takes_turns else None
    return Dispatcher(program, prepared.work, buffers, queues, record=record, executables=executables, sharing=sharing)
