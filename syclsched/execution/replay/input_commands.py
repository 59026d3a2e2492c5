# SPDX-License-Identifier: Apache-2.0
"""Commands of repeated runs that read the caller's inputs in place, or copy them from the caller's memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from syclsched.devices.native.input_arrays import IndexRange, InputArrays
from syclsched.devices.native.submission_library import SubmissionLibrary
from syclsched.devices.submission.command_list import CommandList
from syclsched.devices.submission.command_maker import MovableCommand
from syclsched.devices.submission.commands import CallCommand, Command
from syclsched.devices.submission.native_run import InPlaceCommands
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.execution.core.program import Program, ProgramNode
from syclsched.model.platform import HOST

#: Least bytes of an array that a kernel reads in place: to set a kernel's pointer takes as long as to copy less.
LEAST_READ_IN_PLACE: Final = 32 << 10


class InputSpec(NamedTuple):
    """The form of one input array."""

    name: str | None  # in the graph; None if no task reads it
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    indices: IndexRange | None = None  # that its values must be in; only of `INDEX_DTYPES`


def make_input_commands(
    library: SubmissionLibrary,
    loop: SubmissionLoop,
    program: Program,
    commands: CommandList,
    inputs: Sequence[InputSpec],
) -> InPlaceCommands | None:
    """Return commands whose inputs C resolves at each run; None if an input is not read by exactly one copy."""
    ranges = {number: each.indices for number, each in enumerate(inputs) if each.indices is not None}
    given = InputArrays([(np.empty(0, each.dtype).dtype, each.shape) for each in inputs], ranges)
    if program.segments or program.written_inputs or not given.layout_matches(library):
        return None
    if not program.plan.residents.keys().isdisjoint(each.name for each in inputs):
        return None
    made, omitted = list(commands.parts), []
    nodes = {program.nodes[slot]: command for command in commands.commands for slot in command.slots}
    for number, (name, *_) in enumerate(inputs):
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
        in_place, reader_at = None, 0
        if len(readers) == 1 and len(nodes[readers[0]].parts) == 1:  # several may read the input more than once
            reader_at = commands.first_part(nodes[readers[0]])
            in_place = _in_place(loop, readers[0], made[reader_at], to, nbytes)
        made[at], structure.copy = original.truncated_copy(nbytes if in_place is None else 0)
        if in_place is not None:
            made[reader_at], structure.move, structure.moved = in_place
            omitted.append((at, reader_at, number, to, nbytes))
    return InPlaceCommands(made, given, [each.name for each in inputs], omitted)


def _touches(node: ProgramNode, name: str | None, space: str) -> bool:
    return any(use.array == name and use.space == space for use in node.instruction.uses)


def _in_place(
    loop: SubmissionLoop, node: ProgramNode, command: Command, address: int, nbytes: int
) -> MovableCommand | None:
    """Return a command that reads an array, given by its address, anywhere; None if to copy it is as good."""
    if not isinstance(command, CallCommand):
        return loop.reading_anywhere(command, address) if nbytes >= LEAST_READ_IN_PLACE else None
    elsewhere = command.call.reading_elsewhere and command.call.reading_elsewhere(address)
    if elsewhere is None:
        return None
    return MovableCommand(loop.call(node.id, node.lane, node.events, elsewhere.call), elsewhere.move, elsewhere.moved)
