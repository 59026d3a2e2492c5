# SPDX-License-Identifier: Apache-2.0
"""Which launches of a plan can be made as one: neighbours on a lane that do the same to different arrays. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from syclsched.execution.program import Node, Program

#: A launch costs the runtime a few microseconds. What takes longer than this, by the plan, is not worth joining: others
#: would wait for all of it who now wait for a part.
LONGEST_S = 50e-6
#: So many tasks a launch at most.
MOST_TOGETHER = 8
#: A kernel for several must be compiled, which takes some milliseconds: it must save this many launches a run.
LEAST_SAVED = 8


def joint_launches(
    program: Program,
    nodes: Sequence[Node],
    key: Callable[[Node], tuple[Hashable, int] | None],
    edges: Collection[tuple[str, str]],
    behind: Mapping[int, int],
    levels: Mapping[int, int],
    possible: Callable[[Node, int], bool] = lambda _, __: True,
) -> list[tuple[Node, ...]]:
    """Return a plan's submissions with launches that can be made as one put together.

    A launch goes along with the one before it on its lane if both do the same by the same code, touch nothing that the
    other writes, and all that it waits for is submitted before the first of them: then nothing that it waits for can
    wait for that one, and it may be submitted as early.
    """
    found: list[_Group] = []
    open_on: dict[int, _Group] = {}
    position = {node.id: number for number, node in enumerate(nodes)}
    for node in nodes:
        kind = key(node) if node.instruction.kind == "launch" else None
        group = open_on.get(node.lane)
        if kind is not None and node.instruction.duration_s <= LONGEST_S:
            reads, writes = _touched(program, node)
            level = levels[node.id]
            if (
                group is not None
                and group.level == level
                and group.takes(node, kind[0], reads, writes, edges, position, behind)
            ):
                group.add(node, reads, writes)
            else:
                most = min(kind[1], MOST_TOGETHER)
                group = _Group(kind[0], most, position[node.id], [node], reads, writes, level)
                found.append(group)
            open_on[node.lane] = group
        else:
            found.append(_Group(None, 1, position[node.id], [node], set(), set()))
            open_on.pop(node.lane, None)
    saved: dict[tuple[Hashable, int], int] = defaultdict(int)
    for group in found:
        saved[group.key, len(group.nodes)] += len(group.nodes) - 1
    units: list[tuple[Node, ...]] = []
    joins: dict[tuple[Hashable, int], bool] = {}
    for group in found:
        kind_of = group.key, len(group.nodes)
        if kind_of not in joins:
            joins[kind_of] = saved[kind_of] >= LEAST_SAVED and possible(group.nodes[0], len(group.nodes))
        if joins[kind_of]:
            units.append(tuple(group.nodes))
        else:
            units += [(node,) for node in group.nodes]
    # Those that stay alone keep their place: something of another lane may come between and be waited for.
    return sorted(units, key=lambda unit: position[unit[0].id])


@dataclass(slots=True)
class _Group:
    """Launches of one lane that may be made as one."""

    key: Hashable
    most: int
    first: int
    nodes: list[Node]
    reads: set[tuple[str, str]] = field(default_factory=set)
    writes: set[tuple[str, str]] = field(default_factory=set)
    level: int = 0

    def takes(
        self,
        node: Node,
        key: Hashable,
        reads: set[tuple[str, str]],
        writes: set[tuple[str, str]],
        edges: Collection[tuple[str, str]],
        position: dict[int, int],
        behind: Mapping[int, int],
    ) -> bool:
        """Return whether a launch that follows on the lane can go along."""
        return (
            key == self.key
            and len(self.nodes) < self.most
            and all(position.get(number, -1) < self.first for number in node.events)
            and not (writes & self.reads or writes & self.writes or reads & self.writes)
            and behind.get(node.id, -1) < self.nodes[0].id
            and not any((each.instruction.task, node.instruction.task) in edges for each in self.nodes)
        )

    def add(self, node: Node, reads: set[tuple[str, str]], writes: set[tuple[str, str]]) -> None:
        """Take it along."""
        self.nodes.append(node)
        self.reads |= reads
        self.writes |= writes


def _touched(program: Program, node: Node) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return the memory a launch reads and writes, all rows of an array taken for one."""
    reads: set[tuple[str, str]] = set()
    writes: set[tuple[str, str]] = set()
    for use in node.instruction.uses:
        memory = (program.whole.get(use.array, use.array), use.space)
        if use.mode.writes:
            writes.add(memory)
        if use.mode.reads:
            reads.add(memory)
    return reads, writes
