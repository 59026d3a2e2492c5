# SPDX-License-Identifier: Apache-2.0
"""Gantt charts of traces: lanes as rows, families as colours, copies hatched, predicted above measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syclsched.model.text.units import format_ratio, format_seconds, short_family, time_unit
from syclsched.model.trace import Span, Trace
from syclsched.tracing.analysis.lanes import busy_seconds, lane_order, merged
from syclsched.tracing.charts.output import INK, OTHER_COLOUR, chart_text, save_chart, set_title
from syclsched.tracing.charts.panels import (
    COPY_COLOUR,
    FAILED_COLOUR,
    Bar,
    Panel,
    chart_title,
    family_colours,
    make_panels,
    measured_panel,
    style_key,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Charts with more bars than this have no outlines and no names inside bars.
MAX_OUTLINED = 600

#: Bars shorter than this share of the makespan have no outline: it would cover them.
_MIN_OUTLINED_SHARE = 0.004

_WIDTH_IN = 13.0
_ROW_IN = 0.42


def draw_gantt(trace: Trace, path: str | Path, predicted: Trace | None = None, disturbed: str = "") -> None:
    """Draw a trace as a Gantt chart."""
    figure = make_figure(trace, predicted, disturbed)
    save_chart(figure, path)


def make_figure(trace: Trace, predicted: Trace | None = None, disturbed: str = "") -> Figure:
    """Return the chart that `draw_gantt` saves."""
    panels = make_panels(trace, predicted, disturbed)
    return _figure(panels, chart_title(trace, panels, disturbed))


def make_comparison(traces: Mapping[str, Trace], title: str) -> Figure:
    """Return a chart of several runs, one below the other on one scale."""
    return _figure([measured_panel(trace, name) for name, trace in traces.items()], title)


def _figure(panels: Sequence[Panel], title: str) -> Figure:
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from syclsched.tracing.charts.chart_figure import ChartFigure

    spans = [bar.span for panel in panels for bar in panel.bars]
    lanes = lane_order(spans)
    colours = family_colours(panels)
    height = 1.75 + len(panels) * (0.45 + _ROW_IN * max(1, len(lanes)))
    figure = ChartFigure(
        figsize=(_WIDTH_IN, min(height, 60.0)), layout=ConstrainedLayoutEngine(h_pad=0.06, hspace=0.06)
    )
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    scale, unit = time_unit(max((p.makespan_s for p in panels), default=0.0))
    for axis, panel in zip(axes, panels, strict=True):
        _draw_panel(axis, panel, lanes, colours, scale)
    end_s = max([p.makespan_s for p in panels] + [b.finish_s for p in panels for b in p.bars] + [1e-9])
    begin_s = min([0.0] + [b.start_s for p in panels for b in p.bars])
    axes[-1].set_xlim(begin_s / scale, end_s / scale * 1.005)
    axes[-1].set_xlabel(f"time since the start of the run [{unit}]")
    outlined = all(len(p.bars) <= MAX_OUTLINED for p in panels)
    if outlined:
        figure.canvas.draw()  # the layout must be known to see which names fit
        for axis, panel in zip(axes, panels, strict=True):
            _name_bars(axis, panel, lanes, scale)
    set_title(figure, title)
    _legend(figure, colours, spans, outlined)
    return figure


def _draw_panel(axis: Axes, panel: Panel, lanes: Sequence[str], colours: Mapping[str, str], scale: float) -> None:
    row = {lane: i for i, lane in enumerate(lanes)}
    widest_thin_s = panel.makespan_s * (_MIN_OUTLINED_SHARE if len(panel.bars) <= MAX_OUTLINED else float("inf"))
    groups: dict[tuple[str, str, bool], list[Bar]] = {}
    for bar in panel.bars:
        if bar.span.kind != "barrier":
            fine = bar.finish_s - bar.start_s > widest_thin_s
            groups.setdefault((bar.span.lane, style_key(bar.span), fine), []).append(bar)
    for lane in lanes:
        axis.axhspan(row[lane] - 0.42, row[lane] + 0.42, color="#F4F4F4", zorder=0, lw=0)
    for (lane, key, fine), bars in groups.items():
        intervals = [(b.start_s, b.finish_s) for b in bars]
        # Separate bars thinner than a pixel would be drawn too pale.
        axis.broken_barh(
            [(a / scale, (b - a) / scale) for a, b in (intervals if fine else merged(intervals))],
            (row[lane] - 0.4, 0.8),
            **_style(key, colours, fine),
        )
    barriers = [b for b in panel.bars if b.span.kind == "barrier"]
    places = [row[b.span.lane] for b in barriers]
    axis.vlines(
        [b.start_s / scale for b in barriers], [y - 0.45 for y in places], [y + 0.45 for y in places], color=INK, lw=1
    )
    axis.axvline(panel.makespan_s / scale, color=INK, lw=1.2, ls=(0, (4, 2)), zorder=4)
    _format_axis(axis, panel, lanes)


def _style(key: str, colours: Mapping[str, str], fine: bool) -> dict[str, Any]:
    outline = {"edgecolor": "white", "linewidth": 0.6} if fine else {"linewidth": 0.0, "snap": False}
    if key == "!copy" and not fine:
        return {"facecolor": "#777777", "linewidth": 0.0, "snap": False, "zorder": 2}
    if key == "!copy":
        return {"facecolor": COPY_COLOUR, "hatch": "//////", "edgecolor": "#666666", "linewidth": 0.3, "zorder": 2}
    if key == "!failed":
        return {"facecolor": FAILED_COLOUR, "hatch": "xxxx", "edgecolor": "white", "linewidth": 0.6, "zorder": 3}
    if key == "!cancelled":
        return {"facecolor": "white", "hatch": "....", "edgecolor": FAILED_COLOUR, "linewidth": 0.6, "zorder": 3}
    return {"facecolor": colours.get(key, OTHER_COLOUR), "zorder": 2, **outline}


def _format_axis(axis: Axes, panel: Panel, lanes: Sequence[str]) -> None:
    axis.set_ylim(max(1, len(lanes)) - 0.5, -0.5)
    axis.set_yticks(range(len(lanes)), [chart_text(lane) for lane in lanes], fontsize=9)
    axis.set_title(f"{panel.title}: {format_seconds(panel.makespan_s)}", loc="left", fontsize=10.5, color=INK, pad=4)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize=9)
    axis.grid(axis="x", color="#D0D0D0", lw=0.6, zorder=1)
    axis.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    label: dict[str, Any] = {"xytext": (4, 0), "textcoords": "offset points", "fontsize": 9, "color": "#555555"}
    axis.annotate("busy", (1.0, 1.0), xycoords="axes fraction", **(label | {"xytext": (4, 4)}), annotation_clip=False)
    for position, lane in enumerate(lanes):
        busy_s = busy_seconds((b.start_s, b.finish_s) for b in panel.bars if b.span.lane == lane)
        share = busy_s / panel.makespan_s if panel.makespan_s > 0 else 0.0
        axis.annotate(
            format_ratio(share),
            (1.0, position),
            xycoords=("axes fraction", "data"),
            va="center",
            **label,
            annotation_clip=False,
        )


def _name_bars(axis: Axes, panel: Panel, lanes: Sequence[str], scale: float) -> None:
    """Draw task names inside the bars that are wide enough."""
    row = {lane: i for i, lane in enumerate(lanes)}
    pixels_per_unit = axis.bbox.width / (axis.get_xlim()[1] - axis.get_xlim()[0])
    points_per_pixel = 72.0 / axis.figure.dpi
    for bar in panel.bars:
        label = chart_text(bar.span.task or bar.span.kind)
        width_points = (bar.finish_s - bar.start_s) / scale * pixels_per_unit * points_per_pixel
        # A letter of this size is about 3.6 points wide.
        if bar.span.kind == "copy" or len(label) * 3.6 + 2 > width_points:
            continue
        axis.text(
            (bar.start_s + bar.finish_s) / 2 / scale, row[bar.span.lane], label,
            ha="center", va="center", fontsize=6.5, color="white", zorder=5, clip_on=True,
        )  # fmt: skip


def _legend(figure: Figure, colours: Mapping[str, str], spans: Sequence[Span], fine: bool) -> None:
    from matplotlib.patches import Patch

    named = [f for f, colour in colours.items() if colour != OTHER_COLOUR]
    keys = {style_key(s) for s in spans}
    handles = [Patch(facecolor=colours[f], label=chart_text(short_family(f))) for f in named]
    if len(named) < len(colours):
        handles.append(Patch(facecolor=OTHER_COLOUR, label=f"{len(colours) - len(named)} other families"))
    for key, label in (("!copy", "copy"), ("!failed", "failed"), ("!cancelled", "cancelled")):
        if key in keys:
            style = {k: v for k, v in _style(key, colours, fine).items() if k not in ("zorder", "snap")}
            handles.append(Patch(label=label, **style))
    if handles:
        # A letter of this size is about 5 points wide; patch and gaps take 40.
        widest = max(len(str(handle.get_label())) for handle in handles) * 5 + 40
        columns = max(1, min(10, int(figure.get_figwidth() * 72 / widest)))
        figure.legend(handles=handles, loc="outside lower left", ncols=columns, frameon=False, fontsize=9)
