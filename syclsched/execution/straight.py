# SPDX-License-Identifier: Apache-2.0
"""Which plans need no thread that watches over them: all their work is known, and submitted as soon as can be."""

from __future__ import annotations

from collections.abc import Mapping

from syclsched.devices.executables import Executable, needs_python
from syclsched.execution.program import MEMORY_KINDS, Program


def why_not_straight(program: Program, executables: Mapping[int, Executable]) -> str | None:
    """Return why a plan must be watched over while it runs, or None if it need not be.

    Parameters
    ----------
    program : Program
        The plan.
    executables : Mapping[int, Executable]
        What its instructions launch, by instruction number.

    Returns
    -------
    str or None
        In words for the user.
    """
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
