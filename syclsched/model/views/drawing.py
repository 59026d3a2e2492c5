# SPDX-License-Identifier: Apache-2.0
"""Charts and report pages of plans, traces and graphs, made by packages above this one.

Users call methods of these classes. What draws is imported here when it is used: pyproject.toml names this module as
the only one that imports packages above its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from syclsched.model.graph_parts.readable_graph import ReadableGraph
    from syclsched.model.plan import Plan
    from syclsched.model.trace import Trace


#: Plans and runs of more instructions are shown by notebooks without a chart, which would take seconds.
MAX_PICTURED: Final = 2000


def chart_png(figure: Any) -> bytes:
    """Return a chart as the PNG that notebooks show."""
    return bytes(figure._repr_png_())


def plan_gantt(plan: Plan, path: str | Path | None = None) -> Any:
    """Return the Gantt chart of a plan's predicted times, and write it to a file if one is given."""
    from syclsched.simulation import simulate

    return trace_gantt(simulate(plan), path)


def trace_gantt(trace: Trace, path: str | Path | None = None) -> Any:
    """Return the Gantt chart of a trace, and write it to a file if one is given."""
    from syclsched.tracing.charts.gantt import make_figure
    from syclsched.tracing.charts.output import check_chart_format, save_chart

    if path is not None:
        check_chart_format(path)
    figure = make_figure(trace)
    if path is not None:
        save_chart(figure, path)
    return figure


def plan_report(plan: Plan, path: str | Path) -> None:
    """Write the report page of a plan's predicted times."""
    from syclsched.simulation import simulate

    trace_report(simulate(plan), path, plan)


def trace_report(trace: Trace, path: str | Path, plan: Plan | None = None) -> None:
    """Write the report page of a trace."""
    from syclsched.tracing import save_report

    save_report(trace, path, plan)


def graph_drawing(graph: ReadableGraph, path: str | Path | None = None, plan: Plan | None = None) -> Any:
    """Return the drawing of a graph, and write it to a file if one is given; a plan gives colours and devices."""
    from syclsched.tracing.charts.graph_drawing import make_drawing
    from syclsched.tracing.charts.output import check_chart_format, save_chart

    if path is not None:
        check_chart_format(path)
    figure = make_drawing(graph, plan)
    if path is not None:
        save_chart(figure, path)
    return figure
