# SPDX-License-Identifier: Apache-2.0
"""Bar charts of makespans: one group of bars per platform, with the lower bound marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from syclsched.model.text.units import format_seconds, time_unit
from syclsched.tracing.charts.output import INK, OTHER_COLOUR, PALETTE, chart_text, save_chart, set_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH_IN = 10.0
_BAR_IN = 0.26
_MAX_HEIGHT_IN = 80.0

#: If the longest bar exceeds the lower quartile by more than this factor, the axis is cut at half this factor times
#: the lower quartile: on a longer axis the short bars would look equal.
_MAX_RATIO = 12.0


@dataclass(frozen=True, slots=True)
class ChartBar:
    """One bar of the chart."""

    group: str  # heading of the group
    label: str
    seconds: float  # length of the bar
    bound_s: float | None = None  # lower bound, marked once per group
    worst_s: float | None = None  # end of the line drawn on from the bar; None for no line

    @property
    def end_s(self) -> float:
        """Right end of the bar and its line."""
        return self.seconds if self.worst_s is None else max(self.seconds, self.worst_s)


def draw_bars(bars: Sequence[ChartBar], title: str, path: str | Path) -> None:
    """Save a bar chart to a file."""
    figure = make_bars(bars, title)
    save_chart(figure, path)


def make_bars(bars: Sequence[ChartBar], title: str) -> Figure:
    """Return the chart that `draw_bars` saves."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from syclsched.tracing.charts.chart_figure import ChartFigure

    groups = list(dict.fromkeys(bar.group for bar in bars))
    labels = list(dict.fromkeys(bar.label for bar in bars))
    colours = _colours(sorted(labels), several=len(groups) > 1)
    height = 1.4 + _BAR_IN * (len(bars) + 1.5 * len(groups))
    figure = ChartFigure(
        figsize=(_WIDTH_IN, min(height, _MAX_HEIGHT_IN)), layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08)
    )
    axis = figure.subplots()
    limit_s = _axis_limit_s(bars)
    scale, unit = time_unit(limit_s)
    ticks: list[tuple[float, str]] = []
    place = 0.0
    for group in groups:
        group_bars = [bar for bar in bars if bar.group == group]
        if len(groups) > 1:
            axis.annotate(
                chart_text(group), (0.0, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=10,
                fontweight="bold", color=INK,
            )  # fmt: skip
            place += 1.0
        _draw_group(axis, group_bars, place, scale, colours, limit_s)
        ticks += [(place + i, chart_text(bar.label)) for i, bar in enumerate(group_bars)]
        place += len(group_bars) + 0.5
    axis.set_yticks([y for y, _ in ticks], [label for _, label in ticks], fontsize=9)
    axis.set_ylim(place - 0.3, -0.8)
    axis.set_xlim(0.0, limit_s / scale * 1.15 or 1.0)
    broken = any(bar.end_s > limit_s for bar in bars)
    axis.set_xlabel(f"makespan [{unit}]" + (" (bars with a gap go on beyond the axis)" if broken else ""))
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x", color="#D0D0D0", lw=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    marked = any(bar.bound_s for bar in bars)
    set_title(figure, title + (" (dashed: lower bound)" if marked else ""))
    return figure


def _colours(labels: Sequence[str], *, several: bool) -> dict[str, str]:
    """Return a colour per label, the same in every group; one colour for all if there is one group."""
    if not several:
        return dict.fromkeys(labels, PALETTE[0])
    return {label: PALETTE[i] if i < len(PALETTE) else OTHER_COLOUR for i, label in enumerate(labels)}


def _axis_limit_s(bars: Sequence[ChartBar]) -> float:
    """Return the end of the axis: the longest bar, without outliers."""
    ends = sorted(bar.end_s for bar in bars)
    if not ends:
        return 0.0
    short_s = ends[len(ends) // 4]
    if short_s <= 0.0 or ends[-1] <= _MAX_RATIO * short_s:
        return ends[-1]
    return max(end for end in ends if end <= 0.5 * _MAX_RATIO * short_s)


def _draw_group(
    axis: Axes, bars: Sequence[ChartBar], place: float, scale: float, colours: dict[str, str], limit_s: float
) -> None:
    places = [place + i for i in range(len(bars))]
    edge_s = 1.03 * limit_s
    axis.barh(
        places, [min(bar.seconds, edge_s) / scale for bar in bars], height=0.78,
        color=[colours[bar.label] for bar in bars], zorder=2,
    )  # fmt: skip
    for y, bar in zip(places, bars, strict=True):
        beyond = bar.end_s > limit_s
        end_s = edge_s if beyond else bar.end_s
        if end_s > bar.seconds:
            axis.hlines(y, bar.seconds / scale, end_s / scale, color=INK, lw=1.2, zorder=3)
        if beyond:  # a slanted gap near the end shows that the bar is cut
            x, dx = 0.985 * limit_s / scale, 0.006 * limit_s / scale
            axis.plot([x - dx, x + dx], [y + 0.45, y - 0.45], color="white", lw=3.0, zorder=4)
        axis.annotate(
            format_seconds(bar.seconds), (end_s / scale, y), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=8.5, color="#555555",
        )  # fmt: skip
    bound_s = next((bar.bound_s for bar in bars if bar.bound_s), None)
    if bound_s is not None and bound_s <= edge_s:
        axis.vlines(bound_s / scale, places[0] - 0.5, places[-1] + 0.5, color=INK, lw=1.2, ls=(0, (4, 2)), zorder=5)
