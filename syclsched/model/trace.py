# SPDX-License-Identifier: Apache-2.0
"""Traces: what happened, instruction by instruction, beside what the plan predicted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from syclsched.model.plan import BufferUse, InstructionKind, LaneKind
from syclsched.model.profile import Count, Name, NonNegative, Text
from syclsched.model.recovery import Recovery

TRACE_FORMAT: Final = "syclsched-trace/1"
_STRICT: dict[str, object] = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True)
class Span:
    """One instruction as it ran; times are seconds from the start of the run, on the host's clock.

    Parameters
    ----------
    instruction : int
        `Instruction.id`.
    kind, task, implementation, nbytes
        As in `Instruction`.
    family : str
        The task's family, for colours and sums.
    lane, device, lane_kind : str
        Where.
    submit_s : float
        When the host submitted it.
    start_s, finish_s : float
        Device time mapped to the host's clock, or the host's own for host functions.
    predicted_start_s, predicted_finish_s : float
        From the plan.
    waits : tuple of int
        Instructions of other lanes it waited for.
    outcome : str
        ``done``, ``failed`` or ``cancelled``.
    uses : tuple of BufferUse
        The buffers it touched, as in `Instruction`.
    generation : int
        Which of several runs in one trace it is of.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    instruction: Count
    kind: InstructionKind
    task: Name | None
    implementation: Name | None
    family: Text
    lane: Name
    device: Name
    lane_kind: LaneKind
    submit_s: float
    start_s: float
    finish_s: float
    predicted_start_s: NonNegative
    predicted_finish_s: NonNegative
    waits: tuple[Count, ...] = ()
    nbytes: Count = 0
    outcome: Literal["done", "failed", "cancelled"] = "done"
    generation: Count = 0
    uses: tuple[BufferUse, ...] = ()

    @property
    def duration_s(self) -> float:
        """How long it ran."""
        return self.finish_s - self.start_s


@dataclass(frozen=True, slots=True)
class Trace:
    """What happened in one run.

    Parameters
    ----------
    name, policy : str
        From the plan.
    spans : tuple of Span
        In order of start; without ``alloc`` and ``free``.
    makespan_s : float
        From the first submission to the end of the last instruction.
    predicted_makespan_s : float
        From the plan.
    host_waits : int
        How often the host blocked on the user's behalf.
    events, barriers, submissions : int
        How many were made.
    peak_bytes : dict of str to int
        Most bytes of arrays at once, per space.
    held_bytes : dict of str to int
        Most bytes held for them, per space: with padding, and what was got before its time.
    constant_bytes : dict of str to int
        Bytes of constants, per space, in the form in which implementations take them; there before and after.
    simulated : bool
        True if it comes from a simulation.
    recoveries : tuple of Recovery
        Failures that the run went on after, in order.
    format : str
        The format's name and version.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = _STRICT

    name: Text
    policy: Text
    spans: tuple[Span, ...]
    makespan_s: NonNegative
    predicted_makespan_s: NonNegative
    host_waits: Count = 0
    events: Count = 0
    barriers: Count = 0
    submissions: Count = 0
    peak_bytes: dict[str, Count] = field(default_factory=dict)
    held_bytes: dict[str, Count] = field(default_factory=dict)
    constant_bytes: dict[str, Count] = field(default_factory=dict)
    simulated: bool = False
    recoveries: tuple[Recovery, ...] = ()
    format: Literal["syclsched-trace/1"] = TRACE_FORMAT
