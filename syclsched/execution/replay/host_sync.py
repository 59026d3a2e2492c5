# SPDX-License-Identifier: Apache-2.0
"""Host synchronisation points of a plan, and the submissions that must wait for them. Pure.

Devices wait for predecessors by events. But a Python function has no event, and events cannot cross SYCL contexts. So
an instruction with such a predecessor is submitted only after the function has returned, or after the host has seen
the other device's work complete. These host steps divide a plan's submissions into levels; no other submission waits.

Each lane of the host has a thread. A level is submitted when all steps before it have completed, on whichever lane.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from syclsched.execution.core.program import MEMORY_KINDS, Program, ProgramNode


@dataclass(frozen=True, slots=True)
class HostStep:
    """A host step between submissions."""

    #: A function, copy or barrier of a host lane; None if the host only waits for another device.
    node: ProgramNode | None
    events: tuple[int, ...]  # device instructions that must complete before the step
    level: int = 0  # number of levels that must be submitted before these events exist
    before: tuple[int, ...] = ()  # steps of other lanes that must complete first
    wakes: tuple[int, ...] = ()  # lanes with a step that waits for this one
    number: int = -1  # of the instruction; -1 without one


@dataclass(frozen=True)
class HostSyncSchedule:
    """The host steps of a plan, and the level of each submission."""

    steps: tuple[HostStep, ...]  # in order
    #: Level by number of device instruction: number of steps that must complete before its submission.
    of: Mapping[int, int]
    #: For each step: whether it waits for all earlier submissions, and no other lane submits more.
    is_exclusive: tuple[bool, ...]
    lanes: tuple[tuple[int, ...], ...]  # the steps of each lane of the host, by index
    #: Whether kernels wait for steps of other lanes that they do not depend on. Copies may: kernels wait for them.
    delays: bool

    @cached_property
    def steps_of_lanes(self) -> tuple[tuple[HostStep, ...], ...]:
        """The steps of each lane."""
        return tuple(tuple(self.steps[index] for index in indices) for indices in self.lanes)

    @cached_property
    def nodes(self) -> tuple[ProgramNode, ...]:
        """The instructions of the host lanes, in order."""
        return tuple(step.node for step in self.steps if step.node is not None)


def plan_host_sync(program: Program) -> HostSyncSchedule:
    """Compute the host steps of a plan, and the level of each submission."""
    steps: list[HostStep] = []
    levels: dict[int, int] = {}
    after: dict[int, int] = {}
    last: dict[int, ProgramNode] = {}
    before: dict[int, list[int]] = {}
    #: By device instruction: number of steps after which the host has seen it complete.
    seen: dict[int, int] = {}
    ancestors = _StepAncestors()
    nodes = [program.nodes[i.id] for _, i in program.plan.instructions() if i.kind not in MEMORY_KINDS]
    for node in nodes:
        if node.on_host:
            steps.append(HostStep(node, node.events))
            _note_seen(seen, node.events, before, len(steps))
            after[node.id] = len(steps)
            ancestors.add_step(node.lane, (*node.events, *node.completed_first), node.id)
            continue
        first = [last[node.lane].id] if node.lane in last else []
        before[node.id] = [*first, *(n for n in node.events if n in levels)]
        elsewhere = [n for n in node.completed_first if n in levels]
        unseen = tuple(n for n in elsewhere if n not in seen)
        if unseen:
            steps.append(HostStep(None, unseen))
            _note_seen(seen, unseen, before, len(steps))
            ancestors.add_step(None, unseen)
        waited = (after[n] for n in (*before[node.id], *node.completed_first))
        level = max((*waited, *(seen[n] for n in elsewhere)), default=0)
        after[node.id] = levels[node.id] = level
        last[node.lane] = node
        watches = [seen[n] - 1 for n in elsewhere if steps[seen[n] - 1].node is None]
        is_copy = node.instruction.kind == "copy"
        ancestors.add_submission(node.id, (*before[node.id], *node.completed_first), watches, 0 if is_copy else level)
    lanes = _lanes(steps)
    several = len(lanes) > 1
    return HostSyncSchedule(
        _with_conditions(steps, lanes, levels),
        levels,
        (False,) * len(steps) if several else _alone(steps, levels, before),
        lanes,
        several and ancestors.delays,
    )


class _StepAncestors:
    """The steps that must complete before each instruction, as the bits of integers."""

    def __init__(self) -> None:
        #: Whether a submission waits, by its level, for a step that it does not depend on.
        self.delays = False
        self._of_steps: list[int] = []
        self._of: dict[int, int] = {}
        self._last: dict[int | None, int] = {}

    def add_step(self, lane: int | None, before: tuple[int, ...], number: int | None = None) -> None:
        """Add the next step, of a host instruction or of none."""
        found = 1 << len(self._of_steps) | self._last.get(lane, 0)
        for other in before:
            found |= self._of[other]
        self._of_steps.append(found)
        self._last[lane] = found
        if number is not None:
            self._of[number] = found

    def add_submission(self, number: int, before: tuple[int, ...], watches: list[int], level: int) -> None:
        """Add a device instruction, after other instructions and mere waits; it waits for all steps of the level."""
        found = 0
        for other in before:
            found |= self._of[other]
        for step in watches:
            found |= self._of_steps[step]
        self._of[number] = found
        self.delays |= bool(~found & (1 << level) - 1)


def _lanes(steps: list[HostStep]) -> tuple[tuple[int, ...], ...]:
    """Return the steps of each lane; beside several lanes, mere waits are on one of their own."""
    found: dict[int | None, list[int]] = {}
    for index, step in enumerate(steps):
        found.setdefault(None if step.node is None else step.node.lane, []).append(index)
    if len(found.keys() - {None}) == 1:
        return (tuple(range(len(steps))),)
    return tuple(tuple(indices) for indices in found.values())


def _with_conditions(
    steps: list[HostStep], lanes: tuple[tuple[int, ...], ...], levels: Mapping[int, int]
) -> tuple[HostStep, ...]:
    """Return the steps with the conditions of each, and the lanes that wait for it."""
    lane_of = {index: lane for lane, indices in enumerate(lanes) for index in indices}
    index_of = {step.node.id: index for index, step in enumerate(steps) if step.node is not None}
    before: list[tuple[int, ...]] = []
    wakes: dict[int, set[int]] = {}
    for index, step in enumerate(steps):
        waited = () if step.node is None else (index_of[n] for n in step.node.completed_first if n in index_of)
        before.append(tuple(other for other in waited if lane_of[other] != lane_of[index]))
        for other in before[-1]:
            wakes.setdefault(other, set()).add(lane_of[index])
    return tuple(
        replace(
            step,
            level=1 + max((levels[n] for n in step.events), default=-1),
            before=before[index],
            wakes=tuple(sorted(wakes.get(index, ()))),
            number=-1 if step.node is None else step.node.id,
        )
        for index, step in enumerate(steps)
    )


def _note_seen(seen: dict[int, int], numbers: tuple[int, ...], before: Mapping[int, list[int]], step: int) -> None:
    """Record that instructions and all their predecessors have completed by a step."""
    todo = list(numbers)
    while todo:
        number = todo.pop()
        if number not in seen:
            seen[number] = step
            todo += before[number]


def _alone(steps: list[HostStep], levels: Mapping[int, int], before: Mapping[int, list[int]]) -> tuple[bool, ...]:
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
