# SPDX-License-Identifier: Apache-2.0
"""Initiation interval of a plan that is run repeatedly, with instances interleaved on in-order lanes. Pure.

It comes from a modulo schedule of the plan's instructions (Rau, "Iterative modulo scheduling", MICRO-27, 1994), each of
which keeps its lane and its place in the lane's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from syclsched.model.plan import Instruction, Plan
from syclsched.scheduling.objectives.modulo import Operations, fit
from syclsched.scheduling.tables import NOTHING, Floats

#: Plans with more instructions get no modulo schedule: their instances are submitted one after another.
MOST_INSTRUCTIONS = 4000

#: Intervals tried: the load of the busiest lane, plus each of these shares of it.
_GROWTH = (0.0, 1e-3, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75, 1.0, 1.5, 2.0, 3.0)


@dataclass(frozen=True, slots=True)
class CyclicStep:
    """An operation that runs once in each instance of a plan."""

    number: int
    lane: int  # steps of one lane run in the order of the sequence
    seconds: float  # duration
    before: tuple[int, ...]  # numbers of its predecessors; unknown ones are ignored


@dataclass(frozen=True, slots=True, eq=False)
class Cycle:
    """A modulo schedule."""

    interval_s: float  # between the starts of consecutive instances
    begin_s: Floats  # start of each step within its instance


def shortest_cycle(steps: Sequence[CyclicStep]) -> Cycle | None:
    """Return the modulo schedule with the shortest interval found; None if there is none worth having."""
    if len({step.lane for step in steps}) < 2 or len(steps) > MOST_INSTRUCTIONS:
        return None
    ops, loads = _operations(steps)
    least_s = max(float(loads.max()), float(ops.seconds.max()))
    if least_s <= 0.0:
        return None
    for growth in _GROWTH:
        interval_s = least_s * (1.0 + growth)
        fits, begin_s = fit(ops, ops.order, len(loads), interval_s, False)
        if fits:
            return Cycle(interval_s, begin_s)
    return None


def stream_interval_s(plan: Plan) -> float:
    """Return the interval at which instances of a plan can start when a stream interleaves them."""
    lane_of = {i.id: number for number, lane in enumerate(plan.lanes) for i in lane.instructions}
    steps = [CyclicStep(i.id, lane_of[i.id], seconds_of(i), i.waits) for _, i in plan.instructions()]
    found = shortest_cycle(steps)
    return plan.makespan_s if found is None else min(found.interval_s, plan.makespan_s)


def seconds_of(instruction: Instruction) -> float:
    """Return an instruction's planned duration."""
    i = instruction
    return i.finish_s - i.start_s if i.finish_s > i.start_s else i.duration_s


# --- inside ---------------------------------------------------------------------------------------


def _operations(steps: Sequence[CyclicStep]) -> tuple[Operations, Floats]:
    """Return the steps as modulo-scheduling operations, and the load of each lane in seconds."""
    place = {step.number: position for position, step in enumerate(steps)}
    seconds = np.array([step.seconds for step in steps])
    edges: list[tuple[int, int]] = []
    last: dict[int, int] = {}
    for position, step in enumerate(steps):
        before = {place[n] for n in step.before if n in place}
        if step.lane in last:
            before.add(last[step.lane])
        edges += [(first, position) for first in before]
        last[step.lane] = position
    edges.sort()
    sources = np.array([first for first, _ in edges], np.int64)
    count = np.arange(len(steps))
    ops = Operations(
        seconds,
        np.zeros(len(steps)),
        np.array([(step.lane, NOTHING) for step in steps], np.int64),
        np.searchsorted(sources, np.arange(len(steps) + 1)).astype(np.int64),
        np.array([after for _, after in edges], np.int64),
        seconds[sources],
        np.zeros(len(edges), np.int64),
        count,
    )
    loads = np.zeros(max(last) + 1)
    np.add.at(loads, [step.lane for step in steps], seconds)
    return ops, loads
