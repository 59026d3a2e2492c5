# SPDX-License-Identifier: Apache-2.0
"""Submission order of several plan instances to the same in-order lanes, by modulo scheduling. Pure.

On an in-order lane an instruction waits for all earlier ones, even without a dependency. So instances are interleaved
by a modulo schedule of the plan's instructions (Rau, "Iterative modulo scheduling", MICRO-27, 1994). Each instance is
cut into stages of one interval. In each round every instance in flight advances by one stage, and each lane gets its
instructions in the order of their times within the interval.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from syclsched.execution.core.program import MEMORY_KINDS, Program, ProgramNode
from syclsched.planning.initiation_interval import CyclicStep, seconds_of, shortest_cycle
from syclsched.scheduling.tables import NOTHING


@dataclass(frozen=True, slots=True)
class Rounds:
    """Submission order of a stream, in rounds."""

    order: tuple[int, ...]  # instruction numbers in each instance's submission order
    stages: int  # number of rounds in which an instance is submitted
    #: One round, as (stage, end) pairs: the instance at this stage submits ``order`` up to ``end``, pair by pair.
    pieces: tuple[tuple[int, int], ...]
    #: Between instances in the modulo schedule; without interleaving, the plan's makespan.
    interval_s: float


def sequential_rounds(program: Program) -> Rounds:
    """Return rounds in which each instance is submitted as a whole, in the plan's order."""
    order = tuple(node.id for node in _work(program))
    return Rounds(order, 1, ((0, len(order)),), program.plan.makespan_s)


def interleaved_rounds(program: Program) -> Rounds | None:
    """Return the rounds of the modulo schedule with the shortest interval found; None without interleaving."""
    nodes = _work(program)
    found = shortest_cycle([_step(node) for node in nodes])
    if found is None:
        return None
    rounds = _rounds(nodes, found.begin_s.tolist(), found.interval_s)
    return rounds if rounds.stages > 1 else None


def rounds_before_host_steps(rounds: Rounds, level_of: Mapping[int, int]) -> Rounds:
    """Return the rounds restricted to instructions that wait for no host step.

    The others are submitted as the host steps complete.
    """
    first = [level_of.get(n) == 0 for n in rounds.order]
    before = [0, *accumulate(first)]
    pieces = [(stage, before[end]) for stage, end in rounds.pieces]
    ends = dict.fromkeys(range(rounds.stages), 0)
    kept: list[tuple[int, int]] = []
    for stage, end in sorted(pieces):  # a stage begins where the one before it ends
        ends[stage] = max(ends[stage], end)
    reached = {stage: max((ends[s] for s in range(stage)), default=0) for stage in ends}
    for stage, end in pieces:
        if end > reached[stage]:
            reached[stage] = end
            kept.append((stage, end))
    order = [n for n in rounds.order if n in level_of]
    order.sort(key=lambda n: level_of[n])
    stages = 1 + max((stage for stage, _ in kept), default=0)
    return Rounds(tuple(order), stages, tuple(kept) or ((0, 0),), rounds.interval_s)


# --- inside ---------------------------------------------------------------------------------------


def _work(program: Program) -> list[ProgramNode]:
    """Return the instructions that are submitted (no allocations and frees), in the plan's order."""
    return [program.nodes[i.id] for _, i in program.plan.instructions() if i.kind not in MEMORY_KINDS]


def _step(node: ProgramNode) -> CyclicStep:
    before = (*node.events, *node.completed_first, *node.submitted_first)
    return CyclicStep(node.id, node.lane, seconds_of(node.instruction), before)


def _rounds(nodes: list[ProgramNode], begin_s: list[float], interval_s: float) -> Rounds:
    by_time = sorted(range(len(nodes)), key=lambda n: (begin_s[n], n))
    order = [nodes[n] for n in by_time]
    times = [begin_s[n] for n in by_time]
    stage = [int(t / interval_s * (1.0 + 1e-9)) for t in times]
    stages = max(stage) + 1
    # Per lane, the instructions of a round in order: (stage, index in the order).
    following: dict[int, deque[tuple[int, int]]] = {}
    for n in sorted(range(len(order)), key=lambda n: (times[n] - stage[n] * interval_s, -stage[n], n)):
        following.setdefault(order[n].lane, deque()).append((stage[n], n))
    at = [stage.index(s) if s in stage else NOTHING for s in range(stages)]
    pieces: list[tuple[int, int]] = []
    left, current = len(order), stages - 1
    while left:
        begun = left
        while 0 <= at[current] < len(order) and stage[at[current]] == current:
            lane = following[order[at[current]].lane]
            if lane[0] != (current, at[current]):
                break
            lane.popleft()
            at[current] += 1
            left -= 1
        if left < begun:
            pieces.append((current, at[current]))
        current = (current - 1) % stages
    return Rounds(tuple(node.id for node in order), stages, tuple(pieces), interval_s)
