# SPDX-License-Identifier: Apache-2.0
"""Content of Gantt charts: the bars of each panel, their colours and the title; shared by pictures and HTML pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from syclsched.model.text.units import format_seconds
from syclsched.model.trace import Span, Trace
from syclsched.tracing.analysis.deviation import deviates
from syclsched.tracing.charts.output import ranked_colours

#: Colours of copies, and of instructions that failed or were cancelled.
COPY_COLOUR = "#DDDDDD"
FAILED_COLOUR = "#C00000"


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: an instruction with its predicted or measured times."""

    span: Span
    start_s: float
    finish_s: float


@dataclass(frozen=True, slots=True)
class Panel:
    """One subplot: the bars of one run, on one clock."""

    title: str
    makespan_s: float
    bars: tuple[Bar, ...]


def make_panels(trace: Trace, predicted: Trace | None = None, disturbed: str = "") -> list[Panel]:
    """Return the panels of a trace: predicted above measured or simulated times, or only one if they are the same."""
    if trace.simulated and predicted is None and not disturbed and not deviates(trace):
        return [measured_panel(trace, "predicted")]
    if predicted is not None:
        predicted_panel = measured_panel(predicted, "predicted")
    else:
        bars = tuple(Bar(_as_planned(s), s.predicted_start_s, s.predicted_finish_s) for s in trace.spans)
        predicted_panel = Panel("predicted", trace.predicted_makespan_s, bars)
    return [predicted_panel, measured_panel(trace, "simulated" if trace.simulated else "measured")]


def _as_planned(span: Span) -> Span:
    return span if span.outcome == "done" else replace(span, outcome="done")


def measured_panel(trace: Trace, title: str) -> Panel:
    """Return the panel of a trace's measured or simulated times."""
    return Panel(title, trace.makespan_s, tuple(Bar(s, s.start_s, s.finish_s) for s in trace.spans))


def chart_title(trace: Trace, panels: Sequence[Panel], disturbed: str = "") -> str:
    """Return the title: names, and the makespan of each panel with the error of the prediction."""
    parts = [f"{p.title} {format_seconds(p.makespan_s)}" for p in panels]
    text = f"{trace.name}, {trace.policy}: {', '.join(parts)}"
    text += f" ({disturbed})" if disturbed else ""
    first, last = panels[0].makespan_s, panels[-1].makespan_s
    return f"{text} ({100 * (first - last) / last:+.1f} %)" if len(panels) > 1 and last > 0 else text


def family_colours(panels: Sequence[Panel]) -> dict[str, str]:
    """Return the colours of families; those that take longest get their own, in a stable order."""
    seconds: dict[str, float] = {}
    for bar in panels[-1].bars:
        if bar.span.kind not in ("copy", "barrier"):
            seconds[bar.span.family] = seconds.get(bar.span.family, 0.0) + bar.finish_s - bar.start_s
    return ranked_colours(seconds)


def style_key(span: Span) -> str:
    """Return the style key of a span's bar: its family, ``!copy``, ``!failed`` or ``!cancelled``."""
    if span.outcome != "done":
        return f"!{span.outcome}"
    return "!copy" if span.kind == "copy" else span.family
