# SPDX-License-Identifier: Apache-2.0
"""One trace of a run on several machines, made of the traces of its parts.

Each machine records its part by a clock of its own. Measured offsets between the clocks put all parts on one time axis.
What the plan has, too, gets the number and the predicted times that it has there. Host tasks that send and receive
become the copy that they are; it begins when it is sent, since a machine may wait for it before.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from syclsched.cluster.measurements.host_clocks import ClockOffset
from syclsched.cluster.part_runner import PartTrace
from syclsched.cluster.parts import Message
from syclsched.execution.handle.trace_merging import EngineTrace
from syclsched.model.plan import Instruction, Lane, Plan
from syclsched.model.platform_parts.machines import machine_of, qualified
from syclsched.model.trace import Span, Trace

_Placed = tuple[Lane, Instruction]


def merge_parts(
    plan: Plan, messages: Sequence[Message], parts: Mapping[str, PartTrace], clocks: Mapping[str, ClockOffset]
) -> EngineTrace:
    """Return one trace of all parts of a divided plan, given by machine, with its origin on this process's clock."""
    origins_ns = {machine: clocks[machine].here_ns(part.origin_ns) for machine, part in parts.items()}
    begun_ns = min((origins_ns[machine] for machine, part in parts.items() if part.trace.spans), default=0)
    planned, spans = _PlannedInstructions(plan, messages), list[Span]()
    exchanged: dict[tuple[str, str], Span] = {}
    sends = {(each.source, each.sender) for each in messages}
    receives = {(each.destination, each.receiver): each for each in messages}
    for machine, part in parts.items():
        offset_s, numbers = (origins_ns[machine] - begun_ns) * 1e-9, dict[int, int]()
        own: list[Span] = []
        for span in part.trace.spans:
            moved, key = _moved(span, machine, offset_s), (machine, span.task or "")
            if key in sends:
                exchanged[key] = moved
                continue
            if key in receives:
                exchanged[key], number = moved, planned.number(receives[key])
                if number is not None:
                    numbers[span.instruction] = number
                continue
            found = planned.of(moved)
            numbers[span.instruction] = found.instruction
            own.append(found)
        spans += [replace(each, waits=tuple(numbers[w] for w in each.waits if w in numbers)) for each in own]
    for message in messages:
        sent = exchanged.get((message.source, message.sender))
        received = exchanged.get((message.destination, message.receiver))
        if message.array and sent is not None and received is not None:
            spans.append(planned.copy(message, sent, received))
    traces = [(machine, part.trace) for machine, part in parts.items()]
    merged = Trace(
        name=plan.name,
        policy=plan.policy,
        spans=tuple(sorted(spans, key=lambda span: (span.start_s, span.instruction))),
        makespan_s=max((span.finish_s for span in spans), default=0.0),
        predicted_makespan_s=plan.makespan_s,
        host_waits=sum(trace.host_waits for _, trace in traces),
        events=sum(trace.events for _, trace in traces),
        barriers=sum(trace.barriers for _, trace in traces),
        submissions=sum(trace.submissions for _, trace in traces),
        peak_bytes={qualified(m, space): size for m, trace in traces for space, size in trace.peak_bytes.items()},
        held_bytes={qualified(m, space): size for m, trace in traces for space, size in trace.held_bytes.items()},
        constant_bytes={
            qualified(m, space): size for m, trace in traces for space, size in trace.constant_bytes.items()
        },
    )
    return EngineTrace(merged, begun_ns)


class _PlannedInstructions:
    """The instructions of a plan by task or transfer."""

    def __init__(self, plan: Plan, messages: Sequence[Message]) -> None:
        self._tasks: dict[str, _Placed] = {}
        self._copies: dict[tuple[str, str], deque[_Placed]] = defaultdict(deque)  # by array and destination
        crossing: dict[tuple[str, str], deque[_Placed]] = defaultdict(deque)  # by array and machine
        idle = 0
        for lane, instruction in plan.instructions():
            if instruction.kind in ("launch", "host", "barrier") and instruction.task is not None:
                self._tasks[instruction.task] = lane, instruction
            elif instruction.kind == "alloc":
                idle = instruction.id
            elif instruction.kind == "copy":
                sources = {use.array: use.space for use in instruction.uses if not use.mode.writes}
                for use in instruction.uses:
                    if use.mode.writes:
                        self._copies[use.array, use.space].append((lane, instruction))
                        machine = machine_of(use.space)
                        if machine_of(sources.get(use.array, use.space)) not in ("", machine):
                            crossing[use.array, machine].append((lane, instruction))
        self._messages = {
            message.number: waiting.popleft()
            for message in messages
            if (waiting := crossing.get((message.segment or message.array, message.destination)))
        }
        # An instruction that the plan has not gets a number that is an allocation's in another run of the plan:
        # reports follow the memory that a number uses.
        self._step = 1 + max((each.id for _, each in plan.instructions()), default=0)
        self._unplanned = idle

    def of(self, span: Span) -> Span:
        """Return a span with its number and predicted times."""
        if span.kind != "copy":
            return self._as_planned(span, self._tasks.get(span.task or ""))
        waiting = [self._copies.get((use.array, use.space)) for use in span.uses if use.mode.writes]
        return self._as_planned(span, next((each.popleft() for each in waiting if each), None))

    def number(self, message: Message) -> int | None:
        """Return the number of the copy that a message is; None if the plan has none."""
        placed = self._messages.get(message.number)
        return None if placed is None else placed[1].id

    def copy(self, message: Message, sent: Span, received: Span) -> Span:
        """Return the copy that a message is, from the spans of the tasks that sent and received it."""
        placed = self._messages.get(message.number)
        span = replace(
            received,
            kind="copy",
            task=None if placed is None else placed[1].task,
            implementation=None,
            nbytes=message.nbytes,
            waits=(),
            submit_s=sent.submit_s,
            start_s=max(received.start_s, min(sent.start_s, received.finish_s)),
        )
        if placed is not None:
            lane, instruction = placed
            span = replace(span, lane=lane.name, device=lane.device, lane_kind=lane.kind, uses=instruction.uses)
        return self._as_planned(span, placed)

    def _as_planned(self, span: Span, placed: _Placed | None) -> Span:
        if placed is None:
            self._unplanned += self._step
            return replace(span, instruction=self._unplanned, predicted_start_s=0.0, predicted_finish_s=0.0)
        _, instruction = placed
        return replace(
            span,
            instruction=instruction.id,
            predicted_start_s=instruction.start_s,
            predicted_finish_s=instruction.finish_s,
        )


def _moved(span: Span, machine: str, offset_s: float) -> Span:
    """Return a span of a machine on the time axis of all, with the names that its devices have there."""
    return replace(
        span,
        lane=qualified(machine, span.lane),
        device=qualified(machine, span.device),
        submit_s=span.submit_s + offset_s,
        start_s=span.start_s + offset_s,
        finish_s=span.finish_s + offset_s,
        uses=tuple(replace(use, space=qualified(machine, use.space)) for use in span.uses),
    )
