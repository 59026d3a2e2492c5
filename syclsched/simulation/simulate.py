# SPDX-License-Identifier: Apache-2.0
"""What simulation says of a plan: the plan with predicted times, or a trace as if it had run."""

from __future__ import annotations

from dataclasses import replace

from syclsched.model.plan import Plan
from syclsched.model.trace import Span, Trace
from syclsched.simulation.engine import time_plan


def predict(plan: Plan) -> Plan:
    """Return the plan with predicted start and finish of every instruction and its makespan.

    Parameters
    ----------
    plan : Plan
        From `syclsched.planning.build_plan`.

    Returns
    -------
    Plan
        The same instructions, with times.
    """
    timing = time_plan(plan)
    lanes = tuple(
        replace(
            lane,
            instructions=tuple(
                replace(i, start_s=timing[i.id].start_s, finish_s=timing[i.id].finish_s) for i in lane.instructions
            ),
        )
        for lane in plan.lanes
    )
    return replace(plan, lanes=lanes, makespan_s=max((t.finish_s for t in timing.values()), default=0.0))


def simulate(plan: Plan) -> Trace:
    """Run a plan on a virtual clock.

    Parameters
    ----------
    plan : Plan
        Any plan, also for hardware that is not here.

    Returns
    -------
    Trace
        With ``simulated`` set; it draws, reports and exports like a measured one.
    """
    timing = time_plan(plan)
    families = {t.name: t.family for t in plan.tasks}
    spans = [
        Span(
            instruction=i.id,
            kind=i.kind,
            task=i.task,
            implementation=i.implementation,
            family="copy" if i.kind == "copy" else families.get(i.task or "", i.kind),
            lane=lane.name,
            device=lane.device,
            lane_kind=lane.kind,
            submit_s=timing[i.id].submit_s,
            start_s=timing[i.id].start_s,
            finish_s=timing[i.id].finish_s,
            predicted_start_s=i.start_s,
            predicted_finish_s=i.finish_s,
            waits=i.waits,
            nbytes=i.nbytes,
        )
        for lane in plan.lanes
        for i in lane.instructions
        if i.kind not in ("alloc", "free")
    ]
    return Trace(
        name=plan.name,
        policy=plan.policy,
        spans=tuple(sorted(spans, key=lambda s: (s.start_s, s.instruction))),
        makespan_s=max((s.finish_s for s in spans), default=0.0),
        predicted_makespan_s=plan.makespan_s,
        events=plan.counters.events,
        barriers=plan.counters.barriers,
        submissions=sum(1 for s in spans if s.lane_kind != "host"),
        peak_bytes=dict(plan.peak_bytes),
        simulated=True,
    )
