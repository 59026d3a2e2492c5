# SPDX-License-Identifier: Apache-2.0
"""Inputs that were copied to a device before a run: its commands read them there, in place of a copy in the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from syclsched.devices.memory.resident_array import CopiedArray, InputValue
from syclsched.devices.submission.commands import Command
from syclsched.execution.core.program import Buffer, Program, ProgramNode
from syclsched.execution.memory.buffers import BufferTable
from syclsched.model.platform import HOST
from syclsched.model.usm import PoolKeys

#: Instructions of one submission.
Unit = tuple[ProgramNode, ...]


def copied_buffers(program: Program) -> dict[str, tuple[int, Buffer]]:
    """Return for inputs that a run copies once, to one device's own memory, the number of that copy and its target.

    Nothing else may use the input in the host's memory, or write it.
    """
    plan, found = program.plan, dict[str, tuple[int, Buffer]]()
    if all(space.host_accessible for space in plan.platform.spaces):  # as on a CPU: nothing is looked through
        return found
    keys = PoolKeys(plan.platform, plan.memory)
    left_out = {*program.segments, *plan.residents, *program.whole, *program.written_inputs}
    inputs = {each.name for each in plan.arrays if each.is_input} - left_out
    users: dict[str, list[ProgramNode]] = {name: [] for name in inputs}
    allocated: Counter[Buffer] = Counter()
    for node in program.nodes.values():
        uses = node.instruction.uses
        for use in uses:
            if use.array in inputs and node.instruction.kind not in ("alloc", "free"):
                users[use.array].append(node)
        if node.instruction.kind == "alloc":
            allocated[uses[0].array, uses[0].space] += 1
    for name, nodes in users.items():
        copies = list(dict.fromkeys(node for node in nodes if node.instruction.kind == "copy"))
        others = [use for node in nodes if node not in copies for use in node.instruction.uses if use.array == name]
        if len(copies) != 1 or len(copies[0].instruction.uses) != 2:
            continue
        source, target = ((use.array, use.space) for use in copies[0].instruction.uses)
        key = keys.get(target)
        is_device = key is not None and key.kind == "device" and not plan.platform.space(target[1]).host_accessible
        is_read = all((use.array, use.space) == target and not use.mode.writes for use in others)
        if source == (name, HOST) and is_device and is_read and allocated[target] == 1:
            found[name] = copies[0].id, target
    return found


class CopiedInputs:
    """The inputs of an instance's next run that are on a device already, and the commands that read them there."""

    def __init__(self, program: Program, buffers: BufferTable) -> None:
        self._buffers = buffers
        #: By input: the copy that is left out, and the buffer that is elsewhere then.
        self.targets = copied_buffers(program)
        self._memory: dict[str, CopiedArray] = {}
        #: Buffers whose commands are not all replaced yet: that can fail or be interrupted.
        self._moved: set[Buffer] = set()
        self._made: dict[tuple[int, ...], dict[tuple[int, ...], Command]] = {}

    def among(self, values: Mapping[str, InputValue]) -> dict[str, CopiedArray]:
        """Return the values that are on a device and can be read there."""
        found = {}
        for name, (_, buffer) in self.targets.items():
            value = values.get(name)
            if isinstance(value, CopiedArray) and self._buffers.can_use(buffer, value):
                found[name] = value
        return found

    def is_left_out(self, number: int) -> bool:
        """Return whether an instruction is a copy that the next run does not make."""
        return bool(self._memory) and any(self.targets[name][0] == number for name in self._memory)

    def select(self, values: Mapping[str, CopiedArray]) -> None:
        """Read these inputs where they are, and others in memory of the instance, once commands that `change` are made.

        Call `changed` then.
        """
        for name, (_, buffer) in self.targets.items():
            value, before = values.get(name), self._memory.get(name)
            if (value and value.address) == (before and before.address):
                continue
            self._moved.add(buffer)
            if value is None:
                self._buffers.use(buffer, None)
            else:
                self._buffers.replace(buffer, value.memory)
        self._memory = dict(values)

    @property
    def has_changes(self) -> bool:
        """Whether commands must be replaced."""
        return bool(self._moved)

    def change(self, unit: Unit) -> bool:
        """Return whether the command of some instructions must be replaced."""
        return bool(self._moved) and any(
            (use.array, use.space) in self._moved for node in unit for use in node.instruction.uses
        )

    def command(self, unit: Unit, make: Callable[[Unit], Command], *, anew: bool) -> Command:
        """Return the command of some instructions; those that read inputs are kept for each memory these were in.

        With ``anew`` what they have to do with other inputs has changed.
        """
        used = {(use.array, use.space) for node in unit for use in node.instruction.uses}
        at = tuple(self._buffers[buffer].address for _, buffer in self.targets.values() if buffer in used)
        if not at or unit[0].instruction.kind == "copy":
            return make(unit)
        kept = self._made.setdefault(tuple(node.id for node in unit), {})
        if anew:
            kept.clear()
        if at not in kept:
            kept[at] = make(unit)
        return kept[at]

    def changed(self) -> None:
        """Note that all commands are replaced."""
        self._moved = set()

    def forget(self) -> None:
        """Drop the commands that are kept, and with them the memory that they read."""
        self._made.clear()
