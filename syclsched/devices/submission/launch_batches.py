# SPDX-License-Identifier: Apache-2.0
"""Commands of many launches of one kernel, made together as columns of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from syclsched.devices.native.memory_range import MemoryRange
from syclsched.devices.programs.executables import KernelSubmission
from syclsched.devices.submission.command_maker import CommandMaker
from syclsched.devices.submission.commands import Command, CommandStructure

#: Fewest launches for which arrays take less time than commands made one by one.
FEWEST_LAUNCHES = 4
_WORD_BYTES = 8


def launch_commands(
    maker: CommandMaker,
    lane: int,
    slots: Sequence[int],
    waits: Sequence[Sequence[int]],
    first: KernelSubmission,
    addresses: Sequence[Sequence[int]],
) -> list[Command]:
    """Return the commands of launches on one lane that differ in slots, waits and the addresses of their arrays.

    ``first`` is the submission of the first launch, and ``addresses`` has those of each launch's arrays, in the order
    of the arguments. The caller keeps the arrays' memory.
    """
    template, form = maker.kernel_template(lane, first)
    count = len(slots)
    values = np.empty((count, len(first.arguments)), np.uint64)
    values[:] = np.frombuffer(form.values_of(first.arguments), np.uint64)
    places = [n for n, argument in enumerate(first.arguments) if isinstance(argument, MemoryRange)]
    values[:, places] = np.array(addresses, np.uint64).reshape(count, len(places))
    listed = [maker.slots_to_wait_for(each) for each in waits]
    lengths = np.array([len(each) for each in listed], np.int64)
    awaited = np.array([slot for each in listed for slot in each], np.int64)
    structures: Any = (CommandStructure * count)()
    rows = np.frombuffer(structures, np.uint64).reshape(count, -1)
    rows[:] = np.frombuffer(template, np.uint64)
    rows[:, _word("slot")] = slots
    rows[:, _word("waits")] = awaited.ctypes.data + _WORD_BYTES * (np.cumsum(lengths) - lengths)
    rows[:, _word("waits_count")] = lengths
    rows[:, _word("arguments")] = values.ctypes.data + values.strides[0] * np.arange(count)
    kept = first, form, values, awaited
    return [Command(structures[n], kept, is_open_ended=first.open_ended) for n in range(count)]


def _word(field: str) -> int:
    """Return the position of a member of the structure, all of whose members are machine words."""
    return int(getattr(CommandStructure, field).offset) // _WORD_BYTES
