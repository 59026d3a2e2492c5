# SPDX-License-Identifier: Apache-2.0
"""What of a plan is the host's, and what of its submissions must wait for that. Pure.

Devices are told by events what to wait for, but no event stands for a Python function. So what needs one is submitted
only when it has returned: the host's steps cut a plan's submissions into levels. Nothing else is held back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from syclsched.execution.program import MEMORY_KINDS, Node, Program


@dataclass(frozen=True, slots=True)
class Levels:
    """A plan's host steps, and the level of each submission.

    Parameters
    ----------
    steps : tuple of Node
        Functions, copies and barriers of the host lane, in order.
    of : Mapping[int, int]
        By number of device instruction: how many of the steps must have been done before it is submitted.
    alone : tuple of bool
        For each step whether it waits for all that can have been submitted by then.
    """

    steps: tuple[Node, ...]
    of: Mapping[int, int]
    alone: tuple[bool, ...]


def find_levels(program: Program) -> Levels:
    """Return what the host does in a plan, and when.

    Parameters
    ----------
    program : Program
        With one host lane at most.
    """
    steps: list[Node] = []
    levels: dict[int, int] = {}
    after: dict[int, int] = {}
    last: dict[int, Node] = {}
    before: dict[int, list[int]] = {}
    nodes = [program.nodes[i.id] for _, i in program.plan.instructions() if i.kind not in MEMORY_KINDS]
    for node in nodes:
        if node.on_host:
            steps.append(node)
            after[node.id] = len(steps)
            continue
        first = [last[node.lane].id] if node.lane in last else []
        before[node.id] = [*first, *(n for n in node.events if n in levels)]
        level = max((after[n] for n in (*before[node.id], *node.completed_first)), default=0)
        after[node.id] = levels[node.id] = level
        last[node.lane] = node
    return Levels(tuple(steps), levels, _alone(steps, levels, before))


def _alone(steps: list[Node], levels: Mapping[int, int], before: Mapping[int, list[int]]) -> tuple[bool, ...]:
    submitted = [0] * (len(steps) + 1)
    for level in levels.values():
        submitted[level] += 1
    done: set[int] = set()
    found, there = [], 0
    for position, step in enumerate(steps):
        todo = list(step.events)
        while todo:
            number = todo.pop()
            if number not in done:
                done.add(number)
                todo += before[number]
        there += submitted[position]
        found.append(len(done) == there)
    return tuple(found)
