# SPDX-License-Identifier: Apache-2.0
"""Replay eligibility: plans whose work is known beforehand and can be submitted as a whole by the compiled loop."""

from __future__ import annotations

from collections.abc import Mapping

from syclsched.devices.programs.executables import Executable, needs_python
from syclsched.execution.core.program import MEMORY_KINDS, Program
from syclsched.execution.core.safeguards import Safeguards


def why_not_replayed(safeguards: Safeguards, program: Program, executables: Mapping[int, Executable]) -> str | None:
    """Return why the compiled loop cannot submit a plan's runs as a whole; None if it can."""
    if safeguards.stepped:
        return "debug or nan_guard is on: instructions are done one at a time"
    return why_dispatcher_needed(program, executables)


def why_dispatcher_needed(program: Program, executables: Mapping[int, Executable]) -> str | None:
    """Return why a plan needs a dispatcher while it runs; None if it does not."""
    if len({node.lane for node in program.nodes.values() if node.on_host}) > 1:
        return "there is work on several lanes of the host"
    for node in program.nodes.values():
        if node.instruction.kind in MEMORY_KINDS:
            continue
        name = node.instruction.task or node.instruction.kind
        executable = executables.get(node.id)
        if executable is not None and needs_python(executable):
            return f"{name!r} is submitted by a library that has no native call"
    return None
