# SPDX-License-Identifier: Apache-2.0
"""The Gantt chart: its contents, for every trace and plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import networkx as nx
import pytest
from matplotlib.colors import to_hex
from matplotlib.image import imread
from support.synthetic import random_trace, span

import syclsched
from syclsched.errors import StorageError
from syclsched.model.trace import Trace
from syclsched.tracing import draw_gantt
from syclsched.tracing.charts.gantt import MAX_OUTLINED, make_comparison, make_figure
from syclsched.tracing.charts.output import OTHER_COLOUR, PALETTE


def test_predicted_is_drawn_above_measured() -> None:
    trace = random_trace(40)
    figure = make_figure(trace)
    above, below = figure.axes
    assert above.get_title(loc="left").startswith("predicted: ")
    assert below.get_title(loc="left").startswith("measured: ")
    assert above.get_xlim() == below.get_xlim()
    assert above.get_position().y0 > below.get_position().y0
    assert [t.get_text() for t in below.get_yticklabels()] == [t.get_text() for t in above.get_yticklabels()]
    assert {t.get_text() for t in below.get_yticklabels()} == {s.lane for s in trace.spans}
    title = figure.get_suptitle()
    assert "cholesky" in title
    assert "predicted" in title
    assert "measured" in title


def test_several_runs_on_one_time_axis() -> None:
    runs = {"one": random_trace(20), "two": random_trace(40)}
    figure = make_comparison(runs, "compared")
    assert [a.get_title(loc="left").partition(":")[0] for a in figure.axes] == ["one", "two"]
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
    assert figure.axes[1].get_xlim()[1] * 1e-3 >= max(t.makespan_s for t in runs.values())
    assert figure.get_suptitle() == "compared"


def test_every_family_has_its_colour_and_copies_are_hatched() -> None:
    figure = make_figure(random_trace(60))
    (legend,) = figure.legends
    entries = {t.get_text(): patch for t, patch in zip(legend.get_texts(), legend.get_patches(), strict=True)}
    assert set(entries) == {"gemm", "trsm", "syrk", "potrf", "copy"}
    assert to_hex(entries["gemm"].get_facecolor()).upper() == PALETTE[0]  # the longest in all
    assert len({to_hex(p.get_facecolor()) for p in entries.values()}) == 5
    assert entries["copy"].get_hatch()
    assert not entries["gemm"].get_hatch()


def test_names_are_drawn_in_wide_bars() -> None:
    spans = (span(1, "cpu:0", 0.0, 0.9, task="wide"), span(2, "cpu:0", 0.9, 0.9001, task="narrow"))
    figure = make_figure(Trace("t", "p", spans, 1.0, 1.0, simulated=True))
    texts = [t.get_text() for t in figure.axes[0].texts]
    assert "wide" in texts
    assert "narrow" not in texts


def test_busy_shares_of_lanes_are_shown() -> None:
    spans = (span(1, "cpu:0", 0.0, 0.25), span(2, "gpu:0", 0.0, 1.0))
    figure = make_figure(Trace("t", "p", spans, 1.0, 1.0, simulated=True))
    texts = [t.get_text() for t in figure.axes[0].texts]
    assert {"25.0 %", "100.0 %"} <= set(texts)


def test_panels_of_simulated_and_measured_traces() -> None:
    trace = random_trace(10)
    disturbed = replace(trace, simulated=True)
    exact = replace(
        disturbed,
        spans=tuple(replace(s, start_s=s.predicted_start_s, finish_s=s.predicted_finish_s) for s in trace.spans),
    )
    found = [make_figure(exact), make_figure(disturbed), make_figure(trace, exact), make_figure(exact, None, "noise 0")]
    assert [[a.get_title(loc="left").split(":")[0] for a in figure.axes] for figure in found] == [
        ["predicted"],
        ["predicted", "simulated"],
        ["predicted", "measured"],
        ["predicted", "simulated"],
    ]


def test_many_families_share_grey() -> None:
    spans = tuple(span(i, "cpu:0", i, i + 1.0, family=f"f{i:02}") for i in range(14))
    (legend,) = make_figure(Trace("t", "p", spans, 14.0, 14.0, simulated=True)).legends
    assert legend.get_texts()[-1].get_text() == "4 other families"
    assert to_hex(legend.get_patches()[-1].get_facecolor()).upper() == OTHER_COLOUR


def test_failed_and_cancelled_are_highlighted() -> None:
    spans = (span(1, "cpu:0", 0.0, 1.0, outcome="failed"), span(2, "cpu:0", 1.0, 2.0, outcome="cancelled"))
    (legend,) = make_figure(Trace("t", "p", spans, 2.0, 2.0, simulated=True)).legends
    assert {t.get_text() for t in legend.get_texts()} == {"gemm", "failed", "cancelled"}


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_formats(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"run.{ending}"
    draw_gantt(random_trace(30), path)
    assert path.read_bytes()[:4] in (b"\x89PNG", b"<?xm", b"%PDF")


def test_thousands_of_bars_have_no_names_and_are_drawn(tmp_path: Path) -> None:
    spans = tuple(span(i, f"cpu:{i % 3}", float(i // 3), i // 3 + 1.0, task=f"task {i}") for i in range(9000))
    trace = Trace("big", "p", spans, 3000.0, 3000.0, simulated=True)
    assert len(spans) > MAX_OUTLINED
    assert not any("task" in t.get_text() for t in make_figure(trace).axes[0].texts)
    draw_gantt(trace, tmp_path / "big.png")
    pixels = imread(tmp_path / "big.png")
    blue = tuple(int(PALETTE[0][i : i + 2], 16) / 255 for i in (1, 3, 5))
    assert (abs(pixels[..., :3] - blue).max(axis=-1) < 0.2).mean() > 0.1


@pytest.mark.parametrize(
    "spans",
    [
        (),
        (span(1, "cpu:0", 0.0, 0.0, kind="barrier", family="barrier"),),
        (span(1, "cpu:0", -1e-6, 1e-6),),
        (span(1, "a$b$\n\x1b[31m:0", 0.0, 1.0, task="$x_1^", family="_hidden$"),),
    ],
)
def test_odd_traces_can_be_drawn(tmp_path: Path, spans: tuple[object, ...]) -> None:
    for makespan in (0.0, 1.0):
        trace = Trace("$\\frac$ odd", "p$", spans, makespan, makespan)  # type: ignore[arg-type]
        draw_gantt(trace, tmp_path / "odd.png")
        assert imread(tmp_path / "odd.png").shape[1] > 1000


def test_an_unwritable_chart_is_reported(tmp_path: Path) -> None:
    for name in ("nowhere/run.png", "run.xyz"):
        with pytest.raises(StorageError, match="cannot write the chart"):
            draw_gantt(random_trace(2), tmp_path / name)


def test_a_legend_of_long_names_stays_within_the_picture() -> None:
    trace = random_trace(60)
    spans = tuple(replace(s, family=f"{s.family} conv2d last clip(0,6) g96 p1x1x1x1") for s in trace.spans if s.family)
    figure = make_figure(replace(trace, spans=spans))
    figure.canvas.draw()
    (legend,) = figure.legends
    assert legend.get_window_extent().x1 <= figure.bbox.x1


def test_plans_and_traces_draw_themselves(tmp_path: Path) -> None:
    digraph = nx.DiGraph(name="two")
    digraph.add_node("load", seconds=0.5)
    digraph.add_node("fit", seconds=2.0)
    digraph.add_edge("load", "fit", bytes=4096)
    plan = syclsched.plan(syclsched.from_networkx(digraph), syclsched.describe("xeon-8480"), policy="heft")
    figure = plan.gantt(tmp_path / "plan.png")
    assert imread(tmp_path / "plan.png").size
    assert figure._repr_png_().startswith(b"\x89PNG")
    (axis,) = figure.axes
    assert axis.get_title(loc="left").startswith("predicted: ")
    trace = random_trace(20)
    assert [axis.get_title(loc="left").partition(":")[0] for axis in trace.gantt().axes] == ["predicted", "measured"]
    with pytest.raises(StorageError, match="the name has no ending"):
        trace.gantt(tmp_path / "plan")
