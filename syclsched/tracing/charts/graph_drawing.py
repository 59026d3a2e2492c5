# SPDX-License-Identifier: Apache-2.0
"""Drawings of task graphs: one row for each level of dependencies, colours of families as in Gantt charts.

Of large graphs, tasks of one family on neighbouring levels are drawn as one node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syclsched.errors import ArgumentError
from syclsched.model.graph_parts.readable_graph import ReadableGraph
from syclsched.model.plan import Plan
from syclsched.model.text.units import format_bytes, plural
from syclsched.tracing.charts.output import INK, OTHER_COLOUR, PALETTE, chart_text, ranked_colours, set_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Graphs with more tasks are drawn with several tasks as one node, on at most this many rows.
MAX_TASKS = 200
_MAX_ROWS = 16
#: Drawings with more edges have no sizes of data beside them.
_MAX_LABELLED = 40
#: Sweeps over the rows that order nodes by the places of their neighbours.
_SWEEPS = 8
#: Characters of a name in a box.
_NAME_LENGTH = 18
_LEGEND_ROWS = 12
#: Pieces of the line of an edge.
_POINTS = 20

#: Distances to a side by which edges avoid boxes, and the distance from a box's middle that is clear of it.
_BOWS = (0.5, -0.5, 0.75, -0.75, 1.0, -1.0)
_CLEAR = 0.43

Pair = tuple[str, str]
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Node:
    """A box: one task, or the tasks of one family on neighbouring levels."""

    name: str
    label: str
    family: str
    row: int


def make_drawing(graph: ReadableGraph, plan: Plan | None = None) -> Figure:
    """Return the drawing of a graph; with a plan, in the colours of its Gantt chart and with the tasks' devices."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from syclsched.tracing.charts.chart_figure import ChartFigure

    if not len(graph):
        raise ArgumentError("it has no task that could be drawn", where=f"graph {graph.name!r}")
    levels = _levels(graph)
    whole = len(graph) <= MAX_TASKS
    nodes, edges = _single(graph, levels, plan) if whole else _grouped(graph, levels)
    rows = _ordered(nodes, edges)
    widest = max(map(len, rows))
    places = {name: ((n + 0.5) / len(row) * widest, y) for y, row in enumerate(rows) for n, name in enumerate(row)}
    figure = ChartFigure(
        figsize=(min(26.0, max(6.5, 1.35 * widest + 0.5)), min(40.0, max(3.0, 0.75 * len(rows) + 1.3))),
        layout=ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06),
    )
    axis = figure.subplots()
    axis.set_axis_off()
    margin = max(0.1, (4.4 - widest) / 2)  # of graphs with few tasks on each level
    axis.set_xlim(-margin, widest + margin)
    axis.set_ylim(len(rows) - 0.4, -0.6)
    _draw_edges(axis, edges, places)
    colours = _colours(graph, plan)
    _draw_nodes(axis, nodes, places, colours, min(1.0, 26.0 / (1.35 * widest)))
    text = f"{graph.name}: {plural(len(graph), 'task')}, {plural(len(graph.arrays), 'array')}"
    text += f", {plural(1 + max(levels.values()), 'level')}"
    set_title(figure, text if whole else f"{text} (tasks of one family on neighbouring levels are one box)")
    _legend(figure, nodes, edges, colours)
    return figure


def _levels(graph: ReadableGraph) -> dict[str, int]:
    """Return the length of the longest path to each task."""
    before: dict[str, list[str]] = defaultdict(list)
    for first, second in graph.passed_bytes():
        before[second].append(first)
    levels: dict[str, int] = {}
    for name in graph.order():
        levels[name] = 1 + max([levels[each] for each in before[name]], default=-1)
    return levels


def _single(
    graph: ReadableGraph, levels: Mapping[str, int], plan: Plan | None
) -> tuple[list[_Node], Mapping[Pair, int]]:
    """Return a node for each task, and the bytes of each edge."""
    devices = {} if plan is None else {a.task: a.device for a in plan.schedule.assignments}
    nodes = [
        _Node(
            task.name,
            chart_text(task.name, _NAME_LENGTH)
            + (f"\n{chart_text(devices[task.name], _NAME_LENGTH)}" if task.name in devices else ""),
            task.family,
            levels[task.name],
        )
        for task in graph.tasks
    ]
    return nodes, graph.passed_bytes()


def _grouped(graph: ReadableGraph, levels: Mapping[str, int]) -> tuple[list[_Node], Mapping[Pair, int]]:
    """Return a node for the tasks of each family on neighbouring levels, and the bytes between these nodes."""
    step = -(-(1 + max(levels.values())) // _MAX_ROWS)
    families = {task.name: task.family for task in graph.tasks}
    counts: dict[str, int] = defaultdict(int)
    for family in families.values():
        counts[family] += 1
    drawn = set(sorted(counts, key=lambda each: (-counts[each], each))[: len(PALETTE) - 1])
    groups: dict[tuple[int, str], int] = defaultdict(int)
    place: dict[str, str] = {}
    for name, level in levels.items():
        family = families[name] if families[name] in drawn else "others"
        key = (level // step, family)
        groups[key] += 1
        place[name] = f"{key[0]} {family}"
    nodes = [
        _Node(f"{row} {family}", f"{chart_text(family, _NAME_LENGTH)}\n{count:,}", family, row)
        for (row, family), count in groups.items()
    ]
    rows = {node.name: node.row for node in nodes}
    edges: dict[Pair, int] = defaultdict(int)
    for (first, second), nbytes in graph.passed_bytes().items():
        pair = place[first], place[second]
        if rows[pair[0]] < rows[pair[1]]:
            edges[pair] += nbytes
    return nodes, edges


def _ordered(nodes: Sequence[_Node], edges: Iterable[Pair]) -> list[list[str]]:
    """Return the nodes of each row from left to right, near the mean place of their neighbours, so few edges cross."""
    rows: list[list[str]] = [[] for _ in range(1 + max(node.row for node in nodes))]
    for node in nodes:
        rows[node.row].append(node.name)
    above: dict[str, list[str]] = defaultdict(list)
    below: dict[str, list[str]] = defaultdict(list)
    for first, second in edges:
        above[second].append(first)
        below[first].append(second)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        neighbours = above if down else below
        place = {name: (n + 0.5) / len(row) for row in rows for n, name in enumerate(row)}
        for row in rows if down else reversed(rows):
            row.sort(
                key=lambda name: (
                    sum(place[each] for each in neighbours[name]) / len(neighbours[name])
                    if neighbours[name]
                    else place[name]
                )
            )
            place.update((name, (n + 0.5) / len(row)) for n, name in enumerate(row))
    return rows


def _colours(graph: ReadableGraph, plan: Plan | None) -> dict[str, str]:
    """Return the colours of families: by predicted time as in the plan's Gantt chart, else by the work of tasks."""
    weights: dict[str, float] = defaultdict(float)
    for task in graph.tasks:
        if task.operation is not None and task.signature is not None:
            work = task.operation.work(task.signature)
            weights[task.family] += work.flops + work.bytes
    if plan is not None:
        families = {task.name: task.family for task in plan.tasks}
        weights = defaultdict(float, dict.fromkeys(weights, 0.0))
        for _, each in plan.instructions():
            if each.kind in ("launch", "host"):
                weights[families.get(each.task or "", each.kind)] += each.finish_s - each.start_s
    return ranked_colours(weights)


def _draw_edges(axis: Axes, edges: Mapping[Pair, int], places: Mapping[str, Point]) -> None:
    """Draw arrows, dashed where no data is passed, thicker for more data; with sizes if there are few that differ."""
    from matplotlib.collections import LineCollection

    most = max(edges.values(), default=0)
    rows: dict[int, list[float]] = defaultdict(list)
    for x, y in places.values():
        rows[int(y)].append(x)
    named = len(edges) <= _MAX_LABELLED and len(set(edges.values()) - {0}) > 1
    for passing, colour in ((True, "#777777"), (False, "#AAAAAA")):
        pairs = [pair for pair, nbytes in edges.items() if bool(nbytes) is passing]
        ends = [(places[first], places[second]) for first, second in pairs]
        curves = [_curve(*pair, _detour(*pair, rows)) for pair in ends]
        widths = [0.7 + (1.5 * edges[pair] / most if passing else 0.0) for pair in pairs]
        style = "-" if passing else (0, (3, 3))
        axis.add_collection(LineCollection(curves, linewidths=widths, colors=colour, linestyles=style, zorder=1))
        heads = [curve[-1] for curve in curves]
        axis.scatter(
            [x for x, _ in heads], [y - 0.02 for _, y in heads], s=22, marker="v", color=colour, lw=0, zorder=2
        )
        for pair, curve in zip(pairs, curves, strict=True) if named and passing else ():
            axis.text(
                *curve[len(curve) // 2], format_bytes(edges[pair]),
                fontsize=7, color="#555555", ha="center", va="center", zorder=2,
                bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"},
            )  # fmt: skip


def _detour(first: Point, second: Point, rows: Mapping[int, Sequence[float]]) -> float:
    """Return how far the line of an edge must go to a side to keep clear of the boxes between its ends; 0 if it can."""
    (x0, y0), (x1, y1) = first, second
    between = range(int(y0) + 1, int(y1))
    for bow in (0.0, *_BOWS) if between else ():
        crossings = [(y, _across(x0, x1, (y - y0) / (y1 - y0), bow)) for y in between]
        if all(abs(x - box) > _CLEAR for y, x in crossings for box in rows[y]):
            return bow
    return 0.0


def _across(x0: float, x1: float, t: float, bow: float) -> float:
    """Return the place across of a line that leaves and arrives vertically."""
    return x0 + (x1 - x0) * t * t * (3 - 2 * t) + bow * 4 * t * (1 - t)


def _curve(first: Point, second: Point, bow: float) -> list[Point]:
    """Return points of a line from the lower side of a box to the upper side of another."""
    (x0, y0), (x1, y1) = first, second
    y0, y1 = y0 + 0.22, y1 - 0.22
    shares = [step / _POINTS for step in range(_POINTS + 1)]
    return [(_across(x0, x1, t, bow), y0 + (y1 - y0) * t) for t in shares]


def _draw_nodes(
    axis: Axes,
    nodes: Sequence[_Node],
    places: Mapping[str, Point],
    colours: Mapping[str, str],
    scale: float,
) -> None:
    from matplotlib.patches import FancyBboxPatch

    for node in nodes:
        x, y = places[node.name]
        axis.add_patch(
            FancyBboxPatch(
                (x - 0.41, y - 0.2), 0.82, 0.4, boxstyle="round,pad=0.02,rounding_size=0.08",
                facecolor=colours.get(node.family, OTHER_COLOUR), edgecolor="white", lw=0.8, zorder=3,
            )
        )  # fmt: skip
        longest = max(map(len, node.label.split("\n")))
        size = min(9.0, 95.0 / max(1, longest)) * scale
        axis.text(x, y, node.label, fontsize=size, color="white", ha="center", va="center", zorder=4, linespacing=1.1)


def _legend(figure: Figure, nodes: Sequence[_Node], edges: Mapping[Pair, int], colours: Mapping[str, str]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    families = dict.fromkeys(sorted({n.family for n in nodes}, key=lambda each: (each not in colours, each)))
    handles: list[Patch | Line2D] = [
        Patch(facecolor=colours.get(family, OTHER_COLOUR), label=chart_text(family, 40))
        for family in list(families)[:_LEGEND_ROWS]
    ]
    if len(families) > _LEGEND_ROWS:
        handles.append(Patch(facecolor=OTHER_COLOUR, label=f"{len(families) - _LEGEND_ROWS} other families"))
    if any(edges.values()):
        sizes = set(edges.values()) - {0}
        label = f"data, {'up to ' if len(sizes) > 1 else ''}{format_bytes(max(sizes))}"
        handles.append(Line2D([], [], color="#777777", lw=1.4, label=label))
    if not all(edges.values()):
        handles.append(Line2D([], [], color="#AAAAAA", lw=1.0, ls=(0, (3, 3)), label="order only"))
    columns = max(1, int(figure.get_figwidth() / 1.7))
    figure.legend(
        handles=handles, loc="outside lower left", ncols=columns, frameon=False, fontsize=9, labelcolor=INK
    )  # fmt: skip
