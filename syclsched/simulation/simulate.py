# SPDX-License-Identifier: Apache-2.0
"""Simulated results of a plan: the plan with predicted times, or a trace of a simulated run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from operator import attrgetter
from typing import Final, Literal

import numpy as np

from syclsched.model.plan import Lane, Plan
from syclsched.model.tables.instruction_table import InstructionTable
from syclsched.model.tables.lazy_objects import lane_table, lazy_lane, lazy_trace
from syclsched.model.text.bulk_objects import make_objects
from syclsched.model.trace import Span, Trace
from syclsched.simulation.disturbances import Event, Failure
from syclsched.simulation.machine import DONE, LOST, NEVER, WORK, Floats, Ints, Records
from syclsched.simulation.machine_builder import flatten
from syclsched.simulation.noise import Noise
from syclsched.simulation.timing import time_machine

_OUTCOMES: Final[dict[int, Literal["done", "failed", "cancelled"]]] = {DONE: "done", LOST: "failed", NEVER: "cancelled"}


def predict(plan: Plan) -> Plan:
    """Return the plan with its makespan and the predicted start and finish of every instruction."""
    machine = flatten(plan)
    steps = time_machine(plan, machine)
    ends = machine.lanes["end"].tolist()
    rows = [(steps["start_s"][a:b], steps["finish_s"][a:b]) for a, b in zip([0, *ends], ends, strict=False)]
    lanes = tuple(
        [lazy_lane(lane, partial(_timed, lane, *times)) for lane, times in zip(plan.lanes, rows, strict=True)]
    )
    predicted = replace(plan, lanes=lanes, makespan_s=float(steps["finish_s"].max(initial=0.0)))
    flatten.keep(predicted, machine)  # the engine does not use predicted times
    return predicted


def _timed(lane: Lane, start_s: Floats, finish_s: Floats) -> InstructionTable:
    """Return the instructions of a lane with other times."""
    return replace(lane_table(lane), start_s=start_s, finish_s=finish_s)


def simulate(plan: Plan, *, noise: Noise | None = None, events: Sequence[Event] = (), seed: int = 0) -> Trace:
    """Run a plan on a virtual clock and return its trace."""
    steps = time_machine(plan, flatten(plan), noise=noise, events=events, seed=seed)
    given_up_s = min((e.at_s for e in events if isinstance(e, Failure)), default=0.0)
    shown = np.flatnonzero(steps["kind"] >= WORK)
    never = steps["outcome"][shown] == NEVER
    ended_s = np.where(never, given_up_s, steps["finish_s"][shown])
    on_host = np.array([lane.kind == "host" for lane in plan.lanes], dtype=bool)
    lane_of = np.searchsorted(flatten(plan).lanes["end"], shown, side="right")
    trace = Trace(
        name=plan.name,
        policy=plan.policy,
        spans=(),
        makespan_s=float(ended_s.max(initial=0.0)),
        predicted_makespan_s=plan.makespan_s,
        events=plan.counters.events,
        barriers=plan.counters.barriers,
        submissions=int(np.count_nonzero(~never & ~on_host[lane_of])),
        peak_bytes=dict(plan.peak_bytes),
        constant_bytes=dict(plan.constant_bytes),
        simulated=True,
    )
    return lazy_trace(trace, partial(_spans, plan, steps, shown, lane_of, given_up_s))


def _spans(plan: Plan, steps: Records, shown: Ints, lane_of: Ints, given_up_s: float) -> tuple[Span, ...]:
    """Return the spans of some instructions, in order of start."""
    real = steps[shown]
    never = real["outcome"] == NEVER
    for name in ("submit_s", "start_s", "finish_s"):
        real[name][never] = given_up_s
    order = np.lexsort((real["number"], real["start_s"]))
    real = real[order]
    every = list(chain.from_iterable(lane.instructions for lane in plan.lanes))
    made = [every[n] for n in shown[order].tolist()]
    lanes = [plan.lanes[n] for n in lane_of[order].tolist()]
    families = {t.name: t.family for t in plan.tasks}
    same: dict[str, Iterable[object]] = {
        name: map(attrgetter(name), made) for name in ("kind", "task", "implementation", "waits", "nbytes", "uses")
    }
    times = {name: real[name].tolist() for name in ("submit_s", "start_s", "finish_s")}
    rest = {
        "instruction": real["number"].tolist(),
        "family": ["copy" if i.kind == "copy" else families.get(i.task or "", i.kind) for i in made],
        "lane": map(attrgetter("name"), lanes),
        "device": map(attrgetter("device"), lanes),
        "lane_kind": map(attrgetter("kind"), lanes),
        "predicted_start_s": map(attrgetter("start_s"), made),
        "predicted_finish_s": map(attrgetter("finish_s"), made),
        "generation": repeat(0, len(made)),
        "outcome": map(_OUTCOMES.__getitem__, real["outcome"].tolist()),
    }
    return tuple(make_objects(Span, len(made), same | times | rest))
