# SPDX-License-Identifier: Apache-2.0
"""Launch fusion: consecutive launches on a lane become one, of one kernel with different arrays, or a chain. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from syclsched.execution.core.program import Program, ProgramNode
from syclsched.model.task import Task

#: Longest predicted duration of a launch to be fused with others that keep all compute units busy. A launch costs the
#: runtime a few microseconds: little compared with a longer kernel, whose dependents would have to wait for the whole
#: fused launch. Longer launches of few work-groups, such as those of the two directions of a recurrent layer, are fused
#: up to the number that the compute units can run at once.
MAX_DURATION_S = 50e-6
#: Maximum number of tasks per fused launch.
MAX_FUSED = 8
#: Minimum number of launches per run that a fused kernel must save, because compiling it takes some milliseconds.
MIN_SAVED_LAUNCHES = 8
#: Share of a run that chains of launches must save, each launch of them so many seconds: compiling takes a part of one.
NOTICED, LAUNCH_S = 0.005, 7e-6
#: Most work of a task to be chained, which takes one core a few microseconds.
MAX_CHAINED_FLOPS, MAX_CHAINED_BYTES = 1 << 16, 1 << 17


def fuse_launches(
    program: Program,
    nodes: Sequence[ProgramNode],
    key: Callable[[ProgramNode], tuple[Hashable, int, int] | None],
    edges: Collection[tuple[str, str]],
    behind: Mapping[int, int],
    levels: Mapping[int, int],
    possible: Callable[[ProgramNode, int], bool] = lambda _, __: True,
) -> list[tuple[ProgramNode, ...]]:
    """Group a plan's submissions into units, each submitted as one command.

    ``key`` returns the code of a launch, the most launches of one submission, and how many of them run at a time.

    A launch is fused with its predecessor on the lane if both use the same code, neither accesses an array that the
    other writes, and all predecessors of the launch are submitted before the first launch of the group. Then none of
    these predecessors can depend on that first launch, so the launch may be submitted as early.
    """
    found: list[_LaunchGroup] = []
    open_groups: dict[int, _LaunchGroup] = {}
    position = {node.id: number for number, node in enumerate(nodes)}
    for node in nodes:
        kind = key(node) if node.instruction.kind == "launch" else None
        group = open_groups.get(node.lane)
        is_long = node.instruction.duration_s > MAX_DURATION_S
        if kind is not None and (not is_long or kind[2] > 1):
            reads, writes = _touched(program, node)
            level = levels[node.id]
            if (
                group is not None
                and group.level == level
                and group.takes(node, kind[0], reads, writes, edges, position, behind)
            ):
                group.add(node, reads, writes)
            else:
                most = min(kind[1], MAX_FUSED, kind[2] if is_long else MAX_FUSED)
                group = _LaunchGroup(kind[0], most, position[node.id], [node], reads, writes, level, is_long)
                found.append(group)
            open_groups[node.lane] = group
        else:
            found.append(_LaunchGroup(None, 1, position[node.id], [node], set(), set()))
            open_groups.pop(node.lane, None)
    saved: dict[tuple[Hashable, int], int] = defaultdict(int)
    for group in found:
        saved[group.key, len(group.nodes)] += len(group.nodes) - 1
    units: list[tuple[ProgramNode, ...]] = []
    joins: dict[tuple[Hashable, int], bool] = {}
    for group in found:
        kind_of = group.key, len(group.nodes)
        if kind_of not in joins:
            is_worth_it = len(group.nodes) > 1 if group.is_long else saved[kind_of] >= MIN_SAVED_LAUNCHES
            joins[kind_of] = is_worth_it and possible(group.nodes[0], len(group.nodes))
        if joins[kind_of]:
            units.append(tuple(group.nodes))
        else:
            units += [(node,) for node in group.nodes]
    # Unfused launches keep their position: they may depend on an instruction of another lane in between.
    return sorted(units, key=lambda unit: position[unit[0].id])


@dataclass(slots=True)
class _LaunchGroup:
    """Candidate group of launches of one lane."""

    key: Hashable
    most: int
    first: int
    nodes: list[ProgramNode]
    reads: set[tuple[str, str]] = field(default_factory=set)
    writes: set[tuple[str, str]] = field(default_factory=set)
    level: int = 0
    is_long: bool = False

    def takes(
        self,
        node: ProgramNode,
        key: Hashable,
        reads: set[tuple[str, str]],
        writes: set[tuple[str, str]],
        edges: Collection[tuple[str, str]],
        position: dict[int, int],
        behind: Mapping[int, int],
    ) -> bool:
        """Return whether the next launch of the lane can be fused with the group."""
        return (
            key == self.key
            and len(self.nodes) < self.most
            and all(position.get(number, -1) < self.first for number in node.events)
            and not (writes & self.reads or writes & self.writes or reads & self.writes)
            and behind.get(node.id, -1) < self.nodes[0].id
            and not any((each.instruction.task, node.instruction.task) in edges for each in self.nodes)
        )

    def add(self, node: ProgramNode, reads: set[tuple[str, str]], writes: set[tuple[str, str]]) -> None:
        """Add a launch to the group."""
        self.nodes.append(node)
        self.reads |= reads
        self.writes |= writes


def _touched(program: Program, node: ProgramNode) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return the memory that a launch reads and writes; an array's rows count as the whole array."""
    reads: set[tuple[str, str]] = set()
    writes: set[tuple[str, str]] = set()
    for use in node.instruction.uses:
        memory = (program.whole.get(use.array, use.array), use.space)
        if use.mode.writes:
            writes.add(memory)
        if use.mode.reads:
            reads.add(memory)
    return reads, writes


def is_tiny(task: Task) -> bool:
    """Return whether a task takes one core about as long as its launch, so that its kernel may be part of a chain."""
    if task.operation is None or task.signature is None:
        return False
    work = task.operation.work(task.signature)
    return work.flops <= MAX_CHAINED_FLOPS and work.bytes <= MAX_CHAINED_BYTES


def saves_enough(chains: Iterable[Sequence[ProgramNode]], makespan_s: float) -> bool:
    """Return whether a run of a predicted duration is noticeably shorter if launches are chained."""
    return sum(len(chain) - 1 for chain in chains) * LAUNCH_S >= NOTICED * makespan_s


def chain_launches(
    units: Sequence[tuple[ProgramNode, ...]], link: Callable[[ProgramNode], tuple[Hashable, int] | None], most: int
) -> list[tuple[ProgramNode, ...]]:
    """Group consecutive units of one launch, on one lane, which can be executed by one work-item one after another.

    ``link`` returns a key equal for launches that can be chained, and the number of arguments, of which a chain may
    have ``most``; or None.
    """
    found: list[tuple[ProgramNode, ...]] = []
    open_key, count = None, 0
    for unit in units:
        linked = link(unit[0]) if len(unit) == 1 and unit[0].instruction.kind == "launch" else None
        if linked is not None and linked[0] == open_key and count + linked[1] <= most:
            found[-1] += unit
            count += linked[1]
        else:
            found.append(unit)
            open_key, count = linked or (None, 0)
    return found
