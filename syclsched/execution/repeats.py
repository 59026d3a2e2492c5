# SPDX-License-Identifier: Apache-2.0
"""Commands for runs with inputs like the last ones: C finds these, and what can read them where they lie does so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from syclsched.devices.arrays import GivenArrays
from syclsched.devices.command_list import CommandList
from syclsched.devices.commands import CallCommand, Command
from syclsched.devices.flight import OwnCommands
from syclsched.devices.submission_loop import SubmissionLoop
from syclsched.execution.program import Node, Program
from syclsched.model.platform import HOST

#: An input by its name in the graph, None if nothing needs it, with its dtype and shape.
Input = tuple[str | None, np.dtype[Any], tuple[int, ...]]


def own_commands(
    library: Any, loop: SubmissionLoop, program: Program, commands: CommandList, inputs: Sequence[Input]
) -> OwnCommands | None:
    """Return commands that read inputs where C finds them; None if they are read otherwise than by copies."""
    given = GivenArrays([(np.empty(0, dtype).dtype, shape) for _, dtype, shape in inputs])
    if program.segments or program.written_inputs or program.plan.residents or not given.are_seen_in(library):
        return None
    made, omitted = list(commands.parts), []
    nodes = {program.nodes[slot]: command for command in commands.commands for slot in command.slots}
    for number, (name, _, _) in enumerate(inputs):
        users = [node for node in nodes if any(use.array == name for use in node.instruction.uses)]
        if not users:
            continue
        copies = [node for node in users if _touches(node, name, HOST)]
        if len(copies) != 1 or copies[0].instruction.kind != "copy" or len(copies[0].instruction.uses) != 2:
            return None
        at = commands.first_part(nodes[copies[0]])
        original = made[at]
        to, nbytes = original.copied
        structure = given.structures[number]
        space = copies[0].instruction.uses[1].space
        readers = [node for node in users if node is not copies[0] and _touches(node, name, space)]
        elsewhere = _elsewhere(nodes[readers[0]], to) if len(readers) == 1 else None
        made[at], structure.copy = original.copy_of(nbytes if elsewhere is None else 0)
        if elsewhere is not None:
            reader = readers[0]
            behind = commands.first_part(nodes[reader])
            made[behind] = loop.call(reader.id, reader.lane, reader.events, elsewhere.call)
            structure.move, structure.moved = elsewhere.move, elsewhere.moved
            omitted.append((at, behind, number, to, nbytes))
    return OwnCommands(made, given, [name for name, _, _ in inputs], omitted)


def _touches(node: Node, name: str | None, space: str) -> bool:
    return any(use.array == name and use.space == space for use in node.instruction.uses)


def _elsewhere(command: Command, address: int) -> Any:
    # Of several submissions more than one may read it.
    if not isinstance(command, CallCommand) or command.call.reading_elsewhere is None:
        return None
    return command.call.reading_elsewhere(address)
