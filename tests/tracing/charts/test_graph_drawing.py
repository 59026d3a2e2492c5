# SPDX-License-Identifier: Apache-2.0
"""Drawings of graphs: a box for every task, edges downwards, colours of the Gantt chart."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import FancyBboxPatch

import syclsched
from syclsched.errors import ArgumentError, StorageError


def diamond() -> syclsched.TaskGraph:
    digraph = nx.DiGraph(name="$dia$mond")
    for name, family in (("load", "io"), ("left", "fit"), ("right", "fit"), ("merge", "join")):
        digraph.add_node(name, seconds=1.0 if family == "fit" else 0.25, family=family)
    digraph.add_edge("load", "left", bytes=4096)
    digraph.add_edge("load", "right", bytes=8192)
    digraph.add_edge("left", "merge", bytes=1024)
    digraph.add_edge("right", "merge")
    return syclsched.from_networkx(digraph)


def chain(tasks: int) -> syclsched.TaskGraph:
    digraph = nx.DiGraph(name="chain")
    for number in range(tasks):
        digraph.add_node(number, seconds=1.0, family="even" if number % 2 == 0 else "odd")
        if number:
            digraph.add_edge(number - 1, number, bytes=100)
    return syclsched.from_networkx(digraph)


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_box_for_each_task_and_a_row_for_each_level() -> None:
    figure = diamond().draw()
    places = {text.get_text(): text.get_position() for text in figure.axes[0].texts}
    assert places["load"][1] == 0
    assert places["left"][1] == places["right"][1] == 1
    assert places["merge"][1] == 2
    assert {places["left"][0], places["right"][0]} == {0.5, 1.5}
    assert figure.get_suptitle() == r"\$dia\$mond: 4 tasks, 3 arrays, 3 levels"


def test_edges_show_data_sizes() -> None:
    figure = diamond().draw()
    data, order = [c for c in figure.axes[0].collections if isinstance(c, LineCollection)]
    assert (len(data.get_segments()), len(order.get_segments())) == (3, 1)
    for segment in (*data.get_segments(), *order.get_segments()):
        assert segment[-1][1] > segment[0][1]
    assert {"4.000 KiB", "8.000 KiB", "1.000 KiB"} <= set(texts(figure))
    assert legend(figure) == ["fit", "io", "join", "data, up to 8.000 KiB", "order only"]


def test_colours_equal_the_gantt_chart_and_boxes_name_the_device() -> None:
    graph = diamond()
    plan = syclsched.plan(graph, syclsched.describe("xeon-8480"), policy="heft")
    figure, gantt = graph.draw(plan=plan), plan.gantt()

    def colours(drawn: Figure) -> dict[str, str]:
        (box,) = drawn.legends
        found = zip(box.get_texts(), box.get_patches(), strict=False)
        return {text.get_text(): to_hex(patch.get_facecolor()) for text, patch in found}

    assert colours(figure).items() >= {k: v for k, v in colours(gantt).items() if k != "copy"}.items()
    assert "load\nxeon-8480" in texts(figure)


@pytest.mark.parametrize(("tasks", "boxes"), [(200, 200), (201, 32)])
def test_tasks_of_large_graphs_share_boxes_by_family_and_levels(tasks: int, boxes: int) -> None:
    figure = chain(tasks).draw()
    assert sum(isinstance(patch, FancyBboxPatch) for patch in figure.axes[0].patches) == boxes
    if tasks > 200:
        assert "one box" in figure.get_suptitle()
        counts = [int(text.partition("\n")[2]) for text in texts(figure) if "\n" in text]
        assert sum(counts) == tasks


def test_a_drawing_is_written_and_shown_by_notebooks(tmp_path: Path) -> None:
    figure = diamond().draw(tmp_path / "graph.png")
    assert imread(tmp_path / "graph.png").shape[2] == 4
    assert figure._repr_png_().startswith(b"\x89PNG")
    diamond().draw(tmp_path / "graph.svg")
    assert "load" in (tmp_path / "graph.svg").read_text(encoding="utf-8")
    with pytest.raises(StorageError, match="no charts of format 'txt'"):
        diamond().draw(tmp_path / "graph.txt")


def test_a_graph_without_tasks_is_refused() -> None:
    with pytest.raises(ArgumentError, match="graph 'none': it has no task"):
        syclsched.TaskGraph("none").draw()
