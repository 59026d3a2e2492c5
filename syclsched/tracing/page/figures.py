# SPDX-License-Identifier: Apache-2.0
"""Zoomable Gantt charts and memory charts of HTML pages, drawn by Bokeh on one shared time axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from syclsched.model.plan import Plan
from syclsched.model.text.units import format_bytes, format_ratio, format_seconds, time_unit
from syclsched.tracing.analysis.causes import StartCauses
from syclsched.tracing.analysis.counter_tracks import CounterValues, TimedSpan, memory_steps
from syclsched.tracing.analysis.critical_path import path_steps
from syclsched.tracing.analysis.idle import IDLE_LABELS, idle_intervals
from syclsched.tracing.analysis.lanes import busy_seconds, lane_order
from syclsched.tracing.charts.gantt import MAX_OUTLINED
from syclsched.tracing.charts.output import INK, OTHER_COLOUR, PALETTE
from syclsched.tracing.charts.panels import COPY_COLOUR, FAILED_COLOUR, Bar, Panel, style_key
from syclsched.tracing.page.style import FONT, IDLE_COLOURS, MONO

if TYPE_CHECKING:
    from bokeh.models import ColumnDataSource, Range1d
    from bokeh.plotting import figure as Figure

#: Height in pixels of a lane's row, and of the axes and the title.
_ROW_PX, _DENSE_ROW_PX, _FRAME_PX = 44, 22, 62
_MANY_LANES = 16
_MEMORY_PX = 220

_BYTE_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))

#: Half of the height of a bar, of idle intervals, and the height of the mark of the critical path, in rows.
_HALF, _IDLE_HALF, _PATH_HEIGHT = 0.4, 0.1, 0.09

#: Part of the time axis that can at least be shown, so that zooming does not lose itself.
_SMALLEST_PART = 1e-7

#: HTML id of the element that shows the clicked instruction.
PICKED: Final = "picked"

_TOOLTIP = (
    f'<div style="font:12px/1.4 {MONO};white-space:pre-wrap;max-width:680px;color:{INK};overflow-wrap:anywhere">'
    "@story</div>"
)
_PICK = """
const place = document.getElementById("picked"), at = source.selected.indices;
if (place !== null && at.length > 0) place.textContent = source.data.story[at[0]];
"""


@dataclass(frozen=True, slots=True)
class Bars:
    """All bars of one glyph, and the source of those that are drawn at the current zoom, which the page fills."""

    all: ColumnDataSource
    shown: ColumnDataSource


@dataclass(slots=True)
class Stories:
    """Texts of instructions, each kept once; charts refer to them by number."""

    texts: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def add(self, text: str) -> int:
        """Return the number of a text."""
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The time axis that all charts of a page share."""

    scale: float  # seconds per unit
    unit: str
    range: Range1d

    @classmethod
    def of(cls, panels: Iterable[Panel]) -> TimeAxis:
        """Return the axis that shows all bars of some panels."""
        from bokeh.models import Range1d

        listed = list(panels)
        scale, unit = time_unit(max((p.makespan_s for p in listed), default=0.0))
        end_s = max([1e-9, *(p.makespan_s for p in listed), *(b.finish_s for p in listed for b in p.bars)])
        begin_s = min([0.0, *(b.start_s for p in listed for b in p.bars)])
        begin, end = begin_s / scale, end_s / scale * 1.005
        smallest = (end - begin) * _SMALLEST_PART
        return cls(scale, unit, Range1d(begin, end, bounds=(begin, end), min_interval=smallest))


def shared_lanes(panels: Iterable[Panel]) -> list[str]:
    """Return the lanes of several panels in display order."""
    return lane_order(bar.span for panel in panels for bar in panel.bars)


def gantt_figure(
    panel: Panel,
    lanes: Sequence[str],
    colours: Mapping[str, str],
    axis: TimeAxis,
    stories: Stories,
    described: Mapping[int, str],
    causes: StartCauses | None = None,
) -> tuple[Figure, list[Bars]]:
    """Return the chart of a panel, and its bars, which the page draws and whose story numbers it replaces by texts.

    The causes add idle intervals with their reasons, and the critical path.
    """
    rows = {lane: place for place, lane in enumerate(lanes)}
    chart = _empty_chart(panel, lanes, axis)
    drawn: list[Bars] = []
    hovered = []
    if causes is not None:
        drawn.append(_idle_bars(panel, causes, rows, axis, stories))
        hovered.append(_quads(chart, drawn[-1], fill_color="colour", line_color=None))
    groups: dict[str, list[Bar]] = {"task": [], "!copy": [], "!failed": [], "!cancelled": []}
    for bar in panel.bars:
        key = style_key(bar.span)
        groups[key if key in groups else "task"].append(bar)
    outlined = len(panel.bars) <= MAX_OUTLINED
    for key, bars in groups.items():
        if bars:
            drawn.append(_task_bars(bars, rows, colours, axis, stories, described))
            hovered.append(_quads(chart, drawn[-1], **_style(key, outlined)))
    if causes is not None:
        drawn.append(_draw_path(chart, causes, rows, axis, stories))
    _add_hover(chart, hovered)
    _mark_makespan(chart, panel, axis)
    return chart, drawn


def memory_figure(timed: Mapping[str, Sequence[TimedSpan]], plan: Plan, axis: TimeAxis) -> Figure | None:
    """Return the chart of the memory in use over time, per space and set of times; None without any."""
    found = {name: memory_steps(spans, plan) for name, spans in timed.items()}
    spaces = [s.name for s in plan.platform.spaces if any(s.name in steps for steps in found.values())]
    if not spaces:
        return None
    chart = _chart(axis, _MEMORY_PX)
    largest = max((value for steps in found.values() for values in steps.values() for _, value in values), default=0)
    scale, unit = next(((s, u) for s, u in _BYTE_UNITS if largest >= s), (1, "bytes"))
    for place, space in enumerate(spaces):
        for name, steps in found.items():
            times, values = _steps_from_start(steps.get(space, []), axis)
            if values:
                dashed = len(found) > 1 and name == "predicted"
                label = f"{space}, {name}: up to {format_bytes(max(values))}"
                chart.step(
                    times, [value / scale for value in values], mode="after", line_color=PALETTE[place % len(PALETTE)],
                    line_width=1.2 if dashed else 1.6, line_dash=[5, 3] if dashed else "solid", legend_label=label,
                )  # fmt: skip
    chart.yaxis.axis_label = f"memory in use [{unit}]"
    chart.y_range.start = 0
    chart.xaxis.axis_label = f"time since the start of the run [{axis.unit}]"
    chart.legend.label_text_font_size = "12px"
    chart.legend.padding, chart.legend.spacing, chart.legend.background_fill_alpha = 4, 0, 0.8
    chart.legend.orientation, chart.legend.border_line_color = "horizontal", None
    chart.add_layout(chart.legend[0], "above")
    return chart


# --- inside ---------------------------------------------------------------------------------------


def _chart(axis: TimeAxis, height: int, **more: Any) -> Figure:
    from bokeh.models import BoxZoomTool, CustomJS, PanTool, ResetTool, SaveTool, TapTool, WheelZoomTool
    from bokeh.plotting import figure

    zoom = BoxZoomTool(dimensions="width")
    wheel = WheelZoomTool(dimensions="width", modifiers="ctrl")
    tools = [zoom, PanTool(dimensions="width"), wheel, TapTool(), ResetTool(), SaveTool()]
    chart = figure(
        height=height, sizing_mode="stretch_width", x_range=axis.range, tools=tools, **more
    )  # fmt: skip
    chart.toolbar.logo = None
    chart.toolbar.active_drag, chart.toolbar.active_scroll = zoom, wheel
    chart.js_on_event("doubletap", CustomJS(args={"range": axis.range}, code="range.reset()"))
    chart.outline_line_color = None
    chart.ygrid.grid_line_color = None
    chart.xgrid.grid_line_color = "#D0D0D0"
    chart.min_border_left, chart.min_border_right = 150, 10
    for each in chart.axis:
        each.axis_label_text_font, each.major_label_text_font = FONT, FONT
        each.axis_label_text_font_style, each.axis_label_text_font_size = "normal", "13px"
        each.major_label_text_font_size, each.major_label_text_color = "12px", INK
        each.minor_tick_line_color = None
    return chart


def _empty_chart(panel: Panel, lanes: Sequence[str], axis: TimeAxis) -> Figure:
    from bokeh.models import BoxAnnotation, Range1d

    count = max(1, len(lanes))
    row_px = _ROW_PX if count <= _MANY_LANES else _DENSE_ROW_PX
    chart = _chart(axis, _FRAME_PX + row_px * count, y_range=Range1d(count - 0.5, -0.5))
    chart.title.text = f"{panel.title}: {format_seconds(panel.makespan_s)}"
    chart.title.text_font, chart.title.text_font_size, chart.title.text_color = FONT, "14px", INK
    chart.yaxis.ticker = list(range(len(lanes)))
    chart.yaxis.major_label_overrides = {n: _lane_label(panel, lane) for n, lane in enumerate(lanes)}
    chart.yaxis.major_tick_line_color = chart.yaxis.axis_line_color = None
    chart.xaxis.axis_label = f"time since the start of the run [{axis.unit}]"
    for n in range(len(lanes)):
        chart.add_layout(
            BoxAnnotation(bottom=n - 0.42, top=n + 0.42, fill_color="#F6F6F6", fill_alpha=1, line_color=None,
                          level="underlay")
        )  # fmt: skip
    return chart


def _lane_label(panel: Panel, lane: str) -> str:
    busy_s = busy_seconds((b.start_s, b.finish_s) for b in panel.bars if b.span.lane == lane)
    share = busy_s / panel.makespan_s if panel.makespan_s > 0 else 0.0
    return f"{lane}  {format_ratio(share)}"


def _columns(edges: Sequence[tuple[float, float]], rows: Sequence[int], half: float, axis: TimeAxis) -> dict[str, Any]:
    times = np.asarray(edges, np.float64).reshape(len(edges), 2) / axis.scale
    places = np.asarray(rows, np.float64)
    return {"left": times[:, 0], "right": times[:, 1], "top": places - half, "bottom": places + half}


def _bars(columns: dict[str, Any]) -> Bars:
    from bokeh.models import ColumnDataSource, CustomJS

    shown = ColumnDataSource({name: [] for name in columns})
    shown.selected.js_on_change("indices", CustomJS(args={"source": shown}, code=_PICK))
    return Bars(ColumnDataSource(columns), shown)


def _quads(chart: Figure, bars: Bars, **style: Any) -> Any:
    glyph = chart.quad("left", "right", "top", "bottom", source=bars.shown, **style)
    glyph.nonselection_glyph = None
    return glyph


def _task_bars(
    bars: Sequence[Bar],
    rows: Mapping[str, int],
    colours: Mapping[str, str],
    axis: TimeAxis,
    stories: Stories,
    described: Mapping[int, str],
) -> Bars:
    columns = _columns([(b.start_s, b.finish_s) for b in bars], [rows[b.span.lane] for b in bars], _HALF, axis)
    columns["colour"] = [INK if b.span.kind == "barrier" else colours.get(b.span.family, OTHER_COLOUR) for b in bars]
    columns["story"] = np.asarray([stories.add(described[b.span.instruction]) for b in bars], np.int32)
    return _bars(columns)


def _style(key: str, outlined: bool) -> dict[str, Any]:
    hatch = {"hatch_scale": 7, "hatch_weight": 0.8}
    if key == "!copy":
        more = {"hatch_pattern": "right_diagonal_line", "hatch_color": "#777777", **hatch} if outlined else {}
        return {
            "fill_color": COPY_COLOUR if outlined else "#777777",
            "line_color": "#666666",
            "line_width": 0.4,
            **more,
        }
    if key == "!failed":
        return {"fill_color": FAILED_COLOUR, "line_color": "white", "hatch_pattern": "diagonal_cross", **hatch}
    if key == "!cancelled":
        return {"fill_color": "white", "line_color": FAILED_COLOUR, "hatch_pattern": "dot", **hatch}
    return {"fill_color": "colour", "line_color": "white" if outlined else None, "line_width": 0.6}


def _idle_bars(panel: Panel, causes: StartCauses, rows: Mapping[str, int], axis: TimeAxis, stories: Stories) -> Bars:
    kinds = {bar.span.lane: bar.span.lane_kind for bar in panel.bars}
    found = [
        (lane, interval)
        for lane in rows
        if kinds.get(lane, "copy") != "copy"
        for interval in idle_intervals(causes, lane, panel.makespan_s)
        if interval.finish_s > interval.start_s
    ]
    edges = [(interval.start_s, interval.finish_s) for _, interval in found]
    columns = _columns(edges, [rows[lane] for lane, _ in found], _IDLE_HALF, axis)
    columns["colour"] = [IDLE_COLOURS[interval.reason] for _, interval in found]
    texts = [
        f"{lane} is idle for {format_seconds(each.finish_s - each.start_s)}, from {format_seconds(each.start_s)}: "
        f"{IDLE_LABELS[each.reason]}"
        for lane, each in found
    ]
    columns["story"] = np.asarray([stories.add(each) for each in texts], np.int32)
    return _bars(columns)


def _draw_path(chart: Figure, causes: StartCauses, rows: Mapping[str, int], axis: TimeAxis, stories: Stories) -> Bars:
    """Draw the critical path: a dark edge on its bars, and a line wherever it changes the lane."""
    spans = [step.span for step in path_steps(causes)]
    columns = _columns([(s.start_s, s.finish_s) for s in spans], [rows[s.lane] for s in spans], _HALF, axis)
    columns["bottom"] = columns["top"] + _PATH_HEIGHT
    columns["colour"] = [INK] * len(spans)
    columns["story"] = np.full(len(spans), stories.add(""), np.int32)
    bars = _bars(columns)
    _quads(chart, bars, fill_color=INK, line_color=None)
    pairs = [(a, b) for a, b in pairwise(spans) if a.lane != b.lane]
    chart.segment(
        [a.finish_s / axis.scale for a, _ in pairs], [rows[a.lane] - _HALF for a, _ in pairs],
        [b.start_s / axis.scale for _, b in pairs], [rows[b.lane] - _HALF for _, b in pairs],
        line_color=INK, line_width=1.2,
    )  # fmt: skip
    return bars


def _add_hover(chart: Figure, hovered: list[Any]) -> None:
    from bokeh.models import HoverTool

    chart.add_tools(HoverTool(renderers=hovered, tooltips=_TOOLTIP, point_policy="follow_mouse", attachment="below"))


def _mark_makespan(chart: Figure, panel: Panel, axis: TimeAxis) -> None:
    from bokeh.models import Span

    line = Span(location=panel.makespan_s / axis.scale, dimension="height", line_color=INK, line_dash=[5, 3])
    chart.add_layout(line)


def _steps_from_start(steps: CounterValues, axis: TimeAxis) -> tuple[list[float], list[int]]:
    """Return times and values, beginning with 0 at the start of the run."""
    first = [(0, 0)] if steps and steps[0][0] > 0 else []
    listed = [*first, *steps]
    return [moment * 1e-9 / axis.scale for moment, _ in listed], [value for _, value in listed]
