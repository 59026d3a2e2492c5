# SPDX-License-Identifier: Apache-2.0
"""Host synchronisation points of a plan, and the submissions that must wait for them. Pure.

Devices wait for predecessors by events. But a Python function has no event, and events cannot cross SYCL contexts. So
an instruction with such a predecessor is submitted only after the function has returned, or after the host has seen
the other device's work complete. These host steps divide a plan's submissions into levels; no other submission waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from syclsched.execution.core.program import MEMORY_KINDS, Program, ProgramNode


@dataclass(frozen=True, slots=True)
class _HostStep:
    """A host step between submissions."""

    #: A function, copy or barrier of the host lane; None if the host only waits for another device.
    node: ProgramNode | None
    events: tuple[int, ...]  # device instructions that must complete before the step


@dataclass(frozen=True, slots=True)
class HostSyncSchedule:
    """The host steps of a plan, and the level of each submission."""

    steps: tuple[_HostStep, ...]  # in order
    #: Level by number of device instruction: number of steps that must complete before its submission.
    of: Mapping[int, int]
    is_exclusive: tuple[bool, ...]  # for each step: whether it waits for all earlier submissions

    @property
    def nodes(self) -> tuple[ProgramNode, ...]:
        """The instructions of the host lane, in order."""
        return tuple(step.node for step in self.steps if step.node is not None)


def plan_host_sync(program: Program) -> HostSyncSchedule:
    """Compute the host steps of a plan, and the level of each submission."""
    steps: list[_HostStep] = []
    levels: dict[int, int] = {}
    after: dict[int, int] = {}
    last: dict[int, ProgramNode] = {}
    before: dict[int, list[int]] = {}
    #: By device instruction: number of steps after which the host has seen it complete.
    seen: dict[int, int] = {}
    nodes = [program.nodes[i.id] for _, i in program.plan.instructions() if i.kind not in MEMORY_KINDS]
    for node in nodes:
        if node.on_host:
            steps.append(_HostStep(node, node.events))
            _note_seen(seen, node.events, before, len(steps))
            after[node.id] = len(steps)
            continue
        first = [last[node.lane].id] if node.lane in last else []
        before[node.id] = [*first, *(n for n in node.events if n in levels)]
        elsewhere = [n for n in node.completed_first if n in levels]
        unseen = tuple(n for n in elsewhere if n not in seen)
        if unseen:
            steps.append(_HostStep(None, unseen))
            _note_seen(seen, unseen, before, len(steps))
        waited = (after[n] for n in (*before[node.id], *node.completed_first))
        level = max((*waited, *(seen[n] for n in elsewhere)), default=0)
        after[node.id] = levels[node.id] = level
        last[node.lane] = node
    return HostSyncSchedule(tuple(steps), levels, _alone(steps, levels, before))


def _note_seen(seen: dict[int, int], numbers: tuple[int, ...], before: Mapping[int, list[int]], step: int) -> None:
    """Record that instructions and all their predecessors have completed by a step."""
    todo = list(numbers)
    while todo:
        number = todo.pop()
        if number not in seen:
            seen[number] = step
            todo += before[number]


def _alone(steps: list[_HostStep], levels: Mapping[int, int], before: Mapping[int, list[int]]) -> tuple[bool, ...]:
    submitted = [0] * (len(steps) + 1)
    for level in levels.values():
        submitted[level] += 1
    done: set[int] = set()
    found, n_submitted = [], 0
    for position, step in enumerate(steps):
        todo = list(step.events)
        while todo:
            number = todo.pop()
            if number not in done:
                done.add(number)
                todo += before[number]
        n_submitted += submitted[position]
        found.append(len(done) == n_submitted)
    return tuple(found)
