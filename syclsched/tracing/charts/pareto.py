# SPDX-License-Identifier: Apache-2.0
"""Charts of Pareto fronts of two metrics, with the dominated candidates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from syclsched.tracing.charts.output import OTHER_COLOUR, PALETTE, chart_text, save_chart, set_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZE_IN = (8.0, 5.6)


def draw_front(
    points: Sequence[tuple[float, float, str]],
    others: Sequence[tuple[float, float]],
    labels: tuple[str, str],
    title: str,
    path: str | Path,
) -> None:
    """Save a chart of a Pareto front to a file."""
    figure = make_front(points, others, labels, title)
    save_chart(figure, path)


def make_front(
    points: Sequence[tuple[float, float, str]],
    others: Sequence[tuple[float, float]],
    labels: tuple[str, str],
    title: str,
) -> Figure:
    """Return the chart that `draw_front` saves."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from syclsched.tracing.charts.chart_figure import ChartFigure

    figure = ChartFigure(figsize=_SIZE_IN, layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08))
    axis = figure.subplots()
    ranked = sorted(points)
    if others:
        axis.scatter(
            [x for x, _ in others], [y for _, y in others], s=22, color=OTHER_COLOUR, label="dominated", zorder=2
        )
    axis.plot(
        [x for x, _, _ in ranked], [y for _, y, _ in ranked], drawstyle="steps-post", color=PALETTE[0], lw=1.4, zorder=3
    )
    axis.scatter(
        [x for x, _, _ in ranked], [y for _, y, _ in ranked], s=42, color=PALETTE[0], label="Pareto front", zorder=4
    )
    for x, y, name in ranked:
        axis.annotate(chart_text(name), (x, y), xytext=(6, 5), textcoords="offset points", fontsize=8, color="#555555")
    axis.set_xlabel(chart_text(labels[0]))
    axis.set_ylabel(chart_text(labels[1]))
    axis.set_xlim(left=0.0)
    axis.set_ylim(bottom=0.0)
    axis.margins(0.12)
    axis.grid(color="#D0D0D0", lw=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
    set_title(figure, title)
    return figure
