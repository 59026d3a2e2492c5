# SPDX-License-Identifier: Apache-2.0
"""In which order the instructions of several generations of a plan go to the same lanes. Pure.

A lane is in order: what is submitted behind the last instruction of a generation waits for it, though it could go
before. So generations are interleaved as a modulo schedule of the plan's instructions says (Rau, "Iterative modulo
scheduling", MICRO-27, 1994): each is cut into stages of one interval, and in each round every generation that is under
way goes on by one stage, the instructions of a lane in the order of their times within the interval.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from syclsched.execution.program import MEMORY_KINDS, Node, Program
from syclsched.scheduling.objectives.modulo import Operations, fit
from syclsched.scheduling.tables import NOTHING, Floats

#: Of plans with more instructions generations are submitted one after another.
MOST_INSTRUCTIONS = 4000

#: Intervals are tried from the load of the busiest lane on, each longer by this share of it.
_GROWTH = (0.0, 1e-3, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75, 1.0, 1.5, 2.0, 3.0)


@dataclass(frozen=True, slots=True)
class Rounds:
    """How generations are submitted.

    Parameters
    ----------
    order : tuple of int
        Instruction numbers in the order in which each generation submits them.
    stages : int
        In so many rounds a generation is submitted.
    pieces : tuple of (int, int)
        A round: the generation that is at this stage submits what comes before this place in ``order``, then the next
        piece's goes on.
    interval_s : float
        Between generations, by the modulo schedule; of generations one after another, the time one takes.
    """

    order: tuple[int, ...]
    stages: int
    pieces: tuple[tuple[int, int], ...]
    interval_s: float


def one_by_one(program: Program) -> Rounds:
    """Return rounds in which each generation is submitted as a whole, in the plan's order."""
    order = tuple(node.id for node in _work(program))
    return Rounds(order, 1, ((0, len(order)),), program.plan.makespan_s)


def interleaved(program: Program) -> Rounds | None:
    """Return the rounds of the modulo schedule with the shortest interval that is found.

    Parameters
    ----------
    program : Program
        Of a plan with predicted times.

    Returns
    -------
    Rounds or None
        None if there is nothing to interleave, the plan is too large, or no interval shorter than one generation fits.
    """
    nodes = _work(program)
    if len({node.lane for node in nodes}) < 2 or len(nodes) > MOST_INSTRUCTIONS:
        return None
    ops, loads = _operations(nodes, len(program.plan.lanes))
    least_s = max(float(loads.max()), float(ops.seconds.max()))
    if least_s <= 0.0:
        return None
    for growth in _GROWTH:
        interval_s = least_s * (1.0 + growth)
        fits, begin_s = fit(ops, ops.order, len(loads), interval_s, False)
        if fits:
            rounds = _rounds(nodes, begin_s.tolist(), interval_s)
            return rounds if rounds.stages > 1 else None
    return None


# --- inside ---------------------------------------------------------------------------------------


def _work(program: Program) -> list[Node]:
    """Return the instructions that are submitted, in the plan's order."""
    return [program.nodes[i.id] for _, i in program.plan.instructions() if i.kind not in MEMORY_KINDS]


def _seconds(node: Node) -> float:
    i = node.instruction
    return i.finish_s - i.start_s if i.finish_s > i.start_s else i.duration_s


def _operations(nodes: list[Node], lanes: int) -> tuple[Operations, Floats]:
    """Return the instructions as operations, each on its lane, and the lanes' loads in seconds."""
    place = {node.id: position for position, node in enumerate(nodes)}
    seconds = np.array([_seconds(node) for node in nodes])
    edges: list[tuple[int, int]] = []
    last: dict[int, int] = {}
    for position, node in enumerate(nodes):
        before = {place[n] for n in (*node.events, *node.completed_first, *node.submitted_first) if n in place}
        if node.lane in last:
            before.add(last[node.lane])
        edges += [(first, position) for first in before]
        last[node.lane] = position
    edges.sort()
    sources = np.array([first for first, _ in edges], np.int64)
    count = np.arange(len(nodes))
    ops = Operations(
        seconds,
        np.zeros(len(nodes)),
        np.array([(node.lane, NOTHING) for node in nodes], np.int64),
        np.searchsorted(sources, np.arange(len(nodes) + 1)).astype(np.int64),
        np.array([after for _, after in edges], np.int64),
        seconds[sources],
        np.zeros(len(edges), np.int64),
        count,
    )
    loads = np.zeros(lanes)
    np.add.at(loads, [node.lane for node in nodes], seconds)
    return ops, loads


def _rounds(nodes: list[Node], begin_s: list[float], interval_s: float) -> Rounds:
    by_time = sorted(range(len(nodes)), key=lambda n: (begin_s[n], n))
    order = [nodes[n] for n in by_time]
    times = [begin_s[n] for n in by_time]
    stage = [int(t / interval_s * (1.0 + 1e-9)) for t in times]
    stages = max(stage) + 1
    # Per lane, what is next in a round: (stage, place in the order).
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
