# SPDX-License-Identifier: Apache-2.0
"""Which plans need no thread that watches over them: all their work is known, and submitted as soon as can be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from syclsched.devices.executables import Executable, needs_python
from syclsched.execution.program import MEMORY_KINDS, Program
from syclsched.execution.safeguards import Safeguards


def why_not_replayed(
    library: Any, safeguards: Safeguards, program: Program, executables: Mapping[int, Executable]
) -> str | None:
    """Return why the runs of a plan are not handed to the devices from C, or None if they may be."""
    if library is None:
        return "the package was built without its C parts, or they are switched off"
    if safeguards.stepped:
        return "debug or nan_guard is on: instructions are done one at a time"
    return why_not_straight(program, executables)


def why_not_straight(program: Program, executables: Mapping[int, Executable]) -> str | None:
    """Return why a plan must be watched over while it runs, or None if it need not be."""
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
