# SPDX-License-Identifier: Apache-2.0
"""Array versions: every task that writes an array creates its next version. Pure.

Segments of an array count as arrays of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from syclsched.execution.core.program import MEMORY_KINDS, Buffer
from syclsched.model.plan import Plan, PlannedTask
from syclsched.model.platform import HOST

#: The initial version of an array: an input's value.
GIVEN = 0


@dataclass(frozen=True, slots=True)
class Versions:
    """Array versions that tasks read and write."""

    #: By task: version by array.
    read: Mapping[str, Mapping[str, int]]
    written: Mapping[str, Mapping[str, int]]
    writers: Mapping[str, tuple[str | None, ...]]  # by array: the task that writes each version; None: the initial one

    def writer(self, array: str, version: int) -> str | None:
        """Return the task that writes a version; None for the initial version."""
        return None if version == GIVEN else self.writers[array][version]

    def last(self, array: str) -> int:
        """Return an array's final version."""
        return len(self.writers.get(array, (None,))) - 1


def find_versions(tasks: Iterable[PlannedTask]) -> Versions:
    """Return the versions of all arrays that tasks read and write."""
    read: dict[str, dict[str, int]] = {}
    written: dict[str, dict[str, int]] = {}
    writers: dict[str, list[str | None]] = {}
    for task in tasks:
        mine, made = read.setdefault(task.name, {}), written.setdefault(task.name, {})
        for access in task.accesses:
            known = writers.setdefault(access.array, [None])
            if access.mode.reads:
                mine[access.array] = len(known) - 1
            if access.mode.writes:
                made[access.array] = len(known)
                known.append(task.name)
    return Versions(read, written, {array: tuple(known) for array, known in writers.items()})


def find_contents(
    plan: Plan, versions: Versions, not_started: Collection[int], invalid: Collection[int]
) -> dict[Buffer, int]:
    """Return the version that each buffer holds completely when the run has ended."""
    segments: dict[str, list[str]] = {}
    for array in plan.arrays:
        if array.rows is not None:
            segments.setdefault(array.rows.array, []).append(array.name)
    residents = plan.residents
    found: dict[Buffer, int] = {(a.name, residents.get(a.name, HOST)): GIVEN for a in plan.arrays if a.is_input}
    for _, instruction in plan.instructions():
        number = instruction.id
        if number in not_started:
            continue
        if instruction.kind in MEMORY_KINDS:
            use = instruction.uses[0]
            for name in (use.array, *segments.get(use.array, ())):
                found.pop((name, use.space), None)
            continue
        made: dict[Buffer, int | None] = {}
        if instruction.kind == "copy":
            for source, target in zip(instruction.uses[::2], instruction.uses[1::2], strict=True):
                made[target.array, target.space] = found.get((source.array, source.space))
        elif instruction.task is not None:
            mine = versions.written[instruction.task]
            made = {(u.array, u.space): mine.get(u.array) for u in instruction.uses if u.mode.writes}
        for buffer, version in made.items():
            if version is None or number in invalid:
                found.pop(buffer, None)
            else:
                found[buffer] = version
    return found
