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
from syclsched.model.trace import Span
from syclsched.tracing.analysis.causes import StartCauses
from syclsched.tracing.analysis.counter_tracks import CounterValues, TimedSpan, memory_steps
from syclsched.tracing.analysis.critical_path import path_steps
from syclsched.tracing.analysis.idle import IDLE_LABELS, idle_intervals
from syclsched.tracing.analysis.lanes import busy_seconds, lane_order
from syclsched.tracing.charts.output import INK, OTHER_COLOUR, PALETTE
from syclsched.tracing.charts.panels import COPY_COLOUR, FAILED_COLOUR, Bar, Panel, style_key
from syclsched.tracing.page.style import FONT, IDLE_COLOURS

if TYPE_CHECKING:
    from bokeh.models import ColumnDataSource, Range1d
    from bokeh.plotting import figure as Figure

#: Height in pixels of a lane's row, and of the axes and the title.
_ROW_PX, _DENSE_ROW_PX, _FRAME_PX = 44, 22, 62
_MANY_LANES = 16
_MEMORY_PX = 220

_BYTE_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))

#: Half of the height of a bar, of idle intervals, and of a lane's background, and the height of the mark of the
#: critical path, in rows.
_HALF, _IDLE_HALF, _BAND_HALF, _PATH_HEIGHT = 0.4, 0.1, 0.42, 0.09

#: Layers of bars, each painted over those before, and where they begin and end in their row. Marks are failed and
#: cancelled instructions, and barriers.
_IDLE, _WORK, _MARK, _PATH = range(4)
_LAYERS = ((-_IDLE_HALF, _IDLE_HALF), (-_HALF, _HALF), (-_HALF, _HALF), (-_HALF, _PATH_HEIGHT - _HALF))

#: Colours of bars, which refer to them by position.
_BAR_COLOURS = (INK, OTHER_COLOUR, *PALETTE, *IDLE_COLOURS.values())

#: Numbers of the patterns of bars, 0 for none, and their colours: of the ground, of the lines, and of bars that are too
#: narrow for a pattern.
_PATTERN_NUMBERS = {"!copy": 1, "!failed": 2, "!cancelled": 3}
_PATTERNS = (
    (COPY_COLOUR, "#777777", "#888888"),
    (COPY_COLOUR, "#777777", "#888888"),
    (FAILED_COLOUR, "#FFFFFF", FAILED_COLOUR),
    ("#FFFFFF", FAILED_COLOUR, "#E08080"),
)

#: How the page paints bars; see charts.js.
PAINTING: Final[dict[str, Any]] = {
    "layers": _LAYERS,
    "band": {"half": _BAND_HALF, "colour": "#F6F6F6"},
    "palette": _BAR_COLOURS,
    "patterns": [dict(zip(("colour", "ink", "thin"), each, strict=True)) for each in _PATTERNS],
}

#: Part of the time axis that can at least be shown, so that zooming does not lose itself.
_SMALLEST_PART = 1e-7


@dataclass(frozen=True, slots=True)
class Thinned:
    """All points of a curve, or lines, and the source of those drawn at the current zoom, which the page fills."""

    all: ColumnDataSource
    shown: ColumnDataSource


@dataclass(frozen=True, slots=True)
class Gantt:
    """A Gantt chart: all its bars, and the picture of those in sight, which the page paints."""

    figure: Figure
    bars: ColumnDataSource
    picture: ColumnDataSource
    rows: int
    path: Thinned | None  # lines of the critical path between lanes


@dataclass(frozen=True, slots=True)
class Memory:
    """A chart of the memory in use."""

    figure: Figure
    curves: tuple[Thinned, ...]
    legend: dict[str, str]  # CSS backgrounds of the curves' labels


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


def gantt_chart(
    panel: Panel,
    lanes: Sequence[str],
    colours: Mapping[str, str],
    axis: TimeAxis,
    stories: Stories,
    described: Mapping[int, str],
    causes: StartCauses | None = None,
) -> Gantt:
    """Return the chart of a panel, whose bars the page paints.

    The causes add idle intervals with their reasons, and the critical path.
    """
    from bokeh.models import ColumnDataSource

    rows = {lane: place for place, lane in enumerate(lanes)}
    count = max(1, len(lanes))
    chart = _empty_chart(panel, lanes, axis)
    picture = ColumnDataSource({"image": [np.zeros((1, 1), np.uint32)], "x": [axis.range.start], "dw": [0.0]})
    chart.image_rgba("image", "x", -0.5, "dw", count, source=picture, level="glyph")
    bars: list[_PaintedBar] = []
    if causes is not None:
        bars += _idle_bars(panel, causes, rows, stories)
    bars += _task_bars(panel.bars, rows, colours, stories, described)
    path = None
    if causes is not None:
        spans = [step.span for step in path_steps(causes)]
        bars += [_PaintedBar(s.start_s, s.finish_s, rows[s.lane], _PATH, INK, stories.add("")) for s in spans]
        path = _path_lines(chart, spans, rows, axis)
    _mark_makespan(chart, panel, axis)
    return Gantt(chart, _bar_columns(bars, axis), picture, count, path)


def memory_chart(timed: Mapping[str, Sequence[TimedSpan]], plan: Plan, axis: TimeAxis) -> Memory | None:
    """Return the chart of the memory in use over time, per space and set of times; None without any."""
    from bokeh.models import Range1d

    found = {name: memory_steps(spans, plan) for name, spans in timed.items()}
    spaces = [s.name for s in plan.platform.spaces if any(s.name in steps for steps in found.values())]
    if not spaces:
        return None
    largest = max((value for steps in found.values() for values in steps.values() for _, value in values), default=0)
    scale, unit = next(((s, u) for s, u in _BYTE_UNITS if largest >= s), (1, "bytes"))
    chart = _chart(axis, _MEMORY_PX, y_range=Range1d(0, 1.05 * max(1, largest) / scale))
    curves, legend = [], {}
    for place, space in enumerate(spaces):
        for name, steps in found.items():
            times, values = _steps_from_start(steps.get(space, []), axis)
            if values:
                dashed = len(found) > 1 and name == "predicted"
                columns = {"x": np.asarray(times, np.float64), "y": np.asarray(values, np.float64) / scale}
                curves.append(_thinned(columns))
                colour = PALETTE[place % len(PALETTE)]
                chart.step(
                    "x", "y", source=curves[-1].shown, mode="after", line_color=colour,
                    line_width=1.2 if dashed else 1.6, line_dash=[5, 3] if dashed else "solid",
                )  # fmt: skip
                stripes = f"repeating-linear-gradient(90deg,{colour} 0 4px,#0000 4px 6px)" if dashed else colour
                line = f"linear-gradient(#fff 0 5px,#0000 5px 7px,#fff 7px),{stripes}"
                legend[f"{space}, {name}: up to {format_bytes(max(values))}"] = line
    chart.yaxis.axis_label = f"memory in use [{unit}]"
    chart.xaxis.axis_label = f"time since the start of the run [{axis.unit}]"
    return Memory(chart, tuple(curves), legend)


# --- inside ---------------------------------------------------------------------------------------


def _chart(axis: TimeAxis, height: int, **more: Any) -> Figure:
    from bokeh.models import BoxZoomTool, CustomJS, PanTool, ResetTool, SaveTool, WheelZoomTool
    from bokeh.plotting import figure

    zoom = BoxZoomTool(dimensions="width")
    wheel = WheelZoomTool(dimensions="width", modifiers="ctrl")
    tools = [zoom, PanTool(dimensions="width"), wheel, ResetTool(), SaveTool()]
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
    from bokeh.models import Range1d

    count = max(1, len(lanes))
    row_px = _ROW_PX if count <= _MANY_LANES else _DENSE_ROW_PX
    chart = _chart(axis, _FRAME_PX + row_px * count, y_range=Range1d(count - 0.5, -0.5))
    chart.title.text = f"{panel.title}: {format_seconds(panel.makespan_s)}"
    chart.title.text_font, chart.title.text_font_size, chart.title.text_color = FONT, "14px", INK
    chart.yaxis.ticker = list(range(len(lanes)))
    chart.yaxis.major_label_overrides = {n: _lane_label(panel, lane) for n, lane in enumerate(lanes)}
    chart.yaxis.major_tick_line_color = chart.yaxis.axis_line_color = None
    chart.xaxis.axis_label = f"time since the start of the run [{axis.unit}]"
    return chart


def _lane_label(panel: Panel, lane: str) -> str:
    busy_s = busy_seconds((b.start_s, b.finish_s) for b in panel.bars if b.span.lane == lane)
    share = busy_s / panel.makespan_s if panel.makespan_s > 0 else 0.0
    return f"{lane}  {format_ratio(share)}"


@dataclass(frozen=True, slots=True)
class _PaintedBar:
    start_s: float
    finish_s: float
    row: int
    layer: int
    colour: str
    story: int
    pattern: int = 0


def _bar_columns(bars: Sequence[_PaintedBar], axis: TimeAxis) -> ColumnDataSource:
    from bokeh.models import ColumnDataSource

    colours = {colour: place for place, colour in enumerate(_BAR_COLOURS)}
    columns = {
        "left": np.asarray([b.start_s for b in bars], np.float64) / axis.scale,
        "right": np.asarray([b.finish_s for b in bars], np.float64) / axis.scale,
        "row": np.asarray([b.row for b in bars], np.int32),
        "layer": np.asarray([b.layer for b in bars], np.uint8),
        "colour": np.asarray([colours[b.colour] for b in bars], np.uint8),
        "pattern": np.asarray([b.pattern for b in bars], np.uint8),
        "story": np.asarray([b.story for b in bars], np.int32),
    }
    return ColumnDataSource(columns)


def _thinned(columns: dict[str, Any]) -> Thinned:
    from bokeh.models import ColumnDataSource

    return Thinned(ColumnDataSource(columns), ColumnDataSource({name: [] for name in columns}))


def _task_bars(
    bars: Iterable[Bar],
    rows: Mapping[str, int],
    colours: Mapping[str, str],
    stories: Stories,
    described: Mapping[int, str],
) -> list[_PaintedBar]:
    def is_mark(bar: Bar) -> bool:
        return bar.span.outcome != "done" or bar.span.kind == "barrier"

    return [
        _PaintedBar(
            bar.start_s,
            bar.finish_s,
            rows[bar.span.lane],
            _MARK if is_mark(bar) else _WORK,
            INK if bar.span.kind == "barrier" else colours.get(bar.span.family, OTHER_COLOUR),
            stories.add(described[bar.span.instruction]),
            _PATTERN_NUMBERS.get(style_key(bar.span), 0),
        )
        for bar in sorted(bars, key=is_mark)
    ]


def _idle_bars(panel: Panel, causes: StartCauses, rows: Mapping[str, int], stories: Stories) -> list[_PaintedBar]:
    kinds = {bar.span.lane: bar.span.lane_kind for bar in panel.bars}
    found = []
    for lane, row in rows.items():
        if kinds.get(lane, "copy") == "copy":
            continue
        for each in idle_intervals(causes, lane, panel.makespan_s):
            if each.finish_s > each.start_s:
                text = (
                    f"{lane} is idle for {format_seconds(each.finish_s - each.start_s)}, "
                    f"from {format_seconds(each.start_s)}: {IDLE_LABELS[each.reason]}"
                )
                colour = IDLE_COLOURS[each.reason]
                found.append(_PaintedBar(each.start_s, each.finish_s, row, _IDLE, colour, stories.add(text)))
    return found


def _path_lines(chart: Figure, spans: Sequence[Span], rows: Mapping[str, int], axis: TimeAxis) -> Thinned:
    """Draw a line wherever the critical path changes the lane."""
    pairs = [(a, b) for a, b in pairwise(spans) if a.lane != b.lane]
    ends = [(a.finish_s / axis.scale, rows[a.lane] - _HALF, b.start_s / axis.scale, rows[b.lane] - _HALF)
            for a, b in pairs]  # fmt: skip
    columns = np.asarray(ends, np.float64).reshape(len(ends), 4).T
    lines = _thinned(dict(zip(("x0", "y0", "x1", "y1"), columns, strict=True)))
    chart.segment("x0", "y0", "x1", "y1", source=lines.shown, line_color=INK, line_width=1.2)
    return lines


def _mark_makespan(chart: Figure, panel: Panel, axis: TimeAxis) -> None:
    from bokeh.models import Span

    line = Span(location=panel.makespan_s / axis.scale, dimension="height", line_color=INK, line_dash=[5, 3])
    chart.add_layout(line)


def _steps_from_start(steps: CounterValues, axis: TimeAxis) -> tuple[list[float], list[int]]:
    """Return times and values, beginning with 0 at the start of the run."""
    first = [(0, 0)] if steps and steps[0][0] > 0 else []
    listed = [*first, *steps]
    return [moment * 1e-9 / axis.scale for moment, _ in listed], [value for _, value in listed]
