# SPDX-License-Identifier: Apache-2.0
"""What simulation says of a plan: the plan with predicted times, or a trace as if it had run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal

from syclsched.model.plan import Instruction, Plan
from syclsched.model.trace import Span, Trace
from syclsched.simulation.disturbances import Event, Failure, Noise
from syclsched.simulation.machine import DONE, LOST, NEVER, Records
from syclsched.simulation.program import flatten
from syclsched.simulation.timing import time_machine

_OUTCOMES: Final[dict[int, Literal["done", "failed", "cancelled"]]] = {DONE: "done", LOST: "failed", NEVER: "cancelled"}


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

    Raises
    ------
    IncompletePlanError
        If lanes wait for each other in a circle, or for an instruction that is not there.
    """
    steps = time_machine(plan, flatten(plan))
    times = iter(zip(steps["start_s"].tolist(), steps["finish_s"].tolist(), strict=True))
    # Field by field: `replace` takes three times as long, and plans have many instructions.
    lanes = tuple(
        replace(
            lane,
            instructions=tuple(
                [
                    Instruction(
                        i.id, i.kind, i.task, i.implementation, i.uses, i.waits, i.duration_s, *next(times), i.nbytes
                    )
                    for i in lane.instructions
                ]
            ),
        )
        for lane in plan.lanes
    )
    return replace(plan, lanes=lanes, makespan_s=float(steps["finish_s"].max(initial=0.0)))


def simulate(plan: Plan, *, noise: Noise | None = None, events: Sequence[Event] = (), seed: int = 0) -> Trace:
    """Run a plan on a virtual clock.

    Parameters
    ----------
    plan : Plan
        Any plan, also for hardware that is not here.
    noise : Noise, optional
        How true durations differ from planned ones; exact if not given.
    events : sequence of SlowDown or Failure, optional
        What goes wrong, and when.
    seed : int, optional
        For the noise.

    Returns
    -------
    Trace
        With ``simulated`` set; it draws, reports and exports like a measured one. Equal for equal arguments. After a
        failure, what was running on the lost device has ``failed`` and what could not start any more is ``cancelled``,
        at the time of the first loss.

    Raises
    ------
    IncompletePlanError
        If lanes wait for each other in a circle, or for an instruction that is not there.
    DeviceNotFoundError, PlanError
        If an event is impossible.
    """
    steps = time_machine(plan, flatten(plan), noise=noise, events=events, seed=seed)
    spans = sorted(_spans(plan, steps, events), key=lambda s: (s.start_s, s.instruction))
    return Trace(
        name=plan.name,
        policy=plan.policy,
        spans=tuple(spans),
        makespan_s=max((s.finish_s for s in spans), default=0.0),
        predicted_makespan_s=plan.makespan_s,
        events=plan.counters.events,
        barriers=plan.counters.barriers,
        submissions=sum(1 for s in spans if s.lane_kind != "host" and s.outcome != "cancelled"),
        peak_bytes=dict(plan.peak_bytes),
        simulated=True,
    )


def _spans(plan: Plan, steps: Records, events: Sequence[Event]) -> Iterator[Span]:
    families = {t.name: t.family for t in plan.tasks}
    given_up_s = min((e.at_s for e in events if isinstance(e, Failure)), default=0.0)
    rows = zip(*(steps[name].tolist() for name in ("submit_s", "start_s", "finish_s", "outcome")), strict=True)
    for lane in plan.lanes:
        for i in lane.instructions:
            submit_s, start_s, finish_s, outcome = next(rows)
            if i.kind in ("alloc", "free"):
                continue
            if outcome == NEVER:
                submit_s = start_s = finish_s = given_up_s
            yield Span(
                instruction=i.id,
                kind=i.kind,
                task=i.task,
                implementation=i.implementation,
                family="copy" if i.kind == "copy" else families.get(i.task or "", i.kind),
                lane=lane.name,
                device=lane.device,
                lane_kind=lane.kind,
                submit_s=submit_s,
                start_s=start_s,
                finish_s=finish_s,
                predicted_start_s=i.start_s,
                predicted_finish_s=i.finish_s,
                waits=i.waits,
                nbytes=i.nbytes,
                outcome=_OUTCOMES[outcome],
            )
