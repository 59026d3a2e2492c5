# SPDX-License-Identifier: Apache-2.0
"""Traces: the executed instructions of a run with their measured times, and the times the plan predicted."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from syclsched.model.plan import BufferUse, InstructionKind, LaneKind, Plan
from syclsched.model.profile import Count, Name, NonNegative, Text
from syclsched.model.recovery import Recovery
from syclsched.model.text.json_serialisation import Serialisable
from syclsched.model.text.units import format_seconds, plural
from syclsched.model.views.drawing import trace_gantt, trace_report

TRACE_FORMAT: Final = "syclsched-trace/1"


@dataclass(frozen=True, slots=True)
class Span(Serialisable):
    """One executed instruction; times are seconds from the start of the run, on the host's clock.

    Parameters
    ----------
    instruction : int
        `Instruction.id`.
    kind, task, implementation, nbytes
        As in `Instruction`.
    family : str
        The task's family, for colours and sums.
    lane, device, lane_kind : str
        The lane it ran on.
    submit_s : float
        Time of submission by the host.
    start_s, finish_s : float
        Device times mapped to the host's clock; host times for host functions.
    predicted_start_s, predicted_finish_s : float
        Times predicted by the plan.
    waits : tuple of int
        Instructions of other lanes that it waited for.
    outcome : str
        ``done``, ``failed`` or ``cancelled``.
    uses : tuple of BufferUse
        The buffers it accessed, as in `Instruction`.
    generation : int
        Index of its run, in a trace of several runs.
    """

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

    def __repr__(self) -> str:
        what = self.kind if self.task is None else f"{self.kind} of {self.task!r}"
        times = f"from {format_seconds(self.start_s)} to {format_seconds(self.finish_s)}"
        return f"<Span {self.instruction}: {what} on {self.lane}, {times}, {self.outcome}>"

    @property
    def duration_s(self) -> float:
        """Duration in seconds."""
        return self.finish_s - self.start_s


@dataclass(frozen=True, slots=True)
class Trace(Serialisable):
    """The record of one run.

    Parameters
    ----------
    name, policy : str
        Graph name and policy of the plan.
    spans : tuple of Span
        In order of start; without ``alloc`` and ``free``.
    makespan_s : float
        From the first submission to the end of the last instruction.
    predicted_makespan_s : float
        Makespan predicted by the plan.
    host_waits : int
        Number of blocking waits of the host on the user's behalf.
    events, barriers, submissions : int
        Numbers of events, barriers and submissions.
    peak_bytes : dict of str to int
        Peak bytes of arrays per space.
    held_bytes : dict of str to int
        Peak bytes allocated for arrays per space, including padding and early allocations.
    constant_bytes : dict of str to int
        Bytes of constants per space, in the layouts of the implementations; resident before and after the run.
    simulated : bool
        True if it comes from a simulation.
    recoveries : tuple of Recovery
        Failures that the run recovered from, in order.
    format : str
        The format's name and version.

    Examples
    --------
    >>> import syclsched
    >>> from syclsched.kernels import get
    >>> graph = syclsched.TaskGraph()
    >>> task = graph.kernel(get("scale"), name="double", x=graph.array("x", (1 << 20,)), alpha=2.0)
    >>> plan = syclsched.plan(graph, syclsched.describe("max1550"), policy="single:max1550")
    >>> trace = syclsched.simulate(plan)
    >>> [span.kind for span in trace.spans]
    ['copy', 'launch']
    """

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

    def report(self, path: str | Path, plan: Plan | None = None) -> None:
        """Write one HTML page about the run or simulation, to open in a browser; it needs no network.

        Parameters
        ----------
        path : str or Path
            The file to write, as ``run.html``.
        plan : Plan, optional
            The executed plan: adds the memory in use and the compared plans.

        Raises
        ------
        StorageError
            If the file cannot be written.
        """
        trace_report(self, path, plan)

    def __repr__(self) -> str:
        how = "simulated" if self.simulated else "measured"
        size = plural(len(self.spans), "instruction")
        return f"<Trace of {self.name!r}: {size}, {format_seconds(self.makespan_s)} {how}>"

    def gantt(self, path: str | Path | None = None) -> Any:
        """Draw the trace as a Gantt chart: predicted above measured or disturbed times, or predicted ones alone.

        Parameters
        ----------
        path : str or Path, optional
            File to write, as PNG, SVG or PDF by its ending.

        Returns
        -------
        matplotlib.figure.Figure
            The chart; notebooks show it.

        Examples
        --------
        >>> import syclsched
        >>> graph = syclsched.TaskGraph("two")
        >>> x = graph.array("x", (1000,), "float64")
        >>> task = graph.host(lambda x: x.fill(1.0), x=x.write(), name="fill")
        >>> task = graph.host(lambda x: x.sum(), x=x.read(), name="sum")
        >>> plan = syclsched.plan(graph, syclsched.describe("max1550"), policy="heft")
        >>> figure = syclsched.simulate(plan).gantt()
        >>> len(figure.axes)
        1
        """
        return trace_gantt(self, path)
